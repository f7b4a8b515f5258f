// Tells the server that the browser went a step back or forward to the address of another view of the
// same map. Streamlit only runs the page again: it keeps the values of all controls.
/** @type {Map<HTMLElement | ShadowRoot, () => void>} */
const watches = new Map();

/**
 * The entry point of the Streamlit component, called at every run of the page.
 *
 * @param {Component<{run: string, view: string}>} component the run and the text of its present view.
 * @returns {() => void} ends the watch.
 */
export default function (component) {
  const { parentElement, data, setTriggerValue } = component;
  const page = window.location.pathname;
  const report = () => {
    const parameters = new URLSearchParams(window.location.search);
    const view = parameters.get("view") ?? "";
    if (window.location.pathname !== page || parameters.get("run") !== data.run || view === data.view) return;
    setTriggerValue("step", { view });
  };
  watches.get(parentElement)?.();
  window.addEventListener("popstate", report);
  const end = () => window.removeEventListener("popstate", report);
  watches.set(parentElement, end);
  return () => {
    end();
    watches.delete(parentElement);
  };
}
