"""Learning curves: the mean of a score over the number of rows, with its spread over repeats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from app.figures.palette import rgb
from app.figures.theme import escape, path_colours, template
from app.formatting import shortened
from lvmcore.evaluation.learning_curves import LearningCurve

__all__ = ["learning_curve_figure"]

_BAND = 0.2


def learning_curve_figure(
    curves: Mapping[str, LearningCurve], key: str, axis_title: str, *, dark: bool, height: int
) -> go.Figure:
    """Draw a score of each model: its mean over the repeats, and a band of one sd to each side.

    Args:
        curves: the curves by the name of the model; one without the score is left out.
        key: of the score.
        axis_title: name of the score, with its unit.
        dark: whether the page is dark.
        height: in pixels.
    """
    figure = go.Figure()
    for (name, curve), colour in zip(curves.items(), path_colours(len(curves), dark), strict=True):
        _add_curve(figure, curve, key, escape(shortened(name, 40)), colour)
    figure.update_layout(
        template=template(dark),
        height=height,
        hovermode="closest",
        showlegend=len(curves) > 1,
        legend={"x": 0, "xanchor": "left"},
        margin={"t": 34 if len(curves) > 1 else 12},
        xaxis={
            "title": {"text": "rows of the fit"},
            "type": "log",
            "tickvals": sorted({size for curve in curves.values() for size in curve.sizes()}),
            "tickformat": ",d",
        },
        yaxis={"title": {"text": escape(axis_title)}},
    )
    return figure


def _add_curve(figure: go.Figure, curve: LearningCurve, key: str, name: str, colour: str) -> None:
    """The band and the line of one model."""
    found = [
        (size, values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0, len(values))
        for size, values in zip(curve.sizes(), curve.values(key), strict=True)
        if len(values)
    ]
    if not found:
        return
    size, mean, sd, repeats = (np.array(part) for part in zip(*found, strict=True))
    red, green, blue = rgb([colour])[0].astype(int)
    figure.add_scatter(
        x=np.concatenate([size, size[::-1]]),
        y=np.concatenate([mean + sd, (mean - sd)[::-1]]),
        mode="lines",
        fill="toself",
        fillcolor=f"rgba({red},{green},{blue},{_BAND})",
        line={"width": 0},
        hoverinfo="skip",
        name=f"{name} ± sd",
        legendgroup=name,
        showlegend=False,
    )
    figure.add_scatter(
        x=size,
        y=mean,
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"color": colour, "size": 7},
        customdata=np.column_stack([sd, repeats]),
        hovertemplate="%{x:,} rows: %{y:.3f} ± %{customdata[0]:.3f}, %{customdata[1]:d} fits"
        f"<extra>{name}</extra>",
        name=name,
        legendgroup=name,
    )
