"""The rows on the map: their colours, shapes and texts, and which of them stand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.colouring import MISSING, OTHER, Categories, Colouring, Numbers
from app.figures.theme import NUMBERS, category, escape, ink
from app.words import shortened

__all__ = ["MOST_SVG", "Rows", "Shapes", "hover_label", "row_traces"]

FloatArray = NDArray[np.float64]

#: Up to so many rows are drawn as SVG, which needs no WebGL.
MOST_SVG = 2000
_HOLLOW = "circle-open"


@dataclass(frozen=True)
class Shapes:
    """Markers by category.

    Attributes:
        title: name of the column.
        symbol: marker of each row, [n].
        legend: name and marker of each category.
    """

    title: str
    symbol: NDArray[np.object_]
    legend: tuple[tuple[str, str], ...]


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
        size: diameters of the markers in pixels, [n]; None for one that suits their number.
        shape: markers by category, [n]; None where they go with the colours.
    """

    points: FloatArray
    number: NDArray[np.intp]
    hover: Sequence[Sequence[str]]
    colouring: Colouring = None
    selected: NDArray[np.bool_] | None = None
    sd: FloatArray | None = None
    size: FloatArray | None = None
    shape: Shapes | None = None


@dataclass(frozen=True)
class _Look:
    """How a group of rows is drawn."""

    rows: NDArray[np.intp]
    marker: dict[str, Any]
    name: str = "rows"
    listed: bool = False
    faint: bool = False


def row_traces(marks: Any, rows: Rows, dark: bool) -> Iterator[Any]:
    """A trace for each group of rows, those outside the selection first and faint.

    Args:
        marks: the plotly class of the traces: Scatter or Scattergl.
        rows: what is drawn.
        dark: whether the page is dark.
    """
    ranks: dict[str, int] = {}  # the legend keeps its order, whichever rows are selected
    for look in _looks(rows, dark):
        rank = ranks.setdefault(look.name, len(ranks) + 1)
        trace = _group(marks, rows, look).update(legendrank=rank)
        if rows.shape is not None and look.listed and len(look.rows):
            # The legend would show the marker of the first row in place of the colour alone.
            yield _entry(marks, trace, look)
            trace.update(showlegend=False)
        yield trace
    if rows.shape is not None:
        yield from _shape_entries(marks, rows.shape, len(ranks), dark)


def _entry(marks: Any, trace: Any, look: _Look) -> Any:
    """What stands in the legend for rows of one colour and several shapes."""
    marker = {"color": look.marker["color"], "size": 9, "opacity": trace.marker.opacity}
    if look.marker.get("symbol") == _HOLLOW:
        marker["symbol"] = _HOLLOW
    return marks(
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


def _shape_entries(marks: Any, shape: Shapes, rank: int, dark: bool) -> Iterator[Any]:
    """What stands in the legend for the shapes."""
    for place, (name, symbol) in enumerate(shape.legend, start=1):
        yield marks(
            x=[None],
            y=[None],
            mode="markers",
            marker={"color": ink(dark).text, "symbol": symbol, "size": 9},
            hoverinfo="skip",
            name=escape(f"{shortened(shape.title, 24)}: {shortened(name, 40)}"),
            legendrank=rank + place,
            showlegend=True,
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
    hollow = {"size": size, "color": grey, "symbol": _HOLLOW, "line": {"width": 1.5}}
    plain = {"size": size, "line": edge}
    if rows.colouring is None:
        colour, _ = category(0, dark)
        yield _Look(np.arange(n), {**plain, "color": colour})
    elif isinstance(rows.colouring, Numbers):
        values = rows.colouring.values
        known = np.isfinite(values)
        ramp = _ramp(rows.colouring)
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


def _ramp(numbers: Numbers) -> dict[str, Any]:
    low, high = numbers.ends or (0.0, 1.0)
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
) -> Any:
    """One trace of rows."""
    marker = {**look.marker, "opacity": 0.18 if look.faint else 0.95}
    if isinstance(marker["color"], np.ndarray):
        marker["color"] = marker["color"][look.rows]
        marker["showscale"] = not look.faint
    if rows.size is not None:
        marker["size"] = rows.size[look.rows]
    if rows.shape is not None:
        open_ = "-open" if marker.get("symbol") == _HOLLOW else ""
        marker["symbol"] = [f"{symbol}{open_}" for symbol in rows.shape.symbol[look.rows]]
    return marks(
        x=rows.points[look.rows, 0],
        y=rows.points[look.rows, 1],
        mode="markers",
        marker=marker,
        hovertext=[hover_label(rows.hover[i]) for i in look.rows],
        hoverinfo="text",
        name=escape(shortened(look.name, 60)),
        legendgroup=f"group {look.name}",
        showlegend=look.listed,
    )


def hover_label(lines: Sequence[str]) -> str:
    """Lines about a row as plotly's hover text, the first one bold."""
    first, *others = (escape(line) for line in lines)
    return "<br>".join([f"<b>{first}</b>", *others])
