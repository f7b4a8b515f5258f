"""Curves of a fit that has ended, for a page that stands by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.theme import escape, path_colours, template
from app.words import shortened

__all__ = ["course_figure"]

FloatArray = NDArray[np.float64]


def course_figure(
    curves: Mapping[str, tuple[FloatArray, FloatArray]], upright: str, *, dark: bool
) -> go.Figure:
    """Draw curves over the steps of a fit.

    Args:
        curves: steps and values of each, [n] each, by what to call it.
        upright: what the vertical axis shows, with its unit.
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
        yaxis={"title": {"text": escape(upright)}},
    )
    return figure
