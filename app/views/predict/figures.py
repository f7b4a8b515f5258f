"""Figures of predictions: confusion matrix, calibration, relevance of the inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from scipy.stats import binom

from app.figures.theme import accent, escape, page_colours, template
from app.formatting import count, shortened
from lvmcore.numerics.array_types import FloatArray

__all__ = ["calibration_figure", "confusion_figure", "input_relevance_figure"]


_HEIGHT = 400
#: Most classes for which the cells show their counts.
_MOST_COUNTED = 16
_MOST_BARS = 20
_BAR_PX = 26


def confusion_figure(counts: NDArray[np.intp], classes: Sequence[str], *, dark: bool) -> go.Figure:
    """Draw a confusion matrix.

    Args:
        counts: number of rows by true and by predicted class, [C, C].
        classes: names of the classes.
        dark: whether the page is dark.
    """
    names = [escape(shortened(name, 24)) for name in classes]
    totals = np.maximum(1, counts.sum(axis=1, keepdims=True))
    share = counts / totals
    hover = [
        [
            f"<b>{truth}</b>, predicted <b>{predicted}</b><br>{count(int(counts[i, j]), 'row')}, "
            f"{share[i, j]:.0%} of the class"
            for j, predicted in enumerate(names)
        ]
        for i, truth in enumerate(names)
    ]
    positions = np.arange(len(names))
    figure = go.Figure()
    figure.add_heatmap(
        x=positions,
        y=positions,
        z=share,
        zmin=0.0,
        zmax=1.0,
        colorscale=[page_colours(dark).panel, accent(dark)],
        colorbar={"title": {"text": "share of the true class"}, "tickformat": ".0%"},
        text=counts if len(names) <= _MOST_COUNTED else None,
        texttemplate="%{text}" if len(names) <= _MOST_COUNTED else None,
        hovertext=hover,
        hoverinfo="text",
        xgap=2,
        ygap=2,
        name="rows",
    )
    ticks = {"tickvals": positions, "ticktext": names, "showline": False, "ticks": ""}
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
    nominal: FloatArray,
    observed: FloatArray,
    rows: NDArray[np.intp],
    *,
    horizontal: str,
    vertical: str,
    dark: bool,
) -> go.Figure:
    """Draw observed shares over nominal ones.

    The band is the central 95 % interval of Binomial(n, p) / n: of a calibrated model by chance.

    Args:
        nominal: nominal shares, increasing, [k].
        observed: observed shares, [k].
        rows: number of rows of each, at least one, [k].
        horizontal: title of the horizontal axis.
        vertical: title of the vertical axis.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    muted = page_colours(dark).muted
    low, high = (binom.ppf(end, rows, nominal) / rows for end in (0.025, 0.975))
    figure.add_scatter(
        x=100 * np.concatenate([nominal, nominal[::-1]]),
        y=100 * np.concatenate([high, low[::-1]]),
        mode="lines",
        fill="toself",
        fillcolor="rgba(128,138,148,0.18)",
        line={"width": 0},
        hoverinfo="skip",
        name="95 % of calibrated models",
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
        x=100 * nominal,
        y=100 * observed,
        mode="lines+markers",
        line={"color": accent(dark), "width": 2},
        marker={"color": accent(dark), "size": 7},
        hovertext=[
            f"nominal {p:.0%}, observed {q:.0%} on {count(int(n), 'row')}"
            for p, q, n in zip(nominal, observed, rows, strict=True)
        ],
        hoverinfo="text",
        name="observed",
    )
    figure.update_layout(
        template=template(dark),
        height=_HEIGHT,
        hovermode="closest",
        margin={"t": 30},
        legend={"x": 0, "xanchor": "left"},
        xaxis={"title": {"text": f"{horizontal}, %"}, "range": [-2, 102]},
        yaxis={"title": {"text": f"{vertical}, %"}, "range": [-2, 102]},
    )
    return figure


def input_relevance_figure(
    names: Sequence[str], share: FloatArray, *, of: str, dark: bool
) -> go.Figure:
    """Draw the relevance of the inputs of a layer, the most relevant ones first.

    Args:
        names: names of the inputs, n of them.
        share: share of each in the sum of all, [n].
        of: what it is a share of, for the axis.
        dark: whether the page is dark.
    """
    order = np.argsort(-share, kind="stable")[:_MOST_BARS]
    tick_texts = [escape(shortened(names[i], 22)) for i in order]
    lines = np.arange(len(order))
    figure = go.Figure()
    figure.add_bar(
        x=100 * share[order],
        y=lines,
        orientation="h",
        marker={"color": accent(dark)},
        hovertext=[f"{escape(shortened(names[i], 60))}: {share[i]:.1%}" for i in order],
        hoverinfo="text",
        name="relevance",
    )
    figure.update_layout(
        template=template(dark),
        height=84 + _BAR_PX * len(order),
        bargap=0.3,
        xaxis={"title": {"text": f"share of {of}, %"}, "rangemode": "tozero"},
        yaxis={
            "tickvals": lines,
            "ticktext": tick_texts,
            "range": [len(order) - 0.4, -0.6],
            "showline": False,
            "ticks": "",
        },
    )
    return figure
