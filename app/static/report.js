"use strict";
const specs = JSON.parse(document.getElementById("figures").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function draw() {
  for (const [place, spec] of Object.entries(specs)) {
    const figure = dark.matches ? spec.dark : spec.light;
    Plotly.react(place, figure.data, figure.layout, spec.config);
  }
}
draw();
dark.addEventListener("change", draw);
