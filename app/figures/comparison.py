"""One of several maps side by side: rows only, on axes of equal scale."""

from __future__ import annotations

import plotly.graph_objects as go

from app.axes import extent
from app.figures.rows import MOST_SVG, Rows, row_traces
from app.figures.theme import template

__all__ = ["side_figure"]


def side_figure(
    rows: Rows,
    *,
    equal: bool,
    dark: bool,
    height: int,
    size: int | None = None,
) -> go.Figure:
    """Draw one map of several. Its axes have no ticks: what counts is who lies beside whom.

    Args:
        rows: what is drawn.
        equal: whether both axes have the same unit, as aligned maps need.
        dark: whether the page is dark.
        height: in pixels.
        size: of the markers, for a small map; None goes by the number of rows.
    """
    marks = go.Scatter if len(rows.points) <= MOST_SVG else go.Scattergl
    figure = go.Figure()
    for trace in row_traces(marks, rows, dark):
        marker: dict[str, object] = (
            {} if trace.marker.showscale is None else {"marker_showscale": False}
        )
        if size is not None:
            marker["marker_size"] = size
        figure.add_trace(trace.update(showlegend=False, **marker))
    across, up = extent(rows.points)
    bare = {"showticklabels": False, "ticks": "", "title": {"text": ""}}
    figure.update_layout(
        template=template(dark),
        height=height,
        hovermode="closest",
        margin={"l": 4, "r": 4, "t": 30, "b": 4},
        xaxis={**bare, "range": across},
        yaxis={**bare, "range": up},
    )
    if equal:
        figure.update_layout(yaxis={"scaleanchor": "x", "scaleratio": 1})
    return figure
