// The legend below a map: what colours, shapes and the heatmap mean, and which rows are hidden.

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
 * Fill the legend.
 *
 * @param {HTMLElement} legend
 * @param {LegendLine[]} lines
 * @param {Set<number>} hidden codes of the hidden looks; an entry's button changes it.
 * @param {() => void} redraw called after a change.
 */
function drawLegend(legend, lines, hidden, redraw) {
  legend.replaceChildren();
  for (const { title, ramp, low, high, entries } of lines) {
    const line = appendElement("div", legend);
    if (title) appendElement("span", line, { class: "title" }).textContent = title;
    if (ramp) {
      appendElement("span", line).textContent = low ?? null;
      appendElement("b", line).style.background = `linear-gradient(90deg,${ramp.join(",")})`;
      appendElement("span", line).textContent = high ?? null;
    }
    for (const entry of entries ?? []) drawLegendEntry(line, entry, hidden, redraw);
  }
}

/**
 * @param {HTMLElement} line
 * @param {LegendEntry} entry
 * @param {Set<number>} hidden
 * @param {() => void} redraw
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
  if (code === null || !(container instanceof HTMLButtonElement)) return;
  container.type = "button";
  container.title = "Show or hide these rows. A box or lasso selection includes hidden rows.";
  container.setAttribute("aria-pressed", String(!hidden.has(code)));
  container.addEventListener("click", () => {
    if (!hidden.delete(code)) hidden.add(code);
    container.setAttribute("aria-pressed", String(!hidden.has(code)));
    redraw();
  });
}
