"""The map as a plotly figure, for reports and illustrations: rows and what is behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.axes import Axes, extent
from app.exploring import Grid
from app.figures.rows import MOST_SVG, Rows, row_traces
from app.figures.scene import ELLIPSE_SD
from app.figures.theme import escape, ink, ramp, template
from app.words import shortened

__all__ = ["axis_title", "ellipses", "evenly", "map_figure", "sampled"]

FloatArray = NDArray[np.float64]


HEIGHT = 620
_CORNERS = 32


def evenly(n: int, most: int) -> NDArray[np.intp]:
    """At most ``most`` positions out of n, evenly spaced."""
    return np.arange(0, n, max(1, -(-n // most)))


def sampled(n: int, most: int, seed: int) -> NDArray[np.intp]:
    """At most ``most`` positions out of n, picked at random, in their order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def axis_title(dimension: int | None) -> str:
    """What an axis shows."""
    return "row" if dimension is None else f"latent dimension {dimension + 1}"


def map_figure(
    rows: Rows,
    axes: Axes,
    *,
    dark: bool,
    grid: Grid | None = None,
    inducing: Mapping[str, FloatArray] | None = None,
    svg: bool = False,
) -> go.Figure:
    """Draw the map.

    Args:
        rows: what is drawn.
        axes: the latent dimensions.
        dark: whether the page is dark.
        grid: the heatmap behind the rows.
        inducing: inducing inputs per path on the two axes, each [M, 2].
        svg: whether rows are drawn without WebGL however many they are.
    """
    marks = go.Scatter if svg or len(rows.points) <= MOST_SVG else go.Scattergl
    ranges = extent(rows.points)
    if grid is not None:
        ranges = (float(grid.x[0]), float(grid.x[-1])), (float(grid.y[0]), float(grid.y[-1]))
    figure = go.Figure()
    if grid is not None:
        figure.add_trace(_heat(grid, dark))
    if rows.sd is not None:
        figure.add_trace(ellipses(rows.points, rows.sd, dark and grid is None))
    for trace in row_traces(marks, rows, dark):
        figure.add_trace(trace)
    for trace in _inducing(marks, inducing or {}, dark):
        figure.add_trace(trace)
    figure.update_layout(
        template=template(dark),
        height=HEIGHT,
        hovermode="closest",
        margin={"t": 36},
        legend={"x": 0, "xanchor": "left", "y": -0.11, "yanchor": "top"},
        xaxis={"title": {"text": axis_title(axes[0])}, "range": ranges[0]},
        yaxis={"title": {"text": axis_title(axes[1])}, "range": ranges[1]},
    )
    return figure


def _heat(grid: Grid, dark: bool) -> go.Heatmap:
    low, high = grid.limits or (None, None)
    return go.Heatmap(
        x=grid.x,
        y=grid.y,
        z=grid.value,
        zmin=low,
        zmax=high,
        zsmooth="best",
        colorscale=ramp(sure_is_low=grid.sure_is_low, dark=dark),
        colorbar={"title": {"text": f"{escape(grid.title)} ({escape(grid.unit)})"}},
        hoverinfo="skip",
        name="behind",
    )


def ellipses(points: FloatArray, sd: FloatArray, dark: bool) -> go.Scatter:
    """All ellipses as one line with gaps."""
    angle = np.linspace(0.0, 2 * np.pi, _CORNERS + 1)
    circle = ELLIPSE_SD * np.column_stack([np.cos(angle), np.sin(angle)])
    path = points[:, None, :] + sd[:, None, :] * circle[None]
    gap = np.full((len(points), 1, 2), np.nan)
    line = np.concatenate([path, gap], axis=1).reshape(-1, 2)
    return go.Scatter(
        x=line[:, 0],
        y=line[:, 1],
        mode="lines",
        line={"color": ink(dark).text, "width": 0.7},
        opacity=0.25,
        hoverinfo="skip",
        showlegend=False,
        name="ellipses",
    )


def _inducing(marks: Any, inducing: Mapping[str, FloatArray], dark: bool) -> Iterator[Any]:
    for (path, Z), symbol in zip(inducing.items(), cycle(("x", "cross", "star")), strict=False):
        yield marks(
            x=Z[:, 0],
            y=Z[:, 1],
            mode="markers",
            marker={
                "symbol": symbol,
                "size": 9,
                "color": ink(dark).text,
                "line": {"width": 1.2, "color": ink(dark).panel},
            },
            hoverinfo="skip",
            name=f"inducing inputs, {escape(shortened(path, 60))} path",
            showlegend=True,
        )
