"""Rows that are pictures: sheets and grids of them, and their traces. Pure."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from app.figures import palette
from app.figures.theme import accent, heatmap_colours, page_colours
from lvmcore.export.picture_pixels import picture_colours
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.picture_shape import CHANNELS, ImageShape

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "PictureSheet",
    "add_picture",
    "add_widths",
    "channel_note",
    "enlarged",
    "picture_grid",
    "picture_sheet",
]

#: Most pixels along a side of a picture that marks a row on a map.
_MARK_SIDE = 32

#: Name of a pointed-at picture, which may be text of a table, and place of its pixel.
_NAME = "%{fullData.name}"
_PLACE = "<extra>row %{y}, column %{x}</extra>"


@dataclass(frozen=True)
class PictureSheet:
    """Pictures of rows in lines and columns on one sheet, as the marks of a map.

    Attributes:
        content: the sheet, PNG.
        columns: pictures in a line.
        width: width of a picture, pixels of the sheet.
        height: its height.
        rows: position of the row of each picture among all rows, [K], in the order of the sheet.
    """

    content: bytes
    columns: int
    width: int
    height: int
    rows: NDArray[np.intp]


def picture_sheet(
    cells: FloatArray,
    shape: ImageShape,
    limits: tuple[float, float],
    rows: NDArray[np.intp],
    *,
    dark: bool,
) -> PictureSheet:
    """Pictures of rows as one sheet; of pictures of more than 32 pixels a side, means of blocks.

    Args:
        cells: the values of the pixels of all rows, [N, D]; NaN where one is missing.
        shape: (height, width), or (height, width, 3) in colour.
        limits: darkest and lightest value of all pictures.
        rows: positions of the rows on the sheet, [K], at least one.
        dark: whether the page is dark.
    """
    step = -(-max(shape[:2]) // _MARK_SIDE)
    small = [
        _shrunk(picture_colours(cells[n], shape, limits, hidden=accent(dark)), step) for n in rows
    ]
    height, width = small[0].shape[:2]
    columns = math.ceil(math.sqrt(len(rows)))
    sheet = np.zeros((-(-len(rows) // columns) * height, columns * width, 3), dtype=np.uint8)
    for place, picture in enumerate(small):
        top, left = place // columns * height, place % columns * width
        sheet[top : top + height, left : left + width] = picture
    sink = io.BytesIO()
    Image.fromarray(sheet).save(sink, format="PNG")
    return PictureSheet(sink.getvalue(), columns, width, height, rows)


def _shrunk(picture: NDArray[np.uint8], step: int) -> NDArray[np.uint8]:
    """Means of blocks of so many pixels a side; the last ones repeat the edge."""
    if step == 1:
        return picture
    more = [(0, -size % step) for size in picture.shape[:2]]
    padded = np.pad(picture, [*more, (0, 0)], mode="edge")
    height, width = (size // step for size in padded.shape[:2])
    blocks = padded.reshape(height, step, width, step, 3).mean(axis=(1, 3))
    found: NDArray[np.uint8] = blocks.round().astype(np.uint8)
    return found


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
