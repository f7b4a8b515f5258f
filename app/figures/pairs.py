"""Paired histograms: how columns are spread among the selected rows and among the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.apart import Pair
from app.figures.theme import accent, escape, ink, template
from app.words import shortened

__all__ = ["pairs_figure"]

ACROSS = 3
_HEIGHT_PX, _TOP_PX = 190, 64


def pairs_figure(pairs: Sequence[Pair], distances: Sequence[float], *, dark: bool) -> go.Figure:
    """Draw columns as small histograms, the selected rows against the others.

    Args:
        pairs: at least one column.
        distances: how far each sets the selected rows apart, for its title.
        dark: whether the page is dark.
    """
    lines = -(-len(pairs) // ACROSS)
    titles = [
        f"{escape(shortened(pair.name, 20))} · {distance:.2f}"
        for pair, distance in zip(pairs, distances, strict=True)
    ]
    height = _TOP_PX + _HEIGHT_PX * lines
    figure = make_subplots(
        rows=lines,
        cols=ACROSS,
        subplot_titles=titles,
        horizontal_spacing=0.07,
        vertical_spacing=min(0.34, 76 / height),
    )
    for i, pair in enumerate(pairs):
        for trace in _bars(pair, dark):
            trace.update(showlegend=i == 0)
            figure.add_trace(trace, row=i // ACROSS + 1, col=i % ACROSS + 1)
        _axes(figure, pair, i)
    figure.update_layout(
        template=template(dark),
        height=height,
        barmode="group",
        bargap=0.2,
        bargroupgap=0,
        hovermode="closest",
        margin={"t": _TOP_PX, "b": 36},
        legend={"x": 0, "xanchor": "left", "y": 1 + 34 / (height - _TOP_PX), "yanchor": "bottom"},
    )
    figure.update_xaxes(fixedrange=True)
    figure.update_yaxes(fixedrange=True, rangemode="tozero", tickformat=".0%", nticks=4)
    figure.update_annotations(font={"size": 13, "color": ink(dark).text})
    return figure


def _bars(pair: Pair, dark: bool) -> list[Any]:
    """The bars of the selected rows over or beside those of the others."""
    looks = (("the others", pair.outside, ink(dark).muted), ("selected", pair.inside, accent(dark)))
    traces: list[Any] = []
    for name, share, colour in looks:
        said = "of the others" if name == "the others" else "of the selected"
        if pair.edges is None:
            traces.append(
                go.Bar(
                    x=np.arange(len(pair.levels)),
                    y=share,
                    customdata=[[escape(shortened(level, 60))] for level in pair.levels],
                    hovertemplate=f"%{{customdata[0]}}: %{{y:.1%}} {said}<extra></extra>",
                    marker={"color": colour},
                    name=name,
                    legendgroup=name,
                )
            )
            continue
        scale = 1000.0 if pair.dates else 1.0  # plotly counts milliseconds
        traces.append(
            go.Scatter(
                x=np.repeat(pair.edges * scale, 2),
                y=np.concatenate([[0.0], np.repeat(share, 2), [0.0]]),
                mode="lines",
                line={"color": colour, "width": 1.6},
                fill="tozeroy",
                hovertemplate=f"%{{x:.4g}}: %{{y:.1%}} {said}<extra></extra>"
                if not pair.dates
                else f"%{{x}}: %{{y:.1%}} {said}<extra></extra>",
                name=name,
                legendgroup=name,
            )
        )
    return traces


def _axes(figure: go.Figure, pair: Pair, i: int) -> None:
    place = {"row": i // ACROSS + 1, "col": i % ACROSS + 1}
    if pair.edges is None:
        names = [escape(shortened(level, 11)) for level in pair.levels]
        figure.update_xaxes(tickvals=list(range(len(names))), ticktext=names, **place)
    elif pair.dates:
        figure.update_xaxes(type="date", nticks=4, **place)
    else:
        figure.update_xaxes(nticks=5, **place)
