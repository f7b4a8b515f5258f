// The map of a run in a file of its own: pan, zoom, names on hover, legend, search. Joined with
// markers.js and scene.js. The content is that of MapFile in types.d.ts, which app/report/map_document.py writes.
"use strict";
{
  const HOVER_PIXELS = 12, MARGIN = { left: 56, right: 16, top: 16, bottom: 44 }, MOST_SHAPES = 20_000;
  /** @type {MapFile} */
  const map = JSON.parse(document.getElementById("map")?.textContent ?? "{}");
  const canvas = /** @type {HTMLCanvasElement} */ (document.getElementById("canvas"));
  const search = /** @type {HTMLInputElement} */ (document.getElementById("search"));
  const found = /** @type {HTMLElement} */ (document.getElementById("found"));
  const tip = /** @type {HTMLElement} */ (document.getElementById("tip"));
  const context = context2d(canvas), dark = window.matchMedia("(prefers-color-scheme: dark)");
  const names = map.text.map((lines) => lines.join("\n").toLowerCase());
  /** @type {Set<number>} codes of the hidden looks. */
  const hidden = new Set();
  /** @type {Set<number> | null} rows that the search found. */
  let matches = null;
  /** @type {Map<number, Point>} pointers that are down. */
  const pointers = new Map();
  let view = wholeView(), hovered = -1, waiting = false;

  /** @returns {View} all rows, with a margin. */
  function wholeView() {
    /** @param {number[]} values @returns {AxisRange} */
    const range = (values) => {
      let [low, high] = [Infinity, -Infinity];
      for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
      const margin = 0.05 * (high - low) || 1;
      return [low - margin, high + margin];
    };
    return { x: range(map.x), y: range(map.y) };
  }

  /** @returns {Box} the plot area. */
  function area() {
    return {
      x: MARGIN.left, y: MARGIN.top,
      w: Math.max(1, canvas.clientWidth - MARGIN.left - MARGIN.right),
      h: Math.max(1, canvas.clientHeight - MARGIN.top - MARGIN.bottom),
    };
  }

  /** @returns {Scale} the conversion between positions and pixels. */
  const currentScale = () => createScale(area(), view);

  /** @param {number} row whether it is drawn at all. */
  const isShown = (row) => !hidden.has(map.code[row] ?? 0);

  function redraw() {
    if (waiting) return;
    waiting = true;
    window.requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const ink = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    const scale = currentScale(), { box } = scale;
    drawAxes(scale, ink("muted"), ink("line"));
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.w, box.h);
    context.clip();
    drawRows(scale, ink("panel"), ratio);
    if (hovered >= 0) {
      const x = scale.toX(map.x[hovered] ?? 0), y = scale.toY(map.y[hovered] ?? 0);
      context.strokeStyle = ink("text");
      context.lineWidth = 2;
      markerPath(context, "circle", x, y, 7);
      context.stroke();
    }
    context.restore();
  }

  /** @param {Scale} scale @param {string} panel @param {number} ratio */
  function drawRows({ box, toX, toY }, panel, ratio) {
    const looks = dark.matches ? map.dark : map.light, markers = markerCache(panel, ratio);
    const many = map.x.length > MOST_SHAPES, r = map.x.length > 2000 ? 2.5 : 3.75;
    for (const pass of matches ? [false, true] : [true]) {
      context.globalAlpha = pass ? 0.95 : 0.15;
      for (let row = 0; row < map.x.length; row++) {
        if (!isShown(row) || (matches && matches.has(row) !== pass)) continue;
        const x = toX(map.x[row] ?? 0), y = toY(map.y[row] ?? 0);
        if (x < box.x - 9 || x > box.x + box.w + 9 || y < box.y - 9 || y > box.y + box.h + 9) continue;
        const look = looks[map.code[row] ?? 0];
        if (!look) continue;
        if (many) {
          context.fillStyle = look.colour;
          context.fillRect(x - 1.5, y - 1.5, 3, 3);
          continue;
        }
        const hollow = look.shape === "circle-open";
        const marker = markers(look.colour, hollow ? "circle" : look.shape, hollow, r);
        const side = marker.width / ratio;
        context.drawImage(marker, x - side / 2, y - side / 2, side, side);
      }
    }
    context.globalAlpha = 1;
  }

  /** @param {Scale} scale @param {string} muted @param {string} line */
  function drawAxes({ box, toX, toY }, muted, line) {
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = muted;
    context.strokeStyle = line;
    context.lineWidth = 1;
    context.strokeRect(box.x, box.y, box.w, box.h);
    context.textAlign = "center";
    for (const v of ticks(view.x)) context.fillText(formatNumber(v), toX(v), box.y + box.h + 16);
    context.fillText(map.titles[0], box.x + box.w / 2, box.y + box.h + 36);
    context.textAlign = "right";
    for (const v of ticks(view.y)) context.fillText(formatNumber(v), box.x - 6, toY(v) + 4);
    context.save();
    context.translate(14, box.y + box.h / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(map.titles[1], 0, 0);
    context.restore();
  }

  /** @param {number} factor @param {number} x @param {number} y zoom around these pixels. */
  function zoom(factor, x, y) {
    const box = area();
    /** @param {AxisRange} range @param {number} share @returns {AxisRange} */
    const scaled = ([low, high], share) => {
      const at = low + share * (high - low);
      return [at + (low - at) * factor, at + (high - at) * factor];
    };
    view = { x: scaled(view.x, (x - box.x) / box.w), y: scaled(view.y, 1 - (y - box.y) / box.h) };
    leave();
  }

  /** @param {number} dx @param {number} dy move by these pixels. */
  function pan(dx, dy) {
    const box = area();
    const x = (dx / box.w) * (view.x[1] - view.x[0]), y = (dy / box.h) * (view.y[1] - view.y[0]);
    view = { x: [view.x[0] - x, view.x[1] - x], y: [view.y[0] + y, view.y[1] + y] };
    leave();
  }

  /** @param {number} x @param {number} y @returns {number} the nearest row, or -1. */
  function rowAt(x, y) {
    const { toX, toY } = currentScale();
    let best = -1, nearest = HOVER_PIXELS ** 2;
    for (let row = 0; row < map.x.length; row++) {
      if (!isShown(row)) continue;
      const distance = (toX(map.x[row] ?? 0) - x) ** 2 + (toY(map.y[row] ?? 0) - y) ** 2;
      if (distance < nearest) [best, nearest] = [row, distance];
    }
    return best;
  }

  /** Point at no row, and draw. */
  function leave() {
    hovered = -1;
    tip.hidden = true;
    redraw();
  }

  /** @param {number} x @param {number} y */
  function hover(x, y) {
    const row = rowAt(x, y);
    if (row !== hovered) {
      hovered = row;
      redraw();
    }
    tip.hidden = row < 0;
    if (row < 0) return;
    tip.textContent = (map.text[row] ?? []).join("\n");
    tip.style.left = `${Math.min(x + 14, canvas.clientWidth - tip.offsetWidth - 4)}px`;
    tip.style.top = `${Math.min(y + 14, canvas.clientHeight - tip.offsetHeight - 4)}px`;
  }

  /** @param {number} n */
  const grouped = (n) => n.toLocaleString("en").replaceAll(",", "\u202f");

  function find() {
    const wanted = search.value.trim().toLowerCase();
    matches = wanted ? new Set(names.flatMap((name, row) => (name.includes(wanted) ? [row] : []))) : null;
    found.textContent = matches ? `${grouped(matches.size)} of ${grouped(map.x.length)} rows` : "";
    redraw();
  }

  function drawLegend() {
    const legend = /** @type {HTMLElement} */ (document.getElementById("legend"));
    legend.replaceChildren();
    for (const { text, code } of map.legend) {
      const look = (dark.matches ? map.dark : map.light)[code];
      const button = document.createElement("button"), mark = document.createElement("canvas");
      mark.width = mark.height = 28;
      const ink = context2d(mark);
      markerPath(ink, look?.shape ?? "circle", 14, 14, 8);
      ink.fillStyle = ink.strokeStyle = look?.colour ?? "grey";
      ink.lineWidth = 2.5;
      if (look?.shape === "circle-open") ink.stroke();
      else ink.fill();
      button.type = "button";
      button.setAttribute("aria-pressed", String(!hidden.has(code)));
      button.append(mark, text);
      button.addEventListener("click", () => {
        if (!hidden.delete(code)) hidden.add(code);
        button.setAttribute("aria-pressed", String(!hidden.has(code)));
        redraw();
      });
      legend.append(button);
    }
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return hover(event.offsetX, event.offsetY);
    /** @type {Point} */
    const now = [event.offsetX, event.offsetY];
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const far = (/** @type {Point} */ [x, y]) => Math.hypot(x - other[0], y - other[1]) || 1;
      zoom(far(before) / far(now), other[0], other[1]);
    } else pan(now[0] - before[0], now[1] - before[1]);
    pointers.set(event.pointerId, now);
    return undefined;
  });
  for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) {
    canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("dblclick", () => {
    view = wholeView();
    leave();
  });
  canvas.addEventListener("keydown", (event) => {
    const middle = /** @type {Point} */ ([canvas.clientWidth / 2, canvas.clientHeight / 2]);
    /** @type {Record<string, () => void>} */
    const actions = {
      "+": () => zoom(0.8, ...middle),
      "-": () => zoom(1.25, ...middle),
      0: () => { view = wholeView(); leave(); },
      ArrowLeft: () => pan(40, 0),
      ArrowRight: () => pan(-40, 0),
      ArrowUp: () => pan(0, 40),
      ArrowDown: () => pan(0, -40),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  search.addEventListener("input", find);
  dark.addEventListener("change", () => {
    drawLegend();
    redraw();
  });
  new ResizeObserver(redraw).observe(canvas);
  drawLegend();
  redraw();
}
