"""The map: rows in two latent dimensions, what the model says behind them, and what is marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from app.axes import Axes, extent
from app.exploring import Grid
from app.figures.rows import MOST_SVG, Marked, Rows, row_traces
from app.figures.theme import escape, ink, ramp, template
from app.words import shortened

__all__ = ["ELLIPSE_SD", "GROUND", "axis_title", "ellipses", "evenly", "map_figure", "outline"]

FloatArray = NDArray[np.float64]

#: What a clicked place that is no row carries as its row number.
GROUND = -1
#: Posterior ellipses are drawn at so many standard deviations.
ELLIPSE_SD = 2.0

HEIGHT = 620
#: The plot's size in pixels, about: how far places on open ground keep from the rows.
_WIDTH_PX, _HEIGHT_PX, _CLEAR_PX = 720.0, 540.0, 9.0
#: Places on open ground that can be clicked, along each axis.
PLACES = 48
_CORNERS = 32


def evenly(n: int, most: int) -> NDArray[np.intp]:
    """At most ``most`` positions out of n, evenly spaced."""
    return np.arange(0, n, max(1, -(-n // most)))


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
    outlines: Sequence[Sequence[tuple[float, float]]] = (),
    marked: Marked = None,
    turn: int = 0,
    svg: bool = False,
) -> go.Figure:
    """Draw the map.

    Open ground can be clicked too: an invisible trace holds a lattice of places, each far enough
    from every row that a click on a row's marker finds the row. Such a place carries GROUND as the
    first entry of its custom data, a row its number.

    Args:
        rows: what is drawn.
        axes: the latent dimensions.
        dark: whether the page is dark.
        grid: the heatmap behind the rows.
        inducing: inducing inputs per path on the two axes, each [M, 2].
        outlines: corners of the regions that were drawn.
        marked: x, y and row number (None on open ground) of the point to mark.
        turn: a number that makes this drawing differ from the one before.
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
    figure.add_trace(_ground(marks, rows.points, ranges, grid, marked, dark))
    for trace in row_traces(marks, rows, marked, dark):
        figure.add_trace(trace)
    for trace in _inducing(marks, inducing or {}, dark):
        figure.add_trace(trace)
    for corners in outlines:
        figure.add_trace(outline(corners, dark))
    figure.update_layout(
        template=template(dark),
        height=HEIGHT,
        hoverdistance=-1,
        hovermode="closest",
        meta={"turn": turn},
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


def _ground(
    marks: Any,
    points: FloatArray,
    ranges: tuple[tuple[float, float], tuple[float, float]],
    grid: Grid | None,
    marked: Marked,
    dark: bool,
) -> Any:
    """The invisible lattice, and the marked place last where it is no row."""
    x, y = (np.linspace(low, high, PLACES) for low, high in ranges)
    lattice = np.column_stack([np.tile(x, PLACES), np.repeat(y, PLACES)])
    pixel = np.array([ranges[0][1] - ranges[0][0], ranges[1][1] - ranges[1][0]])
    pixel = pixel / (_WIDTH_PX, _HEIGHT_PX)
    distance, _ = cKDTree(points / pixel).query(lattice / pixel)
    lattice = lattice[distance >= _CLEAR_PX]
    chosen = None
    if marked is not None and marked[2] is None:
        lattice = np.vstack([lattice, [marked[:2]]])
        chosen = [len(lattice) - 1]
    custom: list[NDArray[Any]] = [np.full(len(lattice), GROUND, dtype=np.float64)]
    hover: dict[str, Any] = {"hoverinfo": "none"}
    if grid is not None:
        column = np.abs(lattice[:, :1] - grid.x).argmin(axis=1)
        row = np.abs(lattice[:, 1:] - grid.y).argmin(axis=1)
        custom.append(grid.value[row, column])
        title = escape(grid.title).replace("%", "&#37;")
        hover = {"hovertemplate": f"{title}: %{{customdata[1]:.3g}}<extra></extra>"}
    return marks(
        x=lattice[:, 0],
        y=lattice[:, 1],
        mode="markers",
        customdata=np.column_stack(custom).tolist(),  # rows of an array come back as objects
        marker={
            "size": 14,
            "symbol": "cross",
            "opacity": 0,
            "color": ink(dark).text,
            "line": {"width": 1, "color": ink(dark).panel},
        },
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 0}},
        selectedpoints=chosen,
        showlegend=False,
        name="ground",
        **hover,
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


def outline(corners: Sequence[tuple[float, float]], dark: bool) -> go.Scatter:
    """The edge of a region that was drawn."""
    closed = np.array([*corners, corners[0]])
    return go.Scatter(
        x=closed[:, 0],
        y=closed[:, 1],
        mode="lines",
        line={"color": ink(dark).text, "width": 1.4, "dash": "dot"},
        hoverinfo="skip",
        showlegend=False,
        name="outline",
    )
