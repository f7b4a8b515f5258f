// Charts of columns that filter the rows of a map: a histogram is brushed, categories are clicked.
// The server joins markers.js, scene.js, legend.js and this file, in this order, to one module.
const BARS_HEIGHT = 54; // of a histogram, in pixels
const EDGE_DISTANCE = 5; // from an end of a brush, in pixels, within which it is taken
const CLICK_DISTANCE = 3; // pixels that make a click a brush
const DOUBLE_CLICK_MS = 250; // a click waits so long for a second one
const OTHERS_BIT = 8; // of a row's conditions: those of no chart
const FILTER_KEYS_HELP =
  "The arrow keys move over the bars, with Shift they widen the brush. Enter selects, Escape removes the condition.";
/** @type {WeakMap<HTMLElement | ShadowRoot, ReturnType<typeof createFilterCharts>>} */
const filterCharts = new WeakMap();

/**
 * The entry point of the Streamlit component, called at every rerun of the page.
 *
 * @param {Component<FilterMessage>} component
 * @returns {() => void} removes the charts.
 */
export default function (component) {
  const { parentElement, data, setTriggerValue } = component;
  const view = filterCharts.get(parentElement) ?? createFilterCharts(parentElement);
  filterCharts.set(parentElement, view);
  view.send = (event) => setTriggerValue("brush", event);
  view.show(data);
  return () => {
    view.close();
    filterCharts.delete(parentElement);
  };
}

/** @param {number} value @returns {string} A number of rows with grouped digits. */
const rowCount = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");

/**
 * The rows that pass, while the condition of a chart is another than the server's.
 *
 * @param {FilterData} data
 * @param {Uint16Array} met what each row meets.
 * @param {Uint8Array[]} codes bar of each row, one array a chart.
 * @param {number} changed the chart.
 * @param {Uint8Array} inside whether its condition holds for a bar, by the number of the bar.
 * @returns {{ passing: number[][], selected: number }} rows of each bar of each chart, and in all.
 */
function countRows(data, met, codes, changed, inside) {
  const bit = 1 << changed;
  const needs = (data.hasOthers ? 1 << OTHERS_BIT : 0)
    | data.charts.reduce((bits, { active }, k) => bits | (active || k === changed ? 1 << k : 0), 0);
  const all = data.operator === "and";
  const passing = data.charts.map(({ counts }) => new Array(counts.length).fill(0));
  const changedCodes = codes[changed];
  let selected = 0;
  /** @type {(bits: number, need: number) => boolean} */
  const passes = (bits, need) => !need || (all ? (bits & need) === need : (bits & need) !== 0);
  for (let row = 0; row < met.length; row += 1) {
    const bits = inside[changedCodes[row]] ? met[row] | bit : met[row] & ~bit;
    if (passes(bits, needs)) selected += 1;
    for (let k = 0; k < codes.length; k += 1) {
      if (passes(bits, needs & ~(1 << k))) passing[k][codes[k][row]] += 1;
    }
  }
  return { passing, selected };
}

/**
 * Create the charts inside an element.
 *
 * @param {HTMLElement | ShadowRoot} parent
 */
function createFilterCharts(parent) {
  const root = appendElement("div", parent, { class: "filters" });
  const total = appendElement("div", root, { class: "total" });
  const list = appendElement("div", root);
  const announcement = appendElement("div", root, { class: "announcement", role: "status" });
  // `show` assigns the data before any event that uses them.
  /** @type {FilterData} */
  let data;
  /** @type {Uint16Array | null} */
  let met = null;
  /** @type {DrawnChart[]} */
  let drawn = [];
  let digest = "", frame = 0;

  const drawAll = () => {
    total.textContent = data.charts.some(({ active }) => active) || data.hasOthers
      ? `${rowCount(data.selected)} of ${rowCount(data.rows)} rows`
      : `${rowCount(data.rows)} rows`;
    for (const chart of drawn) chart.draw();
  };

  /** Draw in the next frame. */
  function scheduleDraw() {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      drawAll();
    });
  }

  /**
   * Apply a condition of a chart at once, before the server does.
   *
   * @param {number} k the chart.
   * @param {Uint8Array} inside whether the condition without NOT holds for each bar.
   */
  function preview(k, inside) {
    const chart = data.charts[k];
    chart.active = inside.includes(1);
    const codes = drawn.map((one) => one.codes);
    if (met && codes.every((one) => one !== null)) {
      const holds = inside.map((one) => Number(!chart.active || Boolean(one) !== chart.negated));
      // In a union a chart without a condition adds no rows.
      const bars = chart.active || data.operator === "and" ? holds : holds.fill(0);
      const found = countRows(data, met, /** @type {Uint8Array[]} */ (codes), k, bars);
      data.charts.forEach((one, i) => { one.passing = found.passing[i]; });
      data.selected = found.selected;
    }
    scheduleDraw();
  }

  /**
   * @param {number} k
   * @param {[number, number] | null} range
   */
  function previewRange(k, range) {
    const chart = data.charts[k], inside = new Uint8Array(256);
    [chart.range, chart.span] = [range, null];
    if (range) inside.fill(1, range[0], range[1] + 1);
    preview(k, inside);
  }

  /** @param {number} k @param {[number, number] | null} range */
  function sendRange(k, range) {
    const chart = data.charts[k], last = chart.ends.length - 1;
    const all = range !== null && !chart.missing && range[0] === 0 && range[1] === last;
    previewRange(k, all ? null : range);
    const { column } = chart;
    view.send(range && !all ? { column, first: range[0], last: range[1] } : { column });
  }

  /** @param {number} k @param {number} bar */
  function toggleBar(k, bar) {
    const chart = data.charts[k], inside = new Uint8Array(256);
    chart.chosen = chart.chosen.includes(bar)
      ? chart.chosen.filter((one) => one !== bar) : [...chart.chosen, bar];
    for (const one of chart.chosen) inside[one] = 1;
    preview(k, inside);
    view.send({ column: chart.column, bar });
  }

  /** @param {number} k */
  function clear(k) {
    const chart = data.charts[k];
    if (!chart.active) return;
    [chart.range, chart.span, chart.chosen] = [null, null, []];
    preview(k, new Uint8Array(256));
    view.send({ column: chart.column });
  }

  /**
   * @param {number} k
   * @param {number} bar
   * @returns {string} A bar with its rows.
   */
  function describeBar(k, bar) {
    const { bars, passing, counts } = data.charts[k];
    return `${bars[bar]}: ${rowCount(passing[bar])} of ${rowCount(counts[bar])}`;
  }

  // ---- a chart -------------------------------------------------------------------------------

  /**
   * The frame of a chart: its title, a text at the right, and the button that clears it.
   *
   * @param {number} k
   */
  function createFrame(k) {
    const chart = data.charts[k];
    const section = appendElement("section", list, { role: "group", "aria-label": chart.title });
    const head = appendElement("div", section, { class: "head" });
    appendElement("b", head).textContent = chart.title;
    const detail = appendElement("span", head);
    const label = `Remove the condition on ${chart.title}`;
    const remove = appendElement("button", head, { type: "button", title: label, "aria-label": label });
    remove.textContent = "×";
    remove.addEventListener("click", () => clear(k));
    section.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !data.charts[k].active) return;
      event.stopPropagation(); // the page clears the whole selection
      clear(k);
    });
    return { section, detail, remove };
  }

  /** @param {number} k @returns {() => void} draws the chart. */
  function createHistogram(k) {
    const { section, detail, remove } = createFrame(k);
    const canvas = appendElement("canvas", section, {
      tabindex: "0", role: "application", "aria-description": FILTER_KEYS_HELP,
    });
    const axis = appendElement("div", section, { class: "axis", "aria-hidden": "true" });
    for (const [i, text] of data.charts[k].ticks.entries()) {
      const tick = appendElement("span", axis);
      tick.textContent = text;
      if (i === 1) tick.style.left = `${100 * data.charts[k].middle}%`;
    }
    const bars = data.charts[k].ends.length;
    /** @type {number | null} */
    let hovered = null;
    /** The brush under way: how, from which bar, and the range at its start.
     * @type {{ kind: "new" | "move" | "low" | "high", x: number, bar: number, from: [number, number], far: boolean } | null} */
    let drag = null;
    let timer = 0;

    /** @param {PointerEvent} event @returns {number} */
    const share = (event) => (event.clientX - canvas.getBoundingClientRect().x) / canvas.clientWidth;
    /** @param {PointerEvent} event @returns {number} */
    const barAt = (event) => Math.max(0, Math.min(bars - 1, Math.floor(share(event) * bars)));
    /** @param {number} value @returns {number} */
    const bounded = (value) => Math.max(0, Math.min(bars - 1, value));

    /** @param {PointerEvent} event @returns {"new" | "move" | "low" | "high"} */
    function kindAt(event) {
      const { range } = data.charts[k], x = share(event) * canvas.clientWidth;
      if (!range) return "new";
      const [low, high] = [range[0], range[1] + 1].map((edge) => (edge / bars) * canvas.clientWidth);
      if (Math.abs(x - low) <= EDGE_DISTANCE) return "low";
      if (Math.abs(x - high) <= EDGE_DISTANCE) return "high";
      return x > low && x < high ? "move" : "new";
    }

    /** @param {PointerEvent} event @returns {[number, number]} The range of the brush under way. */
    function brushed(event) {
      if (!drag) throw new Error("No brush is under way.");
      const bar = barAt(event), [first, last] = drag.from;
      if (drag.kind === "move") {
        const by = Math.max(-first, Math.min(bars - 1 - last, bar - drag.bar));
        return [first + by, last + by];
      }
      const fixed = drag.kind === "low" ? last : drag.kind === "high" ? first : drag.bar;
      return [Math.min(fixed, bar), Math.max(fixed, bar)];
    }

    canvas.addEventListener("pointerdown", (event) => {
      if (event.button || !event.isPrimary) return;
      window.clearTimeout(timer);
      const bar = barAt(event), from = data.charts[k].range ?? [bar, bar];
      drag = { kind: kindAt(event), x: event.clientX, bar, from: [from[0], from[1]], far: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!event.isPrimary) return;
      const kind = drag ? drag.kind : kindAt(event);
      canvas.style.cursor = { new: "crosshair", move: "grab", low: "ew-resize", high: "ew-resize" }[kind];
      hovered = barAt(event);
      if (drag) drag.far ||= Math.abs(event.clientX - drag.x) > CLICK_DISTANCE;
      if (drag?.far) previewRange(k, brushed(event));
      else scheduleDraw();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (!event.isPrimary || !drag) return;
      const range = brushed(event), { far, bar } = drag;
      drag = null;
      if (far) {
        sendRange(k, range);
        return;
      }
      const before = data.charts[k].range;
      const same = before !== null && before[0] === bar && before[1] === bar;
      timer = window.setTimeout(() => sendRange(k, same ? null : [bar, bar]), DOUBLE_CLICK_MS);
    });
    canvas.addEventListener("dblclick", () => {
      window.clearTimeout(timer);
      clear(k);
    });
    canvas.addEventListener("pointercancel", () => {
      if (drag?.far) previewRange(k, data.charts[k].active && drag.kind !== "new" ? drag.from : null);
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => {
      hovered = null;
      scheduleDraw();
    });
    canvas.addEventListener("blur", () => {
      hovered = null;
      scheduleDraw();
    });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return; // shortcuts of the browser
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const at = hovered, { range } = data.charts[k];
      if (step) {
        hovered = at === null ? (step > 0 ? 0 : bars - 1) : bounded(at + step);
        if (event.shiftKey && at !== null) {
          const fixed = range ? (at === range[0] ? range[1] : range[0]) : at;
          previewRange(k, [Math.min(fixed, hovered), Math.max(fixed, hovered)]);
        }
        announcement.textContent = describeBar(k, hovered);
        scheduleDraw();
      } else if (event.key === "Enter" && at !== null) {
        sendRange(k, event.shiftKey || (range && at >= range[0] && at <= range[1]) ? range : [at, at]);
      } else {
        return;
      }
      event.preventDefault();
    });

    function draw() {
      const chart = data.charts[k], width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
      canvas.setAttribute("aria-label", `Histogram of ${chart.title}, ${describeRange(chart)}`);
      remove.hidden = !chart.active;
      detail.textContent = hovered !== null && !drag?.far ? describeBar(k, hovered) : describeRange(chart);
      [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(BARS_HEIGHT * ratio)];
      const context = context2d(canvas), most = Math.max(1, ...chart.counts.slice(0, bars));
      context.scale(ratio, ratio);
      for (let bar = 0; bar < bars; bar += 1) {
        const left = Math.round((bar / bars) * width), right = Math.round(((bar + 1) / bars) * width);
        const chosen = !chart.range || (bar >= chart.range[0] && bar <= chart.range[1]) !== chart.negated;
        /** @type {(rows: number, colour: string, alpha: number) => void} */
        const fill = (rows, colour, alpha) => {
          const height = rows ? Math.max(1, (rows / most) * (BARS_HEIGHT - 2)) : 0;
          context.globalAlpha = alpha;
          context.fillStyle = colour;
          context.fillRect(left, BARS_HEIGHT - height, Math.max(1, right - left - 1), height);
        };
        fill(chart.counts[bar], data.ink.muted, bar === hovered ? 0.5 : 0.3);
        fill(chart.passing[bar], data.ink.accent, chosen ? 1 : 0.35);
      }
      context.globalAlpha = 1;
      const span = chart.range ? [chart.range[0] / bars, (chart.range[1] + 1) / bars] : chart.span;
      if (chart.active && span) drawBrush(context, span[0] * width, span[1] * width);
      context.fillStyle = data.ink.muted;
      context.fillRect(0, BARS_HEIGHT - 0.5, width, 0.5);
    }

    Object.assign(canvas, { latentboard: () => ({ ...data.charts[k], selected: data.selected, digest }) });
    return draw;
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} left in pixels.
   * @param {number} right
   */
  function drawBrush(context, left, right) {
    context.globalAlpha = 0.12;
    context.fillStyle = data.ink.text;
    context.fillRect(left, 0, right - left, BARS_HEIGHT);
    context.globalAlpha = 1;
    for (const x of [left, right]) context.fillRect(Math.max(0, Math.round(x) - 1), 0, 1.5, BARS_HEIGHT);
  }

  /** @param {FilterChart} chart @returns {string} The condition of a histogram, or what it leaves out. */
  function describeRange(chart) {
    const not = chart.negated ? "not " : "";
    if (chart.range) return `${not}${chart.ends[chart.range[0]][0]} to ${chart.ends[chart.range[1]][1]}`;
    if (chart.active) return `${not}an interval`;
    return chart.missing ? `${rowCount(chart.counts[chart.counts.length - 1])} without a number` : "";
  }

  /** @param {number} k @returns {() => void} draws the chart. */
  function createBarChart(k) {
    const { section, detail, remove } = createFrame(k);
    const { clickable, bars } = data.charts[k];
    const lines = bars.map((name, bar) => {
      const canClick = clickable.includes(bar);
      const line = appendElement(canClick ? "button" : "div", section, { class: "bar" });
      if (line instanceof HTMLButtonElement) {
        line.type = "button";
        line.addEventListener("click", () => toggleBar(k, bar));
      }
      appendElement("span", line, { class: "name", title: name }).textContent = name;
      const track = appendElement("span", line, { class: "track" });
      const parts = [appendElement("i", track), appendElement("i", track)];
      return { line, parts, rows: appendElement("span", line, { class: "rows" }), canClick };
    });
    return () => {
      const chart = data.charts[k], most = Math.max(1, ...chart.counts);
      remove.hidden = !chart.active;
      detail.textContent = chart.active && chart.negated ? "not the chosen ones" : "";
      lines.forEach(({ line, parts, rows, canClick }, bar) => {
        const chosen = chart.chosen.includes(bar);
        parts[0].style.width = `${(100 * chart.counts[bar]) / most}%`;
        parts[1].style.width = `${(100 * chart.passing[bar]) / most}%`;
        parts[1].style.opacity = !chart.active || chosen !== chart.negated ? "1" : "0.35";
        rows.textContent = rowCount(chart.passing[bar]);
        if (!canClick) return;
        line.setAttribute("aria-pressed", String(chosen));
        line.setAttribute("aria-label", describeBar(k, bar));
      });
    };
  }

  const resize = new ResizeObserver(() => {
    if (drawn.length) scheduleDraw();
  });
  resize.observe(root);

  const view = {
    /** @type {(event: BrushEvent) => void} */
    send: () => {},
    /** @param {FilterMessage} message */
    show(message) {
      if (message.digest === digest) return;
      digest = message.digest;
      const before = data?.charts.map(({ column, bars }) => [column, bars].join()).join();
      data = JSON.parse(message.charts);
      met = data.met === null ? null : decodeArray(data.met, Uint16Array);
      for (const [name, value] of Object.entries(data.ink)) root.style.setProperty(`--${name}`, value);
      const same = before === data.charts.map(({ column, bars }) => [column, bars].join()).join();
      if (!same) list.replaceChildren(); // else the focus stays where it is
      drawn = data.charts.map((chart, k) => ({
        codes: chart.codes === null ? null : decodeArray(chart.codes, Uint8Array),
        draw: same ? drawn[k].draw : (chart.numbers ? createHistogram : createBarChart)(k),
      }));
      drawAll();
    },
    close() {
      cancelAnimationFrame(frame);
      resize.disconnect();
      root.remove();
    },
  };
  return view;
}
