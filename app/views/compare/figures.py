"""Figures of the Compare page: one of several aligned maps, and trajectories between two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.analysis.comparison.trajectories import Trajectories
from app.analysis.map.map_axes import extent
from app.analysis.map.row_colours import Colouring, group_of_rows
from app.analysis.map.subsampling import evenly_spaced
from app.figures import palette
from app.figures.row_traces import MapRows, row_traces
from app.figures.theme import accent, page_colours, template
from app.formatting import shortened

__all__ = ["aligned_map_figure", "trajectory_figure"]

HEIGHT = 460
#: Most other rows in the background of the trajectories.
MOST_OTHERS = 2000
#: Decimal digits of the coordinates: a tenth of a pixel.
_DIGITS = 4
_LINE = 60


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
        margin={"l": 4, "r": 4, "t": 30, "b": 4},
        xaxis={**no_ticks, "range": horizontal},
        yaxis={**no_ticks, "range": vertical},
    )
    if equal:
        figure.update_layout(yaxis={"scaleanchor": "x", "scaleratio": 1})
    return figure


def trajectory_figure(
    found: Trajectories,
    colouring: Colouring,
    hover: Sequence[Sequence[str]],
    ends: tuple[str, str],
    *,
    id: str,
    dark: bool,
) -> dict[str, Any]:
    """Input of ``static/trails.js``: trajectories, with the other rows faint on the second map.

    Args:
        found: the trajectories.
        colouring: colours of the rows of the whole dataset.
        hover: lines of the hover text of each drawn row.
        ends: names of the two maps.
        id: identity of the figure; a figure with another id resets the slider.
        dark: whether the page is dark.
    """
    drawn = found.rows[found.drawn]
    others = np.setdiff1d(np.arange(len(found.row_positions)), drawn, assume_unique=True)
    others = others[evenly_spaced(len(others), MOST_OTHERS)]
    start, end, background = found.start[drawn], found.end[drawn], found.end[others]
    x, y = extent(np.concatenate([start, end, background]))
    names = [shortened(name, 40) for name in ends]
    positions = found.row_positions[np.concatenate([drawn, others])]
    looks, codes = palette.row_palette(
        group_of_rows(colouring, positions), len(positions), dark=dark
    )
    return {
        "x": list(x),
        "y": list(y),
        "height": HEIGHT,
        "radius": 4.5 if len(drawn) <= 100 else 3.2,
        "looks": [{"colour": colour, "shape": shape} for colour, shape in looks],
        "others": {
            "x": _rounded(background[:, 0]),
            "y": _rounded(background[:, 1]),
            "c": codes[len(drawn) :].tolist(),
        },
        "trails": {
            "x0": _rounded(start[:, 0]),
            "y0": _rounded(start[:, 1]),
            "x1": _rounded(end[:, 0]),
            "y1": _rounded(end[:, 1]),
            "c": codes[: len(drawn)].tolist(),
            "name": [[shortened(line, _LINE) for line in lines] for lines in hover],
        },
        "ends": names,
        "slider": f"Position between {names[0]} and {names[1]}",
        "alt": f"Trajectories of rows from {names[0]} to {names[1]}",
        "id": id,
        "ink": {**vars(page_colours(dark)), "accent": accent(dark)},
    }


def _rounded(values: NDArray[np.float64]) -> list[float]:
    found: list[float] = np.round(values, _DIGITS).tolist()
    return found
