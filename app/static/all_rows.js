// All rows of a large map: drawn as cells whose opacity tells how many rows they have, and found by
// their position. Their arrays are files of their own, which the browser loads once.
const CELL = 2; // width and height of a cell, in CSS pixels
const LEAST_OPACITY = 0.4, MOST_OPACITY = 0.95, FAINT_CELL = 0.2;
const DISC_RADIUS = 1.8; // of a cell that is drawn as a disc, in CSS pixels
const MOST_DISCS = 20000; // rows in view of which every cell is a disc
const LARGEST_STEP = 65535; // of a position, which is a share of its range in so many steps
const MOST_FILES = 12; // kept, of all maps of the page
const CELL_HOVER_RADIUS = 5; // distance from a row without a marker within which it is hovered
/** Files by their address, the least recently used first. @type {Map<string, Promise<ArrayBuffer>>} */
const rowFiles = new Map();

/**
 * Load a file of the server, or take it from those that were loaded.
 *
 * @param {string} address its path on the server.
 * @returns {Promise<ArrayBuffer>}
 */
function rowFile(address) {
  const file = rowFiles.get(address) ?? loadFile(address);
  rowFiles.delete(address);
  rowFiles.set(address, file);
  file.catch(() => rowFiles.delete(address));
  for (const oldest of rowFiles.keys()) {
    if (rowFiles.size <= MOST_FILES) break;
    rowFiles.delete(oldest);
  }
  return file;
}

/** @param {string} address */
async function loadFile(address) {
  // Relative to the page: the server may be below a path of its address.
  const answer = await fetch(new URL(`.${address}`, document.baseURI));
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return answer.arrayBuffer();
}

/**
 * Load the arrays of all rows.
 *
 * @param {AllRows} rows
 * @returns {Promise<LoadedRows>}
 */
async function loadAllRows(rows) {
  const { n, ranges, colours, selected } = rows;
  const [positions, codes, numbers] = await Promise.all([
    rowFile(rows.positions), rowFile(rows.codes), rows.numbers ? rowFile(rows.numbers) : null,
  ]);
  const steps = new Uint16Array(positions);
  return {
    n, ranges, colours,
    x: steps.subarray(0, n), y: steps.subarray(n),
    code: new Uint8Array(codes), numbers: numbers && new Uint32Array(numbers),
    selected: decodeOptional(selected, Uint8Array), names: null,
  };
}

/**
 * Load the names of the rows.
 *
 * @param {LoadedRows} rows
 * @param {string} address
 */
async function loadNames(rows, address) {
  rows.names = new TextDecoder().decode(await rowFile(address)).split("\n");
}

/**
 * The pixel of a position in steps, as offset and factor.
 *
 * @param {AxisScale} toPixel
 * @param {AxisRange} range
 * @returns {[number, number]}
 */
function stepsToPixels(toPixel, [low, high]) {
  const first = toPixel(low);
  return [first, (toPixel(high) - first) / LARGEST_STEP];
}

/**
 * Sums over the rows of each cell of the plot area, by cell and before that by group: with a
 * selection the rows outside it are group 0 and those inside group 1.
 *
 * @param {LoadedRows} rows
 * @param {Scale} scale
 * @param {Set<number>} hidden codes of the hidden looks.
 * @returns {CellSums}
 */
function cellSums(rows, { box, toX, toY }, hidden) {
  const { x, y, code, selected, colours } = rows;
  const width = Math.ceil(box.w / CELL), height = Math.ceil(box.h / CELL), cells = width * height;
  const size = selected ? 2 * cells : cells;
  const number = new Uint32Array(size);
  const [red, green, blue] = [0, 1, 2].map(() => new Float32Array(size));
  const [r, g, b] = [0, 1, 2].map((part) => Float32Array.from(colours, (colour) => colour[part]));
  const shown = Uint8Array.from(colours, (_, i) => Number(!hidden.has(i)));
  const [x0, dx] = stepsToPixels(toX, rows.ranges[0]), [y0, dy] = stepsToPixels(toY, rows.ranges[1]);
  for (let i = 0; i < rows.n; i++) {
    const c = code[i];
    if (!shown[c]) continue;
    const column = (x0 - box.x + x[i] * dx) / CELL, row = (y0 - box.y + y[i] * dy) / CELL;
    if (column < 0 || row < 0 || column >= width || row >= height) continue;
    let cell = (row | 0) * width + (column | 0);
    if (selected && (selected[i >> 3] >> (i & 7)) & 1) cell += cells;
    number[cell]++;
    red[cell] += r[c];
    green[cell] += g[c];
    blue[cell] += b[c];
  }
  return { width, height, number, red, green, blue };
}

/**
 * The density of all rows as a picture, one pixel a cell: the mean colour of the cell's rows, and an
 * opacity that increases with the logarithm of their number. A cell with selected rows shows only
 * these, and the others are faint.
 *
 * @param {CellSums} sums
 * @param {boolean} hasSelection
 * @returns {HTMLCanvasElement}
 */
function densityOfRows({ width, height, number, red, green, blue }, hasSelection) {
  const canvas = document.createElement("canvas"), cells = width * height;
  [canvas.width, canvas.height] = [width, height];
  const context = context2d(canvas), image = context.createImageData(width, height);
  let most = 2;
  for (const one of number) most = Math.max(most, one);
  const slope = (MOST_OPACITY - LEAST_OPACITY) / Math.log(most);
  for (let cell = 0; cell < cells; cell++) {
    const own = hasSelection && number[cells + cell] ? cells + cell : cell, rows = number[own];
    if (!rows) continue;
    const faint = hasSelection && own === cell ? FAINT_CELL : 1, at = 4 * cell;
    image.data[at] = red[own] / rows;
    image.data[at + 1] = green[own] / rows;
    image.data[at + 2] = blue[own] / rows;
    image.data[at + 3] = 255 * faint * (LEAST_OPACITY + slope * Math.log(rows));
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Draw cells as discs: those that have no others near them, which are hard to see, or, where few rows
 * are in view, all of them.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {CellSums} sums
 * @param {Box} box the plot area.
 * @param {boolean} hasSelection
 * @param {boolean} every whether all cells are drawn.
 */
function drawDiscs(context, { width, height, number, red, green, blue }, box, hasSelection, every) {
  const cells = width * height;
  /** @type {(cell: number) => boolean} */
  const filled = (cell) => number[cell] > 0 || (hasSelection && number[cells + cell] > 0);
  for (let cell = 0; cell < cells; cell++) {
    if (!filled(cell)) continue;
    const column = cell % width, row = Math.floor(cell / width);
    if (!every && hasNeighbour(filled, column, row, width, height)) continue;
    const own = hasSelection && number[cells + cell] ? cells + cell : cell, rows = number[own];
    const [r, g, b] = [red, green, blue].map((sum) => Math.round(sum[own] / rows));
    context.fillStyle = `rgb(${r} ${g} ${b})`;
    context.globalAlpha = hasSelection && own === cell ? FAINT_CELL : MOST_OPACITY;
    context.beginPath();
    context.arc(box.x + (column + 0.5) * CELL, box.y + (row + 0.5) * CELL, DISC_RADIUS, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
}

/**
 * Whether one of the 24 cells around a cell has rows.
 *
 * @param {(cell: number) => boolean} filled
 * @param {number} column of the cell.
 * @param {number} row
 * @param {number} width of the plot area, in cells.
 * @param {number} height
 */
function hasNeighbour(filled, column, row, width, height) {
  for (let y = Math.max(row - 2, 0); y <= Math.min(row + 2, height - 1); y++) {
    for (let x = Math.max(column - 2, 0); x <= Math.min(column + 2, width - 1); x++) {
      if ((x !== column || y !== row) && filled(y * width + x)) return true;
    }
  }
  return false;
}

/**
 * Draw all rows as a density.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {LoadedRows} rows
 * @param {Scale} scale
 * @param {Set<number>} hidden codes of the hidden looks.
 */
function drawAllRows(context, rows, scale, hidden) {
  const sums = cellSums(rows, scale, hidden), { box } = scale, hasSelection = rows.selected !== null;
  const few = sums.number.reduce((total, one) => total + one, 0) <= MOST_DISCS;
  if (!few) {
    context.imageSmoothingEnabled = false;
    const picture = densityOfRows(sums, hasSelection);
    context.drawImage(picture, box.x, box.y, sums.width * CELL, sums.height * CELL);
    context.imageSmoothingEnabled = true;
  }
  drawDiscs(context, sums, box, hasSelection, few);
}

/**
 * The row nearest to a position, among all rows.
 *
 * @param {DecodedScene} scene
 * @param {LoadedRows} rows
 * @param {Scale} scale
 * @param {Set<number>} hidden codes of the hidden looks.
 * @param {number} x in pixels.
 * @param {number} y
 * @returns {FoundRow | null} null where none is near.
 */
function nearestOfAllRows(scene, rows, { toX, toY }, hidden, x, y) {
  const [x0, dx] = stepsToPixels(toX, rows.ranges[0]), [y0, dy] = stepsToPixels(toY, rows.ranges[1]);
  let nearest = -1, least = CELL_HOVER_RADIUS ** 2;
  for (let i = 0; i < rows.n; i++) {
    const across = x0 + rows.x[i] * dx - x;
    if (across > CELL_HOVER_RADIUS || across < -CELL_HOVER_RADIUS) continue;
    const squared = across ** 2 + (y0 + rows.y[i] * dy - y) ** 2;
    if (squared < least && !hidden.has(rows.code[i])) [nearest, least] = [i, squared];
  }
  if (nearest < 0) return null;
  const number = rows.numbers ? rows.numbers[nearest] : nearest;
  /** @type {(steps: number, range: AxisRange) => number} */
  const position = (steps, [low, high]) => low + (steps / LARGEST_STEP) * (high - low);
  const point = /** @type {Point} */ ([
    position(rows.x[nearest], rows.ranges[0]), position(rows.y[nearest], rows.ranges[1]),
  ]);
  const name = rows.names ? rows.names[number] : scene.allRows?.names ? "…" : number + 1;
  return { number, point, lines: linesOfRow(scene, `row ${name}`, rows.code[nearest]) };
}

/**
 * Lines of the tooltip of a row without a marker: its name and its group.
 *
 * @param {DecodedScene} scene
 * @param {string} name
 * @param {number} code
 * @returns {string[]}
 */
function linesOfRow(scene, name, code) {
  const lines = [name];
  for (const { title, entries } of scene.legend) {
    const entry = entries?.find((one) => one.code === code);
    if (title && entry) lines.push(`${title}: ${entry.text}`);
  }
  return lines;
}
