// Markers of rows, of inducing inputs and of legends. The server joins this file with those that use
// it: the scripts of the map, and trails.js. The types are in types.d.ts.

/**
 * The 2D context of a canvas.
 *
 * @param {HTMLCanvasElement} canvas
 * @returns {CanvasRenderingContext2D}
 */
function context2d(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("This browser does not draw on a canvas.");
  return context;
}

/**
 * The polygon of a marker of radius 1.
 *
 * @param {string} shape
 * @returns {Point[] | undefined} undefined for a circle.
 */
function markerPolygon(shape) {
  /** @type {Record<string, Point[]>} */
  const polygons = {
    diamond: [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]],
    square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    "triangle-up": [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]],
    cross: [[-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4],
      [0.4, 1.2], [-0.4, 1.2], [-0.4, 0.4], [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4]],
    x: [[-1.1, -0.6], [-0.6, -1.1], [0, -0.5], [0.6, -1.1], [1.1, -0.6], [0.5, 0],
      [1.1, 0.6], [0.6, 1.1], [0, 0.5], [-0.6, 1.1], [-1.1, 0.6], [-0.5, 0]],
    star: Array.from({ length: 10 }, (_, i) => {
      const a = (Math.PI * i) / 5 - Math.PI / 2, r = i % 2 ? 0.6 : 1.4;
      return [r * Math.cos(a), r * Math.sin(a)];
    }),
  };
  return polygons[shape];
}

/**
 * Begin the path of a marker.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {string} shape
 * @param {number} x centre, in pixels.
 * @param {number} y
 * @param {number} r radius, in pixels.
 */
function markerPath(context, shape, x, y, r) {
  const polygon = markerPolygon(shape);
  context.beginPath();
  if (!polygon) {
    context.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  addLine(context, polygon.map(([a, b]) => [x + a * r, y + b * r]));
  context.closePath();
}

/**
 * Add a line through points to the current path.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Point[]} points in pixels.
 */
function addLine(context, points) {
  for (const [i, [x, y]] of points.entries()) {
    if (i) context.lineTo(x, y);
    else context.moveTo(x, y);
  }
}

/**
 * A cache of markers: each kind is drawn once and then copied, which is faster than drawing it anew.
 *
 * @param {string} panel colour behind the rows.
 * @param {number} ratio device pixels a CSS pixel.
 * @returns {MarkerCache}
 */
function markerCache(panel, ratio) {
  /** @type {Map<string, HTMLCanvasElement>} */
  const cache = new Map();
  return (colour, shape, hollow, r, inside = null) => {
    const key = `${colour} ${shape} ${hollow} ${r} ${inside}`;
    let marker = cache.get(key);
    if (!marker) {
      const side = Math.ceil(2 * (1.5 * r + 2) * ratio);
      marker = document.createElement("canvas");
      marker.width = marker.height = side;
      const context = context2d(marker);
      context.scale(ratio, ratio);
      markerPath(context, shape, side / ratio / 2, side / ratio / 2, r);
      context.fillStyle = inside ?? colour;
      context.strokeStyle = hollow ? colour : panel;
      context.lineWidth = inside ? 2 : hollow ? 1.4 : r >= 3 ? 0.7 : 0.25;
      if (inside || !hollow) context.fill();
      context.stroke();
      cache.set(key, marker);
    }
    return marker;
  };
}
