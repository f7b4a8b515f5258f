// Leaves Ctrl+Z in a field of text to the browser: the page's shortcut would undo something else.
const TEXT_FIELDS = new Set(["text", "search", "number"]);

/**
 * The entry point of the Streamlit component, called at every run of the page.
 *
 * @returns {() => void} ends the watch.
 */
export default function () {
  window.addEventListener("keydown", keepTextUndo, true); // once, however often it is added
  return () => window.removeEventListener("keydown", keepTextUndo, true);
}

/** @param {KeyboardEvent} event */
function keepTextUndo(event) {
  const field = event.composedPath()[0];
  const isText = field instanceof HTMLTextAreaElement ||
    (field instanceof HTMLInputElement && TEXT_FIELDS.has(field.type) && field.role !== "combobox");
  if (isText && (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    event.stopImmediatePropagation();
  }
}
