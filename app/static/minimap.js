// The whole of a zoomed map in a corner of it, with a frame around the part in view.
const MINIMAP_WIDTH = 132, MINIMAP_MARGIN = 8; // in CSS pixels
const NARROWEST_MAP = 420; // width of a plot area that has room for a small map
const MOST_MINIMAP_ROWS = 40000; // of a larger map, every so manieth row is drawn
const LEAST_FRAME = 5; // width and height of the frame

/**
 * Create the small map of a stage. It is hidden until it is drawn.
 *
 * @param {HTMLElement} stage
 * @param {(centre: Point) => void} moveTo called with the new centre of the view, in data units.
 */
function createMinimap(stage, moveTo) {
  const canvas = appendElement("canvas", stage, { class: "minimap", hidden: "", "aria-hidden": "true" });
  /** What the picture of the rows was made of. @type {unknown[]} */
  let made = [];
  /** @type {HTMLCanvasElement | null} */
  let picture = null;
  /** @type {Scale | null} */
  let scale = null;

  /** @param {PointerEvent} event */
  function follow(event) {
    const edge = canvas.getBoundingClientRect();
    if (scale) moveTo(scale.toData(event.clientX - edge.left, event.clientY - edge.top));
  }
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    follow(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (canvas.hasPointerCapture(event.pointerId)) follow(event);
  });

  return {
    hide() {
      canvas.hidden = true;
    },
    /**
     * Draw the rows of the whole map, and the frame of the view.
     *
     * @param {DecodedScene} scene
     * @param {LoadedRows | null} allRows
     * @param {Set<number>} hidden codes of the hidden looks.
     * @param {Box} box the plot area of the map.
     * @param {View} whole
     * @param {View} view
     */
    draw(scene, allRows, hidden, box, whole, view) {
      canvas.hidden = box.w < NARROWEST_MAP;
      if (canvas.hidden) return;
      const ratio = window.devicePixelRatio || 1;
      const size = { x: 0, y: 0, w: MINIMAP_WIDTH, h: Math.round((MINIMAP_WIDTH * box.h) / box.w) };
      scale = createScale(size, whole);
      const parts = [scene, allRows, [...hidden].join(), size.h, ratio];
      if (!picture || parts.some((part, i) => part !== made[i])) {
        [made, picture] = [parts, pictureOfRows(scene, allRows, hidden, scale, ratio)];
      }
      [canvas.width, canvas.height] = [picture.width, picture.height];
      canvas.style.width = `${size.w}px`;
      canvas.style.height = `${size.h}px`;
      canvas.style.left = `${box.x + box.w - size.w - MINIMAP_MARGIN}px`;
      canvas.style.top = `${box.y + box.h - size.h - MINIMAP_MARGIN}px`;
      const context = context2d(canvas);
      context.drawImage(picture, 0, 0);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.strokeStyle = scene.ink.accent;
      context.lineWidth = 1.5;
      const left = scale.toX(view.x[0]), top = scale.toY(view.y[1]);
      const w = Math.max(scale.toX(view.x[1]) - left, LEAST_FRAME);
      const h = Math.max(scale.toY(view.y[0]) - top, LEAST_FRAME);
      context.strokeRect(left, top, w, h);
    },
  };
}

/**
 * The rows of a map as dots on a picture.
 *
 * @param {DecodedScene} scene
 * @param {LoadedRows | null} allRows in place of those of the scene.
 * @param {Set<number>} hidden codes of the hidden looks.
 * @param {Scale} scale
 * @param {number} ratio device pixels a CSS pixel.
 * @returns {HTMLCanvasElement}
 */
function pictureOfRows(scene, allRows, hidden, { box, toX, toY }, ratio) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.round(box.w * ratio), Math.round(box.h * ratio)];
  const context = context2d(canvas), n = allRows ? allRows.n : scene.n;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = scene.ink.panel;
  context.fillRect(0, 0, box.w, box.h);
  const code = allRows ? allRows.code : scene.code, side = n > 5000 ? 1 : 2;
  const colours = allRows
    ? allRows.colours.map((parts) => `rgb(${parts.join()})`)
    : scene.looks.map((look) => look.colour);
  const [x0, dx] = allRows ? stepsToPixels(toX, allRows.ranges[0]) : [0, 0];
  const [y0, dy] = allRows ? stepsToPixels(toY, allRows.ranges[1]) : [0, 0];
  for (let i = 0; i < n; i += Math.ceil(n / MOST_MINIMAP_ROWS)) {
    if (hidden.has(code[i])) continue;
    context.fillStyle = colours[code[i]];
    const x = allRows ? x0 + allRows.x[i] * dx : toX(scene.px[i]);
    const y = allRows ? y0 + allRows.y[i] * dy : toY(scene.py[i]);
    context.fillRect(x - side / 2, y - side / 2, side, side);
  }
  return canvas;
}
