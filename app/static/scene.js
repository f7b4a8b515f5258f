// The scene of a map: decoding, and conversion between data units and pixels.
const MAP_MARGIN = { left: 30, right: 10, top: 10, bottom: 40 }; // left: plus the tick labels
const MAP_MARGIN_WITHOUT_AXES = { left: 6, right: 6, top: 6, bottom: 6 };
const TOOLS_HEIGHT = 38; // of the line above the plot area, where a map has tools
const LOWEST_MAP = 380; // pixels, however low the window is
const HOVER_RADIUS = 9; // distance from a row, in pixels, within which it is hovered

/**
 * Decode an array from base64: a third of the size of JSON, and no parsing.
 *
 * @template A
 * @param {string | null | undefined} text
 * @param {new (bytes: ArrayBuffer) => A} ArrayType
 * @returns {A | null} null where there is no text.
 */
function decodeOptional(text, ArrayType) {
  return text === null || text === undefined ? null : decodeArray(text, ArrayType);
}

/**
 * @template A
 * @param {string} text
 * @param {new (bytes: ArrayBuffer) => A} ArrayType
 * @returns {A}
 */
function decodeArray(text, ArrayType) {
  const bytes = Uint8Array.fromBase64
    ? Uint8Array.fromBase64(text)
    : Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new ArrayType(bytes.buffer);
}

/**
 * @param {Scene} scene
 * @returns {DecodedScene}
 */
function decodeScene(scene) {
  const p = scene.points;
  return {
    ...scene,
    tallest: scene.height,
    n: p.n,
    px: decodeArray(p.x, Float32Array), py: decodeArray(p.y, Float32Array),
    number: decodeArray(p.number, Uint32Array), code: decodeArray(p.code, Uint8Array),
    selected: decodeOptional(p.selected, Uint8Array), size: decodeOptional(p.size, Float32Array),
    symbol: decodeOptional(p.symbol, Uint8Array), hollow: decodeOptional(p.hollow, Uint8Array),
    sx: decodeOptional(p.sx, Float32Array), sy: decodeOptional(p.sy, Float32Array),
    correlation: decodeOptional(p.correlation, Float32Array),
    heatValue: scene.heat && decodeArray(scene.heat.value, Float32Array),
  };
}

/**
 * The plot area: the canvas without its margins.
 *
 * @param {Scene} scene
 * @param {number} width of the canvas, in pixels.
 * @param {number} labelWidth of the tick labels of the vertical axis.
 * @returns {Box}
 */
function plotArea(scene, width, labelWidth) {
  const margin = scene.titles ? MAP_MARGIN : MAP_MARGIN_WITHOUT_AXES;
  const left = margin.left + (scene.titles ? labelWidth : 0);
  const top = scene.follow ? margin.top : TOOLS_HEIGHT;
  return { x: left, y: top, w: width - left - margin.right, h: scene.height - top - margin.bottom };
}

/**
 * @param {Box} box the plot area.
 * @param {View} view
 * @returns {Scale}
 */
function createScale(box, view) {
  const [x0, x1] = view.x, [y0, y1] = view.y;
  return {
    box,
    toX: (v) => box.x + ((v - x0) / (x1 - x0)) * box.w,
    toY: (v) => box.y + (1 - (v - y0) / (y1 - y0)) * box.h,
    toData: (x, y) => [
      x0 + ((x - box.x) / box.w) * (x1 - x0), y0 + (1 - (y - box.y) / box.h) * (y1 - y0),
    ],
  };
}

/**
 * The view of the whole scene; where both axes have the same unit, one of them is widened.
 *
 * @param {Scene} scene
 * @param {Box} box the plot area.
 * @returns {View}
 */
function fullView(scene, box) {
  const [x, y] = [scene.x, scene.y];
  if (!scene.equal) return { x: [...x], y: [...y] };
  const unit = Math.max((x[1] - x[0]) / box.w, (y[1] - y[0]) / box.h); // data units a pixel
  /** @type {(range: AxisRange, pixels: number) => AxisRange} */
  const widened = (range, pixels) => {
    const centre = midpoint(range);
    return [centre - (unit * pixels) / 2, centre + (unit * pixels) / 2];
  };
  return { x: widened(x, box.w), y: widened(y, box.h) };
}

/**
 * The visible row with a marker that is nearest to a position.
 *
 * @param {DecodedScene} scene
 * @param {Scale} scale
 * @param {Set<number>} hidden codes of the hidden looks.
 * @param {number} x in pixels.
 * @param {number} y
 * @returns {FoundRow | null} null where none is near.
 */
function nearestRow(scene, { toX, toY }, hidden, x, y) {
  let nearest = -1, least = HOVER_RADIUS ** 2;
  for (let i = 0; i < scene.n; i++) {
    if (hidden.has(scene.code[i])) continue;
    const squared = (toX(scene.px[i]) - x) ** 2 + (toY(scene.py[i]) - y) ** 2;
    if (squared < least) [nearest, least] = [i, squared];
  }
  if (nearest < 0) return null;
  return {
    number: scene.number[nearest], point: [scene.px[nearest], scene.py[nearest]],
    lines: scene.texts ? scene.texts[nearest].split("\n") : [],
  };
}

/**
 * The value of the heatmap at a point, as lines of the tooltip; none where there is no heatmap.
 *
 * @param {DecodedScene} scene
 * @param {Point} point in data units.
 * @returns {string[]}
 */
function heatmapLines(scene, [x, y]) {
  const { heat, heatValue } = scene;
  if (!heat || !heatValue) return [];
  if (x < scene.x[0] || x > scene.x[1] || y < scene.y[0] || y > scene.y[1]) return [];
  const n = heat.size;
  /** @type {(v: number, range: AxisRange) => number} */
  const index = (v, [low, high]) => Math.round(((v - low) / (high - low)) * (n - 1));
  const value = heatValue[index(y, scene.y) * n + index(x, scene.x)];
  return [`${heat.title}: ${formatNumber(Number(value.toPrecision(3)))}`];
}

/**
 * The polygon of a drag: the corners of a lasso, or of the box between the first and the last point.
 *
 * @param {Drag} drag
 * @returns {Point[]}
 */
function selectionPolygon({ kind, corners }) {
  if (kind === "lasso") return corners;
  const [[a, b], [c, d]] = [corners[0], corners[corners.length - 1]];
  return [[a, b], [c, b], [c, d], [a, d]];
}

/**
 * About seven round numbers of a range: multiples of 1, 2 or 5 times a power of ten.
 *
 * @param {AxisRange} range
 * @returns {number[]}
 */
function ticks([low, high]) {
  const roughStep = (high - low) / 7, power = 10 ** Math.floor(Math.log10(roughStep));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= roughStep) ?? 10 * power;
  const values = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; i++) {
    values.push(Number((i * step).toPrecision(12)));
  }
  return values;
}

/**
 * Width of the widest tick label of the vertical axis, in pixels.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {AxisRange} range
 */
function tickLabelWidth(context, range) {
  context.font = "12px Inter, sans-serif";
  return Math.ceil(Math.max(...ticks(range).map((v) => context.measureText(formatNumber(v)).width)));
}

/** @param {AxisRange} range */
const midpoint = ([low, high]) => (low + high) / 2;

/** @param {number} v */
const formatNumber = (v) => String(Number(v.toPrecision(6))).replace("-", "\u2212");

/**
 * @param {number} v
 * @param {AxisRange} range
 */
const clamp = (v, [low, high]) => Math.min(Math.max(v, low), high);
