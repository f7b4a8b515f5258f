"""Class probabilities over a plane as mixed colours, with the rows on it."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from app.analysis.map.row_colours import CategoryStyle
from app.analysis.tables.prediction_slices import ClassPlane
from app.figures.palette import rgb
from app.figures.row_traces import MapRows, row_traces
from app.figures.theme import escape, page_colours, template
from app.formatting import shortened
from lvmcore.export.column_colours import DEFAULT_CATEGORIES

__all__ = ["class_plane_figure"]

#: Opacity of the plane over the panel, so that the rows stand out.
_STRENGTH = 0.5
_MARKER = 4


def class_plane_figure(plane: ClassPlane, rows: MapRows, *, dark: bool, height: int) -> go.Figure:
    """Draw the plane: at each point the colours of the classes, mixed by their probabilities.

    Args:
        plane: the probabilities.
        rows: the rows on the plane, coloured by their class.
        dark: whether the page is dark.
        height: in pixels.
    """
    style = rows.colouring
    known = style.names if isinstance(style, CategoryStyle) else plane.classes
    colouring = style.colours if isinstance(style, CategoryStyle) else DEFAULT_CATEGORIES
    codes = [known.index(name) if name in known else len(known) for name in plane.classes]
    looks = zip(codes, plane.classes, strict=True)
    colours = rgb([colouring.look(code, name, dark=dark)[0] for code, name in looks])
    mixed = _STRENGTH * plane.probability @ colours + (1 - _STRENGTH) * rgb(
        [page_colours(dark).panel]
    )
    step = [float(axis[1] - axis[0]) for axis in (plane.x, plane.y)]
    figure = go.Figure()
    figure.add_trace(
        go.Image(
            z=mixed.round().astype(np.uint8),
            x0=plane.x[0],
            dx=step[0],
            y0=plane.y[0],
            dy=step[1],
            zsmooth="fast",
            hoverinfo="skip",
            name="plane",
        )
    )
    for trace in row_traces(rows, dark):
        line = {"color": page_colours(dark).panel, "width": 0.8}
        figure.add_trace(trace.update(showlegend=False, marker_size=_MARKER, marker_line=line))
    titles = [escape(shortened(name, 24)) for name in (plane.across, plane.upright)]
    figure.update_layout(
        template=template(dark),
        height=height,
        hovermode="closest",
        margin={"t": 6},
        xaxis={"title": {"text": titles[0]}, "range": [plane.x[0], plane.x[-1]]},
        yaxis={
            "title": {"text": titles[1]},
            "range": [plane.y[0], plane.y[-1]],
            "scaleanchor": None,
        },
    )
    return figure
