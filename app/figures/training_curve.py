"""Training curves of a finished fit, for the report."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from app.figures.theme import escape, path_colours, template
from app.formatting import shortened
from lvmcore.numerics.array_types import FloatArray

__all__ = ["training_curve_figure"]


def training_curve_figure(
    curves: Mapping[str, tuple[FloatArray, FloatArray]], axis_title: str, *, dark: bool
) -> go.Figure:
    """Draw curves over the steps of a fit.

    Args:
        curves: steps and values of each curve, [n] each, by its name.
        axis_title: title of the vertical axis, with its unit.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    for (name, (step, value)), colour in zip(
        curves.items(), path_colours(len(curves), dark), strict=True
    ):
        title = escape(shortened(name, 60)).replace("%", "&#37;")
        figure.add_scatter(
            x=step,
            y=value,
            mode="lines" if len(step) > 1 else "markers",
            line={"color": colour, "width": 2},
            name=escape(shortened(name, 60)),
            hovertemplate=f"{title}, step %{{x}}: %{{y:,.1f}}<extra></extra>",
        )
    figure.update_layout(
        template=template(dark),
        height=320,
        hovermode="closest",
        showlegend=len(curves) > 1,
        margin={"t": 36},
        xaxis={"title": {"text": "step"}},
        yaxis={"title": {"text": escape(axis_title)}},
    )
    return figure
