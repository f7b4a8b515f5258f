// What a map draws on its canvas: rows, ellipses, heatmap, curves, cursor, axes.
const ROW_OPACITY = 0.95, UNSELECTED_OPACITY = 0.25;
const MARKED_DIAMETER = 15; // of the selected point, in pixels
const PICTURE_SIDE = 34, PICTURE_GAP = 3; // longer side of a picture that marks a row, in pixels

/**
 * Draw the rows; the selected ones above the others.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {DecodedScene} scene
 * @param {Scale} scale
 * @param {Set<number>} hidden codes of the hidden looks.
 * @param {number} ratio device pixels a CSS pixel.
 */
function drawRows(context, scene, scale, hidden, ratio) {
  if (!scene.markers || scene.markersRatio !== ratio) {
    [scene.markers, scene.markersRatio] = [markerCache(scene.ink.panel, ratio), ratio];
  }
  const { px, py, code, selected, markers } = scene, { box, toX, toY } = scale;
  const rows = layeredRows(scene);
  const passes = selected ? [0, 1] : [null];
  for (const pass of passes) {
    context.globalAlpha = pass === 0 ? UNSELECTED_OPACITY : ROW_OPACITY;
    for (let k = 0; k < scene.n; k++) {
      const i = rows ? rows[k] : k;
      if ((selected && selected[i] !== pass) || hidden.has(code[i])) continue;
      const x = toX(px[i]), y = toY(py[i]);
      if (x < box.x - 9 || x > box.x + box.w + 9 || y < box.y - 9 || y > box.y + box.h + 9) continue;
      const look = scene.looks[code[i]], missing = look.shape === "circle-open";
      const open = Boolean(scene.hollow && scene.hollow[i]), hollow = missing || open;
      const shape = scene.symbol ? scene.symbols[scene.symbol[i]] : hollow ? "circle" : look.shape;
      const r = (scene.size ? Math.round(2 * scene.size[i]) / 4 : scene.radius) + (open ? 1 : 0);
      const inside = open ? scene.ink.panel : null; // apart from any background
      const marker = markers(look.colour, shape, hollow, r, inside), side = marker.width / ratio;
      context.drawImage(marker, x - side / 2, y - side / 2, side, side);
    }
  }
  context.globalAlpha = 1;
}

/**
 * The rows in the order in which they are drawn.
 *
 * @param {DecodedScene} scene
 * @returns {Uint32Array | null} null for the order that they have.
 */
function layeredRows(scene) {
  if (!scene.layers) return null;
  const layer = new Map(scene.layers.map((code, place) => [code, place]));
  const place = Array.from(scene.code, (code) => layer.get(code) ?? -1);
  return Uint32Array.from(place.keys()).sort((a, b) => place[a] - place[b] || a - b);
}

/**
 * Draw the posterior ellipses of the rows.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {DecodedScene} scene
 * @param {Scale} scale
 * @param {Set<number>} hidden codes of the hidden looks.
 */
function drawEllipses(context, scene, { toX, toY }, hidden) {
  const { px, py, sx, sy, correlation, code, selected } = scene;
  if (!sx || !sy) return;
  const unitX = toX(1) - toX(0), unitY = toY(0) - toY(1); // pixels a data unit
  context.strokeStyle = scene.ink.text;
  context.lineWidth = 0.7;
  for (const [pass, opacity] of selected ? [[0, 0.08], [1, 0.45]] : [[0, 0.3]]) {
    context.globalAlpha = opacity;
    context.beginPath();
    for (let i = 0; i < scene.n; i++) {
      if (Number.isNaN(sx[i]) || hidden.has(code[i])) continue;
      if (selected && selected[i] !== pass) continue;
      const x = toX(px[i]), y = toY(py[i]);
      const { a, b, angle } = semiAxes(sx[i] * unitX, sy[i] * unitY, correlation ? correlation[i] : 0);
      const long = scene.ellipse * a;
      context.moveTo(x + long * Math.cos(angle), y + long * Math.sin(angle));
      context.ellipse(x, y, long, scene.ellipse * b, angle, 0, 2 * Math.PI);
    }
    context.stroke();
  }
  context.globalAlpha = 1;
}

/**
 * Semi-axes of the ellipse of one standard deviation, and the angle of the first one on the screen,
 * whose y runs down.
 *
 * @param {number} sx standard deviations along both axes, in pixels.
 * @param {number} sy
 * @param {number} correlation of both axes, y upwards.
 * @returns {{ a: number, b: number, angle: number }}
 */
function semiAxes(sx, sy, correlation) {
  if (!correlation) return { a: sx, b: sy, angle: 0 };
  const half = (sx * sx - sy * sy) / 2, mean = (sx * sx + sy * sy) / 2;
  const covariance = correlation * sx * sy, root = Math.hypot(half, covariance);
  return {
    a: Math.sqrt(mean + root), b: Math.sqrt(Math.max(mean - root, 0)),
    angle: -Math.atan2(covariance, half) / 2,
  };
}

/**
 * The heatmap as a picture, one pixel a cell.
 *
 * @param {Heat} heat
 * @param {Float32Array} values of the cells, lowest y first.
 * @returns {HTMLCanvasElement}
 */
function heatmapImage(heat, values) {
  const n = heat.size, canvas = document.createElement("canvas");
  canvas.width = canvas.height = n;
  const context = context2d(canvas), image = context.createImageData(n, n);
  const [low, high] = heat.limits, last = heat.ramp.length - 1;
  values.forEach((value, i) => {
    const share = Math.min(Math.max((value - low) / (high - low || 1), 0), 1);
    const [column, row] = [i % n, Math.floor(i / n)], offset = 4 * ((n - 1 - row) * n + column);
    image.data.set([...heat.ramp[Math.round(share * last)], 255], offset);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Draw a picture over a region of the map.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Scale} scale
 * @param {HTMLCanvasElement | HTMLImageElement} image
 * @param {number} inset pixels of the picture that are cut off at each side.
 * @param {[AxisRange, AxisRange]} ranges that the rest covers, in data units.
 */
function drawPicture(context, { toX, toY }, image, inset, [[x0, x1], [y0, y1]]) {
  const [x, y] = [toX(x0), toY(y1)];
  const [w, h] = [image.width - 2 * inset, image.height - 2 * inset];
  context.drawImage(image, inset, inset, w, h, x, y, toX(x1) - x, toY(y0) - y);
}

/**
 * Draw the contour lines of the heatmap, the longest one of each value with its number.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Contour[]} contours
 * @param {Scale} scale
 * @param {Ink} colours
 */
function drawContours(context, contours, { toX, toY }, colours) {
  /** @type {Map<string, Point[]>} */
  const longest = new Map();
  context.strokeStyle = colours.text;
  context.lineWidth = 0.8;
  context.globalAlpha = 0.55;
  for (const { x, y, text } of contours) {
    /** @type {Point[]} */
    const line = x.map((one, i) => [toX(one), toY(y[i])]);
    context.beginPath();
    addLine(context, line);
    context.stroke();
    if (line.length > (longest.get(text)?.length ?? 0)) longest.set(text, line);
  }
  context.globalAlpha = 1;
  context.font = "11px Inter, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  for (const [text, line] of longest) {
    if (line.length < 6) continue; // too short for its number
    const [x, y] = line[Math.floor(line.length / 2)];
    context.strokeStyle = colours.panel;
    context.lineWidth = 3;
    context.strokeText(text, x, y);
    context.fillStyle = colours.text;
    context.fillText(text, x, y);
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Curve} curve
 * @param {Scale} scale
 * @param {Ink} colours
 */
function drawCurve(context, curve, { toX, toY }, colours) {
  context.beginPath();
  addLine(context, curve.x.map((x, i) => [toX(x), toY(curve.y[i])]));
  context.lineJoin = "round";
  /** @type {[string, number][]} */
  const strokes = [[colours.panel, 5], [colours.text, 2.2]];
  for (const [colour, width] of strokes) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke();
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Point[]} polygon in data units.
 * @param {Scale} scale
 * @param {string} colour
 */
function drawPolygon(context, polygon, { toX, toY }, colour) {
  context.beginPath();
  addLine(context, polygon.map(([x, y]) => [toX(x), toY(y)]));
  context.closePath();
  context.strokeStyle = colour;
  context.lineWidth = 1.4;
  context.setLineDash([3, 3]);
  context.stroke();
  context.setLineDash([]);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {{ text: string, x: number, y: number }} mark
 * @param {Scale} scale
 * @param {Ink} colours
 */
function drawLetter(context, mark, { toX, toY }, colours) {
  const [x, y] = [toX(mark.x), toY(mark.y)];
  context.beginPath();
  context.arc(x, y, 10, 0, 2 * Math.PI);
  context.fillStyle = colours.text;
  context.fill();
  context.fillStyle = colours.panel;
  context.font = "600 12px Inter, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(mark.text, x, y + 0.5);
}

/**
 * Draw the inducing inputs of all paths.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {DecodedScene} scene
 * @param {Scale} scale
 */
function drawInducing(context, scene, { toX, toY }) {
  for (const path of scene.inducing) {
    path.x.forEach((x, i) => {
      markerPath(context, path.shape, toX(x), toY(path.y[i]), 4);
      context.fillStyle = scene.ink.text;
      context.strokeStyle = scene.ink.panel;
      context.lineWidth = 1;
      context.fill();
      context.stroke();
    });
  }
}

/**
 * Load a sheet of pictures.
 *
 * @param {PictureSheet} sheet
 * @returns {Promise<LoadedPictures>}
 */
async function loadPictures(sheet) {
  const content = new Blob([await rowFile(sheet.address)], { type: "image/png" });
  /** @type {Map<number, number>} */
  const places = new Map();
  decodeArray(sheet.rows, Uint32Array).forEach((row, place) => places.set(row, place));
  return { sheet, bitmap: await createImageBitmap(content), places };
}

/**
 * Draw pictures over the markers of their rows, each unless it would overlap an earlier one, with
 * a frame in the colour of the row. Those of selected rows come first.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {DecodedScene} scene
 * @param {LoadedPictures} loaded
 * @param {Scale} scale
 * @param {Set<number>} hidden codes of the hidden looks.
 */
function drawPictures(context, scene, { sheet, bitmap, places }, { box, toX, toY }, hidden) {
  const { columns, width, height } = sheet, unit = PICTURE_SIDE / Math.max(width, height);
  const [w, h] = [width * unit, height * unit], [wide, high] = [w + PICTURE_GAP, h + PICTURE_GAP];
  /** Centres of the drawn pictures, by the cell that they are in. @type {Map<string, Point>} */
  const taken = new Map();
  /** @type {(x: number, y: number, column: number, row: number) => boolean} */
  const overlaps = (x, y, column, row) => {
    for (let i = column - 1; i <= column + 1; i++) {
      for (let j = row - 1; j <= row + 1; j++) {
        const other = taken.get(`${i} ${j}`);
        if (other && Math.abs(other[0] - x) < wide && Math.abs(other[1] - y) < high) return true;
      }
    }
    return false;
  };
  context.imageSmoothingEnabled = false;
  context.lineWidth = 2;
  for (const pass of scene.selected ? [1, 0] : [null]) {
    context.globalAlpha = pass === 0 ? UNSELECTED_OPACITY : 1;
    for (let i = 0; i < scene.n; i++) {
      const place = places.get(scene.number[i]);
      if (place === undefined || hidden.has(scene.code[i])) continue;
      if (scene.selected && scene.selected[i] !== pass) continue;
      const x = toX(scene.px[i]), y = toY(scene.py[i]);
      if (x < box.x || x > box.x + box.w || y < box.y || y > box.y + box.h) continue;
      const column = Math.floor(x / wide), row = Math.floor(y / high);
      if (overlaps(x, y, column, row)) continue;
      taken.set(`${column} ${row}`, [x, y]);
      const left = (place % columns) * width, top = Math.floor(place / columns) * height;
      context.drawImage(bitmap, left, top, width, height, x - w / 2, y - h / 2, w, h);
      context.strokeStyle = scene.looks[scene.code[i]].colour;
      context.strokeRect(x - w / 2, y - h / 2, w, h);
    }
  }
  context.globalAlpha = 1;
  context.imageSmoothingEnabled = true;
}

/**
 * Draw the names of groups of rows, each unless it would overlap an earlier one. A zoom separates
 * them, so that more appear.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {GroupLabel[]} labels
 * @param {Scale} scale
 * @param {Set<number>} hidden codes of the hidden looks.
 * @param {Ink} colours
 */
function drawGroupLabels(context, labels, { box, toX, toY }, hidden, colours) {
  /** @type {Box[]} */
  const taken = [];
  context.font = "600 13px Inter, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  for (const { text, x, y, code } of labels) {
    const w = context.measureText(text).width + 6, h = 18;
    const [cx, cy] = [toX(x), toY(y)];
    const inside = cx > box.x && cx < box.x + box.w && cy > box.y && cy < box.y + box.h;
    const left = Math.min(Math.max(cx - w / 2, box.x), box.x + box.w - w);
    const top = Math.min(Math.max(cy - h / 2, box.y), box.y + box.h - h);
    const overlaps = taken.some((one) =>
      left < one.x + one.w && one.x < left + w && top < one.y + one.h && one.y < top + h);
    if (!inside || overlaps || hidden.has(code)) continue;
    taken.push({ x: left, y: top, w, h });
    context.strokeStyle = colours.panel;
    context.lineWidth = 4;
    context.strokeText(text, left + w / 2, top + h / 2);
    context.fillStyle = colours.text;
    context.fillText(text, left + w / 2, top + h / 2);
  }
}

/**
 * Draw a ring around a point: filled around the selected one, open around the hovered row.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {number} x in pixels.
 * @param {number} y
 * @param {boolean} filled
 */
function drawRing(context, colours, x, y, filled) {
  context.beginPath();
  context.arc(x, y, filled ? MARKED_DIAMETER / 2 : MARKED_DIAMETER / 2 - 1, 0, 2 * Math.PI);
  context.fillStyle = colours.text;
  if (filled) context.fill();
  context.strokeStyle = filled ? colours.panel : colours.text;
  context.lineWidth = 1.5;
  context.stroke();
}

/**
 * Draw the cursor: two lines through the plot area, dashed while the cursor follows the mouse.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {Box} box the plot area.
 * @param {number} x in pixels.
 * @param {number} y
 * @param {boolean} fixed
 */
function drawCursor(context, colours, box, x, y, fixed) {
  context.strokeStyle = colours.text;
  context.lineWidth = 1;
  context.setLineDash(fixed ? [] : [3, 3]);
  context.globalAlpha = 0.6;
  context.beginPath();
  context.moveTo(box.x, y);
  context.lineTo(box.x + box.w, y);
  context.moveTo(x, box.y);
  context.lineTo(x, box.y + box.h);
  context.stroke();
  context.globalAlpha = 1;
  context.setLineDash([]);
  context.beginPath();
  context.arc(x, y, 7, 0, 2 * Math.PI);
  context.lineWidth = 2.5;
  context.strokeStyle = colours.accent;
  context.fillStyle = colours.panel;
  context.fill();
  context.stroke();
}

/**
 * Draw the frame of the plot area and, where the axes have titles, ticks and titles.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {DecodedScene} scene
 * @param {View} view
 * @param {Scale} scale
 */
function drawAxes(context, scene, view, { box, toX, toY }) {
  context.strokeStyle = scene.ink.hairline;
  context.lineWidth = 1;
  context.strokeRect(box.x, box.y, box.w, box.h);
  if (!scene.titles) return;
  context.font = "12px Inter, sans-serif";
  context.fillStyle = scene.ink.muted;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const v of ticks(view.x)) context.fillText(formatNumber(v), toX(v), box.y + box.h + 5);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const v of ticks(view.y)) context.fillText(formatNumber(v), box.x - 5, toY(v));
  context.font = "13px Inter, sans-serif";
  context.fillStyle = scene.ink.text;
  context.textAlign = "center";
  context.textBaseline = "bottom";
  context.fillText(scene.titles[0], box.x + box.w / 2, scene.height - 2);
  context.save();
  context.translate(13, box.y + box.h / 2);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "middle";
  context.fillText(scene.titles[1], 0, 0);
  context.restore();
}
