// Gives the fields of uploads the role of a group. Streamlit calls them presentational though they have
// a name and take the focus, which screen readers treat in different ways.
const FIELDS = '[data-testid="stFileUploaderDropzone"][role="presentation"]';
/** @type {Map<HTMLElement | ShadowRoot, () => void>} */
const watches = new Map();

/**
 * The entry point of the Streamlit component, called at every run of the page.
 *
 * @param {Component<null>} component
 * @returns {() => void} ends the watch.
 */
export default function (component) {
  const { parentElement } = component;
  const watch = new MutationObserver(nameGroups);
  watches.get(parentElement)?.();
  watch.observe(document.body, { childList: true, subtree: true });
  nameGroups();
  const end = () => watch.disconnect();
  watches.set(parentElement, end);
  return () => {
    end();
    watches.delete(parentElement);
  };
}

/** Changes the role of each field on the page. */
function nameGroups() {
  for (const field of document.querySelectorAll(FIELDS)) field.setAttribute("role", "group");
}
