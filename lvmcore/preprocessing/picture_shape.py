"""The shape of pictures whose pixels are the columns of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lvmcore.errors import ConfigError, DataError

__all__ = ["AUTO_SHAPE", "check_picture_shape", "picture_shape"]

#: The shape that is read from the number of columns.
AUTO_SHAPE = "auto"
#: Side of the smallest picture, which a network halves twice, and channels of one in colour.
SMALLEST, COLOURS = 8, 3


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


def picture_shape(columns: int, text: str) -> tuple[int, int, int]:
    """Rows, columns and channels of the pictures of a table.

    Args:
        columns: how many the table has.
        text: the shape; "auto" for squares, grey or with three channels.

    Raises:
        ConfigError: the text is no shape.
        DataError: the table has another number of columns.
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
