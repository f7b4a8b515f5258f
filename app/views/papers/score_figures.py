"""Scores of repeated fits: a dot for each fit, the mean and the standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from app.figures.theme import accent, escape, page_colours, template
from app.formatting import number, shortened

__all__ = ["score_dots_figure"]

_LINE_PX, _MARGIN_PX = 30, 96


def score_dots_figure(
    scores: Mapping[str, Sequence[float]], axis_title: str, *, dark: bool
) -> go.Figure:
    """Draw the scores of each model on a line of its own.

    Args:
        scores: the score of each fit, at least one, by the name of the model.
        axis_title: name of the score, with its unit.
        dark: whether the page is dark.
    """
    names = [escape(shortened(name, 40)) for name in scores]
    lines = np.arange(len(names))
    mean = [float(np.mean(values)) for values in scores.values()]
    sd = [float(np.std(values, ddof=1)) if len(values) > 1 else 0.0 for values in scores.values()]
    figure = go.Figure()
    figure.add_scatter(
        x=np.concatenate([np.asarray(values, dtype=np.float64) for values in scores.values()]),
        y=np.repeat(lines, [len(values) for values in scores.values()]),
        mode="markers",
        marker={"color": page_colours(dark).muted, "size": 6, "symbol": "circle-open"},
        hovertemplate="%{x:.4g}<extra></extra>",
        name="a fit",
    )
    figure.add_scatter(
        x=mean,
        y=lines,
        mode="markers",
        error_x={"array": sd, "color": accent(dark), "thickness": 2, "width": 0},
        marker={"color": accent(dark), "size": 9},
        hovertext=[
            f"{name}: {number(value, 3)}" + (f" ± {number(spread, 2)}" if len(values) > 1 else "")
            for name, value, spread, values in zip(names, mean, sd, scores.values(), strict=True)
        ],
        hoverinfo="text",
        name="mean ± sd",
    )
    figure.update_layout(
        template=template(dark),
        height=_MARGIN_PX + _LINE_PX * len(names),
        hovermode="closest",
        showlegend=True,
        legend={"x": 0, "xanchor": "left"},
        margin={"t": 30},
        xaxis={"title": {"text": escape(axis_title), "standoff": 14}},
        yaxis={
            "tickvals": lines,
            "ticktext": names,
            "range": [len(names) - 0.4, -0.6],
            "showline": False,
            "ticks": "",
        },
    )
    return figure
