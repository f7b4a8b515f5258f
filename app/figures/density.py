"""Density of the rows of a large map, as a picture or as arrays that the browser draws. Pure."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from app.analysis.map.row_colours import Colouring
from app.figures import palette
from lvmcore.numerics.array_types import FloatArray

__all__ = ["MOST_ROWS", "SIZE", "AllRows", "all_rows_data", "all_rows_files", "density_picture"]

#: Most rows that a browser draws; of more rows the server draws a picture.
MOST_ROWS = 1_000_000

#: Width and height of the picture of a map, in cells.
SIZE = (420, 320)
#: Opacity of a cell with one row, and of the cell with most rows.
_LEAST, _MOST = 0.16, 0.9
#: Factor of the opacity of a cell without a selected row.
_FAINT = 0.2
#: Steps of a position along an axis, from the lowest to the highest of all rows.
_STEPS = 2**16 - 1


@dataclass(frozen=True)
class AllRows:
    """All rows of a large map, which the browser draws as a density and finds by a click.

    Attributes:
        points: positions, [N, 2].
        colouring: colours of the rows.
        number: position of each row among all rows of the dataset, [N]; None for 0 … N − 1.
        selected: mask of the selected rows, [N]; None without a selection.
        names: names of all rows of the dataset, UTF-8, a line each; None where the name of a row is
            its position among them, from 1.
    """

    points: FloatArray
    colouring: Colouring = None
    number: NDArray[np.intp] | None = None
    selected: NDArray[np.bool_] | None = None
    names: bytes | None = None


def all_rows_files(rows: AllRows, *, dark: bool) -> dict[str, bytes]:
    """Arrays of the rows, little-endian, each to be a file of its own that the browser keeps.

    Args:
        rows: the rows.
        dark: whether the page is dark.

    Returns:
        ``positions``: x of all rows, then y, as shares of their ranges in steps of 1/65535, uint16;
        ``codes``: index of each row's colour, uint8; ``numbers``: uint32, where a row's number is
        not its place; ``names``, UTF-8.
    """
    _, codes = palette.row_palette(rows.colouring, len(rows.points), dark=dark)
    steps = [
        np.rint((rows.points[:, axis] - low) * (_STEPS / (high - low))).astype("<u2")
        for axis, (low, high) in enumerate(_ranges(rows.points))
    ]
    files = {"positions": np.concatenate(steps).tobytes(), "codes": codes.astype("u1").tobytes()}
    if rows.number is not None:
        files["numbers"] = rows.number.astype("<u4").tobytes()
    if rows.names is not None:
        files["names"] = rows.names
    return files


def all_rows_data(rows: AllRows, addresses: dict[str, str], *, dark: bool) -> dict[str, Any]:
    """What ``static/all_rows.js`` draws the rows with: plain values.

    Args:
        rows: the rows.
        addresses: addresses of the files of ``all_rows_files``, by name.
        dark: whether the page is dark.
    """
    looks, _ = palette.row_palette(rows.colouring, len(rows.points), dark=dark)
    selected = None
    if rows.selected is not None:
        packed = np.packbits(rows.selected, bitorder="little")
        selected = base64.b64encode(packed.tobytes()).decode("ascii")
    return {
        "n": len(rows.points),
        "ranges": [list(ends) for ends in _ranges(rows.points)],
        "colours": palette.rgb([colour for colour, _ in looks]).astype(int).tolist(),
        "selected": selected,
        "numbers": None,
        "names": None,
        **addresses,
    }


def _ranges(points: FloatArray) -> list[tuple[float, float]]:
    """The lowest and the highest position along both axes; apart, so that steps have a length."""
    found = []
    for axis in range(2):
        low, high = float(points[:, axis].min()), float(points[:, axis].max())
        found.append((low, high if high > low else low + 1.0))
    return found


def density_picture(
    points: FloatArray,
    colouring: Colouring,
    ranges: tuple[tuple[float, float], tuple[float, float]],
    *,
    selected: NDArray[np.bool_] | None = None,
    dark: bool,
    size: tuple[int, int] = SIZE,
    least: float = _LEAST,
) -> str:
    """Density picture of rows, as a data address.

    The colour of a cell is the mean colour of its rows, and its opacity increases with the
    logarithm of their number. Rows outside the ranges are left out. With a selection, cells with
    selected rows show only these, and other cells are faint.

    Args:
        points: positions of all rows, [N, 2].
        colouring: how the rows are coloured.
        ranges: ranges of both axes, which the picture fills.
        selected: mask of the selected rows, [N].
        dark: whether the page is dark.
        size: width and height of the picture, in cells.
        least: opacity of a cell with one row.
    """
    looks, codes = palette.row_palette(colouring, len(points), dark=dark)
    colours = palette.rgb([colour for colour, _ in looks])
    cell = _cells(points, ranges, size)
    inside = cell >= 0
    if not inside.all():
        cell, codes = cell[inside], codes[inside]
        selected = None if selected is None else selected[inside]
    number, colour = _mean(cell, colours[codes], size)
    opacity = _opacity(number, least)
    if selected is not None:
        chosen, own = _mean(cell[selected], colours[codes[selected]], size)
        opacity = np.where(chosen > 0, _opacity(chosen, least), _FAINT * opacity)
        colour = np.where(chosen[:, None] > 0, own, colour)
    image = np.column_stack([colour, 255 * opacity]).round().astype(np.uint8)
    width, height = size
    flipped = np.ascontiguousarray(image.reshape(height, width, 4)[::-1])
    png = io.BytesIO()
    Image.fromarray(flipped).save(png, "PNG", compress_level=3)
    return "data:image/png;base64," + base64.b64encode(png.getvalue()).decode("ascii")


def _cells(
    points: FloatArray,
    ranges: tuple[tuple[float, float], tuple[float, float]],
    size: tuple[int, int],
) -> NDArray[np.intp]:
    """Index of the cell of each point, by rows from the lower left; −1 outside, [N]."""
    parts = []
    outside = np.zeros(len(points), dtype=np.bool_)
    for axis, ((low, high), cells) in enumerate(zip(ranges, size, strict=True)):
        share = (points[:, axis] - low) * (cells / (high - low))
        outside |= (share < 0) | (share > cells)
        parts.append(share.clip(0, cells - 1).astype(np.intp))
    found = parts[1] * size[0] + parts[0]
    found[outside] = -1
    return found


def _mean(
    cell: NDArray[np.intp], colours: FloatArray, size: tuple[int, int]
) -> tuple[NDArray[np.intp], FloatArray]:
    """Number of rows in each cell, and their mean colour, [cells] and [cells, 3]."""
    cells = size[0] * size[1]
    number = np.bincount(cell, minlength=cells)
    sums = [np.bincount(cell, weights=colours[:, part], minlength=cells) for part in range(3)]
    return number, np.column_stack(sums) / number.clip(1)[:, None]


def _opacity(number: NDArray[np.intp], least: float) -> FloatArray:
    most = max(int(number.max()), 2)
    share = np.log(number.clip(1)) / np.log(most)
    found: FloatArray = np.where(number > 0, least + (_MOST - least) * share, 0.0)
    return found
