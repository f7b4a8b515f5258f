// Draws the page again when its colour scheme changes: the charts have their colours from the server,
// and Streamlit tells the server the scheme only with the next run of the page.
const REPAINT_MS = 250; // until Streamlit has put the new colours on the page
/** @type {Map<HTMLElement | ShadowRoot, () => void>} */
const watches = new Map();
/** @type {boolean | null} */
let reported = null; // the scheme of which the server was told last

/**
 * The entry point of the Streamlit component, called at every run of the page.
 *
 * @param {Component<{dark: boolean}>} component
 * @returns {() => void} ends the watch.
 */
export default function (component) {
  const { parentElement, data, setTriggerValue } = component;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const report = () => {
    const dark = hasDarkBackground();
    if (dark === data.dark) reported = null;
    else if (dark !== reported) {
      reported = dark;
      setTriggerValue("scheme", dark ? "dark" : "light");
    }
  };
  const changed = () => setTimeout(report, REPAINT_MS);
  watches.get(parentElement)?.();
  system.addEventListener("change", changed);
  changed();
  const end = () => system.removeEventListener("change", changed);
  watches.set(parentElement, end);
  return () => {
    end();
    watches.delete(parentElement);
  };
}

/** Whether the page has a dark background. */
function hasDarkBackground() {
  const app = document.querySelector('[data-testid="stApp"]') ?? document.body;
  const [red = 255, green = 255, blue = 255] = getComputedStyle(app).backgroundColor.match(/\d+/g)?.map(Number) ?? [];
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}
