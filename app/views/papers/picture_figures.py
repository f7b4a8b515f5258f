"""Pictures as they are, with hidden pixels, and decoded, in three columns."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from app.analysis.tables.hidden_pictures import ReconstructedPictures
from app.figures.palette import rgb
from app.figures.pictures import picture_colours
from app.figures.theme import accent, page_colours, template
from lvmcore.preprocessing.picture_shape import ImageShape

__all__ = ["picture_columns_figure"]

_COLUMNS = ("observed", "given", "decoded")
#: Pixels of the data between two pictures, and height of a picture on the page.
_GAP, _PICTURE_PX = 2, 62


def picture_columns_figure(
    found: ReconstructedPictures, shape: ImageShape, *, dark: bool
) -> go.Figure:
    """Draw the pictures in a grid, a picture in a line; hidden pixels have the accent colour.

    A pixel in colour is hidden where one of its channels is.

    Args:
        found: the pictures.
        shape: their height and width, and 3 in colour.
        dark: whether the page is dark.
    """
    n = len(found.truth)
    limits = float(np.nanmin(found.truth)), float(np.nanmax(found.truth))
    height, width = shape[0] + _GAP, shape[1] + _GAP
    canvas = np.broadcast_to(
        rgb([page_colours(dark).page]), (n * height - _GAP, 3 * width - _GAP, 3)
    ).copy()
    for column, values in enumerate((found.truth, found.seen, found.mean)):
        for line in range(n):
            top, left = line * height, column * width
            canvas[top : top + shape[0], left : left + shape[1]] = picture_colours(
                values[line], shape, limits, hidden=accent(dark)
            )
    figure = go.Figure(go.Image(z=canvas.round().astype(np.uint8), hoverinfo="skip"))
    figure.update_layout(
        template=template(dark),
        height=26 + n * _PICTURE_PX,
        margin={"t": 20, "b": 0, "l": 0, "r": 0},
        xaxis={"visible": False},
        yaxis={"visible": False},
        plot_bgcolor="rgba(0,0,0,0)",
    )
    for column, text in enumerate(_COLUMNS):
        figure.add_annotation(
            x=column * width + shape[1] / 2,
            y=-0.5,
            text=text,
            showarrow=False,
            yanchor="bottom",
            font={"size": 10, "color": page_colours(dark).muted},
        )
    return figure
