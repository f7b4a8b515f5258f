"""The map as a plotly figure, for reports and illustrations: rows over a background."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.analysis.map.heatmaps import Heatmap
from app.analysis.map.map_axes import Axes, extent
from app.figures.canvas_scene import ELLIPSE_SD
from app.figures.row_traces import MapRows, row_traces
from app.figures.theme import escape, heatmap_colours, page_colours, template
from app.formatting import shortened
from lvmcore.numerics.array_types import FloatArray

HEIGHT = 620
_CORNERS = 32


def axis_title(dimension: int | None) -> str:
    """Title of the axis of a latent dimension."""
    return "row" if dimension is None else f"latent dimension {dimension + 1}"


def map_figure(
    rows: MapRows,
    axes: Axes,
    *,
    dark: bool,
    grid: Heatmap | None = None,
    inducing: Mapping[str, FloatArray] | None = None,
) -> go.Figure:
    """Draw the map.

    Args:
        rows: the rows.
        axes: the latent dimensions.
        dark: whether the page is dark.
        grid: the heatmap in the background.
        inducing: inducing inputs per path on the two axes, each [M, 2].
    """
    ranges = extent(rows.points)
    if grid is not None:
        ranges = (float(grid.x[0]), float(grid.x[-1])), (float(grid.y[0]), float(grid.y[-1]))
    figure = go.Figure()
    if grid is not None:
        figure.add_trace(_heat(grid, dark))
    if rows.sd is not None:
        figure.add_trace(ellipses(rows.points, rows.sd, dark and grid is None, rows.correlation))
    for trace in row_traces(rows, dark):
        figure.add_trace(trace)
    for trace in _inducing(inducing or {}, dark):
        figure.add_trace(trace)
    figure.update_layout(
        template=template(dark),
        height=HEIGHT,
        hovermode="closest",
        margin={"t": 36},
        legend={"x": 0, "xanchor": "left", "y": -0.11, "yanchor": "top"},
        xaxis={"title": {"text": axis_title(axes[0])}, "range": ranges[0]},
        yaxis={"title": {"text": axis_title(axes[1])}, "range": ranges[1]},
    )
    return figure


def _heat(grid: Heatmap, dark: bool) -> go.Heatmap:
    low, high = grid.limits or (None, None)
    return go.Heatmap(
        x=grid.x,
        y=grid.y,
        z=grid.value,
        zmin=low,
        zmax=high,
        zsmooth="best",
        colorscale=heatmap_colours(low_is_certain=grid.low_is_certain, dark=dark),
        colorbar={"title": {"text": f"{escape(grid.title)} ({escape(grid.unit)})"}},
        hoverinfo="skip",
        name="background",
    )


def ellipses(
    points: FloatArray, sd: FloatArray, dark: bool, correlation: FloatArray | None = None
) -> go.Scatter:
    """All posterior ellipses as one line with gaps."""
    angle = np.linspace(0.0, 2 * np.pi, _CORNERS + 1)
    circle = ELLIPSE_SD * np.column_stack([np.cos(angle), np.sin(angle)])
    r = np.zeros(len(points)) if correlation is None else correlation
    upright = r[:, None] * circle[:, 0] + np.sqrt(1 - np.square(r))[:, None] * circle[:, 1]
    across = np.broadcast_to(circle[:, 0], upright.shape)
    path = points[:, None, :] + sd[:, None, :] * np.stack([across, upright], axis=2)
    gap = np.full((len(points), 1, 2), np.nan)
    line = np.concatenate([path, gap], axis=1).reshape(-1, 2)
    return go.Scatter(
        x=line[:, 0],
        y=line[:, 1],
        mode="lines",
        line={"color": page_colours(dark).text, "width": 0.7},
        opacity=0.25,
        hoverinfo="skip",
        showlegend=False,
        name="ellipses",
    )


def _inducing(inducing: Mapping[str, FloatArray], dark: bool) -> Iterator[Any]:
    for (path, Z), symbol in zip(inducing.items(), cycle(("x", "cross", "star")), strict=False):
        yield go.Scatter(
            x=Z[:, 0],
            y=Z[:, 1],
            mode="markers",
            marker={
                "symbol": symbol,
                "size": 9,
                "color": page_colours(dark).text,
                "line": {"width": 1.2, "color": page_colours(dark).panel},
            },
            hoverinfo="skip",
            name=f"inducing inputs, {escape(shortened(path, 60))} path",
            showlegend=True,
        )
