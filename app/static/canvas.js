// What the map is drawn with: numbers from the server, scales, ticks, markers. See app/canvas.py.
const MARGIN = { left: 30, right: 10, top: 10, bottom: 40 }; // on the left, besides the numbers
const BARE = { left: 6, right: 6, top: 6, bottom: 6 };
const SURE = 0.95, FAINT = 0.25; // opacity of rows, and of those outside a selection
const GROWN = 15; // diameter of the marked row, in pixels

// Arrays come as base64 of their bytes: a third of what they are as text, and no parsing.
function numbers(text, Kind) {
  if (text === null || text === undefined) return null;
  const raw = Uint8Array.fromBase64
    ? Uint8Array.fromBase64(text)
    : Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  return new Kind(raw.buffer);
}

function unpacked(scene) {
  const p = scene.points;
  return {
    ...scene,
    n: p.n,
    px: numbers(p.x, Float32Array), py: numbers(p.y, Float32Array),
    number: numbers(p.number, Uint32Array), code: numbers(p.code, Uint8Array),
    selected: numbers(p.selected, Uint8Array), size: numbers(p.size, Float32Array),
    symbol: numbers(p.symbol, Uint8Array),
    sx: numbers(p.sx, Float32Array), sy: numbers(p.sy, Float32Array),
    heatValue: scene.heat && numbers(scene.heat.value, Float32Array),
  };
}

function corners(shape) {
  return {
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
  }[shape];
}

function outline(ink, shape, x, y, r) {
  const edge = corners(shape);
  ink.beginPath();
  if (!edge) {
    ink.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  edge.forEach(([a, b], i) => ink[i ? "lineTo" : "moveTo"](x + a * r, y + b * r));
  ink.closePath();
}

// Rows are stamped: a marker of a kind is drawn once, and then copied.
function stamps(panel, ratio) {
  const made = new Map();
  return (colour, shape, hollow, r) => {
    const name = `${colour} ${shape} ${hollow} ${r}`;
    let found = made.get(name);
    if (!found) {
      const side = Math.ceil(2 * (1.5 * r + 2) * ratio);
      found = document.createElement("canvas");
      found.width = found.height = side;
      const ink = found.getContext("2d");
      ink.scale(ratio, ratio);
      outline(ink, shape, side / ratio / 2, side / ratio / 2, r);
      ink.fillStyle = colour;
      ink.strokeStyle = hollow ? colour : panel;
      ink.lineWidth = hollow ? 1.4 : r >= 3 ? 0.7 : 0.25;
      if (!hollow) ink.fill();
      ink.stroke();
      made.set(name, found);
    }
    return found;
  };
}

function drawRows(ink, scene, across, up, hidden, ratio, box) {
  if (scene.stampsFor !== ratio) [scene.stamp, scene.stampsFor] = [stamps(scene.ink.panel, ratio), ratio];
  const { stamp, px, py, code, selected } = scene;
  const passes = selected ? [0, 1] : [null];
  for (const pass of passes) {
    ink.globalAlpha = pass === 0 ? FAINT : SURE;
    for (let i = 0; i < scene.n; i++) {
      if ((pass !== null && selected[i] !== pass) || hidden.has(code[i])) continue;
      const x = across(px[i]), y = up(py[i]);
      if (x < box.x - 9 || x > box.x + box.w + 9 || y < box.y - 9 || y > box.y + box.h + 9) continue;
      const look = scene.looks[code[i]], hollow = look.shape === "circle-open";
      const shape = scene.symbol ? scene.symbols[scene.symbol[i]] : hollow ? "circle" : look.shape;
      const r = scene.size ? Math.round(2 * scene.size[i]) / 4 : scene.radius;
      const marker = stamp(look.colour, shape, hollow, r), side = marker.width / ratio;
      ink.drawImage(marker, x - side / 2, y - side / 2, side, side);
    }
  }
  ink.globalAlpha = 1;
}

function drawEllipses(ink, scene, across, up, hidden) {
  if (!scene.sx) return;
  const wide = across(1) - across(0), high = up(0) - up(1);
  ink.strokeStyle = scene.ink.text;
  ink.lineWidth = 0.7;
  for (const [pass, opacity] of scene.selected ? [[0, 0.08], [1, 0.45]] : [[null, 0.3]]) {
    ink.globalAlpha = opacity;
    ink.beginPath();
    for (let i = 0; i < scene.n; i++) {
      if (Number.isNaN(scene.sx[i]) || hidden.has(scene.code[i])) continue;
      if (pass !== null && scene.selected[i] !== pass) continue;
      const x = across(scene.px[i]), y = up(scene.py[i]);
      const a = scene.ellipse * scene.sx[i] * wide, b = scene.ellipse * scene.sy[i] * high;
      ink.moveTo(x + a, y);
      ink.ellipse(x, y, a, b, 0, 0, 2 * Math.PI);
    }
    ink.stroke();
  }
  ink.globalAlpha = 1;
}

function heatPicture(scene) {
  const n = scene.heat.size, small = document.createElement("canvas");
  small.width = small.height = n;
  const pen = small.getContext("2d"), image = pen.createImageData(n, n);
  const [low, high] = scene.heat.limits, last = scene.heat.ramp.length - 1;
  scene.heatValue.forEach((value, i) => {
    const share = Math.min(Math.max((value - low) / (high - low || 1), 0), 1);
    const [column, row] = [i % n, Math.floor(i / n)], to = 4 * ((n - 1 - row) * n + column);
    image.data.set([...scene.heat.ramp[Math.round(share * last)], 255], to);
  });
  pen.putImageData(image, 0, 0);
  return small;
}

function drawCurve(ink, curve, across, up, colours) {
  ink.beginPath();
  curve.x.forEach((x, i) => ink[i ? "lineTo" : "moveTo"](across(x), up(curve.y[i])));
  ink.lineJoin = "round";
  for (const [colour, line] of [[colours.panel, 5], [colours.text, 2.2]]) {
    ink.strokeStyle = colour;
    ink.lineWidth = line;
    ink.stroke();
  }
}

function drawOutline(ink, polygon, across, up, colour) {
  ink.beginPath();
  polygon.forEach(([x, y], i) => ink[i ? "lineTo" : "moveTo"](across(x), up(y)));
  ink.closePath();
  ink.strokeStyle = colour;
  ink.lineWidth = 1.4;
  ink.setLineDash([3, 3]);
  ink.stroke();
  ink.setLineDash([]);
}

function drawLetter(ink, mark, across, up, colours) {
  const [x, y] = [across(mark.x), up(mark.y)];
  ink.beginPath();
  ink.arc(x, y, 10, 0, 2 * Math.PI);
  ink.fillStyle = colours.text;
  ink.fill();
  ink.fillStyle = colours.panel;
  ink.font = "600 12px Inter, sans-serif";
  ink.textAlign = "center";
  ink.textBaseline = "middle";
  ink.fillText(mark.text, x, y + 0.5);
}

function drawAxes(ink, scene, view, box, across, up) {
  ink.strokeStyle = scene.ink.hairline;
  ink.lineWidth = 1;
  ink.strokeRect(box.x, box.y, box.w, box.h);
  if (!scene.titles) return;
  ink.font = "12px Inter, sans-serif";
  ink.fillStyle = scene.ink.muted;
  ink.textAlign = "center";
  ink.textBaseline = "top";
  for (const v of ticks(view.x)) ink.fillText(written(v), across(v), box.y + box.h + 5);
  ink.textAlign = "right";
  ink.textBaseline = "middle";
  for (const v of ticks(view.y)) ink.fillText(written(v), box.x - 5, up(v));
  ink.font = "13px Inter, sans-serif";
  ink.fillStyle = scene.ink.text;
  ink.textAlign = "center";
  ink.textBaseline = "bottom";
  ink.fillText(scene.titles[0], box.x + box.w / 2, scene.height - 2);
  ink.save();
  ink.translate(13, box.y + box.h / 2);
  ink.rotate(-Math.PI / 2);
  ink.textBaseline = "middle";
  ink.fillText(scene.titles[1], 0, 0);
  ink.restore();
}

function ticks([low, high]) {
  const rough = (high - low) / 7, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; i++) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}

// How much room the numbers of the upright axis take.
function widest(ink, range) {
  ink.font = "12px Inter, sans-serif";
  return Math.ceil(Math.max(...ticks(range).map((v) => ink.measureText(written(v)).width)));
}

const middle = ([low, high]) => (low + high) / 2;
const written = (v) => String(Number(v.toPrecision(6))).replace("-", "\u2212");
const clip = (v, [low, high]) => Math.min(Math.max(v, low), high);
