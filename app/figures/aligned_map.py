"""One of several aligned maps, without ticks. Pure."""

from __future__ import annotations

import plotly.graph_objects as go

from app.analysis.map.map_axes import extent
from app.figures.row_traces import MapRows, row_traces
from app.figures.theme import template

__all__ = ["aligned_map_figure"]


def aligned_map_figure(
    rows: MapRows,
    *,
    equal: bool,
    dark: bool,
    height: int,
    size: int | None = None,
) -> go.Figure:
    """Draw one map of several, without ticks.

    Args:
        rows: the rows.
        equal: whether both axes have the same scale, as aligned maps need.
        dark: whether the page is dark.
        height: height in pixels.
        size: size of the markers of a small map; None for a default by the number of rows.
    """
    figure = go.Figure()
    for trace in row_traces(rows, dark):
        marker: dict[str, object] = (
            {} if trace.marker.showscale is None else {"marker_showscale": False}
        )
        if size is not None:
            marker["marker_size"] = size
        figure.add_trace(trace.update(showlegend=False, **marker))
    horizontal, vertical = extent(rows.points)
    no_ticks = {"showticklabels": False, "ticks": "", "title": {"text": ""}}
    figure.update_layout(
        template=template(dark),
        height=height,
        hovermode="closest",
        margin={"l": 4, "r": 4, "t": 30 if size is None else 4, "b": 4},
        xaxis={**no_ticks, "range": horizontal},
        yaxis={**no_ticks, "range": vertical},
    )
    if equal:
        figure.update_layout(yaxis={"scaleanchor": "x", "scaleratio": 1})
    return figure
