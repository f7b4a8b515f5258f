// A map of rows on a canvas: zooming, hovering, clicking, selecting. The server joins markers.js,
// scene.js, all_rows.js, canvas.js, legend.js, toolbar.js, minimap.js and this file, in this order, to
// one module.
const CURSOR_INTERVAL_MS = 80; // between two messages of a moving cursor: about a server's answer
// From the last zoom to the message about it: of a map that is drawn again for it, and of another.
const VIEW_DELAY_MS = 200, STILL_VIEW_DELAY_MS = 700;
const KEY_STEP = 1 / 60; // of the map's width, for an arrow key
const DRAG_DISTANCE = 4; // pixels that make a click a drag
const ZOOM_FACTOR = 1.5, MAX_ZOOM = 1e4;
const ROWS_NOT_LOADED = "The rows could not be loaded. Load the page again.";
const CURSOR_KEYS_HELP = "The arrow keys move the cursor, with Shift in larger steps.";
const KEYS_HELP =
  `${CURSOR_KEYS_HELP} At the edge of a zoomed map they move the view. ` +
  "Enter selects the row or point at the cursor. Plus and minus zoom, 0 shows all.";
/** @type {Record<string, Point>} */
const ARROW_KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
/** @type {WeakMap<HTMLElement | ShadowRoot, ReturnType<typeof createMap>>} */
const maps = new WeakMap();

/**
 * The entry point of the Streamlit component, called at every rerun of the page.
 *
 * @param {Component<MapData>} component
 * @returns {() => void} removes the map.
 */
export default function (component) {
  const { parentElement, data, setStateValue, setTriggerValue } = component;
  const map = maps.get(parentElement) ?? createMap(parentElement);
  maps.set(parentElement, map);
  map.sendCursor = (state) => setStateValue("at", state);
  map.sendPick = (event) => setTriggerValue("pick", event);
  map.sendView = (state) => setStateValue("view", state);
  map.show(data);
  return () => {
    map.close();
    maps.delete(parentElement);
  };
}

/**
 * Create a map inside an element.
 *
 * @param {HTMLElement | ShadowRoot} parent
 */
function createMap(parent) {
  const root = appendElement("div", parent, { class: "map" });
  const stage = appendElement("div", root, { class: "stage" });
  const base = appendElement("canvas", stage, { "aria-hidden": "true" });
  const overlay = appendElement("canvas", stage, { tabindex: "0", role: "application" });
  const bar = appendElement("div", stage, { class: "tools", role: "toolbar", "aria-label": "Tools of the map" });
  const tooltip = appendElement("div", stage, { class: "tip", hidden: "" });
  const legend = appendElement("div", root, { class: "legend" });
  const announcement = appendElement("div", root, { class: "announcement", role: "status" });

  // `show` assigns the scene and the view before any event that uses them.
  /** @type {DecodedScene} */
  let scene;
  /** @type {View} */
  let view;
  /** Codes of the hidden looks. @type {Set<number>} */
  const hidden = new Set();
  /** The order of the legend's entries that was asked for last. @type {number[] | null} */
  let asked = null;
  /** @type {Point | null} */
  let cursor = null; // in data units
  let cursorFixed = false;
  /** @type {Tool} */
  let tool = "point";
  /** @type {Drag | null} */
  let drag = null;
  /** @type {FoundRow | null} */
  let hoveredRow = null;
  /** All rows of a large map, once they are loaded. @type {LoadedRows | null} */
  let allRows = null;
  /** Pictures that mark the rows, once they are loaded. @type {LoadedPictures | null} */
  let pictures = null;
  /** @type {HTMLImageElement | null} */
  let densityImage = null;
  /** @type {HTMLCanvasElement | null} */
  let heatmap = null;
  let width = 0; // of the canvas, in pixels
  let labelWidth = 24; // of the tick labels of the vertical axis, in pixels
  /** The ranges that the scene opens with. @type {[AxisRange, AxisRange] | null} */
  let opening = null;
  let viewChanged = false; // whether the view is another than that of the whole scene
  let lastSent = 0, timer = 0, frame = 0;

  // ---- coordinates ---------------------------------------------------------------------------

  const plotBox = () => plotArea(scene, width, labelWidth);
  const currentScale = () => createScale(plotBox(), view);
  const wholeView = () => fullView(scene, plotBox());

  /** @param {MouseEvent} event @returns {Point} The position on the canvas, in pixels. */
  function canvasPosition(event) {
    const edge = overlay.getBoundingClientRect();
    return [event.clientX - edge.left, event.clientY - edge.top];
  }

  /** @param {MouseEvent} event @returns {Point | null} null outside the plot area. */
  function plotPosition(event) {
    const [x, y] = canvasPosition(event), box = plotBox();
    return x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h ? [x, y] : null;
  }

  // ---- drawing -------------------------------------------------------------------------------

  /**
   * Clear a canvas, and set its size and scale to those of the page.
   *
   * @param {HTMLCanvasElement} canvas
   * @returns {[CanvasRenderingContext2D, number]} the context, and the device pixels a CSS pixel.
   */
  function prepareCanvas(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(scene.height * ratio)];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    const context = context2d(canvas);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, scene.height);
    return [context, ratio];
  }

  function draw() {
    if (!scene || !width) return;
    const [context, ratio] = prepareCanvas(base);
    if (scene.titles) labelWidth = tickLabelWidth(context, view.y);
    const scale = currentScale(), { box } = scale;
    context.fillStyle = scene.ink.panel;
    context.fillRect(box.x, box.y, box.w, box.h);
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.w, box.h);
    context.clip();
    // The centres of the heatmap's outer cells lie on the edges: half of a cell is cut off.
    if (heatmap) drawPicture(context, scale, heatmap, 0.5, [scene.x, scene.y]);
    if (densityImage && scene.density && !hidden.size) { // the picture contains hidden rows too
      drawPicture(context, scale, densityImage, 0, scene.density.ranges);
    }
    if (allRows) drawAllRows(context, allRows, scale, hidden);
    if (scene.heat) drawContours(context, scene.heat.contours, scale, scene.ink);
    drawEllipses(context, scene, scale, hidden);
    drawRows(context, scene, scale, hidden, ratio);
    if (pictures) drawPictures(context, scene, pictures, scale, hidden);
    drawInducing(context, scene, scale);
    for (const polygon of scene.outlines) drawPolygon(context, polygon, scale, scene.ink.text);
    if (scene.path) drawCurve(context, scene.path, scale, scene.ink);
    drawGroupLabels(context, scene.groupLabels, scale, hidden, scene.ink);
    for (const mark of scene.marks) drawLetter(context, mark, scale, scene.ink);
    context.restore();
    drawAxes(context, scene, view, scale);
    if (viewChanged) minimap.draw(scene, allRows, hidden, box, wholeView(), view);
    else minimap.hide();
    drawOverlay();
  }

  /** Draw what changes with the mouse, on a canvas of its own. */
  function drawOverlay() {
    const [context] = prepareCanvas(overlay), scale = currentScale(), { box, toX, toY } = scale;
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.w, box.h);
    context.clip();
    if (scene.marked) {
      drawRing(context, scene.ink, toX(scene.marked[0]), toY(scene.marked[1]), true);
    }
    if (hoveredRow) {
      const [x, y] = hoveredRow.point;
      drawRing(context, scene.ink, toX(x), toY(y), false);
    }
    if (cursor) {
      drawCursor(context, scene.ink, box, toX(cursor[0]), toY(cursor[1]), cursorFixed);
    }
    if (drag && drag.corners.length > 1) {
      drawPolygon(context, selectionPolygon(drag), scale, scene.ink.accent);
    }
    context.restore();
  }

  /** Draw in the next frame; after a zoom, tell the server, which may draw the rows in view. */
  function scheduleDraw() {
    if (!frame) {
      frame = requestAnimationFrame(() => {
        frame = 0;
        draw();
      });
    }
    const followed = scene.density || scene.allRows;
    if (!followed && !scene.reports_zoom) return;
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      const { x, y } = viewChanged ? view : { x: null, y: null };
      map.sendView({ x, y, scene: scene.id });
    }, followed ? VIEW_DELAY_MS : STILL_VIEW_DELAY_MS);
  }

  // ---- tooltip -------------------------------------------------------------------------------

  /**
   * The row at a position: one with a marker before the others.
   *
   * @param {Scale} scale
   * @param {number} x in pixels.
   * @param {number} y
   */
  function rowAt(scale, x, y) {
    const marked = nearestRow(scene, scale, hidden, x, y);
    return marked ?? (allRows && nearestOfAllRows(scene, allRows, scale, hidden, x, y));
  }

  /** @param {FoundRow | null} row */
  function setHoveredRow(row) {
    if (row?.number === hoveredRow?.number) return;
    hoveredRow = row;
    drawOverlay();
  }

  /**
   * Show the tooltip of a position: the row's lines, or the value of the heatmap.
   *
   * @param {number} x in pixels.
   * @param {number} y
   * @returns {string} its text.
   */
  function showTooltip(x, y) {
    const scale = currentScale(), row = rowAt(scale, x, y);
    const lines = row?.lines.length ? row.lines : heatmapLines(scene, scale.toData(x, y));
    setHoveredRow(row);
    tooltip.hidden = !lines.length;
    tooltip.replaceChildren();
    lines.forEach((line, i) => {
      appendElement(i || !row ? "span" : "b", tooltip).textContent = line;
    });
    const onLeft = x > width * 0.6;
    tooltip.style.left = onLeft ? "auto" : `${x + 14}px`;
    tooltip.style.right = onLeft ? `${width - x + 14}px` : "auto";
    tooltip.style.top = `${Math.min(y + 10, scene.height - 24 * lines.length - 8)}px`;
    return lines.join(", ");
  }

  function hideTooltip() {
    tooltip.hidden = true;
    setHoveredRow(null);
  }

  // ---- cursor --------------------------------------------------------------------------------

  /** Send the cursor's position to the server, at most once in CURSOR_INTERVAL_MS. */
  function sendCursor() {
    window.clearTimeout(timer);
    const wait = lastSent + CURSOR_INTERVAL_MS - performance.now();
    if (wait > 0) {
      timer = window.setTimeout(sendCursor, wait);
      return;
    }
    lastSent = performance.now();
    if (cursor) map.sendCursor({ x: cursor[0], y: cursor[1], held: cursorFixed, scene: scene.id });
  }

  /** @param {Point} point in data units. */
  function moveCursor([x, y]) {
    cursor = [clamp(x, view.x), clamp(y, view.y)];
    drawOverlay();
    if (scene.follow) sendCursor();
  }

  /**
   * Move the cursor by an arrow key.
   *
   * @param {Point} direction
   * @param {number} steps
   */
  function stepCursor([right, up], steps) {
    const [x, y] = cursor ?? [midpoint(view.x), midpoint(view.y)], share = steps * KEY_STEP;
    if (scene.follow) cursorFixed = true;
    /** @type {Point} */
    const next = [
      x + right * share * (view.x[1] - view.x[0]), y + up * share * (view.y[1] - view.y[0]),
    ];
    if (viewChanged) { // the view of a zoomed map goes along
      const past = [next[0] - clamp(next[0], view.x), next[1] - clamp(next[1], view.y)];
      if (past[0] || past[1]) moveView([midpoint(view.x) + past[0], midpoint(view.y) + past[1]]);
    }
    moveCursor(next);
    if (!scene.follow) announcement.textContent = showTooltip(...cursorPosition());
  }

  /** @returns {Point} The position of the cursor, in pixels. */
  function cursorPosition() {
    const { toX, toY } = currentScale(), [x, y] = cursor ?? [midpoint(view.x), midpoint(view.y)];
    return [toX(x), toY(y)];
  }

  // ---- selection and zoom --------------------------------------------------------------------

  /**
   * Select the row at a position, or the point where there is none.
   *
   * @param {number} x in pixels.
   * @param {number} y
   */
  function selectAt(x, y) {
    const scale = currentScale(), row = rowAt(scale, x, y);
    const [a, b] = scale.toData(x, y);
    if (row) scene.marked = row.point;
    else scene.marked = scene.places ? [a, b] : null;
    drawOverlay();
    map.sendPick(
      row
        ? { kind: "row", row: row.number, scene: scene.id }
        : { kind: "place", x: a, y: b, scene: scene.id },
    );
  }

  /**
   * @param {number} factor
   * @param {Point} centre the point that stays where it is, in data units.
   */
  function zoom(factor, centre = [midpoint(view.x), midpoint(view.y)]) {
    const whole = wholeView(), least = (whole.x[1] - whole.x[0]) / MAX_ZOOM;
    if (factor > 1 && view.x[1] - view.x[0] < least) return;
    /** @type {(range: AxisRange, c: number) => AxisRange} */
    const zoomed = ([low, high], c) => [c + (low - c) / factor, c + (high - c) / factor];
    view.x = zoomed(view.x, centre[0]);
    view.y = zoomed(view.y, centre[1]);
    viewChanged = true;
    if (view.x[1] - view.x[0] >= whole.x[1] - whole.x[0]) resetView();
    scheduleDraw();
  }

  /**
   * Move the map with the pointer.
   *
   * @param {Drag} start the drag, with the view that it started at.
   * @param {Point} position of the pointer, in pixels.
   */
  function pan(start, [x, y]) {
    const box = plotBox();
    /** @type {(range: AxisRange, share: number) => AxisRange} */
    const shifted = ([low, high], share) => [low - share * (high - low), high - share * (high - low)];
    view.x = shifted(start.view.x, (x - start.from[0]) / box.w);
    view.y = shifted(start.view.y, (start.from[1] - y) / box.h);
    viewChanged = true;
    scheduleDraw();
  }

  function resetView() {
    [view, viewChanged] = [wholeView(), false];
    scheduleDraw();
  }

  /** Download the map as a PNG file. */
  function savePicture() {
    const canvas = document.createElement("canvas"), context = context2d(canvas);
    [canvas.width, canvas.height] = [base.width, base.height];
    context.fillStyle = scene.ink.panel;
    context.fillRect(0, 0, canvas.width, canvas.height);
    for (const layer of [base, overlay]) context.drawImage(layer, 0, 0);
    canvas.toBlob((blob) => {
      if (!blob) throw new Error("The browser could not make a picture of the map.");
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = "map.png";
      link.click();
      window.setTimeout(() => URL.revokeObjectURL(link.href), 60000); // Safari reads it later
    });
  }

  /** @param {Point} centre the new centre of the view, in data units. */
  function moveView([x, y]) {
    /** @type {(range: AxisRange, centre: number) => AxisRange} */
    const moved = ([low, high], centre) => [centre - (high - low) / 2, centre + (high - low) / 2];
    [view.x, view.y, viewChanged] = [moved(view.x, x), moved(view.y, y), true];
    scheduleDraw();
  }

  const minimap = createMinimap(stage, moveView);

  const toggles = createToolbar(bar, {
    in: () => zoom(ZOOM_FACTOR),
    out: () => zoom(1 / ZOOM_FACTOR),
    whole: resetView,
    picture: savePicture,
  }, setTool);

  /** @param {Tool} chosen */
  function setTool(chosen) {
    tool = chosen;
    for (const [name, button] of toggles) button.setAttribute("aria-pressed", String(name === tool));
    overlay.style.touchAction = tool === "point" && !scene?.follow ? "pan-y" : "none";
  }

  // ---- events --------------------------------------------------------------------------------

  overlay.addEventListener("pointerdown", (event) => {
    const position = plotPosition(event);
    if (!position || scene.follow || event.button || !event.isPrimary) return;
    const kind = event.shiftKey ? "lasso" : tool;
    drag = { kind, from: position, view: { x: [...view.x], y: [...view.y] }, corners: [], far: false };
    if (kind !== "point") drag.corners = [currentScale().toData(...position)];
    overlay.setPointerCapture(event.pointerId);
  });
  overlay.addEventListener("pointermove", (event) => {
    if (!event.isPrimary) return; // another finger
    const position = plotPosition(event), crosshair = scene.follow || tool !== "point";
    overlay.style.cursor = position ? (crosshair ? "crosshair" : "pointer") : "default";
    if (scene.follow) {
      if (position && !cursorFixed) moveCursor(currentScale().toData(...position));
      return;
    }
    if (!drag) {
      if (position) showTooltip(...position);
      else hideTooltip();
      return;
    }
    const [x, y] = canvasPosition(event);
    drag.far ||= Math.hypot(x - drag.from[0], y - drag.from[1]) > DRAG_DISTANCE;
    if (!drag.far) return;
    hideTooltip();
    if (drag.kind === "point") {
      pan(drag, [x, y]);
    } else {
      drag.corners.push(currentScale().toData(x, y));
      drawOverlay();
    }
  });
  overlay.addEventListener("pointerup", (event) => {
    if (!event.isPrimary) return;
    const done = drag;
    drag = null;
    if (!done) return;
    if (!done.far) {
      selectAt(...done.from);
    } else if (done.kind !== "point" && done.corners.length > 1) {
      const polygon = selectionPolygon(done);
      scene.outlines = [polygon];
      draw();
      map.sendPick({ kind: done.kind, polygon, scene: scene.id });
    }
  });
  overlay.addEventListener("pointercancel", () => {
    drag = null;
    drawOverlay();
  });
  overlay.addEventListener("pointerleave", hideTooltip);
  overlay.addEventListener("dblclick", () => {
    if (scene.follow) return;
    resetView();
    scene.marked = null;
    map.sendPick({ kind: "nothing", scene: scene.id });
  });
  overlay.addEventListener("click", (event) => {
    const position = scene.follow && plotPosition(event);
    if (!position) return;
    cursorFixed = !cursorFixed;
    moveCursor(cursorFixed || !cursor ? currentScale().toData(...position) : cursor);
  });
  overlay.addEventListener("wheel", (event) => {
    const position = plotPosition(event);
    if (!position || !(event.ctrlKey || event.metaKey) || scene.follow) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, currentScale().toData(...position));
  }, { passive: false });
  overlay.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return; // shortcuts of the browser
    const direction = ARROW_KEYS[event.key];
    if (direction) stepCursor(direction, event.shiftKey ? 6 : 1);
    else if (scene.follow) return;
    else if (event.key === "Enter" && cursor) selectAt(...cursorPosition());
    else if (event.key === "+") zoom(ZOOM_FACTOR);
    else if (event.key === "-") zoom(1 / ZOOM_FACTOR);
    else if (event.key === "0") resetView();
    else return;
    event.preventDefault();
  });
  overlay.addEventListener("blur", () => {
    if (scene?.follow) return;
    cursor = null;
    hideTooltip();
    drawOverlay();
  });

  // ---- messages of the server ----------------------------------------------------------------

  /**
   * @param {Scene} next
   * @param {[AxisRange, AxisRange] | null} ranges of a scene with a new id; null for all of it.
   */
  function setScene(next, ranges) {
    const another = !scene || next.id !== scene.id;
    if (another || next.colours !== scene.colours) {
      hidden.clear();
      asked = null;
    }
    scene = decodeScene(next);
    keepOrder();
    fitHeight();
    hoveredRow = null;
    heatmap = scene.heat && scene.heatValue ? heatmapImage(scene.heat, scene.heatValue) : null;
    overlay.setAttribute("aria-label", scene.alt);
    overlay.setAttribute("aria-description", scene.follow ? CURSOR_KEYS_HELP : KEYS_HELP);
    bar.hidden = scene.follow;
    for (const [name, value] of Object.entries(scene.ink)) root.style.setProperty(`--${name}`, value);
    if (another) [cursor, cursorFixed, drag] = [scene.at, false, null];
    if (width && (another || !viewChanged)) [view, viewChanged] = [wholeView(), false];
    if (another) opening = ranges;
    if (another && width) applyOpening();
    loadDensity(scene);
    if (another) allRows = null; // those of another map
    showAllRows(scene);
    showPictures(scene);
    tooltip.hidden = true;
    drawLegend(legend, scene.legend, hidden, draw, reorder);
    setTool(tool);
  }

  /**
   * Draw the looks of the legend in another order, the first one on top.
   *
   * @param {number[]} codes
   * @param {string} moved a sentence about it.
   */
  function reorder(codes, moved) {
    asked = codes;
    applyOrder(codes);
    announcement.textContent = moved;
    draw();
    map.sendPick({ kind: "order", codes, scene: scene.id });
  }

  /**
   * Have the scene in the order that was asked for last, while an entry of the legend has the focus:
   * the server may have answered to an earlier move only.
   */
  function keepOrder() {
    if (!focusedIn(legend)) asked = null;
    if (asked) applyOrder(asked);
  }

  /** @param {number[]} codes of the entries that can be moved. */
  function applyOrder(codes) {
    /** @type {(entry: LegendEntry) => number} */
    const place = ({ code }) => {
      const found = codes.indexOf(code ?? -1);
      return found < 0 ? codes.length : found;
    };
    scene.legend[0]?.entries?.sort((a, b) => place(a) - place(b));
    const others = scene.looks.map((_, code) => code).filter((code) => !codes.includes(code));
    scene.layers = [...others.reverse(), ...[...codes].reverse()];
  }

  /** Show the ranges that the scene opens with, once the width of the map is known. */
  function applyOpening() {
    if (!opening) return;
    const [x, y] = opening;
    [view, viewChanged, opening] = [fullView({ ...scene, x, y }, plotBox()), true, null];
  }

  /**
   * Make the map as high as the scene asks for, or as the window leaves room for; with equal units no
   * higher than its ranges are at the map's width.
   */
  function fitHeight() {
    if (!scene) return;
    const left = Math.max(LOWEST_MAP, window.innerHeight - scene.reserved);
    scene.height = scene.reserved ? Math.min(scene.tallest, left) : scene.tallest;
    if (scene.reserved && scene.equal && width) {
      const natural = (width * (scene.y[1] - scene.y[0])) / (scene.x[1] - scene.x[0]);
      scene.height = Math.min(scene.height, Math.max(LOWEST_MAP, Math.round(natural)));
    }
    stage.style.height = `${scene.height}px`;
  }

  /** @param {DecodedScene} requested */
  function showAllRows(requested) {
    if (!requested.allRows) {
      allRows = null;
      return;
    }
    loadAllRows(requested.allRows).then(async (rows) => {
      if (scene !== requested) return; // a newer scene has arrived
      allRows = rows;
      draw();
      if (requested.allRows?.names) await loadNames(rows, requested.allRows.names);
    }).catch(() => {
      if (scene !== requested) return;
      announcement.textContent = tooltip.textContent = ROWS_NOT_LOADED;
      tooltip.hidden = false;
    });
  }

  /** @param {DecodedScene} requested */
  function showPictures(requested) {
    const sheet = requested.pictures;
    if (!sheet) pictures = null;
    if (!sheet || pictures?.sheet.address === sheet.address) return;
    loadPictures(sheet).then((loaded) => {
      if (scene !== requested) return; // a newer scene has arrived
      pictures = loaded;
      draw();
    }).catch(() => {
      if (scene === requested) announcement.textContent = ROWS_NOT_LOADED;
    });
  }

  /** @param {DecodedScene} requested */
  function loadDensity(requested) {
    densityImage = null;
    if (!requested.density) return;
    const image = new Image();
    image.onload = () => {
      if (scene !== requested) return; // a newer scene has arrived
      densityImage = image;
      draw();
    };
    image.src = requested.density.picture;
  }

  const resize = new ResizeObserver(() => {
    if (!scene || !stage.clientWidth || stage.clientWidth === width) return;
    width = stage.clientWidth;
    fitHeight();
    if (!viewChanged) view = wholeView();
    if (opening) applyOpening();
    draw();
  });
  resize.observe(stage);
  const redraw = () => { // the height or the device pixel ratio of the window may have changed
    fitHeight();
    if (scene && width && !viewChanged) view = wholeView();
    draw();
  };
  window.addEventListener("resize", redraw);

  const map = {
    /** @type {(state: CursorState) => void} */
    sendCursor: () => {},
    /** @type {(event: PickEvent) => void} */
    sendPick: () => {},
    /** @type {(state: ViewState) => void} */
    sendView: () => {},
    digest: "",
    /** @param {MapData} data */
    show(data) {
      if (data.digest === map.digest) return;
      map.digest = data.digest;
      if (!width) width = stage.clientWidth;
      setScene(JSON.parse(data.scene), data.zoom ?? null);
      draw();
    },
    close() {
      window.clearTimeout(timer);
      cancelAnimationFrame(frame);
      resize.disconnect();
      window.removeEventListener("resize", redraw);
      root.remove();
    },
  };
  // The state of the map, for the browser tests.
  const state = () => scene && {
    digest: map.digest, scene, view, box: plotBox(), hidden: [...hidden], allRows: allRows?.n ?? 0,
    pictures: pictures?.places.size ?? 0,
  };
  Object.assign(overlay, { latentboard: state });
  return map;
}
