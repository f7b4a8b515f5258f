// The map of a model in a notebook: pan, zoom, hover, selection. The state is that of MapWidget.
const MARGIN = { left: 56, right: 12, top: 12, bottom: 42 }, HOVER_PIXELS = 12, DRAG_PIXELS = 4;
/** Half width of the 95 % ellipse of two independent Gaussians, in sd. */
const ELLIPSE = 2.4477;

/** @typedef {{ x: [number, number], y: [number, number] }} WidgetView */
/** @typedef {{ title: string, height: number, titles: [string, string], names: string[],
 *   light: [string, string][], dark: [string, string][], legend: [string, number][] }} WidgetContent */
/** @typedef {{ get(name: string): any, set(name: string, value: unknown): void, save_changes(): void,
 *   on(event: string, call: () => void): void, off(event: string, call: () => void): void }} WidgetModel */

/** @param {DataView} bytes @returns {Float32Array} little-endian numbers, copied. */
const floats = (bytes) => new Float32Array(copyOf(bytes));

/** @param {DataView} bytes @returns {ArrayBuffer} */
const copyOf = (bytes) => {
  const buffer = new ArrayBuffer(bytes.byteLength);
  new Uint8Array(buffer).set(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  return buffer;
};

/** @param {string} tag @param {string} name @param {HTMLElement} parent @returns {HTMLElement} */
function child(tag, name, parent) {
  const made = document.createElement(tag);
  made.className = name;
  parent.append(made);
  return made;
}

/** @param {[number, number]} range @returns {number[]} round numbers within a range. */
function ticks([low, high]) {
  const raw = (high - low) / 6, power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((one) => one * power >= raw) ?? 10) * power;
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) found.push(Math.abs(v) < step / 1e6 ? 0 : v);
  return found;
}

/** @param {number} value */
const shortNumber = (value) => String(Number(value.toPrecision(4)));

/** @param {CanvasRenderingContext2D} context @param {string} shape @param {number} x @param {number} y @param {number} r */
function trace(context, shape, x, y, r) {
  context.beginPath();
  if (shape === "square") context.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  else if (shape === "diamond") polygon(context, [[x, y - 1.3 * r], [x + 1.3 * r, y], [x, y + 1.3 * r], [x - 1.3 * r, y]]);
  else if (shape === "triangle-up") polygon(context, [[x, y - 1.2 * r], [x + 1.15 * r, y + 0.9 * r], [x - 1.15 * r, y + 0.9 * r]]);
  else context.arc(x, y, r, 0, 2 * Math.PI);
}

/** @param {CanvasRenderingContext2D} context @param {[number, number][]} corners */
function polygon(context, corners) {
  corners.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.closePath();
}

/** @param {number[]} corners x and y in turn @param {number} x @param {number} y whether a point is inside. */
function isInside(corners, x, y) {
  let inside = false;
  const n = corners.length / 2;
  for (let i = 0, j = n - 1; i < n; j = i++) {
    const [xi = 0, yi = 0, xj = 0, yj = 0] = [corners[2 * i], corners[2 * i + 1], corners[2 * j], corners[2 * j + 1]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

/** @param {Element} element whether the text around is light, so that the page is dark. */
function isDark(element) {
  const [r = 0, g = 0, b = 0] = (getComputedStyle(element).color.match(/[\d.]+/g) ?? []).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 128;
}

/** @param {{ model: WidgetModel, el: HTMLElement }} widget */
function render({ model, el }) {
  /** @type {WidgetContent} */
  const content = model.get("_content");
  const points = floats(model.get("_points")), sd = floats(model.get("_sd")), values = floats(model.get("_values"));
  const codes = new Uint16Array(copyOf(model.get("_codes"))), n = codes.length;
  const root = child("div", "lvmcore-map", el), legend = child("div", "lvmcore-legend", root);
  const canvas = /** @type {HTMLCanvasElement} */ (child("canvas", "", root));
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const status = child("div", "lvmcore-status", root), tip = child("div", "lvmcore-tip", root);
  canvas.style.height = `${content.height}px`;
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", `Map of ${n} rows by ${content.title}. Arrow keys move, plus and minus zoom, 0 shows all rows, Escape clears the selection.`);
  status.setAttribute("role", "status");
  tip.hidden = true;
  const hidden = new Set();
  let selected = new Set(model.get("selected")), view = wholeView(), hovered = -1, frame = 0;
  /** @type {{ x: number, y: number, lasso: number[] | null, moved: boolean } | null} */
  let drag = null;

  /** @returns {WidgetView} all rows, with a margin. */
  function wholeView() {
    const range = (/** @type {number} */ offset) => {
      let low = Infinity, high = -Infinity;
      for (let i = offset; i < points.length; i += 2) {
        low = Math.min(low, points[i] ?? 0);
        high = Math.max(high, points[i] ?? 0);
      }
      const margin = 0.05 * (high - low) || 1;
      return /** @type {[number, number]} */ ([low - margin, high + margin]);
    };
    return { x: range(0), y: range(1) };
  }

  /** @returns the plot area in pixels and the conversions of positions to pixels. */
  function scale() {
    const box = {
      x: MARGIN.left, y: MARGIN.top,
      w: Math.max(1, canvas.clientWidth - MARGIN.left - MARGIN.right),
      h: Math.max(1, canvas.clientHeight - MARGIN.top - MARGIN.bottom),
    };
    const kx = box.w / (view.x[1] - view.x[0]), ky = box.h / (view.y[1] - view.y[0]);
    return {
      box, kx, ky,
      toX: (/** @type {number} */ v) => box.x + (v - view.x[0]) * kx,
      toY: (/** @type {number} */ v) => box.y + box.h - (v - view.y[0]) * ky,
    };
  }

  function redraw() {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      draw();
    });
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, dark = isDark(el), looks = dark ? content.dark : content.light;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const found = scale(), { box, toX, toY } = found;
    drawAxes(found, dark ? "#A7AFB8" : "#5B636D", dark ? "#3A4048" : "#D5DAE0");
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.w, box.h);
    context.clip();
    const r = n > 20_000 ? 1.5 : n > 2000 ? 2.5 : 4;
    for (const pass of selected.size ? [false, true] : [true]) {
      context.globalAlpha = pass ? 0.9 : 0.18;
      for (let row = 0; row < n; row++) {
        const code = codes[row] ?? 0;
        if (hidden.has(code) || (selected.size && selected.has(row) !== pass)) continue;
        const x = toX(points[2 * row] ?? 0), y = toY(points[2 * row + 1] ?? 0);
        if (x < box.x - 6 || x > box.x + box.w + 6 || y < box.y - 6 || y > box.y + box.h + 6) continue;
        const [colour, shape] = looks[code] ?? ["#8A9099", "circle"];
        context.fillStyle = colour;
        if (n > 20_000) {
          context.fillRect(x - r, y - r, 2 * r, 2 * r);
          continue;
        }
        trace(context, shape, x, y, r);
        context.fill();
      }
    }
    context.globalAlpha = 1;
    if (hovered >= 0) drawHovered(found, dark ? "#FFFFFF" : "#1A1D21");
    if (drag?.lasso) {
      context.beginPath();
      for (let i = 0; i < drag.lasso.length; i += 2) context.lineTo(drag.lasso[i] ?? 0, drag.lasso[i + 1] ?? 0);
      context.closePath();
      context.strokeStyle = dark ? "#FFFFFF" : "#1A1D21";
      context.setLineDash([4, 3]);
      context.stroke();
      context.setLineDash([]);
    }
    context.restore();
  }

  /** @param {ReturnType<typeof scale>} found @param {string} ink the hovered row and its 95 % ellipse. */
  function drawHovered({ toX, toY, kx, ky }, ink) {
    const x = toX(points[2 * hovered] ?? 0), y = toY(points[2 * hovered + 1] ?? 0);
    context.strokeStyle = ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(x, y, 6, 0, 2 * Math.PI);
    context.stroke();
    const [sx = 0, sy = 0] = [sd[2 * hovered], sd[2 * hovered + 1]];
    if (!sx && !sy) return;
    context.beginPath();
    context.ellipse(x, y, ELLIPSE * sx * kx, ELLIPSE * sy * ky, 0, 0, 2 * Math.PI);
    context.stroke();
  }

  /** @param {ReturnType<typeof scale>} found @param {string} muted @param {string} line */
  function drawAxes({ box, toX, toY }, muted, line) {
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = muted;
    context.strokeStyle = line;
    context.lineWidth = 1;
    context.strokeRect(box.x, box.y, box.w, box.h);
    context.textAlign = "center";
    for (const v of ticks(view.x)) context.fillText(shortNumber(v), toX(v), box.y + box.h + 16);
    context.fillText(content.titles[0], box.x + box.w / 2, box.y + box.h + 34);
    if (!content.titles[1]) return;
    context.textAlign = "right";
    for (const v of ticks(view.y)) context.fillText(shortNumber(v), box.x - 6, toY(v) + 4);
    context.save();
    context.translate(14, box.y + box.h / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(content.titles[1], 0, 0);
    context.restore();
  }

  /** @param {number} x @param {number} y @returns {number} the nearest row, or -1. */
  function rowAt(x, y) {
    const { toX, toY } = scale();
    let best = -1, nearest = HOVER_PIXELS ** 2;
    for (let row = 0; row < n; row++) {
      if (hidden.has(codes[row])) continue;
      const distance = (toX(points[2 * row] ?? 0) - x) ** 2 + (toY(points[2 * row + 1] ?? 0) - y) ** 2;
      if (distance < nearest) [best, nearest] = [row, distance];
    }
    return best;
  }

  /** @param {number} x @param {number} y */
  function hover(x, y) {
    hovered = rowAt(x, y);
    tip.hidden = hovered < 0;
    if (hovered >= 0) {
      const name = content.names[hovered] ?? `row ${hovered}`;
      const label = content.legend.find(([, code]) => code === codes[hovered])?.[0];
      const value = values.length ? shortNumber(values[hovered] ?? NaN) : label;
      tip.textContent = value === undefined ? name : `${name}\n${value}`;
      const right = x > canvas.clientWidth / 2;
      tip.style.left = right ? "" : `${x + 12}px`;
      tip.style.right = right ? `${canvas.clientWidth - x + 12}px` : "";
      tip.style.top = `${canvas.offsetTop + y + 8}px`;
    }
    redraw();
  }

  /** @param {Iterable<number>} rows tell Python what is selected. */
  function select(rows) {
    model.set("selected", [...rows].sort((a, b) => a - b));
    model.save_changes();
  }

  function selectionChanged() {
    selected = new Set(model.get("selected"));
    const rows = selected.size === 1 ? "1 row" : `${selected.size} rows`;
    status.textContent = selected.size ? `${rows} selected. Escape clears the selection.` : "Drag to move, Shift and drag to select, click the map and scroll to zoom.";
    redraw();
  }

  /** @param {number} factor @param {number} x @param {number} y zoom around these pixels. */
  function zoom(factor, x, y) {
    const { box } = scale();
    const scaled = (/** @type {[number, number]} */ [low, high], /** @type {number} */ share) => {
      const at = low + share * (high - low);
      return /** @type {[number, number]} */ ([at + (low - at) * factor, at + (high - at) * factor]);
    };
    view = { x: scaled(view.x, (x - box.x) / box.w), y: scaled(view.y, 1 - (y - box.y) / box.h) };
    redraw();
  }

  /** @param {number} dx @param {number} dy move by these pixels. */
  function pan(dx, dy) {
    const { kx, ky } = scale();
    view = { x: [view.x[0] - dx / kx, view.x[1] - dx / kx], y: [view.y[0] + dy / ky, view.y[1] + dy / ky] };
    redraw();
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.offsetX, y: event.offsetY, moved: false, lasso: event.shiftKey ? [event.offsetX, event.offsetY] : null };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return hover(event.offsetX, event.offsetY);
    const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < DRAG_PIXELS) return;
    drag.moved = true;
    tip.hidden = true;
    if (drag.lasso) {
      drag.lasso.push(event.offsetX, event.offsetY);
      redraw();
      return;
    }
    [drag.x, drag.y] = [event.offsetX, event.offsetY];
    pan(dx, dy);
  });
  canvas.addEventListener("pointerup", (event) => {
    const ended = drag;
    drag = null;
    if (!ended) return;
    if (ended.moved && ended.lasso) {
      const { toX, toY } = scale(), corners = ended.lasso, rows = [];
      for (let row = 0; row < n; row++) {
        const [x, y] = [toX(points[2 * row] ?? 0), toY(points[2 * row + 1] ?? 0)];
        if (!hidden.has(codes[row]) && isInside(corners, x, y)) rows.push(row);
      }
      select(rows);
    } else if (!ended.moved) {
      const row = rowAt(event.offsetX, event.offsetY);
      const further = event.ctrlKey || event.metaKey;
      if (row < 0) select(further ? selected : []);
      else if (!further) select([row]);
      else select(selected.has(row) ? [...selected].filter((one) => one !== row) : [...selected, row]);
    }
    redraw();
  });
  canvas.addEventListener("pointercancel", () => { drag = null; redraw(); });
  canvas.addEventListener("pointerleave", () => { hovered = -1; tip.hidden = true; redraw(); });
  canvas.addEventListener("wheel", (event) => {
    const around = /** @type {Document | ShadowRoot} */ (canvas.getRootNode());
    if (around.activeElement !== canvas) return; // the page scrolls
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const { box } = scale(), [x, y] = [box.x + box.w / 2, box.y + box.h / 2];
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => pan(40, 0), ArrowRight: () => pan(-40, 0), ArrowUp: () => pan(0, 40), ArrowDown: () => pan(0, -40),
      "+": () => zoom(0.8, x, y), "-": () => zoom(1.25, x, y), "0": () => { view = wholeView(); redraw(); }, Escape: () => select([]),
    };
    const act = keys[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation(); // the notebook's own keys
  });

  for (const [name, code] of content.legend) {
    const button = child("button", "", legend), mark = child("i", "", button);
    mark.style.background = (isDark(el) ? content.dark : content.light)[code]?.[0] ?? "";
    button.append(name);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      if (!hidden.delete(code)) hidden.add(code);
      button.setAttribute("aria-pressed", String(!hidden.has(code)));
      redraw();
    });
  }
  if (values.length) {
    const known = values.filter(Number.isFinite);
    let low = Infinity, high = -Infinity;
    for (const value of known) [low, high] = [Math.min(low, value), Math.max(high, value)];
    legend.append(shortNumber(low));
    const bar = child("i", "lvmcore-scale", legend);
    bar.style.background = `linear-gradient(to right, ${[0, 64, 128, 192, 255].map((i) => content.light[i]?.[0] ?? "#000").join(",")})`;
    legend.append(shortNumber(high));
  }
  const resized = new ResizeObserver(redraw);
  resized.observe(canvas);
  model.on("change:selected", selectionChanged);
  selectionChanged();
  return () => {
    resized.disconnect();
    model.off("change:selected", selectionChanged);
  };
}

export default { render };
