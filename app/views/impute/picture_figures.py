"""Figure of the Missing cells page: pictures with hidden pixels in four lines. Pure."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.analysis.tables.hidden_pictures import HiddenPictures
from app.figures.pictures import add_picture, add_widths
from app.figures.theme import escape, page_colours, template
from app.formatting import shortened
from lvmcore.export.picture_pixels import pixel_widths
from lvmcore.preprocessing.picture_shape import ImageShape

__all__ = ["picture_figure"]

_IMAGE_PX = 84
_LINES = ("observed", "hidden", "filled", "interval width")


def picture_figure(found: HiddenPictures, shape: ImageShape, *, dark: bool) -> go.Figure:
    """Draw each picture in a column: observed, with its pixels hidden, filled, and the width.

    A pixel in colour is hidden where one of its channels is, and its width is the root mean square
    over its channels.

    Args:
        found: the pictures.
        shape: their height and width, and 3 in colour.
        dark: whether the page is dark.
    """
    n = len(found.names)
    figure = make_subplots(
        rows=4,
        cols=n,
        column_titles=[shortened(name, 12) for name in found.names],
        row_titles=list(_LINES),
        horizontal_spacing=0.008,
        vertical_spacing=0.02,
    )
    limits = float(np.nanmin(found.truth)), float(np.nanmax(found.truth))
    widths = [pixel_widths(width, shape) for width in found.width]
    most = max(float(width.max()) for width in widths) or 1.0
    for column, name in enumerate(map(escape, found.names), start=1):
        for line, values in enumerate((found.truth, found.seen, found.filled), start=1):
            add_picture(
                figure,
                values[column - 1],
                shape,
                limits,
                title=f"{name}, {_LINES[line - 1]}",
                place=(line, column),
                dark=dark,
            )
        add_widths(
            figure,
            widths[column - 1],
            title=f"{name}, {_LINES[3]}",
            place=(4, column),
            most=most,
            dark=dark,
        )
    for k in range(4 * n):
        name = "" if k == 0 else str(k + 1)
        figure.update_layout({f"yaxis{name}": {"autorange": "reversed", "scaleanchor": f"x{name}"}})
    figure.update_xaxes(visible=False, constrain="domain")
    figure.update_yaxes(visible=False, constrain="domain")
    figure.update_layout(
        template=template(dark),
        height=40 + 4 * _IMAGE_PX,
        margin={"t": 28, "r": 28},
        showlegend=False,
    )
    figure.update_annotations(font={"size": 11, "color": page_colours(dark).muted})
    return figure
