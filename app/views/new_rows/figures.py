"""The map with a layer of new rows over the rows of the fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.analysis.map.map_axes import Axes, extent
from app.analysis.map.row_colours import CategoryStyle
from app.figures.latent_map import HEIGHT, axis_title, ellipses
from app.figures.row_traces import MapRows, hover_label, row_traces
from app.figures.theme import ACCENT, NUMERIC_SCALE, escape, page_colours, template
from lvmcore.export.column_colours import SHAPES
from lvmcore.numerics.array_types import FloatArray

__all__ = ["NewRowsLayer", "placements_figure"]


_SIZE = 11
#: Shapes of the new rows, one for each shape of the rows of the fit.
_SHAPES = ("diamond", "star", "hexagram", "star-square")


@dataclass(frozen=True)
class NewRowsLayer:
    """The drawn new rows.

    Attributes:
        points: positions on the map, [n, 2].
        hover: lines of the hover text of each row, the first one its name.
        classes: the classes with their colours; None without classes.
        codes: class of each row; −1 if it is not decided, −2 if it has no colour of its own, [n];
            None for another colour.
        unusual: how unusual each row is, from 0 to 1, as its colour, [n]; None for another colour.
        flagged: mask of the rows with a ring, [n].
        sd: posterior sd along both axes, [n, 2]; NaN for a row without an ellipse, None for none.
    """

    points: FloatArray
    hover: Sequence[Sequence[str]]
    classes: CategoryStyle | None
    codes: NDArray[np.intp] | None
    unusual: FloatArray | None
    flagged: NDArray[np.bool_]
    sd: FloatArray | None


def placements_figure(rows: MapRows, new: NewRowsLayer, axes: Axes, *, dark: bool) -> go.Figure:
    """Draw the map with new rows over those of the fit.

    Args:
        rows: rows of the fit, drawn faint.
        new: the new rows.
        axes: the latent dimensions.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    for trace in row_traces(rows, dark):
        if rows.colouring is None:
            trace.update(marker_color=page_colours(dark).muted)
        figure.add_trace(trace.update(showlegend=False, legendgroup=None, opacity=0.4))
    figure.add_trace(
        go.Scatter(
            x=[None],
            y=[None],
            mode="markers",
            marker={"color": page_colours(dark).muted, "opacity": 0.5, "size": 7},
            hoverinfo="skip",
            name="rows of the fit",
        )
    )
    if new.sd is not None:
        figure.add_trace(ellipses(new.points, new.sd, dark).update(opacity=0.45))
    for trace in _new_row_traces(new, dark):
        figure.add_trace(trace)
    horizontal, vertical = extent(np.vstack([rows.points, new.points]))
    figure.update_layout(
        template=template(dark),
        height=HEIGHT,
        hovermode="closest",
        margin={"t": 36},
        legend={"x": 0, "xanchor": "left", "y": -0.11, "yanchor": "top", "traceorder": "normal"},
        xaxis={"title": {"text": axis_title(axes[0])}, "range": horizontal},
        yaxis={"title": {"text": axis_title(axes[1])}, "range": vertical},
    )
    return figure


def _new_row_traces(new: NewRowsLayer, dark: bool) -> Iterator[Any]:
    edge = {"width": 1.2, "color": page_colours(dark).text}
    plain = {"size": _SIZE, "symbol": _SHAPES[0], "line": edge}
    all_rows = np.arange(len(new.points))
    if new.unusual is not None:
        bar = {
            "orientation": "h", "x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom",
            "len": 0.55, "thickness": 10, "outlinewidth": 0,
            "title": {
                "text": "more unusual than this share of the fit",
                "side": "top",
                "font": {"size": 12},
            },
        }  # fmt: skip
        scale = {
            "colorscale": NUMERIC_SCALE,
            "cmin": 0,
            "cmax": 1,
            "colorbar": bar,
            "showscale": True,
        }
        yield _trace(new, all_rows, {**plain, **scale, "color": new.unusual}, "new rows")
    elif new.codes is None:
        yield _trace(new, all_rows, {**plain, "color": ACCENT}, "new rows")
    else:
        yield from _class_traces(new, plain, dark)
    ringed = np.flatnonzero(new.flagged)
    if len(ringed):
        yield go.Scatter(
            x=new.points[ringed, 0],
            y=new.points[ringed, 1],
            mode="markers",
            marker={
                "size": _SIZE + 9,
                "symbol": "circle-open",
                "color": page_colours(dark).text,
                "line": {"width": 1.6},
            },
            hoverinfo="skip",
            name="unusual",
        )


def _class_traces(new: NewRowsLayer, plain: dict[str, Any], dark: bool) -> Iterator[Any]:
    assert new.codes is not None
    grey = page_colours(dark).muted
    looks = (
        []
        if new.classes is None
        else zip(new.classes.names, new.classes.looks(dark=dark), strict=True)
    )
    for code, (name, (colour, shape)) in enumerate(looks):
        found = np.flatnonzero(new.codes == code)
        if len(found):
            marker = {**plain, "color": colour, "symbol": _SHAPES[SHAPES.index(shape)]}
            yield _trace(new, found, marker, f"new: {name}")
    others = np.flatnonzero(new.codes == -2)
    if len(others):
        yield _trace(new, others, {**plain, "color": grey}, "new: other or none")
    undecided = np.flatnonzero(new.codes == -1)
    if len(undecided):
        hollow = {"size": _SIZE, "symbol": "diamond-open", "color": grey, "line": {"width": 1.8}}
        yield _trace(new, undecided, hollow, "new: not decided")


def _trace(new: NewRowsLayer, rows: NDArray[np.intp], marker: dict[str, Any], name: str) -> Any:
    if isinstance(marker["color"], np.ndarray):
        marker = {**marker, "color": marker["color"][rows]}
    return go.Scatter(
        x=new.points[rows, 0],
        y=new.points[rows, 1],
        mode="markers",
        marker=marker,
        hovertext=[hover_label(new.hover[i]) for i in rows],
        hoverinfo="text",
        name=escape(name),
    )
