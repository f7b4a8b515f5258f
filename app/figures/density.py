"""How many rows lie where on a map of very many, as a picture in the rows' colours. Pure."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from app.colouring import Colouring
from app.figures import palette

__all__ = ["SIZE", "density_picture"]

FloatArray = NDArray[np.float64]

#: Cells across and up.
SIZE = (420, 320)
#: Opacity of a cell with one row, and of the fullest.
_LEAST, _MOST = 0.16, 0.9
#: What is left of it where no row is selected.
_FAINT = 0.2


def density_picture(
    points: FloatArray,
    look: Colouring,
    ranges: tuple[tuple[float, float], tuple[float, float]],
    *,
    selected: NDArray[np.bool_] | None = None,
    dark: bool,
) -> str:
    """The picture, as a data address.

    A cell has the mean colour of its rows and grows more opaque with the logarithm of their
    number; rows outside the ranges are left out. With a selection, cells that hold selected rows
    show these alone; the others are faint.

    Args:
        points: of all rows, [N, 2].
        look: how they are coloured.
        ranges: of both axes, which the picture fills.
        selected: which rows are selected, [N].
        dark: whether the page is dark.
    """
    looks, codes = palette.of_rows(look, len(points), dark=dark)
    colours = palette.rgb([colour for colour, _ in looks])
    cell = _cells(points, ranges)
    inside = cell >= 0
    if not inside.all():
        cell, codes = cell[inside], codes[inside]
        selected = None if selected is None else selected[inside]
    number, colour = _mean(cell, colours[codes])
    opacity = _opacity(number)
    if selected is not None:
        chosen, own = _mean(cell[selected], colours[codes[selected]])
        opacity = np.where(chosen > 0, _opacity(chosen), _FAINT * opacity)
        colour = np.where(chosen[:, None] > 0, own, colour)
    image = np.column_stack([colour, 255 * opacity]).round().astype(np.uint8)
    width, height = SIZE
    upside = np.ascontiguousarray(image.reshape(height, width, 4)[::-1])
    kept = io.BytesIO()
    Image.fromarray(upside).save(kept, "PNG", compress_level=3)
    return "data:image/png;base64," + base64.b64encode(kept.getvalue()).decode("ascii")


def _cells(
    points: FloatArray, ranges: tuple[tuple[float, float], tuple[float, float]]
) -> NDArray[np.intp]:
    """The cell of each point, counted line by line from the lower left; −1 outside, [N]."""
    parts = []
    outside = np.zeros(len(points), dtype=np.bool_)
    for place, ((low, high), size) in enumerate(zip(ranges, SIZE, strict=True)):
        share = (points[:, place] - low) * (size / (high - low))
        outside |= (share < 0) | (share > size)
        parts.append(share.clip(0, size - 1).astype(np.intp))
    found = parts[1] * SIZE[0] + parts[0]
    found[outside] = -1
    return found


def _mean(cell: NDArray[np.intp], colours: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Rows in each cell, and the mean of their colours, [cells] and [cells, 3]."""
    cells = SIZE[0] * SIZE[1]
    number = np.bincount(cell, minlength=cells)
    sums = [np.bincount(cell, weights=colours[:, part], minlength=cells) for part in range(3)]
    return number, np.column_stack(sums) / number.clip(1)[:, None]


def _opacity(number: NDArray[np.intp]) -> FloatArray:
    most = max(int(number.max()), 2)
    share = np.log(number.clip(1)) / np.log(most)
    found: FloatArray = np.where(number > 0, _LEAST + (_MOST - _LEAST) * share, 0.0)
    return found
