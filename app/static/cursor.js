// A map of rows with a cursor that tells the server where it is: see app/cursor.py.
const SEND_EVERY_MS = 80; // the server needs about as long for an answer
const STEP = 1 / 60; // of the map's width, for an arrow key
const MARGIN = { left: 46, right: 10, top: 10, bottom: 40 };
const maps = new WeakMap();

export default function (component) {
  const { parentElement, data, setStateValue } = component;
  let map = maps.get(parentElement);
  if (!map) {
    map = create(parentElement);
    maps.set(parentElement, map);
  }
  map.send = (at) => setStateValue("at", at);
  map.show(data);
  return () => {
    map.close();
    maps.delete(parentElement);
  };
}

function create(parent) {
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  parent.appendChild(canvas);
  const pen = canvas.getContext("2d");
  let data = null, ground = null, width = 0, at = null, held = false, sent = 0, timer = 0;

  const plot = () => ({
    x: MARGIN.left, y: MARGIN.top,
    w: width - MARGIN.left - MARGIN.right, h: data.height - MARGIN.top - MARGIN.bottom,
  });
  const across = (v) => plot().x + ((v - data.x[0]) / (data.x[1] - data.x[0])) * plot().w;
  const up = (v) => plot().y + (1 - (v - data.y[0]) / (data.y[1] - data.y[0])) * plot().h;

  function layer() {
    const ratio = window.devicePixelRatio || 1;
    const made = document.createElement("canvas");
    made.width = Math.round(width * ratio);
    made.height = Math.round(data.height * ratio);
    const ink = made.getContext("2d");
    ink.scale(ratio, ratio);
    return [made, ink];
  }

  // What does not follow the cursor is drawn once, and again when it changes.
  function drawGround() {
    const [made, ink] = layer(), box = plot();
    ink.fillStyle = data.ink.panel;
    ink.fillRect(box.x, box.y, box.w, box.h);
    if (data.heat) drawHeat(ink, box);
    ink.save();
    ink.beginPath();
    ink.rect(box.x, box.y, box.w, box.h);
    ink.clip();
    data.points.x.forEach((x, i) => {
      const look = data.looks[data.points.c[i]], hollow = look.shape === "circle-open";
      ink.globalAlpha = data.points.s && !data.points.s[i] ? 0.18 : 0.95;
      outline(ink, look.shape, across(x), up(data.points.y[i]), data.radius);
      ink.fillStyle = look.colour;
      ink.strokeStyle = hollow ? look.colour : data.ink.panel;
      ink.lineWidth = hollow ? 1.4 : 0.7;
      if (!hollow) ink.fill();
      ink.stroke();
    });
    ink.globalAlpha = 1;
    if (data.path) drawPath(ink);
    for (const mark of data.marks) drawMark(ink, mark);
    ink.restore();
    drawAxes(ink, box);
    ground = made;
  }

  function drawHeat(ink, box) {
    const n = data.heat.size, small = document.createElement("canvas");
    small.width = small.height = n;
    const image = small.getContext("2d").createImageData(n, n);
    data.heat.value.forEach((level, i) => {
      const [column, row] = [i % n, Math.floor(i / n)], to = 4 * ((n - 1 - row) * n + column);
      image.data.set([...data.heat.ramp[level], 255], to);
    });
    small.getContext("2d").putImageData(image, 0, 0);
    ink.imageSmoothingEnabled = true;
    ink.drawImage(small, 0.5, 0.5, n - 1, n - 1, box.x, box.y, box.w, box.h);
  }

  function drawPath(ink) {
    ink.beginPath();
    data.path.x.forEach((x, i) => ink[i ? "lineTo" : "moveTo"](across(x), up(data.path.y[i])));
    for (const [colour, line] of [[data.ink.panel, 5], [data.ink.text, 2.2]]) {
      ink.strokeStyle = colour;
      ink.lineWidth = line;
      ink.lineJoin = "round";
      ink.stroke();
    }
  }

  function drawMark(ink, mark) {
    const [x, y] = [across(mark.x), up(mark.y)];
    ink.beginPath();
    ink.arc(x, y, 10, 0, 2 * Math.PI);
    ink.fillStyle = data.ink.text;
    ink.fill();
    ink.fillStyle = data.ink.panel;
    ink.font = "600 12px Inter, sans-serif";
    ink.textAlign = "center";
    ink.textBaseline = "middle";
    ink.fillText(mark.text, x, y + 0.5);
  }

  function drawAxes(ink, box) {
    ink.strokeStyle = data.ink.hairline;
    ink.lineWidth = 1;
    ink.strokeRect(box.x, box.y, box.w, box.h);
    ink.font = "12px Inter, sans-serif";
    ink.fillStyle = data.ink.muted;
    ink.textAlign = "center";
    ink.textBaseline = "top";
    for (const v of ticks(data.x)) ink.fillText(written(v), across(v), box.y + box.h + 5);
    ink.textAlign = "right";
    ink.textBaseline = "middle";
    for (const v of ticks(data.y)) ink.fillText(written(v), box.x - 5, up(v));
    ink.font = "13px Inter, sans-serif";
    ink.fillStyle = data.ink.text;
    ink.textAlign = "center";
    ink.textBaseline = "bottom";
    ink.fillText(data.titles[0], box.x + box.w / 2, data.height - 2);
    ink.save();
    ink.translate(13, box.y + box.h / 2);
    ink.rotate(-Math.PI / 2);
    ink.textBaseline = "middle";
    ink.fillText(data.titles[1], 0, 0);
    ink.restore();
  }

  function draw() {
    if (!data || !width) return;
    if (!ground) drawGround();
    const [made, ink] = layer(), box = plot();
    ink.drawImage(ground, 0, 0, width, data.height);
    if (at) {
      const [x, y] = [across(at[0]), up(at[1])];
      ink.strokeStyle = data.ink.text;
      ink.lineWidth = 1;
      ink.setLineDash(held ? [] : [3, 3]);
      ink.globalAlpha = 0.6;
      ink.beginPath();
      ink.moveTo(box.x, y); ink.lineTo(box.x + box.w, y);
      ink.moveTo(x, box.y); ink.lineTo(x, box.y + box.h);
      ink.stroke();
      ink.globalAlpha = 1;
      ink.setLineDash([]);
      ink.beginPath();
      ink.arc(x, y, 7, 0, 2 * Math.PI);
      ink.lineWidth = 2.5;
      ink.strokeStyle = data.ink.accent;
      ink.fillStyle = data.ink.panel;
      ink.fill();
      ink.stroke();
    }
    canvas.width = made.width;
    canvas.height = made.height;
    pen.drawImage(made, 0, 0);
  }

  function tell() {
    window.clearTimeout(timer);
    const wait = sent + SEND_EVERY_MS - performance.now();
    if (wait > 0) {
      timer = window.setTimeout(tell, wait);
      return;
    }
    sent = performance.now();
    map.send({ x: at[0], y: at[1], held, turn: data.turn });
  }

  function move(x, y) {
    const clip = (v, [low, high]) => Math.min(Math.max(v, low), high);
    at = [clip(x, data.x), clip(y, data.y)];
    draw();
    tell();
  }

  function pointed(event) {
    const box = canvas.getBoundingClientRect(), area = plot();
    const a = (event.clientX - box.left - area.x) / area.w;
    const b = 1 - (event.clientY - box.top - area.y) / area.h;
    if (a < 0 || a > 1 || b < 0 || b > 1) return null;
    return [data.x[0] + a * (data.x[1] - data.x[0]), data.y[0] + b * (data.y[1] - data.y[0])];
  }

  canvas.addEventListener("pointermove", (event) => {
    const place = pointed(event);
    canvas.style.cursor = place ? "crosshair" : "default";
    if (place && !held) move(...place);
  });
  canvas.addEventListener("click", (event) => {
    const place = pointed(event);
    if (!place) return;
    held = !held;
    move(...(held ? place : at));
  });
  canvas.addEventListener("keydown", (event) => {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const way = ways[event.key];
    if (!way) return;
    event.preventDefault();
    held = true;
    const far = (event.shiftKey ? 6 : 1) * STEP, from = at ?? [middle(data.x), middle(data.y)];
    move(from[0] + way[0] * far * (data.x[1] - data.x[0]), from[1] + way[1] * far * (data.y[1] - data.y[0]));
  });

  const sizes = new ResizeObserver(() => {
    const found = canvas.parentNode.host ?? canvas.parentNode;
    if (!data || found.clientWidth === width) return;
    width = found.clientWidth;
    ground = null;
    draw();
  });

  const map = {
    send: () => {},
    show(next) {
      const same = data && JSON.stringify(next) === JSON.stringify(data);
      const moved = !data || next.turn !== data.turn;
      data = next;
      canvas.setAttribute("aria-label", data.alt);
      canvas.style.cssText = `display:block;width:100%;height:${data.height}px;touch-action:none`;
      if (moved) [at, held] = [data.at, false];
      const host = canvas.parentNode.host ?? canvas.parentNode;
      sizes.observe(host);
      if (!width) width = host.clientWidth;
      if (!same) ground = null;
      draw();
    },
    close() {
      window.clearTimeout(timer);
      sizes.disconnect();
      canvas.remove();
    },
  };
  return map;
}

function outline(ink, shape, x, y, r) {
  const corners = {
    diamond: [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]],
    square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    "triangle-up": [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]],
  }[shape];
  ink.beginPath();
  if (!corners) {
    ink.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  corners.forEach(([a, b], i) => ink[i ? "lineTo" : "moveTo"](x + a * r, y + b * r));
  ink.closePath();
}

const middle = ([low, high]) => (low + high) / 2;
const written = (v) => String(Number(v.toPrecision(6))).replace("-", "−");

function ticks([low, high]) {
  const rough = (high - low) / 7, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * step; v += step) {
    found.push(Number(v.toPrecision(12)));
  }
  return found;
}
