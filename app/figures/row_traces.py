"""The rows of a map as plotly traces: colours, shapes, hover texts and the selection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.analysis.map.row_colours import MISSING, OTHER, CategoryStyle, Colouring, NumericColours
from app.figures.theme import PLOTLY_SCALES, category, escape, page_colours
from app.formatting import number, shortened
from lvmcore.numerics.array_types import FloatArray

__all__ = ["MapRows", "RowShapes", "hover_label", "row_traces"]


#: Most rows drawn with large markers.
_MOST_LARGE = 2000
_HOLLOW = "circle-open"


@dataclass(frozen=True)
class RowShapes:
    """Markers by category.

    Attributes:
        title: name of the column.
        symbol: marker of each row, [n].
        legend: names and markers of the categories.
    """

    title: str
    symbol: NDArray[np.object_]
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MapRows:
    """The rows of a map.

    Attributes:
        points: positions on the map, [n, 2].
        number: position of each row among all fitted rows, [n].
        hover: lines of the hover text of each row, the first one its name.
        colouring: colours of the rows.
        selected: mask of the selected rows, [n]; None without a selection.
        sd: posterior sd along both axes, [n, 2]; None draws no ellipses.
        correlation: posterior correlation of both axes, [n]; None for 0.
        size: diameters of the markers in pixels, [n]; None for a default by the number of rows.
        shape: markers by a column, [n]; None for the markers of the colours.
    """

    points: FloatArray
    number: NDArray[np.intp]
    hover: Sequence[Sequence[str]]
    colouring: Colouring = None
    selected: NDArray[np.bool_] | None = None
    sd: FloatArray | None = None
    correlation: FloatArray | None = None
    size: FloatArray | None = None
    shape: RowShapes | None = None


@dataclass(frozen=True)
class _RowGroup:
    """Rows with one marker."""

    rows: NDArray[np.intp]
    marker: dict[str, Any]
    name: str = "rows"
    listed: bool = False
    faint: bool = False


def row_traces(rows: MapRows, dark: bool) -> Iterator[Any]:
    """A trace for each group of rows; rows outside the selection come first and are faint.

    Args:
        rows: the rows.
        dark: whether the page is dark.
    """
    # The order of the legend depends neither on the selection nor on the layers.
    ranks = {group.name: rank for rank, group in enumerate(_groups(rows, dark), start=1)}
    for group in _row_groups(rows, dark):
        trace = _trace(rows, group).update(legendrank=ranks[group.name])
        if rows.shape is not None and group.listed and len(group.rows):
            # Without an entry of its own, the legend would show the shape of the first row.
            yield _entry(trace, group)
            trace.update(showlegend=False)
        yield trace
    if rows.shape is not None:
        yield from _shape_entries(rows.shape, len(ranks), dark)


def _entry(trace: Any, group: _RowGroup) -> Any:
    """Legend entry of rows with one colour and several shapes."""
    marker = {"color": group.marker["color"], "size": 9, "opacity": trace.marker.opacity}
    if group.marker.get("symbol") == _HOLLOW:
        marker["symbol"] = _HOLLOW
    return go.Scatter(
        x=[None],
        y=[None],
        mode="markers",
        marker=marker,
        hoverinfo="skip",
        name=trace.name,
        legendgroup=trace.legendgroup,
        legendrank=trace.legendrank,
        showlegend=True,
    )


def _shape_entries(shape: RowShapes, rank: int, dark: bool) -> Iterator[Any]:
    """Legend entries of the shapes."""
    for offset, (name, symbol) in enumerate(shape.legend, start=1):
        yield go.Scatter(
            x=[None],
            y=[None],
            mode="markers",
            marker={"color": page_colours(dark).text, "symbol": symbol, "size": 9},
            hoverinfo="skip",
            name=escape(f"{shortened(shape.title, 24)}: {shortened(name, 40)}"),
            legendrank=rank + offset,
            showlegend=True,
        )


def _row_groups(rows: MapRows, dark: bool) -> Iterator[_RowGroup]:
    """Groups of rows; rows outside the selection are faint and below the others."""
    groups = list(_groups(rows, dark))
    if isinstance(rows.colouring, CategoryStyle) and rows.colouring.layers is not None:
        groups.reverse()
    if rows.selected is None:
        yield from groups
        return
    for group in groups:
        outside = group.rows[~rows.selected[group.rows]]
        alone = group.listed and len(outside) == len(group.rows)
        yield _RowGroup(outside, group.marker, group.name, listed=alone, faint=True)
    for group in groups:
        inside = group.rows[rows.selected[group.rows]]
        yield _RowGroup(inside, group.marker, group.name, listed=group.listed)


def _groups(rows: MapRows, dark: bool) -> Iterator[_RowGroup]:
    n = len(rows.points)
    size = 8 if n <= 500 else 7 if n <= _MOST_LARGE else 5 if n <= 10_000 else 4
    edge = {"width": 0.8 if n <= _MOST_LARGE else 0.3, "color": page_colours(dark).panel}
    grey = page_colours(dark).muted
    hollow = {"size": size, "color": grey, "symbol": _HOLLOW, "line": {"width": 1.5}}
    plain = {"size": size, "line": edge}
    if rows.colouring is None:
        colour, _ = category(0, dark)
        yield _RowGroup(np.arange(n), {**plain, "color": colour})
    elif isinstance(rows.colouring, NumericColours):
        shares = rows.colouring.shares()
        known = np.isfinite(shares)
        scale = _colour_scale(rows.colouring)
        yield _RowGroup(np.flatnonzero(known), {**plain, **scale, "color": shares})
        if not known.all():
            yield _RowGroup(np.flatnonzero(~known), hollow, "(missing)", listed=True)
    else:
        codes = rows.colouring.codes
        looks = rows.colouring.looks(dark=dark)
        for code in rows.colouring.in_order:
            colour, shape = looks[code]
            marker = {**plain, "color": colour, "symbol": shape}
            name = rows.colouring.names[code]
            yield _RowGroup(np.flatnonzero(codes == code), marker, name, listed=True)
        if (codes == OTHER).any():
            name = _other(rows.colouring)
            yield _RowGroup(
                np.flatnonzero(codes == OTHER), {**plain, "color": grey}, name, listed=True
            )
        if (codes == MISSING).any():
            yield _RowGroup(np.flatnonzero(codes == MISSING), hollow, "(missing)", listed=True)


def _other(colouring: CategoryStyle) -> str:
    return f"other ({colouring.others} more)"


def _ticks(numbers: NumericColours) -> dict[str, Any]:
    """The ends and the middle of the colour bar, with their numbers."""
    if numbers.ends is None:
        return {"tickvals": []}
    places = [0.0, 0.5, 1.0]
    return {"tickvals": places, "ticktext": [number(numbers.value_at(at), 3) for at in places]}


def _colour_scale(numbers: NumericColours) -> dict[str, Any]:
    bar = {
        **_ticks(numbers),
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1.01,
        "yanchor": "bottom",
        "len": 0.55,
        "thickness": 10,
        "outlinewidth": 0,
        "title": {"text": escape(numbers.full_title), "side": "top", "font": {"size": 12}},
    }
    return {
        "colorscale": PLOTLY_SCALES[numbers.colours.shown_scale],
        "cmin": 0.0,
        "cmax": 1.0,
        "colorbar": bar,
        "showscale": True,
    }


def _trace(
    rows: MapRows,
    group: _RowGroup,
) -> Any:
    """The trace of a group of rows."""
    marker = {**group.marker, "opacity": 0.18 if group.faint else 0.95}
    if isinstance(marker["color"], np.ndarray):
        marker["color"] = marker["color"][group.rows]
        marker["showscale"] = not group.faint
    if rows.size is not None:
        marker["size"] = rows.size[group.rows]
    if rows.shape is not None:
        open_ = "-open" if marker.get("symbol") == _HOLLOW else ""
        marker["symbol"] = [f"{symbol}{open_}" for symbol in rows.shape.symbol[group.rows]]
    return go.Scatter(
        x=rows.points[group.rows, 0],
        y=rows.points[group.rows, 1],
        mode="markers",
        marker=marker,
        hovertext=[hover_label(rows.hover[i]) for i in group.rows],
        hoverinfo="text",
        name=escape(shortened(group.name, 60)),
        legendgroup=f"group {group.name}",
        showlegend=group.listed,
    )


def hover_label(lines: Sequence[str]) -> str:
    """Hover text of plotly from lines about a row, the first one bold."""
    first, *others = (escape(line) for line in lines)
    return "<br>".join([f"<b>{first}</b>", *others])
