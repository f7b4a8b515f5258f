// A map of rows that is looked at, clicked and drawn on: see app/canvas.py for what goes in and out.
const SEND_EVERY_MS = 80; // a cursor that follows the mouse: the server needs about as long
const LOOK_AFTER_MS = 200; // of stillness after a zoom
const STEP = 1 / 60; // of the map's width, for an arrow key
const NEAR = 9; // pixels from a row that still mean the row
const MOVED = 4; // pixels that make a click a drag
const ZOOM = 1.5, MOST_ZOOM = 1e4;
const ICONS = {
  point: "M3 2l9 4-4 1.5L6.500 12z",
  box: "M3 3h10v10H3z",
  lasso: "M8 3c3.300 0 6 1.600 6 3.800S11.300 10.500 8 10.500 2 9 2 6.800 4.700 3 8 3zM5 10c-1 1.500 0 3 1.500 3.500",
  in: "M8 3v10M3 8h10",
  out: "M3 8h10",
  whole: "M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3",
  picture: "M8 3v7M5 7.500l3 3 3-3M3 13h10",
};
const TOOLS = [
  ["point", "Click rows; drag to move the map"],
  ["box", "Select by a box"],
  ["lasso", "Select by a lasso (or hold Shift and drag)"],
  ["in", "Zoom in (or Ctrl and the wheel)"],
  ["out", "Zoom out"],
  ["whole", "The whole map"],
  ["picture", "Save the picture"],
];
const KEYS_OF_CURSOR = "The arrow keys move the cursor, with Shift in larger steps.";
const KEYS = `${KEYS_OF_CURSOR} Enter looks at what is there. Plus and minus zoom, 0 shows all.`;
const maps = new WeakMap();

export default function (component) {
  const { parentElement, data, setStateValue, setTriggerValue } = component;
  let map = maps.get(parentElement);
  if (!map) {
    map = create(parentElement);
    maps.set(parentElement, map);
  }
  map.follow = (at) => setStateValue("at", at);
  map.pick = (what) => setTriggerValue("pick", what);
  map.look = (where) => setStateValue("view", where);
  map.show(data);
  return () => {
    map.close();
    maps.delete(parentElement);
  };
}

function element(name, into, attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  into.appendChild(made);
  return made;
}

function create(parent) {
  const root = element("div", parent, { class: "map" });
  const stage = element("div", root, { class: "stage" });
  const base = element("canvas", stage, { "aria-hidden": "true" });
  const top = element("canvas", stage, { tabindex: "0", role: "application" });
  const bar = element("div", stage, { class: "tools", role: "toolbar", "aria-label": "Tools of the map" });
  const tip = element("div", stage, { class: "tip", hidden: "" });
  const legend = element("div", root, { class: "legend" });
  const told = element("div", root, { class: "told", role: "status" });
  const hidden = new Set();
  let scene = null, width = 0, view = null, at = null, held = false, mode = "point", drag = null;
  let near = null, density = null, behind = null, sent = 0, timer = 0, frame = 0, moved = false;
  let room = 24;

  // ---- where things are ----------------------------------------------------------------------

  function plot() {
    const margin = scene.titles ? MARGIN : BARE, left = margin.left + (scene.titles ? room : 0);
    return {
      x: left, y: margin.top,
      w: width - left - margin.right, h: scene.height - margin.top - margin.bottom,
    };
  }
  const scale = () => {
    const box = plot(), [x0, x1] = view.x, [y0, y1] = view.y;
    return {
      box,
      across: (v) => box.x + ((v - x0) / (x1 - x0)) * box.w,
      up: (v) => box.y + (1 - (v - y0) / (y1 - y0)) * box.h,
      place: (x, y) => [
        x0 + ((x - box.x) / box.w) * (x1 - x0), y0 + (1 - (y - box.y) / box.h) * (y1 - y0),
      ],
    };
  };

  function whole() {
    const found = { x: [...scene.x], y: [...scene.y] };
    if (!scene.equal) return found;
    const box = plot(), unit = Math.max((found.x[1] - found.x[0]) / box.w, (found.y[1] - found.y[0]) / box.h);
    for (const [axis, pixels] of [["x", box.w], ["y", box.h]]) {
      const centre = middle(found[axis]);
      found[axis] = [centre - (unit * pixels) / 2, centre + (unit * pixels) / 2];
    }
    return found;
  }

  function rowAt(x, y) {
    const { across, up } = scale();
    let best = null, least = NEAR ** 2;
    for (let i = 0; i < scene.n; i++) {
      if (hidden.has(scene.code[i])) continue;
      const far = (across(scene.px[i]) - x) ** 2 + (up(scene.py[i]) - y) ** 2;
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }

  function inside(event) {
    const frame = top.getBoundingClientRect(), { box } = scale();
    const x = event.clientX - frame.left, y = event.clientY - frame.top;
    return x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h ? [x, y] : null;
  }

  // ---- drawing -------------------------------------------------------------------------------

  function pen(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(scene.height * ratio)];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    const ink = canvas.getContext("2d");
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, width, scene.height);
    return [ink, ratio];
  }

  function draw() {
    if (!scene || !width) return;
    const [ink, ratio] = pen(base);
    if (scene.titles) room = widest(ink, view.y);
    const { box, across, up } = scale();
    const over = (picture, inset, [[x0, x1], [y0, y1]]) => {
      const [x, y] = [across(x0), up(y1)];
      const [w, h] = [picture.width - 2 * inset, picture.height - 2 * inset];
      ink.drawImage(picture, inset, inset, w, h, x, y, across(x1) - x, up(y0) - y);
    };
    ink.fillStyle = scene.ink.panel;
    ink.fillRect(box.x, box.y, box.w, box.h);
    ink.save();
    ink.beginPath();
    ink.rect(box.x, box.y, box.w, box.h);
    ink.clip();
    if (behind) over(behind, 0.5, [scene.x, scene.y]);
    if (density && !hidden.size) over(density, 0, scene.density.ranges); // it holds hidden rows too
    drawEllipses(ink, scene, across, up, hidden);
    drawRows(ink, scene, across, up, hidden, ratio, box);
    for (const path of scene.inducing) {
      path.x.forEach((x, i) => {
        outline(ink, path.shape, across(x), up(path.y[i]), 4);
        ink.fillStyle = scene.ink.text;
        ink.strokeStyle = scene.ink.panel;
        ink.lineWidth = 1;
        ink.fill();
        ink.stroke();
      });
    }
    for (const polygon of scene.outlines) drawOutline(ink, polygon, across, up, scene.ink.text);
    if (scene.path) drawCurve(ink, scene.path, across, up, scene.ink);
    for (const mark of scene.marks) drawLetter(ink, mark, across, up, scene.ink);
    ink.restore();
    drawAxes(ink, scene, view, box, across, up);
    drawTop();
  }

  // What follows the mouse is on a sheet of its own.
  function drawTop() {
    const [ink] = pen(top), { box, across, up } = scale();
    ink.save();
    ink.beginPath();
    ink.rect(box.x, box.y, box.w, box.h);
    ink.clip();
    if (scene.marked) ring(ink, across(scene.marked[0]), up(scene.marked[1]), true);
    if (near !== null) ring(ink, across(scene.px[near]), up(scene.py[near]), false);
    if (at) drawCursor(ink, box, across(at[0]), up(at[1]));
    if (drag && drag.corners.length > 1) {
      drawOutline(ink, polygonOf(drag), across, up, scene.ink.accent);
    }
    ink.restore();
  }

  function ring(ink, x, y, full) {
    ink.beginPath();
    ink.arc(x, y, full ? GROWN / 2 : GROWN / 2 - 1, 0, 2 * Math.PI);
    ink.fillStyle = scene.ink.text;
    if (full) ink.fill();
    ink.strokeStyle = full ? scene.ink.panel : scene.ink.text;
    ink.lineWidth = 1.5;
    ink.stroke();
  }

  function drawCursor(ink, box, x, y) {
    ink.strokeStyle = scene.ink.text;
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
    ink.strokeStyle = scene.ink.accent;
    ink.fillStyle = scene.ink.panel;
    ink.fill();
    ink.stroke();
  }

  // Where somebody looks more closely, the server draws what lies there.
  const soon = () => {
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); });
    if (!scene.density) return;
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      map.look(moved ? { x: view.x, y: view.y, turn: scene.turn } : null);
    }, LOOK_AFTER_MS);
  };

  // ---- what is said --------------------------------------------------------------------------

  function tell(x, y) {
    const row = rowAt(x, y), [a, b] = scale().place(x, y);
    const lines = row !== null && scene.texts ? scene.texts[row].split("\n") : ground(a, b);
    if (row !== near) {
      near = row;
      drawTop();
    }
    tip.hidden = !lines.length;
    tip.replaceChildren();
    lines.forEach((line, i) => { element(i || row === null ? "span" : "b", tip).textContent = line; });
    const left = x > width * 0.6;
    tip.style.left = left ? "auto" : `${x + 14}px`;
    tip.style.right = left ? `${width - x + 14}px` : "auto";
    tip.style.top = `${Math.min(y + 10, scene.height - 24 * lines.length - 8)}px`;
    return lines.join(", ");
  }

  function ground(x, y) {
    if (!scene.heat || x < scene.x[0] || x > scene.x[1] || y < scene.y[0] || y > scene.y[1]) return [];
    const n = scene.heat.size, spot = (v, [low, high]) => Math.round(((v - low) / (high - low)) * (n - 1));
    const value = scene.heatValue[spot(y, scene.y) * n + spot(x, scene.x)];
    return [`${scene.heat.title}: ${written(Number(value.toPrecision(3)))}`];
  }

  function quiet() {
    tip.hidden = true;
    if (near !== null) {
      near = null;
      drawTop();
    }
  }

  // ---- a cursor that follows -----------------------------------------------------------------

  function send() {
    window.clearTimeout(timer);
    const wait = sent + SEND_EVERY_MS - performance.now();
    if (wait > 0) {
      timer = window.setTimeout(send, wait);
      return;
    }
    sent = performance.now();
    map.follow({ x: at[0], y: at[1], held, turn: scene.turn });
  }

  function move(x, y) {
    at = [clip(x, view.x), clip(y, view.y)];
    drawTop();
    if (scene.follow) send();
  }

  // ---- choosing ------------------------------------------------------------------------------

  function choose(x, y) {
    const row = rowAt(x, y), [a, b] = scale().place(x, y), turn = scene.turn;
    if (row !== null) scene.marked = [scene.px[row], scene.py[row]];
    else scene.marked = scene.places ? [a, b] : null;
    drawTop();
    map.pick(row === null ? { kind: "place", x: a, y: b, turn } : { kind: "row", row: scene.number[row], turn });
  }

  const polygonOf = ({ kind, corners: drawn }) => {
    if (kind === "lasso") return drawn;
    const [[a, b], [c, d]] = [drawn[0], drawn.at(-1)];
    return [[a, b], [c, b], [c, d], [a, d]];
  };

  function zoom(by, centre = [middle(view.x), middle(view.y)]) {
    const full = whole(), most = (full.x[1] - full.x[0]) / MOST_ZOOM;
    if (by > 1 && view.x[1] - view.x[0] < most) return;
    for (const [axis, c] of [["x", centre[0]], ["y", centre[1]]]) {
      view[axis] = view[axis].map((v) => c + (v - c) / by);
    }
    moved = true;
    if (view.x[1] - view.x[0] >= full.x[1] - full.x[0]) reset();
    soon();
  }

  function reset() {
    [view, moved] = [whole(), false];
    soon();
  }

  function save() {
    const both = document.createElement("canvas");
    [both.width, both.height] = [base.width, base.height];
    const ink = both.getContext("2d");
    ink.fillStyle = scene.ink.panel;
    ink.fillRect(0, 0, both.width, both.height);
    for (const sheet of [base, top]) ink.drawImage(sheet, 0, 0);
    both.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = "map.png";
      link.click();
      window.setTimeout(() => URL.revokeObjectURL(link.href), 60000); // Safari reads it later
    });
  }

  const acts = { in: () => zoom(ZOOM), out: () => zoom(1 / ZOOM), whole: reset, picture: save };
  const buttons = TOOLS.map(([name, title]) => {
    const button = element("button", bar, { type: "button", title, "aria-label": title });
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 16 16");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
    line.setAttribute("d", ICONS[name]);
    svg.appendChild(line);
    button.appendChild(svg);
    button.addEventListener("click", () => (acts[name] ? acts[name]() : use(name)));
    return [name, button];
  });

  function use(name) {
    mode = name;
    for (const [one, button] of buttons) {
      if (!acts[one]) button.setAttribute("aria-pressed", String(one === mode));
    }
    top.style.touchAction = mode === "point" && !scene?.follow ? "pan-y" : "none";
  }

  // ---- what the person does ------------------------------------------------------------------

  top.addEventListener("pointerdown", (event) => {
    const spot = inside(event);
    if (!spot || scene.follow || event.button || !event.isPrimary) return;
    const kind = event.shiftKey ? "lasso" : mode;
    drag = { kind, from: spot, view: { x: [...view.x], y: [...view.y] }, corners: [], far: false };
    if (kind !== "point") drag.corners = [scale().place(...spot)];
    top.setPointerCapture(event.pointerId);
  });
  top.addEventListener("pointermove", (event) => {
    if (!event.isPrimary) return; // another finger
    const spot = inside(event);
    top.style.cursor = spot ? (scene.follow || mode !== "point" ? "crosshair" : "pointer") : "default";
    if (scene.follow) {
      if (spot && !held) move(...scale().place(...spot));
      return;
    }
    if (!drag) {
      if (spot) tell(...spot);
      else quiet();
      return;
    }
    const frame = top.getBoundingClientRect(), { box, place } = scale();
    const x = event.clientX - frame.left, y = event.clientY - frame.top;
    drag.far ||= Math.hypot(x - drag.from[0], y - drag.from[1]) > MOVED;
    if (!drag.far) return;
    quiet();
    if (drag.kind === "point") {
      const shift = (range, pixels, of) => range.map((v) => v - (pixels / of) * (range[1] - range[0]));
      view.x = shift(drag.view.x, x - drag.from[0], box.w);
      view.y = shift(drag.view.y, drag.from[1] - y, box.h);
      moved = true;
      soon();
    } else {
      drag.corners.push(place(x, y));
      drawTop();
    }
  });
  top.addEventListener("pointerup", (event) => {
    if (!event.isPrimary) return;
    const done = drag;
    drag = null;
    if (!done) return;
    if (!done.far) choose(...done.from);
    else if (done.corners.length > 1) {
      scene.outlines = [polygonOf(done)];
      draw();
      map.pick({ kind: done.kind, polygon: scene.outlines[0], turn: scene.turn });
    }
  });
  top.addEventListener("pointercancel", () => { drag = null; drawTop(); });
  top.addEventListener("pointerleave", quiet);
  top.addEventListener("dblclick", () => {
    if (scene.follow) return;
    reset();
    scene.marked = null;
    map.pick({ kind: "nothing", turn: scene.turn });
  });
  top.addEventListener("click", (event) => {
    const spot = scene.follow && inside(event);
    if (!spot) return;
    held = !held;
    move(...(held ? scale().place(...spot) : at));
  });
  top.addEventListener("wheel", (event) => {
    const spot = inside(event);
    if (!spot || !(event.ctrlKey || event.metaKey) || scene.follow) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, scale().place(...spot));
  }, { passive: false });
  top.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const way = ways[event.key], { across, up } = scale();
    if (way) {
      if (scene.follow) held = true;
      const far = (event.shiftKey ? 6 : 1) * STEP, from = at ?? [middle(view.x), middle(view.y)];
      move(from[0] + way[0] * far * (view.x[1] - view.x[0]), from[1] + way[1] * far * (view.y[1] - view.y[0]));
      if (!scene.follow) told.textContent = tell(across(at[0]), up(at[1]));
    } else if (scene.follow) return;
    else if (event.key === "Enter" && at) choose(across(at[0]), up(at[1]));
    else if (event.key === "+") zoom(ZOOM);
    else if (event.key === "-") zoom(1 / ZOOM);
    else if (event.key === "0") reset();
    else return;
    event.preventDefault();
  });
  top.addEventListener("blur", () => {
    if (scene?.follow) return;
    at = null;
    quiet();
    drawTop();
  });

  // ---- the legend ----------------------------------------------------------------------------

  function drawLegend() {
    legend.replaceChildren();
    for (const part of scene.legend) {
      const line = element("div", legend);
      if (part.title) element("span", line, { class: "title" }).textContent = part.title;
      if (part.ramp) {
        element("span", line).textContent = part.low;
        element("b", line).style.background = `linear-gradient(90deg,${part.ramp.join(",")})`;
        element("span", line).textContent = part.high;
      }
      for (const entry of part.entries ?? []) drawEntry(line, entry);
    }
  }

  function drawEntry(line, entry) {
    const toggles = entry.code !== undefined && entry.code !== null;
    const made = element(toggles ? "button" : "span", line, { class: "entry" });
    const mark = element("canvas", made, { width: 28, height: 28, "aria-hidden": "true" });
    const ink = mark.getContext("2d"), hollow = entry.shape === "circle-open";
    ink.scale(2, 2);
    outline(ink, hollow ? "circle" : entry.shape, 7, 7, 4.5);
    ink.fillStyle = ink.strokeStyle = entry.colour;
    if (hollow) ink.stroke();
    else ink.fill();
    element("span", made).textContent = entry.text;
    if (!toggles) return;
    made.type = "button";
    made.title = "Show or hide these rows. A box or a lasso takes hidden ones too.";
    made.setAttribute("aria-pressed", String(!hidden.has(entry.code)));
    made.addEventListener("click", () => {
      if (!hidden.delete(entry.code)) hidden.add(entry.code);
      made.setAttribute("aria-pressed", String(!hidden.has(entry.code)));
      draw();
    });
  }

  // ---- from the server -----------------------------------------------------------------------

  function arrive(next) {
    const other = !scene || next.turn !== scene.turn;
    if (other || next.colours !== scene.colours) hidden.clear();
    scene = unpacked(next);
    [near, behind] = [null, scene.heat ? heatPicture(scene) : null];
    top.setAttribute("aria-label", scene.alt);
    top.setAttribute("aria-description", scene.follow ? KEYS_OF_CURSOR : KEYS);
    stage.style.height = `${scene.height}px`;
    bar.hidden = scene.follow;
    for (const [name, value] of Object.entries(scene.ink)) root.style.setProperty(`--${name}`, value);
    if (other) [at, held, drag] = [scene.at, false, null];
    if (width && (other || !moved)) [view, moved] = [whole(), false];
    if (other && scene.density && String(scene.density.ranges) !== String([scene.x, scene.y])) {
      const [x, y] = scene.density.ranges; // it was zoomed into before it was drawn anew
      [view, moved] = [{ x: [...x], y: [...y] }, true];
    }
    density = null;
    if (scene.density) {
      const picture = new Image(), mine = scene;
      picture.onload = () => { if (scene === mine) { density = picture; draw(); } };
      picture.src = scene.density.picture;
    }
    tip.hidden = true;
    drawLegend();
    use(mode);
  }

  const sizes = new ResizeObserver(() => {
    if (!scene || !stage.clientWidth || stage.clientWidth === width) return;
    width = stage.clientWidth;
    if (!moved) view = whole();
    draw();
  });
  sizes.observe(stage);
  window.addEventListener("resize", draw); // the pixels may be others: another screen, a zoom

  const map = {
    follow: () => {},
    pick: () => {},
    look: () => {},
    digest: "",
    show(data) {
      if (data.digest === map.digest) return;
      map.digest = data.digest;
      if (!width) width = stage.clientWidth;
      arrive(JSON.parse(data.scene));
      draw();
    },
    close() {
      window.clearTimeout(timer);
      cancelAnimationFrame(frame);
      sizes.disconnect();
      window.removeEventListener("resize", draw);
      root.remove();
    },
  };
  // What the map shows, for whoever looks at it from outside: the browser tests.
  top.latentboard = () => scene && { digest: map.digest, scene, view, box: plot(), hidden: [...hidden] };
  return map;
}
