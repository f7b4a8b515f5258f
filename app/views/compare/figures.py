"""Figure of the Compare page: trajectories between two maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.analysis.comparison.trajectories import Trajectories
from app.analysis.map.map_axes import extent
from app.analysis.map.row_colours import Colouring, group_of_rows
from app.analysis.map.subsampling import evenly_spaced
from app.figures import palette
from app.figures.theme import accent, page_colours
from app.formatting import shortened

__all__ = ["trajectory_figure"]

HEIGHT = 460
#: Most other rows in the background of the trajectories.
MOST_OTHERS = 2000
#: Decimal digits of the coordinates: a tenth of a pixel.
_DIGITS = 4
_LINE = 60


def trajectory_figure(
    found: Trajectories,
    colouring: Colouring,
    hover: Sequence[Sequence[str]],
    ends: tuple[str, str],
    *,
    id: str,
    dark: bool,
) -> dict[str, Any]:
    """Input of ``static/trails.js``: trajectories, with the other rows faint on the second map.

    Args:
        found: the trajectories.
        colouring: colours of the rows of the whole dataset.
        hover: lines of the hover text of each drawn row.
        ends: names of the two maps.
        id: identity of the figure; a figure with another id resets the slider.
        dark: whether the page is dark.
    """
    drawn = found.rows[found.drawn]
    others = np.setdiff1d(np.arange(len(found.row_positions)), drawn, assume_unique=True)
    others = others[evenly_spaced(len(others), MOST_OTHERS)]
    start, end, background = found.start[drawn], found.end[drawn], found.end[others]
    x, y = extent(np.concatenate([start, end, background]))
    names = [shortened(name, 40) for name in ends]
    positions = found.row_positions[np.concatenate([drawn, others])]
    looks, codes = palette.row_palette(
        group_of_rows(colouring, positions), len(positions), dark=dark
    )
    return {
        "x": list(x),
        "y": list(y),
        "height": HEIGHT,
        "radius": 4.5 if len(drawn) <= 100 else 3.2,
        "looks": [{"colour": colour, "shape": shape} for colour, shape in looks],
        "others": {
            "x": _rounded(background[:, 0]),
            "y": _rounded(background[:, 1]),
            "c": codes[len(drawn) :].tolist(),
        },
        "trails": {
            "x0": _rounded(start[:, 0]),
            "y0": _rounded(start[:, 1]),
            "x1": _rounded(end[:, 0]),
            "y1": _rounded(end[:, 1]),
            "c": codes[: len(drawn)].tolist(),
            "name": [[shortened(line, _LINE) for line in lines] for lines in hover],
        },
        "ends": names,
        "slider": f"Position between {names[0]} and {names[1]}",
        "alt": f"Trajectories of rows from {names[0]} to {names[1]}",
        "id": id,
        "ink": {**vars(page_colours(dark)), "accent": accent(dark)},
    }


def _rounded(values: NDArray[np.float64]) -> list[float]:
    found: list[float] = np.round(values, _DIGITS).tolist()
    return found
