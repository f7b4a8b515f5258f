// The tools of a map: buttons with an icon, a title and what a click on them does.

/** Icons of the tools, as paths of a 16 by 16 picture. */
const TOOL_ICONS = {
  point: "M3 2l9 4-4 1.5L6.500 12z",
  box: "M3 3h10v10H3z",
  lasso: "M8 3c3.300 0 6 1.600 6 3.800S11.300 10.500 8 10.500 2 9 2 6.800 4.700 3 8 3zM5 10c-1 1.500 0 3 1.500 3.500",
  in: "M8 3v10M3 8h10",
  out: "M3 8h10",
  whole: "M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3",
  picture: "M8 3v7M5 7.500l3 3 3-3M3 13h10",
};

/** @type {[keyof typeof TOOL_ICONS, string][]} */
const TOOLS = [
  ["point", "Click rows; drag to move the map"],
  ["box", "Select by a box"],
  ["lasso", "Select by a lasso (or hold Shift and drag)"],
  ["in", "Zoom in (or Ctrl and the wheel)"],
  ["out", "Zoom out"],
  ["whole", "The whole map"],
  ["picture", "Save the picture"],
];

/**
 * Fill the toolbar.
 *
 * @param {HTMLElement} bar
 * @param {{ in: () => void, out: () => void, whole: () => void, picture: () => void }} actions what
 *   a click on those buttons does; the other buttons choose a tool that stays active.
 * @param {(tool: Tool) => void} setTool called with the tool that is chosen.
 * @returns {Map<Tool, HTMLButtonElement>} the buttons of the tools that stay active.
 */
function createToolbar(bar, actions, setTool) {
  /** @type {Map<Tool, HTMLButtonElement>} */
  const toggles = new Map();
  for (const [name, title] of TOOLS) {
    const button = appendElement("button", bar, { type: "button", title, "aria-label": title });
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 16 16");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", TOOL_ICONS[name]);
    svg.appendChild(path);
    button.appendChild(svg);
    if (name === "point" || name === "box" || name === "lasso") {
      toggles.set(name, button);
      button.addEventListener("click", () => setTool(name));
    } else {
      button.addEventListener("click", () => actions[name]());
    }
  }
  return toggles;
}
