"""Pictures as they are, with hidden pixels, and decoded, in three columns."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from app.analysis.tables.hidden_pictures import ReconstructedPictures
from app.figures.pictures import picture_grid
from app.figures.theme import page_colours, template
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
    rows = np.stack([found.truth, found.seen, found.mean], axis=1)
    canvas = picture_grid(rows, shape, limits, gap=_GAP, dark=dark)
    figure = go.Figure(go.Image(z=canvas, hoverinfo="skip"))
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
            x=column * (shape[1] + _GAP) + shape[1] / 2,
            y=-0.5,
            text=text,
            showarrow=False,
            yanchor="bottom",
            font={"size": 10, "color": page_colours(dark).muted},
        )
    return figure
