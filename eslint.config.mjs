// Rules for the scripts in app/static and lvmcore/notebook. Types and undeclared names are TypeScript's to check, but it
// sees the scripts of the map as global, so what the other two may use of them is listed here.
import js from "@eslint/js";

const readonly = (...names) => Object.fromEntries(names.map((name) => [name, "readonly"]));

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2022, sourceType: "script" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "no-implicit-coercion": "error",
      "no-shadow": "error",
      "no-undef": "off",
      "no-unused-vars": ["error", { vars: "local" }], // the server joins the scripts
      "no-var": "error",
      "prefer-const": "error",
    },
  },
  {
    files: ["app/static/{map,trails,filter_charts,colour_scheme,upload_roles,text_undo,browser_history}.js", "lvmcore/notebook/*.js"],
    languageOptions: { sourceType: "module" },
    rules: { "no-unused-vars": "error" },
  },
  {
    files: ["app/static/{trails,report,map_file,colour_scheme,upload_roles,text_undo,browser_history}.js", "lvmcore/notebook/*.js"],
    languageOptions: { globals: readonly("HTMLInputElement", "HTMLTextAreaElement", "MutationObserver", "document", "getComputedStyle", "performance", "requestAnimationFrame", "setTimeout", "window", "URLSearchParams", "ResizeObserver", "ShadowRoot") },
    rules: { "no-undef": "error" },
  },
  {
    files: ["app/static/{trails,map_file}.js"],
    languageOptions: { globals: readonly("context2d", "markerPath") }, // of markers.js
  },
  {
    files: ["app/static/map_file.js"], // joined with scene.js, too
    languageOptions: { globals: readonly("createScale", "formatNumber", "markerCache", "ticks") },
  },
  {
    files: ["app/static/report.js"],
    languageOptions: { globals: readonly("Plotly") },
  },
];
