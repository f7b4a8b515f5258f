"""Figure of the Missing cells page: pictures with hidden pixels in four lines. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.analysis.tables.hidden_pictures import HiddenPictures
from app.figures.theme import escape, heatmap_colours, page_colours, template
from app.formatting import shortened

__all__ = ["picture_figure"]

_IMAGE_PX = 84
_LINES = ("observed", "hidden", "filled", "interval width")


def picture_figure(found: HiddenPictures, shape: tuple[int, int], *, dark: bool) -> go.Figure:
    """Draw each picture in a column: observed, with its pixels hidden, filled, and the width.

    Args:
        found: the pictures.
        shape: their height and width.
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
    grey: dict[str, Any] = {"zmin": limits[0], "zmax": limits[1], "colorscale": "Greys_r"}
    sd: dict[str, Any] = {
        "zmin": 0.0,
        "zmax": float(found.width.max()) or 1.0,
        "colorscale": heatmap_colours(low_is_certain=True, dark=dark),
    }
    lines = ((found.truth, grey), (found.seen, grey), (found.filled, grey), (found.width, sd))
    for line, (values, style) in enumerate(lines, start=1):
        for column in range(n):
            figure.add_heatmap(
                z=values[column].reshape(shape),
                showscale=False,
                hovertemplate="%{z:.3g}<extra>row %{y}, column %{x}</extra>",
                name=f"{escape(found.names[column])}, {_LINES[line - 1]}",
                row=line,
                col=column + 1,
                **style,
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
