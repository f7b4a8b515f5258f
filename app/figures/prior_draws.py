"""Functions drawn from the prior of a kernel."""

from __future__ import annotations

import plotly.graph_objects as go

from app.figures.theme import escape, path_colours, template
from app.formatting import shortened
from lvmcore.numerics.array_types import FloatArray

__all__ = ["prior_draws_figure"]

_MARGIN = 6


def prior_draws_figure(
    x: FloatArray, draws: FloatArray, title: str | None, *, dark: bool, height: int
) -> go.Figure:
    """Draw functions over a column.

    Args:
        x: values of the column, [G].
        draws: values of the functions, in standard deviations, [n, G].
        title: name of the column; None leaves the axes out.
        dark: whether the page is dark.
        height: in pixels.
    """
    figure = go.Figure()
    for values, colour in zip(draws, path_colours(len(draws), dark), strict=True):
        figure.add_scatter(
            x=x, y=values, mode="lines", line={"color": colour, "width": 1.5}, hoverinfo="skip"
        )
    axes = title is not None
    margin = {} if axes else {"margin": dict.fromkeys("lrtb", _MARGIN)}
    figure.update_layout(
        template=template(dark),
        height=height,
        showlegend=False,
        xaxis={"visible": axes, "title": {"text": escape(shortened(title or "", 40))}},
        yaxis={"visible": axes, "title": {"text": "target, sd"}},
        **margin,
    )
    return figure
