// Rows that move from their positions on one map to those on another, with a slider. The server
// joins markers.js and this file to one module. The types are in types.d.ts.
const MARGIN = 10;
const HOVER_DISTANCE = 14; // from a row, in pixels, within which it is hovered
const PLAY_SECONDS = 1.6; // of the animation from the first map to the second
/** @type {WeakMap<HTMLElement | ShadowRoot, ReturnType<typeof createTrails>>} */
const views = new WeakMap();

/**
 * The entry point of the Streamlit component, called at every rerun of the page.
 *
 * @param {Component<Trajectories>} component
 * @returns {() => void} removes the view.
 */
export default function (component) {
  const { parentElement, data } = component;
  const view = views.get(parentElement) ?? createTrails(parentElement);
  views.set(parentElement, view);
  view.show(data);
  return () => {
    view.close();
    views.delete(parentElement);
  };
}

/**
 * Create the canvas and its controls inside an element.
 *
 * @param {HTMLElement | ShadowRoot} parent
 */
function createTrails(parent) {
  const root = styledElement("div", parent, "position:relative;font-family:Inter,sans-serif;font-size:13px");
  const canvas = styledElement("canvas", root), context = context2d(canvas);
  canvas.setAttribute("role", "img");
  const bar = styledElement("div", root, "display:flex;gap:12px;align-items:center;padding-top:8px");
  const play = styledElement("button", bar), first = styledElement("span", bar);
  const slider = styledElement("input", bar), second = styledElement("span", bar);
  play.type = "button";
  Object.assign(slider, { type: "range", min: 0, max: 100, step: 1, value: 0 });
  for (const end of [first, second]) {
    end.style.cssText =
      "max-width:28%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;unicode-bidi:isolate";
  }
  // `show` assigns the data before any event that uses them.
  /** @type {Trajectories} */
  let data;
  /** @type {number | null} */
  let hoveredRow = null; // position among the trails
  let width = 0, frame = 0;

  /** @returns {(x: number, y: number) => Point} Conversion from data units to pixels. */
  function createScale() {
    const [x, y] = [data.x, data.y], w = width - 2 * MARGIN, h = data.height - 2 * MARGIN;
    const scale = Math.min(w / (x[1] - x[0]), h / (y[1] - y[0])); // pixels a data unit
    const left = MARGIN + (w - scale * (x[1] - x[0])) / 2;
    const top = MARGIN + (h - scale * (y[1] - y[0])) / 2;
    return (a, b) => [left + scale * (a - x[0]), top + scale * (y[1] - b)];
  }

  /** @returns {Trail[]} The trails at the slider's position. */
  function currentTrails() {
    const t = Number(slider.value) / 100, toPixels = createScale(), { x0, y0, x1, y1 } = data.trails;
    return x0.map((_, i) => ({
      now: toPixels(x0[i] + t * (x1[i] - x0[i]), y0[i] + t * (y1[i] - y0[i])),
      start: toPixels(x0[i], y0[i]),
      end: toPixels(x1[i], y1[i]),
    }));
  }

  function draw() {
    if (!data || !width) return;
    const ratio = window.devicePixelRatio || 1, trails = currentTrails(), toPixels = createScale();
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(data.height * ratio);
    context.scale(ratio, ratio);
    context.fillStyle = data.ink.panel;
    context.fillRect(0, 0, width, data.height);
    context.globalAlpha = 0.16;
    data.others.x.forEach((x, i) => {
      drawRow(toPixels(x, data.others.y[i]), data.looks[data.others.c[i]], data.radius * 0.8);
    });
    trails.forEach((trail, i) => {
      drawTrail(trail, data.looks[data.trails.c[i]].colour, i === hoveredRow);
    });
    context.globalAlpha = 0.95;
    trails.forEach((trail, i) => {
      drawRow(trail.now, data.looks[data.trails.c[i]], data.radius);
    });
    context.globalAlpha = 1;
    if (hoveredRow !== null) drawLabel(trails[hoveredRow].now, data.trails.name[hoveredRow]);
  }

  /**
   * Draw an arrow from a row's first position to its last.
   *
   * @param {Trail} trail
   * @param {string} colour
   * @param {boolean} bold
   */
  function drawTrail(trail, colour, bold) {
    const [[a, b], [c, d]] = [trail.start, trail.end], length = Math.hypot(c - a, d - b);
    context.globalAlpha = bold ? 1 : 0.6;
    context.strokeStyle = context.fillStyle = bold ? data.ink.text : colour;
    context.lineWidth = bold ? 2 : 1.1;
    context.beginPath();
    context.moveTo(a, b);
    context.lineTo(c, d);
    context.stroke();
    if (length < 4) return; // too short for an arrowhead
    const [u, v] = [(c - a) / length, (d - b) / length], size = Math.min(7, length);
    context.beginPath();
    context.moveTo(c, d);
    context.lineTo(c - size * u - 0.5 * size * v, d - size * v + 0.5 * size * u);
    context.lineTo(c - size * u + 0.5 * size * v, d - size * v - 0.5 * size * u);
    context.closePath();
    context.fill();
  }

  /**
   * @param {Point} position in pixels.
   * @param {Look} look
   * @param {number} radius
   */
  function drawRow([x, y], look, radius) {
    const hollow = look.shape === "circle-open";
    markerPath(context, look.shape, x, y, radius);
    context.fillStyle = look.colour;
    context.strokeStyle = hollow ? look.colour : data.ink.panel;
    context.lineWidth = hollow ? 1.4 : 0.7;
    if (!hollow) context.fill();
    context.stroke();
  }

  /**
   * Draw the label of a row, its first line in bold.
   *
   * @param {Point} position of the row, in pixels.
   * @param {string[]} lines
   */
  function drawLabel([x, y], lines) {
    context.font = "12px Inter, sans-serif";
    const w = Math.max(...lines.map((line) => context.measureText(line).width)) + 16;
    const h = 16 * lines.length + 10;
    const left = Math.max(2, Math.min(x + 12, width - w - 2));
    const top = Math.max(2, y - h - 10 < 2 ? y + 12 : y - h - 10);
    context.fillStyle = data.ink.panel;
    context.strokeStyle = data.ink.muted;
    context.lineWidth = 1;
    context.fillRect(left, top, w, h);
    context.strokeRect(left, top, w, h);
    context.fillStyle = data.ink.text;
    context.textBaseline = "top";
    lines.forEach((line, i) => {
      context.font = `${i ? "" : "600 "}12px Inter, sans-serif`;
      context.fillText(line, left + 8, top + 7 + 16 * i);
    });
  }

  function updateValueText() {
    slider.setAttribute("aria-valuetext", `${slider.value} % of the way`);
  }

  /** @param {number} percent */
  function setSlider(percent) {
    slider.value = String(percent);
    updateValueText();
    draw();
  }

  function stop() {
    window.cancelAnimationFrame(frame);
    frame = 0;
    play.textContent = "Play";
  }

  play.addEventListener("click", () => {
    if (frame) {
      stop();
      return;
    }
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) {
      setSlider(Number(slider.value) < 50 ? 100 : 0);
      return;
    }
    const initial = Number(slider.value) > 99 ? 0 : Number(slider.value), startTime = performance.now();
    play.textContent = "Pause";
    /** @param {number} now */
    const step = (now) => {
      const percent = initial + (100 * Math.max(0, now - startTime)) / (1000 * PLAY_SECONDS);
      setSlider(Math.min(100, percent));
      if (percent >= 100) stop();
      else frame = window.requestAnimationFrame(step);
    };
    frame = window.requestAnimationFrame(step);
  });
  slider.addEventListener("input", () => {
    stop();
    updateValueText();
    draw();
  });
  canvas.addEventListener("pointermove", (event) => {
    const edge = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - edge.left, event.clientY - edge.top];
    /** @type {number | null} */
    let nearest = null;
    let least = HOVER_DISTANCE;
    currentTrails().forEach(({ now }, i) => {
      const distance = Math.hypot(now[0] - x, now[1] - y);
      if (distance < least) [nearest, least] = [i, distance];
    });
    if (nearest === hoveredRow) return;
    hoveredRow = nearest;
    draw();
  });
  canvas.addEventListener("pointerleave", () => {
    hoveredRow = null;
    draw();
  });

  /** The element whose width the canvas takes. */
  const host = () => /** @type {Element} */ (parent instanceof ShadowRoot ? parent.host : parent);
  const resize = new ResizeObserver(() => {
    if (!data || host().clientWidth === width) return;
    width = host().clientWidth;
    draw();
  });

  return {
    /** @param {Trajectories} next */
    show(next) {
      const another = !data || next.id !== data.id;
      data = next;
      hoveredRow = null; // the trails may be those of other rows
      canvas.setAttribute("aria-label", data.alt);
      canvas.style.cssText =
        `display:block;width:100%;height:${data.height}px;box-sizing:border-box;` +
        `border:1px solid ${data.ink.hairline};border-radius:6px`;
      root.style.color = data.ink.text;
      [first.textContent, second.textContent] = data.ends;
      [first.title, second.title] = data.ends;
      slider.setAttribute("aria-label", data.slider);
      slider.title = data.slider;
      slider.style.cssText = `flex:1;min-width:60px;height:28px;accent-color:${data.ink.accent}`;
      play.title = "Moves the rows from the first map to the second";
      play.style.cssText =
        `min-width:64px;height:32px;border-radius:6px;border:1px solid ${data.ink.muted};` +
        `background:${data.ink.panel};color:${data.ink.text};font:inherit;cursor:pointer`;
      if (another) {
        stop();
        slider.value = "0";
      }
      updateValueText();
      resize.observe(host());
      width = host().clientWidth || width;
      draw();
    },
    close() {
      stop();
      resize.disconnect();
      root.remove();
    },
  };
}

/**
 * Append a new element with a style.
 *
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Element | ShadowRoot} parent
 * @param {string} style
 * @returns {HTMLElementTagNameMap[Name]}
 */
function styledElement(name, parent, style = "") {
  const created = document.createElement(name);
  created.style.cssText = style;
  parent.appendChild(created);
  return created;
}
