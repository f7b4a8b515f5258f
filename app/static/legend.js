// The legend below a map: what colours, shapes and the heatmap mean, and which rows are hidden.
const HIDES = "Show or hide these rows. A box or lasso selection includes hidden rows.";
const MOVES =
  "Drag it, or press Alt and an arrow up or down, to move it; the first one is drawn on top.";
const ENTRY_DRAG_DISTANCE = 4; // pixels that make a click a drag

/**
 * Append a new element.
 *
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Element | ShadowRoot} parent
 * @param {Record<string, string>} attributes
 * @returns {HTMLElementTagNameMap[Name]}
 */
function appendElement(name, parent, attributes = {}) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  parent.appendChild(created);
  return created;
}

/**
 * The part of an element that has the focus.
 *
 * @param {HTMLElement} element
 * @returns {HTMLElement | null}
 */
function focusedIn(element) {
  const { activeElement } = /** @type {Document | ShadowRoot} */ (element.getRootNode());
  return activeElement instanceof HTMLElement && element.contains(activeElement) ? activeElement : null;
}

/**
 * Fill the legend; an entry that had the focus keeps it.
 *
 * @param {HTMLElement} legend
 * @param {LegendLine[]} lines
 * @param {Set<number>} hidden codes of the hidden looks; an entry's button changes it.
 * @param {() => void} redraw called after a change.
 * @param {(codes: number[], moved: string) => void} reorder called with another order of the entries
 *   that can be moved, and a sentence about it.
 */
function drawLegend(legend, lines, hidden, redraw, reorder) {
  const code = focusedIn(legend)?.dataset.code;
  legend.replaceChildren();
  for (const { title, ramp, low, high, entries } of lines) {
    const line = appendElement("div", legend);
    if (title) appendElement("span", line, { class: "title" }).textContent = title;
    if (ramp) {
      appendElement("span", line).textContent = low ?? null;
      appendElement("b", line).style.background = `linear-gradient(90deg,${ramp.join(",")})`;
      appendElement("span", line).textContent = high ?? null;
    }
    for (const entry of entries ?? []) {
      const button = drawLegendEntry(line, entry, hidden, redraw);
      if (button && entry.movable) makeMovable(line, button, entry.text, reorder);
      if (button && code === String(entry.code)) button.focus();
    }
  }
}

/**
 * @param {HTMLElement} line
 * @param {LegendEntry} entry
 * @param {Set<number>} hidden
 * @param {() => void} redraw
 * @returns {HTMLButtonElement | null} null for an entry that hides nothing.
 */
function drawLegendEntry(line, entry, hidden, redraw) {
  const code = entry.code ?? null;
  const container = appendElement(code === null ? "span" : "button", line, { class: "entry" });
  const canvas = appendElement("canvas", container, { width: "28", height: "28", "aria-hidden": "true" });
  const context = context2d(canvas), hollow = entry.shape === "circle-open";
  context.scale(2, 2);
  markerPath(context, hollow ? "circle" : entry.shape, 7, 7, 4.5);
  context.fillStyle = context.strokeStyle = entry.colour;
  if (hollow) context.stroke();
  else context.fill();
  appendElement("span", container).textContent = entry.text;
  if (code === null || !(container instanceof HTMLButtonElement)) return null;
  container.type = "button";
  container.dataset.code = String(code);
  container.title = HIDES;
  container.setAttribute("aria-pressed", String(!hidden.has(code)));
  container.addEventListener("click", () => {
    if (container.dataset.moved) return; // the end of a drag
    if (!hidden.delete(code)) hidden.add(code);
    container.setAttribute("aria-pressed", String(!hidden.has(code)));
    redraw();
  });
  return container;
}

/**
 * Have an entry moved by a drag, or by Alt and an arrow key.
 *
 * @param {HTMLElement} line
 * @param {HTMLButtonElement} button
 * @param {string} text of the entry.
 * @param {(codes: number[], moved: string) => void} reorder
 */
function makeMovable(line, button, text, reorder) {
  /** @returns {HTMLButtonElement[]} The entries of the line that can be moved. */
  const all = () => [...line.querySelectorAll(/** @type {"button"} */ ("button.movable"))];
  const codes = () => all().map((one) => Number(one.dataset.code));
  /** @type {{ x: number, y: number, before: string } | null} */
  let drag = null;
  button.classList.add("movable");
  button.title = `${HIDES} ${MOVES}`;
  button.setAttribute("aria-keyshortcuts", "Alt+ArrowUp Alt+ArrowDown");

  /** @param {string} before codes before the move. */
  function tell(before) {
    if (String(codes()) === before) return;
    const place = all().indexOf(button) + 1;
    reorder(codes(), `${text} is ${place} of ${all().length}${place === 1 ? ", on top" : ""}`);
  }

  /**
   * Put the entry in another place. The others move: it keeps the focus and the pointer.
   *
   * @param {number} place
   */
  function moveTo(place) {
    const entries = all(), now = entries.indexOf(button);
    if (place < now) button.after(...entries.slice(place, now));
    else button.before(...entries.slice(now + 1, place + 1));
  }

  /**
   * Put the entry beside the one at a position of the page.
   *
   * @param {number} x
   * @param {number} y
   */
  function moveToward(x, y) {
    const entries = all(), now = entries.indexOf(button);
    const place = entries.findIndex((one) => {
      const { left, right, top, bottom } = one.getBoundingClientRect();
      return x >= left && x <= right && y >= top && y <= bottom;
    });
    if (place < 0 || place === now) return;
    const { left, right } = entries[place].getBoundingClientRect();
    const isBefore = x < (left + right) / 2;
    if (place < now) moveTo(isBefore ? place : place + 1);
    else moveTo(isBefore ? place - 1 : place);
  }

  button.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!event.altKey || !step) return;
    event.preventDefault();
    const before = String(codes()), place = all().indexOf(button) + step;
    moveTo(Math.min(Math.max(place, 0), all().length - 1));
    tell(before);
  });
  button.addEventListener("pointerdown", (event) => {
    if (!event.button && event.isPrimary) drag = { x: event.clientX, y: event.clientY, before: String(codes()) };
  });
  button.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const { clientX: x, clientY: y } = event;
    if (!button.dataset.moved) {
      if (Math.hypot(x - drag.x, y - drag.y) <= ENTRY_DRAG_DISTANCE) return;
      button.dataset.moved = "true";
      button.setPointerCapture(event.pointerId);
    }
    moveToward(x, y);
  });
  const drop = () => {
    if (drag && button.dataset.moved) tell(drag.before);
    drag = null;
    window.setTimeout(() => delete button.dataset.moved); // after the click of this drag
  };
  button.addEventListener("pointerup", drop);
  button.addEventListener("pointercancel", drop);
}
