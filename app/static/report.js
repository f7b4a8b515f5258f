// Draws the figures of a report with plotly, in the colours of the reader's light or dark theme.
"use strict";
{
  /** @type {Record<string, ReportFigure>} */
  const figures = JSON.parse(document.getElementById("figures")?.textContent ?? "{}");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const draw = () => {
    for (const [id, figure] of Object.entries(figures)) {
      const { data, layout } = dark.matches ? figure.dark : figure.light;
      Plotly.react(id, data, layout, figure.config);
    }
  };
  draw();
  dark.addEventListener("change", draw);
}
