"""Rows that are pictures: the colours of their pixels, and one width for each pixel.

A row holds a picture's pixels row by row, with red, green and blue of a pixel side by side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.picture_shape import ImageShape

__all__ = ["picture_colours", "pixel_widths"]


def picture_colours(
    row: FloatArray, shape: ImageShape, limits: tuple[float, float], *, hidden: str
) -> NDArray[np.uint8]:
    """The colours of a picture from 0 to 255, [height, width, 3].

    255 (x − low)/(high − low), clipped, of each channel; a grey picture has three equal ones.

    Args:
        row: the values of its pixels, [D]; NaN where one is hidden or missing.
        shape: (height, width), or (height, width, 3) in colour.
        limits: low and high, the darkest and lightest value of all pictures.
        hidden: colour of pixels of which a channel is NaN, hexadecimal.
    """
    low, high = limits
    cells = row.reshape(*shape[:2], -1)
    share = ((cells - low) / max(high - low, 1e-300)).clip(0, 1)
    unseen = np.isnan(cells).any(axis=-1, keepdims=True)
    colours = np.where(unseen, [int(hidden[i : i + 2], 16) for i in (1, 3, 5)], 255 * share)
    return colours.round().astype(np.uint8)


def pixel_widths(widths: FloatArray, shape: ImageShape) -> FloatArray:
    """One width for each pixel, [height, width].

    A pixel in colour has the root mean square over its channels: of their sds the root of the mean
    variance.

    Args:
        widths: sds or interval widths of the values of a picture, [D].
        shape: (height, width), or (height, width, 3) in colour.
    """
    cells = widths.reshape(*shape[:2], -1)
    if cells.shape[-1] == 1:
        return cells[..., 0]
    found: FloatArray = np.sqrt(np.square(cells).mean(axis=-1))
    return found
