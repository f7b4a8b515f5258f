"""Figures of predictions: classes against the truth, calibration, which columns matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from scipy.stats import binom

from app.figures.theme import accent, escape, ink, template
from app.words import count, shortened

__all__ = ["calibration_figure", "confusion_figure", "input_relevance_figure"]

FloatArray = NDArray[np.float64]

_HEIGHT = 400
#: Up to so many classes each cell says its count.
_MOST_COUNTED = 16
_MOST_BARS = 20
_BAR_PX = 26


def confusion_figure(counts: NDArray[np.intp], classes: Sequence[str], *, dark: bool) -> go.Figure:
    """How often rows of each class are said to be of each.

    Args:
        counts: rows by true and by predicted class, [C, C].
        classes: their names.
        dark: whether the page is dark.
    """
    names = [escape(shortened(name, 24)) for name in classes]
    whole = np.maximum(1, counts.sum(axis=1, keepdims=True))
    share = counts / whole
    hover = [
        [
            f"<b>{truth}</b>, said to be <b>{said}</b><br>{count(int(counts[i, j]), 'row')}, "
            f"{share[i, j]:.0%} of the class"
            for j, said in enumerate(names)
        ]
        for i, truth in enumerate(names)
    ]
    places = np.arange(len(names))
    figure = go.Figure()
    figure.add_heatmap(
        x=places,
        y=places,
        z=share,
        zmin=0.0,
        zmax=1.0,
        colorscale=[ink(dark).panel, accent(dark)],
        colorbar={"title": {"text": "share of the true class"}, "tickformat": ".0%"},
        text=counts if len(names) <= _MOST_COUNTED else None,
        texttemplate="%{text}" if len(names) <= _MOST_COUNTED else None,
        hovertext=hover,
        hoverinfo="text",
        xgap=2,
        ygap=2,
        name="rows",
    )
    ticks = {"tickvals": places, "ticktext": names, "showline": False, "ticks": ""}
    figure.update_layout(
        template=template(dark),
        height=_HEIGHT,
        margin={"t": 30},
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis={"title": {"text": "predicted class"}, **ticks},
        yaxis={"title": {"text": "true class"}, "autorange": "reversed", **ticks},
    )
    return figure


def calibration_figure(
    said: FloatArray,
    found: FloatArray,
    rows: NDArray[np.intp],
    *,
    across: str,
    upright: str,
    dark: bool,
) -> go.Figure:
    """What was said of how often something holds, against how often it did.

    The band holds 95 % of what would be found if the shares were right: of Binomial(n, p)/n.

    Args:
        said: shares that were said, increasing, [k].
        found: shares that were found, [k].
        rows: on how many rows, at least one each, [k].
        across: what the horizontal axis shows.
        upright: what the vertical axis shows.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    muted = ink(dark).muted
    low, high = (binom.ppf(end, rows, said) / rows for end in (0.025, 0.975))
    figure.add_scatter(
        x=100 * np.concatenate([said, said[::-1]]),
        y=100 * np.concatenate([high, low[::-1]]),
        mode="lines",
        fill="toself",
        fillcolor="rgba(128,138,148,0.18)",
        line={"width": 0},
        hoverinfo="skip",
        name="where chance alone would put it",
    )
    figure.add_scatter(
        x=[0, 100],
        y=[0, 100],
        mode="lines",
        line={"color": muted, "width": 1, "dash": "dot"},
        hoverinfo="skip",
        name="calibrated",
        showlegend=False,
    )
    figure.add_scatter(
        x=100 * said,
        y=100 * found,
        mode="lines+markers",
        line={"color": accent(dark), "width": 2},
        marker={"color": accent(dark), "size": 7},
        hovertext=[
            f"said {p:.0%}, found {q:.0%} on {count(int(n), 'row')}"
            for p, q, n in zip(said, found, rows, strict=True)
        ],
        hoverinfo="text",
        name="found",
    )
    figure.update_layout(
        template=template(dark),
        height=_HEIGHT,
        hovermode="closest",
        margin={"t": 30},
        legend={"x": 0, "xanchor": "left"},
        xaxis={"title": {"text": f"{across}, %"}, "range": [-2, 102]},
        yaxis={"title": {"text": f"{upright}, %"}, "range": [-2, 102]},
    )
    return figure


def input_relevance_figure(names: Sequence[str], share: FloatArray, *, dark: bool) -> go.Figure:
    """How much each input of a layer matters, the most relevant ones first.

    Args:
        names: of the inputs, n of them.
        share: of each in the sum of all, [n].
        dark: whether the page is dark.
    """
    order = np.argsort(-share, kind="stable")[:_MOST_BARS]
    told = [escape(shortened(names[i], 22)) for i in order]
    places = np.arange(len(order))
    figure = go.Figure()
    figure.add_bar(
        x=100 * share[order],
        y=places,
        orientation="h",
        marker={"color": accent(dark)},
        hovertext=[f"{escape(names[i])}: {share[i]:.1%}" for i in order],
        hoverinfo="text",
        name="relevance",
    )
    figure.update_layout(
        template=template(dark),
        height=84 + _BAR_PX * len(order),
        bargap=0.3,
        xaxis={"title": {"text": "share of the layer's relevance, %"}, "rangemode": "tozero"},
        yaxis={
            "tickvals": places,
            "ticktext": told,
            "range": [len(order) - 0.4, -0.6],
            "showline": False,
            "ticks": "",
        },
    )
    return figure
