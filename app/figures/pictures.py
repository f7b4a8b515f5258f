"""Rows that are pictures: their colours, the widths of their pixels, and their traces. Pure.

A row holds a picture's pixels row by row, with red, green and blue of a pixel side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures import palette
from app.figures.theme import accent, heatmap_colours, page_colours
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.picture_shape import CHANNELS, ImageShape

__all__ = [
    "add_picture",
    "add_widths",
    "channel_note",
    "enlarged",
    "picture_colours",
    "picture_grid",
    "pixel_widths",
]

#: Name of a pointed-at picture, which may be text of a table, and place of its pixel.
_NAME = "%{fullData.name}"
_PLACE = "<extra>row %{y}, column %{x}</extra>"


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
    colours = np.where(unseen, palette.rgb([hidden]), 255 * share)
    return colours.round().astype(np.uint8)


def picture_grid(
    rows: FloatArray,
    shape: ImageShape,
    limits: tuple[float, float],
    *,
    gap: int,
    dark: bool,
) -> NDArray[np.uint8]:
    """Pictures in lines and columns, as one picture of their colours, [height, width, 3].

    Hidden pixels have the accent colour.

    Args:
        rows: the values of the pixels of each picture, [lines, columns, D].
        shape: (height, width), or (height, width, 3) in colour.
        limits: darkest and lightest value of all pictures.
        gap: pixels of the data between two pictures, in the colour of the page.
        dark: whether the page is dark.
    """
    lines, columns = rows.shape[:2]
    height, width = shape[0] + gap, shape[1] + gap
    page = palette.rgb([page_colours(dark).page]).round().astype(np.uint8)
    canvas = np.tile(page, (lines * height - gap, columns * width - gap, 1))
    for line, column in np.ndindex(lines, columns):
        top, left = line * height, column * width
        canvas[top : top + shape[0], left : left + shape[1]] = picture_colours(
            rows[line, column], shape, limits, hidden=accent(dark)
        )
    return canvas


def enlarged(picture: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """A picture of colours with square blocks of pixels for its pixels.

    Args:
        picture: [height, width, 3].
        width: most width of the result, where the picture is not wider.
    """
    times = max(1, width // picture.shape[1])
    return np.repeat(np.repeat(picture, times, axis=0), times, axis=1)


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


def channel_note(shape: ImageShape) -> str:
    """How the width of a pixel in colour is computed, a sentence; "" for grey pictures."""
    if len(shape) == 2:
        return ""
    return "The width of a pixel is the root mean square over its channels."


def add_picture(
    figure: go.Figure,
    row: FloatArray,
    shape: ImageShape,
    limits: tuple[float, float],
    *,
    title: str,
    place: tuple[int, int],
    dark: bool,
) -> None:
    """Add a picture to a figure of subplots: a grey heatmap, or an image in colour.

    Hidden pixels of a grey picture have no cell; those of a picture in colour have the accent
    colour.

    Args:
        figure: the figure.
        row: the values of the picture's pixels, [D]; NaN where one is hidden or missing.
        shape: (height, width), or (height, width, 3) in colour.
        limits: darkest and lightest value of all pictures.
        title: name of the picture in the figure.
        place: row and column of the subplot, from 1.
        dark: whether the page is dark.
    """
    at: dict[str, Any] = {"row": place[0], "col": place[1], "name": title}
    if len(shape) == 2:
        figure.add_heatmap(
            z=row.reshape(shape),
            zmin=limits[0],
            zmax=limits[1],
            colorscale="Greys_r",
            showscale=False,
            hovertemplate=f"{_NAME}: %{{z:.3g}}{_PLACE}",
            **at,
        )
        return
    values = ", ".join(f"{name} %{{customdata[{k}]:.3g}}" for k, name in enumerate(CHANNELS))
    figure.add_image(
        z=picture_colours(row, shape, limits, hidden=accent(dark)).tolist(),
        customdata=row.reshape(shape),
        hovertemplate=f"{_NAME}: {values}{_PLACE}",
        **at,
    )


def add_widths(
    figure: go.Figure,
    widths: FloatArray,
    *,
    title: str,
    place: tuple[int, int],
    most: float | None = None,
    bar: Mapping[str, Any] | None = None,
    dark: bool,
) -> None:
    """Add the widths of the pixels of a picture to a figure of subplots, as a heatmap from 0.

    Args:
        figure: the figure.
        widths: sds or interval widths, see ``pixel_widths``, [height, width].
        title: name of the heatmap in the figure.
        place: row and column of the subplot, from 1.
        most: width of the last colour; None for the largest one.
        bar: settings of the colour bar; None for none.
        dark: whether the page is dark.
    """
    figure.add_heatmap(
        z=widths,
        zmin=0.0,
        zmax=most,
        colorscale=heatmap_colours(low_is_certain=True, dark=dark),
        showscale=bar is not None,
        colorbar=dict(bar or {}),
        hovertemplate=f"{_NAME}: %{{z:.3g}}{_PLACE}",
        name=title,
        row=place[0],
        col=place[1],
    )
