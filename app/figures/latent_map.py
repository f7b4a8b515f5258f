"""The map: rows in two latent dimensions, what the model says behind them, and what is marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from app.axes import Axes, extent
from app.colouring import MISSING, OTHER, Categories, Colouring, Numbers
from app.exploring import Grid
from app.figures.theme import NUMBERS, category, escape, ink, ramp, template

__all__ = ["ELLIPSE_SD", "GROUND", "Rows", "axis_title", "evenly", "map_figure"]

FloatArray = NDArray[np.float64]

#: What a clicked place that is no row carries as its row number.
GROUND = -1
#: Posterior ellipses are drawn at so many standard deviations.
ELLIPSE_SD = 2.0

#: Up to so many rows are drawn as SVG, which needs no WebGL.
MOST_SVG = 2000
HEIGHT = 620
#: The plot's size in pixels, about: how far places on open ground keep from the rows.
_WIDTH_PX, _HEIGHT_PX, _CLEAR_PX = 720.0, 540.0, 9.0
#: Places on open ground that can be clicked, along each axis.
PLACES = 48
_CORNERS = 32


@dataclass(frozen=True)
class Rows:
    """The rows that are drawn.

    Attributes:
        points: positions on the map, [n, 2].
        number: of each row among all fitted rows, [n].
        hover: lines of text for each row, the first one its name.
        colouring: of these rows.
        selected: which are selected, [n]; None without a selection.
        sd: posterior sd along both axes, [n, 2]; None draws no ellipses.
    """

    points: FloatArray
    number: NDArray[np.intp]
    hover: Sequence[Sequence[str]]
    colouring: Colouring = None
    selected: NDArray[np.bool_] | None = None
    sd: FloatArray | None = None


@dataclass(frozen=True)
class _Look:
    """How a group of rows is drawn."""

    rows: NDArray[np.intp]
    marker: dict[str, Any]
    name: str = "rows"
    listed: bool = False
    faint: bool = field(default=False)


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
    marked: tuple[float, float, int | None] | None = None,
    turn: int = 0,
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
    """
    marks = go.Scatter if len(rows.points) <= MOST_SVG else go.Scattergl
    ranges = extent(rows.points)
    if grid is not None:
        ranges = (float(grid.x[0]), float(grid.x[-1])), (float(grid.y[0]), float(grid.y[-1]))
    figure = go.Figure()
    if grid is not None:
        figure.add_trace(_heat(grid, dark))
    if rows.sd is not None:
        figure.add_trace(_ellipses(rows.points, rows.sd, dark and grid is None))
    figure.add_trace(_ground(marks, rows.points, ranges, grid, marked, dark))
    for look in _looks(rows, dark):
        figure.add_trace(_group(marks, rows, look, marked, dark))
    for trace in _inducing(marks, inducing or {}, dark):
        figure.add_trace(trace)
    for outline in outlines:
        figure.add_trace(_outline(outline, dark))
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


def _ellipses(points: FloatArray, sd: FloatArray, dark: bool) -> go.Scatter:
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
    marked: tuple[float, float, int | None] | None,
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


def _looks(rows: Rows, dark: bool) -> Iterator[_Look]:
    """The groups of rows, those outside the selection faint and beneath the others."""
    everything = list(_groups(rows, dark))
    if rows.selected is None:
        yield from everything
        return
    for look in everything:
        outside = look.rows[~rows.selected[look.rows]]
        alone = look.listed and len(outside) == len(look.rows)
        yield _Look(outside, look.marker, look.name, listed=alone, faint=True)
    for look in everything:
        inside = look.rows[rows.selected[look.rows]]
        yield _Look(inside, look.marker, look.name, listed=look.listed)


def _groups(rows: Rows, dark: bool) -> Iterator[_Look]:
    n = len(rows.points)
    size = 8 if n <= 500 else 7 if n <= MOST_SVG else 5 if n <= 10_000 else 4
    edge = {"width": 0.8 if n <= MOST_SVG else 0.3, "color": ink(dark).panel}
    grey = ink(dark).muted
    hollow = {"size": size, "color": grey, "symbol": "circle-open", "line": {"width": 1.5}}
    plain = {"size": size, "line": edge}
    if rows.colouring is None:
        colour, _ = category(0, dark)
        yield _Look(np.arange(n), {**plain, "color": colour})
    elif isinstance(rows.colouring, Numbers):
        values = rows.colouring.values
        known = np.isfinite(values)
        ramp = _ramp(rows.colouring, values[known])
        yield _Look(np.flatnonzero(known), {**plain, **ramp, "color": values})
        if not known.all():
            yield _Look(np.flatnonzero(~known), hollow, "(missing)", listed=True)
    else:
        codes = rows.colouring.codes
        for code, name in enumerate(rows.colouring.names):
            colour, shape = category(code, dark)
            marker = {**plain, "color": colour, "symbol": shape}
            yield _Look(np.flatnonzero(codes == code), marker, name, listed=True)
        if (codes == OTHER).any():
            name = _other(rows.colouring)
            yield _Look(np.flatnonzero(codes == OTHER), {**plain, "color": grey}, name, listed=True)
        if (codes == MISSING).any():
            yield _Look(np.flatnonzero(codes == MISSING), hollow, "(missing)", listed=True)


def _other(colouring: Categories) -> str:
    return f"other ({colouring.others} more)"


def _ramp(numbers: Numbers, known: FloatArray) -> dict[str, Any]:
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    bar = {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1.01,
        "yanchor": "bottom",
        "len": 0.55,
        "thickness": 10,
        "outlinewidth": 0,
        "title": {"text": escape(numbers.title), "side": "top", "font": {"size": 12}},
    }
    return {"colorscale": NUMBERS, "cmin": low, "cmax": high, "colorbar": bar, "showscale": True}


def _group(
    marks: Any,
    rows: Rows,
    look: _Look,
    marked: tuple[float, float, int | None] | None,
    dark: bool,
) -> Any:
    """One trace of rows. The marked one is plotly's own selection, which the next click moves."""
    opacity = 0.18 if look.faint else 0.95
    marker = {**look.marker, "opacity": opacity}
    if isinstance(marker["color"], np.ndarray):
        marker["color"] = marker["color"][look.rows]
        marker["showscale"] = not look.faint
    chosen = None
    if marked is not None and marked[2] is not None:
        found = np.flatnonzero(rows.number[look.rows] == marked[2])
        chosen = found.tolist() or None
    return marks(
        x=rows.points[look.rows, 0],
        y=rows.points[look.rows, 1],
        mode="markers",
        customdata=rows.number[look.rows][:, None].tolist(),
        marker=marker,
        selected={"marker": {"opacity": 1, "size": 15, "color": ink(dark).text}},
        unselected={"marker": {"opacity": opacity}},
        selectedpoints=chosen,
        hovertext=[_label(rows.hover[i]) for i in look.rows],
        hoverinfo="text",
        name=escape(look.name),
        legendgroup=f"group {look.name}",
        showlegend=look.listed,
    )


def _label(lines: Sequence[str]) -> str:
    first, *others = (escape(line) for line in lines)
    return "<br>".join([f"<b>{first}</b>", *others])


def _inducing(marks: Any, inducing: Mapping[str, FloatArray], dark: bool) -> Iterator[Any]:
    for (path, Z), symbol in zip(inducing.items(), ("x", "cross", "star"), strict=False):
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
            name=f"inducing inputs, {escape(path)} path",
            showlegend=True,
        )


def _outline(corners: Sequence[tuple[float, float]], dark: bool) -> go.Scatter:
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
