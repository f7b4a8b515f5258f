"""The shape of pictures whose pixels are the columns of a table."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product

from lvmcore.errors import ConfigError, DataError

__all__ = [
    "AUTO_SHAPE",
    "CHANNELS",
    "ImageShape",
    "check_image_shape",
    "check_picture_shape",
    "picture_shape",
    "pixel_names",
    "propose_image_shape",
    "shape_text",
]

#: Height and width of grey pictures; height, width and 3 of pictures in colour. The columns are the
#: pixels row by row, the channels of a pixel side by side.
ImageShape = tuple[int, int] | tuple[int, int, int]

#: The shape that is read from the names of the columns, or from their number.
AUTO_SHAPE = "auto"
#: Names of the channels of a picture in colour, in the order of its columns.
CHANNELS = ("red", "green", "blue")
#: Side of the smallest picture, which a network halves twice, and channels of one in colour.
SMALLEST, COLOURS = 8, len(CHANNELS)

_LOG1P = re.compile(r"log\(1 \+ (.*)\)")
_GRID = re.compile(
    r"(?:pixel|px|p)[_ ]?(\d+)[_x ,](\d+)(?:[_x ,](red|green|blue|[rgb0-3]))?", re.IGNORECASE
)
_LINE = re.compile(r"(?:pixel|px)[_ ]?(\d+)", re.IGNORECASE)
_MIN_SIDE = 4
#: What names of pixels end in, in the order of their channels: nothing where they are grey.
_CHANNEL_ORDERS = (("",), CHANNELS, ("r", "g", "b"), ("0", "1", "2"), ("1", "2", "3"))


def check_image_shape(shape: Sequence[int], columns: int) -> None:
    """Check the shape of the pictures of a table.

    Args:
        shape: (height, width), or (height, width, 3) in colour.
        columns: how many the table has.

    Raises:
        DataError: it has another form, or another number of values than there are columns.
    """
    if len(shape) not in (2, 3) or min(shape) < 1 or tuple(shape[2:]) not in ((), (COLOURS,)):
        raise DataError(
            f"image_shape={tuple(shape)} is no shape of pictures: expected (height, width), or "
            f"(height, width, {COLOURS}) for pictures in colour."
        )
    if math.prod(shape) != columns:
        values = "pixels" if len(shape) == 2 else "values of pixels"
        raise DataError(
            f"image_shape={tuple(shape)} does not have {columns} {values}, as X has columns."
        )


def pixel_names(shape: ImageShape) -> list[str]:
    """Names of the columns of pictures: pixel_0_0, …, or pixel_0_0_red, pixel_0_0_green, ….

    Args:
        shape: (height, width) or (height, width, 3).
    """
    places = product(range(shape[0]), range(shape[1]))
    names = [f"pixel_{row}_{column}" for row, column in places]
    if len(shape) == 2:
        return names
    return [f"{name}_{channel}" for name in names for channel in CHANNELS]


def propose_image_shape(names: Sequence[str]) -> ImageShape | None:
    """Infer the shape of pictures from the names of their pixels.

    Args:
        names: Feature names: pixel_0_0, pixel_0_1, … row by row; pixel_0_0_red, pixel_0_0_green,
            pixel_0_0_blue, … (or _r, _g, _b, or the channels' numbers) for pictures in colour; or
            pixel0, pixel1, … whose number is a square.

    Returns:
        (height, width), (height, width, 3), or None when the names do not form a complete grid in
        order.
    """
    names = [_LOG1P.sub(r"\1", name) for name in names]
    grid = [_GRID.fullmatch(name) for name in names]
    if names and all(grid):
        return _grid_shape(
            [(match[1], match[2], match[3] or "") for match in grid if match is not None]
        )
    line = [_LINE.fullmatch(name) for name in names]
    if not names or not all(line):
        return None
    numbers = [int(match[1]) for match in line if match is not None]
    side = math.isqrt(len(numbers))
    in_order = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return (side, side) if side >= _MIN_SIDE and side**2 == len(numbers) and in_order else None


def _grid_shape(places: Sequence[tuple[str, str, str]]) -> ImageShape | None:
    """The shape of a complete grid of rows, columns and perhaps channels in order, or None."""
    found = [(int(row), int(column), channel.lower()) for row, column, channel in places]
    (top, left, first), (bottom, right, _) = found[0], found[-1]
    height, width = bottom - top + 1, right - left + 1
    channels = tuple(channel for *_, channel in found[:COLOURS]) if first else ("",)
    if min(height, width) < 2 or channels not in _CHANNEL_ORDERS:
        return None
    wanted = product(range(top, bottom + 1), range(left, right + 1), channels)
    if found != list(wanted):
        return None
    return (height, width, COLOURS) if first else (height, width)


def shape_text(shape: ImageShape) -> str:
    """A shape as the setting ``picture_shape`` names it, such as "32x48x3"."""
    return "x".join(map(str, shape))


def check_picture_shape(text: str, columns: Sequence[str] | None = None) -> None:
    """Check the shape of pictures: "auto", or rows × columns and perhaps × channels, "32x48x3".

    Args:
        text: the shape.
        columns: names of the columns; not used, as constant ones may be among them.

    Raises:
        ConfigError: the text is neither.
    """
    del columns
    if text != AUTO_SHAPE:
        _read_shape(text)


def _read_shape(text: str) -> tuple[int, int, int]:
    """Rows, columns and channels of "28x28" or "32x48x3"."""
    parts = text.lower().replace("×", "x").split("x")
    sizes = [int(part) for part in parts if part.strip().isdigit()]
    if len(sizes) != len(parts) or len(sizes) not in (2, 3) or min(sizes) < 1:
        raise ConfigError(
            f"picture_shape={text!r} is no shape of pictures: expected auto, or rows x columns "
            "with the channels of a pixel where there are several, such as 28x28 or 32x48x3."
        )
    if min(sizes[:2]) < SMALLEST:
        raise ConfigError(
            f"picture_shape={text!r} is too small: a picture needs at least {SMALLEST} x "
            f"{SMALLEST} pixels."
        )
    return sizes[0], sizes[1], sizes[2] if len(sizes) == 3 else 1


def picture_shape(columns: int, text: str, names: Sequence[str] = ()) -> tuple[int, int, int]:
    """Rows, columns and channels of the pictures of a table.

    Args:
        columns: how many the table has.
        text: the shape; "auto" for that of the names, else for squares, grey or with three
            channels.
        names: of the columns; () for unknown ones.

    Raises:
        ConfigError: the text is no shape.
        DataError: the table has another number of columns, or its pictures are too small.
    """
    if text != AUTO_SHAPE:
        shape = _read_shape(text)
        if math.prod(shape) != columns:
            raise DataError(
                f"The table has {columns} columns, and pictures of {text} have "
                f"{math.prod(shape)}: set picture_shape to the pictures' rows x columns x "
                "channels, or leave other columns out."
            )
        return shape
    named = propose_image_shape(names)
    if named is not None:
        return _large_enough(named)
    for channels in (1, COLOURS):
        side = math.isqrt(columns // channels)
        if channels * side**2 == columns and side >= SMALLEST:
            return side, side, channels
    raise DataError(
        f"The table's {columns} columns make no square picture: a network of pictures needs S × S "
        f"pixels row by row, S at least {SMALLEST}, such as 784 columns for 28 × 28 or 3072 for "
        "32 × 32 in colour. Set picture_shape to another shape, choose the network of columns, or "
        "leave other columns out."
    )


def _large_enough(shape: ImageShape) -> tuple[int, int, int]:
    """A shape with its channels; DataError where a network of pictures needs larger ones."""
    rows, columns = shape[:2]
    if min(rows, columns) < SMALLEST:
        raise DataError(
            f"The table's pictures have {rows} x {columns} pixels, and a network of pictures needs "
            f"at least {SMALLEST} x {SMALLEST}: choose the network of columns."
        )
    return rows, columns, shape[2] if len(shape) == 3 else 1
