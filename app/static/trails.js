// Rows on their way from one map to another, with a slider for how far they are: see app/moving.py.
const MARGIN = 10;
const NEAR = 14; // pixels within which a row is pointed at
const SECONDS = 1.6; // of the way when it is played
const views = new WeakMap();

export default function (component) {
  const { parentElement, data } = component;
  let view = views.get(parentElement);
  if (!view) {
    view = create(parentElement);
    views.set(parentElement, view);
  }
  view.show(data);
  return () => {
    view.close();
    views.delete(parentElement);
  };
}

function create(parent) {
  const box = made("div", parent, "position:relative;font-family:Inter,sans-serif;font-size:13px");
  const canvas = made("canvas", box), pen = canvas.getContext("2d");
  canvas.setAttribute("role", "img");
  const bar = made("div", box, "display:flex;gap:12px;align-items:center;padding-top:8px");
  const play = made("button", bar), from = made("span", bar), slider = made("input", bar);
  const to = made("span", bar);
  play.type = "button";
  Object.assign(slider, { type: "range", min: 0, max: 100, step: 1, value: 0 });
  for (const end of [from, to]) {
    end.style.cssText =
      "max-width:28%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;unicode-bidi:isolate";
  }
  let data = null, width = 0, at = null, frame = 0;

  function place() {
    const [x, y] = [data.x, data.y], inner = width - 2 * MARGIN, high = data.height - 2 * MARGIN;
    const scale = Math.min(inner / (x[1] - x[0]), high / (y[1] - y[0]));
    const left = MARGIN + (inner - scale * (x[1] - x[0])) / 2;
    const top = MARGIN + (high - scale * (y[1] - y[0])) / 2;
    return (a, b) => [left + scale * (a - x[0]), top + scale * (y[1] - b)];
  }

  function rows() {
    const t = Number(slider.value) / 100, put = place(), { x0, y0, x1, y1 } = data.trails;
    return x0.map((_, i) => ({
      now: put(x0[i] + t * (x1[i] - x0[i]), y0[i] + t * (y1[i] - y0[i])),
      start: put(x0[i], y0[i]),
      end: put(x1[i], y1[i]),
    }));
  }

  function draw() {
    if (!data || !width) return;
    const ratio = window.devicePixelRatio || 1, found = rows(), put = place();
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(data.height * ratio);
    pen.scale(ratio, ratio);
    pen.fillStyle = data.ink.panel;
    pen.fillRect(0, 0, width, data.height);
    pen.globalAlpha = 0.16;
    data.others.x.forEach((x, i) => {
      dot(put(x, data.others.y[i]), data.looks[data.others.c[i]], data.radius * 0.8);
    });
    found.forEach((row, i) => trail(row, data.looks[data.trails.c[i]].colour, i === at));
    pen.globalAlpha = 0.95;
    found.forEach((row, i) => dot(row.now, data.looks[data.trails.c[i]], data.radius));
    pen.globalAlpha = 1;
    if (at !== null) label(found[at].now, data.trails.name[at]);
  }

  function trail(row, colour, bold) {
    const [[a, b], [c, d]] = [row.start, row.end], far = Math.hypot(c - a, d - b);
    pen.globalAlpha = bold ? 1 : 0.6;
    pen.strokeStyle = pen.fillStyle = bold ? data.ink.text : colour;
    pen.lineWidth = bold ? 2 : 1.1;
    pen.beginPath();
    pen.moveTo(a, b);
    pen.lineTo(c, d);
    pen.stroke();
    if (far < 4) return;
    const [u, v] = [(c - a) / far, (d - b) / far], size = Math.min(7, far);
    pen.beginPath();
    pen.moveTo(c, d);
    pen.lineTo(c - size * u - 0.5 * size * v, d - size * v + 0.5 * size * u);
    pen.lineTo(c - size * u + 0.5 * size * v, d - size * v - 0.5 * size * u);
    pen.closePath();
    pen.fill();
  }

  function dot([x, y], look, radius) {
    const hollow = look.shape === "circle-open";
    outline(pen, look.shape, x, y, radius);
    pen.fillStyle = look.colour;
    pen.strokeStyle = hollow ? look.colour : data.ink.panel;
    pen.lineWidth = hollow ? 1.4 : 0.7;
    if (!hollow) pen.fill();
    pen.stroke();
  }

  function label([x, y], lines) {
    pen.font = "12px Inter, sans-serif";
    const wide = Math.max(...lines.map((line) => pen.measureText(line).width)) + 16;
    const high = 16 * lines.length + 10;
    const left = Math.max(2, Math.min(x + 12, width - wide - 2));
    const top = Math.max(2, y - high - 10 < 2 ? y + 12 : y - high - 10);
    pen.fillStyle = data.ink.panel;
    pen.strokeStyle = data.ink.muted;
    pen.lineWidth = 1;
    pen.fillRect(left, top, wide, high);
    pen.strokeRect(left, top, wide, high);
    pen.fillStyle = data.ink.text;
    pen.textBaseline = "top";
    lines.forEach((line, i) => {
      pen.font = `${i ? "" : "600 "}12px Inter, sans-serif`;
      pen.fillText(line, left + 8, top + 7 + 16 * i);
    });
  }

  function said() {
    slider.setAttribute("aria-valuetext", `${slider.value} % of the way`);
  }

  function put(percent) {
    slider.value = percent;
    said();
    draw();
  }

  function stop() {
    window.cancelAnimationFrame(frame);
    frame = 0;
    play.textContent = "Play";
  }

  play.addEventListener("click", () => {
    if (frame) return stop();
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) {
      return put(Number(slider.value) < 50 ? 100 : 0);
    }
    const first = Number(slider.value) > 99 ? 0 : Number(slider.value), began = performance.now();
    play.textContent = "Pause";
    const step = (now) => {
      const percent = first + (100 * Math.max(0, now - began)) / (1000 * SECONDS);
      put(Math.min(100, percent));
      if (percent >= 100) return stop();
      frame = window.requestAnimationFrame(step);
    };
    frame = window.requestAnimationFrame(step);
  });
  slider.addEventListener("input", () => {
    stop();
    said();
    draw();
  });
  canvas.addEventListener("pointermove", (event) => {
    const area = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    let [nearest, least] = [null, NEAR];
    rows().forEach((row, i) => {
      const far = Math.hypot(row.now[0] - x, row.now[1] - y);
      if (far < least) [nearest, least] = [i, far];
    });
    if (nearest === at) return;
    at = nearest;
    draw();
  });
  canvas.addEventListener("pointerleave", () => {
    at = null;
    draw();
  });

  const host = () => box.parentNode.host ?? box.parentNode;
  const sizes = new ResizeObserver(() => {
    if (!data || host().clientWidth === width) return;
    width = host().clientWidth;
    draw();
  });

  return {
    show(next) {
      const another = !data || next.turn !== data.turn;
      data = next;
      at = null; // other rows may have trails now
      canvas.setAttribute("aria-label", data.alt);
      canvas.style.cssText =
        `display:block;width:100%;height:${data.height}px;box-sizing:border-box;` +
        `border:1px solid ${data.ink.hairline};border-radius:6px`;
      box.style.color = data.ink.text;
      [from.textContent, to.textContent] = data.ends;
      [from.title, to.title] = data.ends;
      slider.setAttribute("aria-label", data.slider);
      slider.title = data.slider;
      slider.style.cssText = `flex:1;min-width:60px;height:28px;accent-color:${data.ink.accent}`;
      play.title = "Moves the rows from the first map to the second";
      play.style.cssText =
        `min-width:64px;height:32px;border-radius:6px;border:1px solid ${data.ink.muted};` +
        `background:${data.ink.panel};color:${data.ink.text};font:inherit;cursor:pointer`;
      if (another) {
        stop();
        slider.value = 0;
      }
      said();
      sizes.observe(host());
      width = host().clientWidth || width;
      draw();
    },
    close() {
      stop();
      sizes.disconnect();
      box.remove();
    },
  };
}

function made(tag, parent, style = "") {
  const element = document.createElement(tag);
  element.style.cssText = style;
  parent.appendChild(element);
  return element;
}

function outline(pen, shape, x, y, r) {
  const corners = {
    diamond: [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]],
    square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    "triangle-up": [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]],
  }[shape];
  pen.beginPath();
  if (!corners) {
    pen.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  corners.forEach(([a, b], i) => pen[i ? "lineTo" : "moveTo"](x + a * r, y + b * r));
  pen.closePath();
}
