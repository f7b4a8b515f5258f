"""The scene that the canvas draws: rows, background, overlays and legend. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.analysis.map.contour_lines import contour_lines
from app.analysis.map.heatmaps import Heatmap
from app.analysis.map.row_colours import (
    MISSING,
    OTHER,
    CategoryStyle,
    Colouring,
    GroupLabel,
    NumericColours,
)
from app.figures import palette
from app.figures.density import AllRows, all_rows_data
from app.figures.pictures import PictureSheet
from app.figures.row_traces import MapRows
from app.figures.theme import accent, heatmap_colours, page_colours
from app.formatting import number, shortened
from lvmcore.numerics.array_types import FloatArray

__all__ = ["ELLIPSE_SD", "HEIGHT", "Ranges", "Scene", "scene_data"]

Ranges = tuple[tuple[float, float], tuple[float, float]]

#: Semi-axes of the posterior ellipses, in standard deviations.
ELLIPSE_SD = 2.0
HEIGHT = 600
#: Diameter of the rows in pixels, by the largest number of rows.
_DIAMETERS = ((500, 8.0), (2000, 6.8), (10_000, 5.0))
_SMALLEST = 4.0
_DIGITS = 6


@dataclass(frozen=True)
class Scene:
    """A map to draw on the canvas.

    Attributes:
        rows: the rows.
        ranges: ranges of both axes.
        titles: titles of both axes; None draws no ticks.
        alt: alternative text for screen readers.
        id: identity of the scene. A scene with another id resets the zoom, shows all groups and
            puts the cursor at ``start``.
        grid: the heatmap in the background.
        contours: whether contour lines of the heatmap are drawn.
        density: density picture of the rows as a data address, and the ranges that it fills.
        all_rows: all rows of a large map, of which ``rows`` are those drawn as markers.
        inducing: inducing inputs per path on the two axes, each [M, 2].
        outlines: corners of the drawn regions.
        marked: the marked point.
        path: a curve, [P, 2].
        letters: letters and their positions.
        group_labels: names of groups of rows, the most important first.
        pictures: pictures that mark the rows, where they do not overlap; None for none.
        follow: whether a cursor follows the mouse; otherwise clicks and lassos select.
        start: first position of the cursor; None for no cursor.
        equal: whether both axes have the same scale.
        held_out: mask of the held-out rows, drawn as open marks, [n]; None for none.
        places: whether a click without a row chooses a latent point.
        legend: whether a legend is drawn below the map.
        reorders: whether the categories of the legend can be moved.
        height: height in pixels.
        reports_zoom: whether the browser reports a zoom after it has been still for a while; a map
            with a density picture always does, so that the server draws the rows in view.
        reserved: height of the window in pixels that the rest of the page takes; the map then is
            no higher than what is left. 0 keeps ``height`` in every window.
    """

    rows: MapRows
    ranges: Ranges
    titles: tuple[str, str] | None
    alt: str
    id: str = ""
    grid: Heatmap | None = None
    contours: bool = False
    density: tuple[str, Ranges] | None = None
    all_rows: AllRows | None = None
    inducing: Mapping[str, FloatArray] = field(default_factory=dict)
    outlines: Sequence[Sequence[tuple[float, float]]] = ()
    marked: tuple[float, float] | None = None
    path: FloatArray | None = None
    letters: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    group_labels: Sequence[GroupLabel] = ()
    pictures: PictureSheet | None = None
    follow: bool = False
    start: tuple[float, float] | None = None
    equal: bool = False
    held_out: NDArray[np.bool_] | None = None
    places: bool = True
    legend: bool = True
    reorders: bool = False
    height: int = HEIGHT
    reserved: int = 0
    reports_zoom: bool = False


def scene_data(
    scene: Scene, *, dark: bool, addresses: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Input of ``static/map.js``: plain values, with arrays as base64 of their bytes.

    Args:
        scene: the map to draw.
        dark: whether the page is dark.
        addresses: addresses of the files of all rows and of the pictures, by name; needed where the
            scene has them.
    """
    looks, codes = palette.row_palette(scene.rows.colouring, len(scene.rows.points), dark=dark)
    grid = None if scene.grid is None or scene.grid.flat else scene.grid
    colouring = scene.rows.colouring
    return {
        "x": list(scene.ranges[0]),
        "y": list(scene.ranges[1]),
        "titles": None if scene.titles is None else list(scene.titles),
        "alt": scene.alt,
        "id": scene.id,
        "height": scene.height,
        "reserved": scene.reserved,
        "reports_zoom": scene.reports_zoom,
        "equal": scene.equal,
        "places": scene.places,
        "follow": scene.follow,
        "radius": _diameter(len(scene.rows.points)) / 2,
        "ellipse": ELLIPSE_SD,
        "looks": [{"colour": colour, "shape": shape} for colour, shape in looks],
        "colours": "" if colouring is None else colouring.title,
        "layers": palette.row_layers(scene.rows.colouring),
        "points": _points(scene.rows, codes, scene.held_out),
        "symbols": _symbols(scene.rows),
        "texts": ["\n".join(" ".join(line.split()) for line in lines) for lines in scene.rows.hover]
        or None,
        "marks": [{"text": text, "x": x, "y": y} for text, (x, y) in scene.letters.items()],
        "groupLabels": [
            {
                "text": shortened(one.name, 30),
                "x": one.place[0],
                "y": one.place[1],
                "code": one.code,
            }
            for one in scene.group_labels
        ],
        "pictures": None
        if scene.pictures is None
        else {
            "address": (addresses or {})["pictures"],
            "columns": scene.pictures.columns,
            "width": scene.pictures.width,
            "height": scene.pictures.height,
            "rows": _packed(scene.pictures.rows, "<u4"),
        },
        "outlines": [[list(corner) for corner in polygon] for polygon in scene.outlines],
        "inducing": [path for path, _ in _inducing(scene)],
        "marked": None if scene.marked is None else list(scene.marked),
        "path": None if scene.path is None else _curve(scene.path),
        "heat": None if grid is None else _heat(grid, contours=scene.contours, dark=dark),
        "density": None
        if scene.density is None
        else {"picture": scene.density[0], "ranges": scene.density[1]},
        "allRows": None
        if scene.all_rows is None
        else all_rows_data(scene.all_rows, dict(addresses or {}), dark=dark),
        "at": None if scene.start is None else list(scene.start),
        "ink": {**vars(page_colours(dark)), "accent": accent(dark)},
        "legend": _legend(scene, grid, dark) if scene.legend else [],
    }


def _diameter(n: int) -> float:
    return next((size for most, size in _DIAMETERS if n <= most), _SMALLEST)


def _packed(values: ArrayLike, kind: str) -> str:
    """An array as base64 of its bytes, little-endian."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _points(
    rows: MapRows, codes: NDArray[np.intp], held_out: NDArray[np.bool_] | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "n": len(rows.points),
        "x": _packed(rows.points[:, 0], "<f4"),
        "y": _packed(rows.points[:, 1], "<f4"),
        "number": _packed(rows.number, "<u4"),
        "code": _packed(codes, "u1"),
    }
    if rows.selected is not None:
        found["selected"] = _packed(rows.selected, "u1")
    if held_out is not None:
        found["hollow"] = _packed(held_out, "u1")
    if rows.size is not None:
        found["size"] = _packed(rows.size, "<f4")
    if rows.shape is not None:
        names = _symbols(rows)
        found["symbol"] = _packed([names.index(one) for one in rows.shape.symbol], "u1")
    if rows.sd is not None:
        found |= {"sx": _packed(rows.sd[:, 0], "<f4"), "sy": _packed(rows.sd[:, 1], "<f4")}
        if rows.correlation is not None:
            found["correlation"] = _packed(rows.correlation, "<f4")
    return found


def _symbols(rows: MapRows) -> list[str]:
    """The markers in use, if a column gives the shapes."""
    return [] if rows.shape is None else sorted(set(rows.shape.symbol.tolist()))


def _curve(points: FloatArray) -> dict[str, list[float]]:
    return {name: _rounded(points[:, axis]) for axis, name in enumerate("xy")}


def _rounded(values: FloatArray) -> list[float]:
    found: list[float] = np.round(values, _DIGITS).tolist()
    return found


def _heat(grid: Heatmap, *, contours: bool, dark: bool) -> dict[str, Any]:
    return {
        "size": len(grid.x),
        "value": _packed(grid.value.ravel(), "<f4"),
        "limits": list(grid.ends),
        "ramp": palette.ramp_steps(
            heatmap_colours(low_is_certain=grid.low_is_certain, dark=dark), palette.LEVELS
        ),
        "title": shortened(grid.title, 60),
        "contours": [
            {**_curve(line.points), "text": f"{line.level:.6g}".replace("-", "−")}
            for line in (contour_lines(grid) if contours else ())
        ],
    }


def _inducing(scene: Scene) -> list[tuple[dict[str, Any], str]]:
    """Positions and names of the inducing inputs of each path."""
    return [
        ({**_curve(Z), "shape": shape}, f"inducing inputs, {shortened(path, 60)} path")
        for (path, Z), shape in zip(
            scene.inducing.items(), cycle(("x", "cross", "star")), strict=False
        )
    ]


def _legend(scene: Scene, grid: Heatmap | None, dark: bool) -> list[dict[str, Any]]:
    """Lines of the legend: each a title with entries, or with a colour scale between two values."""
    lines = [] if scene.rows.colouring is None else [_colours(scene.rows.colouring, dark)]
    if scene.reorders and isinstance(scene.rows.colouring, CategoryStyle):
        for entry in lines[0]["entries"][: len(scene.rows.colouring.names)]:
            entry["movable"] = True
    text = page_colours(dark).text
    others = []
    if scene.rows.shape is not None:
        title = shortened(scene.rows.shape.title, 24)
        others += [
            _entry(f"{title}: {shortened(name, 40)}", text, symbol)
            for name, symbol in scene.rows.shape.legend
        ]
    others += [_entry(name, text, path["shape"]) for path, name in _inducing(scene)]
    if scene.held_out is not None and scene.held_out.any():
        others.append(_entry("held-out rows", text, "circle-open"))
    if others:
        lines.append({"entries": others})
    if grid is not None:
        low, high = (number(end, 3) for end in grid.ends)
        colours = heatmap_colours(low_is_certain=grid.low_is_certain, dark=dark)
        title = f"background: {shortened(grid.title, 60)} ({grid.unit})"
        lines.append({"title": title, "low": low, "high": high, "ramp": colours})
    return lines


def _colours(colouring: Colouring, dark: bool) -> dict[str, Any]:
    """The line of the legend for the row colours."""
    grey = page_colours(dark).muted
    if isinstance(colouring, NumericColours):
        line: dict[str, Any] = {"title": shortened(colouring.full_title, 60)}
        if colouring.ends is not None:
            low, high = map(number, colouring.ends)
            line |= {"low": low, "high": high, "ramp": _ramp(colouring)}
        if not np.isfinite(colouring.values).all():
            line["entries"] = [_entry("(missing)", grey, "circle-open", palette.LEVELS)]
        return line
    assert isinstance(colouring, CategoryStyle)
    C = len(colouring.names)
    looks = colouring.looks(dark=dark)
    entries = [
        _entry(shortened(colouring.names[code], 40), *looks[code], code)
        for code in colouring.in_order
    ]
    if (colouring.codes == OTHER).any():
        entries.append(_entry(f"other ({colouring.others} more)", grey, "circle", C))
    if (colouring.codes == MISSING).any():
        entries.append(_entry("(missing)", grey, "circle-open", C + 1))
    return {"title": shortened(colouring.title, 40), "entries": entries}


def _ramp(numbers: NumericColours) -> list[str]:
    return list(palette.numeric_palette(8, numbers.colours.shown_scale))


def _entry(text: str, colour: str, shape: str, code: int | None = None) -> dict[str, Any]:
    return {"text": text, "colour": colour, "shape": shape, "code": code}
