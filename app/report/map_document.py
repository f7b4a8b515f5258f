"""The map of a run as one interactive HTML file that opens offline. Pure.

The file loads nothing from the network, and its content security policy forbids that; it runs one
script, its own, so no name or cell can run. The script is ``static/map_file.js``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.analysis.map.row_colours import CategoryStyle, Colouring, NumericColours
from app.figures.palette import row_layers, row_palette
from app.figures.row_traces import MapRows
from app.formatting import count, number, shortened
from app.report.content_policy import content_policy, static_text
from app.templates import render

__all__ = ["MOST_ROWS", "MapSubject", "map_html"]

#: Most rows in the file.
MOST_ROWS = 100_000
_DIGITS = 6


@dataclass(frozen=True)
class MapSubject:
    """What the file shows.

    Attributes:
        title: name of the run.
        model: title of the model.
        titles: titles of the horizontal and of the vertical axis.
        rows: rows of the map, at most ``MOST_ROWS``.
        n_rows: number of rows of the fit.
    """

    title: str
    model: str
    titles: tuple[str, str]
    rows: MapRows
    n_rows: int


def map_html(subject: MapSubject) -> bytes:
    """The file in UTF-8.

    Args:
        subject: its content.
    """
    script = static_text("markers.js", "scene.js", "map_file.js")
    return render(
        "report/map.html",
        policy=content_policy(script),
        title=subject.title,
        about=_about(subject),
        alt=f"Map of {count(len(subject.rows.points), 'row')}",
        legend_title=getattr(subject.rows.colouring, "title", "Rows"),
        style=static_text("map_file.css"),
        script=script,
        map=_content(subject),
    ).encode()


def _about(subject: MapSubject) -> str:
    """Model, rows and colours in a line."""
    shown = len(subject.rows.points)
    parts = [subject.model, count(subject.n_rows, "row")]
    if shown < subject.n_rows:
        parts.append(f"an even sample of {count(shown, 'row')}")
    colouring = subject.rows.colouring
    if isinstance(colouring, NumericColours) and colouring.ends is not None:
        low, high = (number(end) for end in colouring.ends)
        parts.append(f"colour: {shortened(colouring.title)}, from {low} to {high}")
    elif colouring is not None:
        parts.append(f"colour: {shortened(colouring.title)}")
    return " · ".join(parts)


def _content(subject: MapSubject) -> dict[str, Any]:
    """Input of the script: ``MapFile`` of ``static/types.d.ts``."""
    rows = subject.rows
    n = len(rows.points)
    light, codes = row_palette(rows.colouring, n, dark=False)
    dark, _ = row_palette(rows.colouring, n, dark=True)
    layers = row_layers(rows.colouring)
    # The rows are drawn one after another: those of the layer on top come last.
    order = np.arange(n) if layers is None else np.argsort(np.argsort(layers)[codes], kind="stable")
    points = rows.points[order]
    return {
        "x": _rounded(points[:, 0].tolist()),
        "y": _rounded(points[:, 1].tolist()),
        "code": codes[order].tolist(),
        "text": [list(rows.hover[row]) for row in order] if rows.hover else [],
        "titles": list(subject.titles),
        "light": [{"colour": colour, "shape": shape} for colour, shape in light],
        "dark": [{"colour": colour, "shape": shape} for colour, shape in dark],
        "legend": _legend(rows.colouring, set(codes.tolist())),
    }


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


def _legend(colouring: Colouring, used: set[int]) -> list[dict[str, Any]]:
    """The categories that rows have; none for a number."""
    if not isinstance(colouring, CategoryStyle):
        return []
    names = [*map(shortened, colouring.names), f"{colouring.others} others", "missing"]
    order = [*colouring.in_order, len(names) - 2, len(names) - 1]
    return [{"text": names[code], "code": code} for code in order if code in used]
