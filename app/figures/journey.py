"""Rows on their way from one map to another, as what ``static/trails.js`` draws. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.axes import extent
from app.colouring import Colouring, part_of
from app.figures import palette
from app.figures.latent_map import evenly
from app.figures.theme import accent, ink
from app.trails import Trails
from app.words import shortened

__all__ = ["journey"]

HEIGHT = 460
#: Rows drawn faintly behind the trails at most.
MOST_OTHERS = 2000
#: Digits of coordinates that are sent: a tenth of a pixel.
_DIGITS = 4
_LINE = 60


def journey(
    found: Trails,
    look: Colouring,
    hover: Sequence[Sequence[str]],
    ends: tuple[str, str],
    *,
    turn: str,
    dark: bool,
) -> dict[str, Any]:
    """What is drawn: the trails, and the other rows faintly where they end up.

    Args:
        found: the trails.
        look: how the rows of the whole dataset are coloured.
        hover: lines about each row whose trail is drawn.
        ends: what the two maps are called.
        turn: what a slider position belongs to; with another one the rows are at the start again.
        dark: whether the page is dark.
    """
    drawn = found.rows[found.drawn]
    others = np.setdiff1d(np.arange(len(found.place)), drawn, assume_unique=True)
    others = others[evenly(len(others), MOST_OTHERS)]
    start, end, behind = found.start[drawn], found.end[drawn], found.end[others]
    x, y = extent(np.concatenate([start, end, behind]))
    names = [shortened(name, 40) for name in ends]
    place = found.place[np.concatenate([drawn, others])]
    looks, codes = palette.of_rows(part_of(look, place), len(place), dark=dark)
    return {
        "x": list(x),
        "y": list(y),
        "height": HEIGHT,
        "radius": 4.5 if len(drawn) <= 100 else 3.2,
        "looks": [{"colour": colour, "shape": shape} for colour, shape in looks],
        "others": {
            "x": _short(behind[:, 0]),
            "y": _short(behind[:, 1]),
            "c": codes[len(drawn) :].tolist(),
        },
        "trails": {
            "x0": _short(start[:, 0]),
            "y0": _short(start[:, 1]),
            "x1": _short(end[:, 0]),
            "y1": _short(end[:, 1]),
            "c": codes[: len(drawn)].tolist(),
            "name": [[shortened(line, _LINE) for line in lines] for lines in hover],
        },
        "ends": names,
        "slider": f"How far the rows are on their way from {names[0]} to {names[1]}",
        "alt": f"Trails of rows from {names[0]} to {names[1]}",
        "turn": turn,
        "ink": {**vars(ink(dark)), "accent": accent(dark)},
    }


def _short(values: NDArray[np.float64]) -> list[float]:
    found: list[float] = np.round(values, _DIGITS).tolist()
    return found
