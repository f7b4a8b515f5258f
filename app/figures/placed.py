"""New rows on the map: a layer of marks of their own over the rows of the fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.axes import Axes, extent
from app.figures.latent_map import HEIGHT, axis_title, ellipses
from app.figures.rows import MOST_SVG, Rows, hover_label, row_traces
from app.figures.theme import ACCENT, NUMBERS, category, escape, ink, template

__all__ = ["NewLayer", "placed_figure"]

FloatArray = NDArray[np.float64]

_SIZE = 11
#: Shapes of the new rows, one for each round of the classes' colours.
_SHAPES = ("diamond", "star", "hexagram", "star-square")


@dataclass(frozen=True)
class NewLayer:
    """The new rows that are drawn.

    Attributes:
        points: positions on the map, [n, 2].
        hover: lines of text for each row, the first one its name.
        classes: names of the classes that colour them, in the order of their looks.
        codes: class of each row; −1 where it is not decided, −2 where it has no look of its own,
            [n]; None where classes do not colour them.
        unusual: how unusual each is, 0 to 1, as their colour, [n]; None for another colour.
        flagged: which get a ring, [n].
        sd: posterior sd along both axes, NaN draws no ellipse, [n, 2]; None draws none.
    """

    points: FloatArray
    hover: Sequence[Sequence[str]]
    classes: tuple[str, ...]
    codes: NDArray[np.intp] | None
    unusual: FloatArray | None
    flagged: NDArray[np.bool_]
    sd: FloatArray | None


def placed_figure(rows: Rows, new: NewLayer, axes: Axes, *, dark: bool) -> go.Figure:
    """Draw the map with new rows over those of the fit.

    Args:
        rows: those of the fit; drawn faint.
        new: the new rows.
        axes: the latent dimensions.
        dark: whether the page is dark.
    """
    marks = go.Scatter if len(rows.points) + len(new.points) <= MOST_SVG else go.Scattergl
    figure = go.Figure()
    for trace in row_traces(marks, rows, dark):
        if rows.colouring is None:
            trace.update(marker_color=ink(dark).muted)
        figure.add_trace(trace.update(showlegend=False, legendgroup=None, opacity=0.4))
    figure.add_trace(
        marks(
            x=[None],
            y=[None],
            mode="markers",
            marker={"color": ink(dark).muted, "opacity": 0.5, "size": 7},
            hoverinfo="skip",
            name="rows of the fit",
        )
    )
    if new.sd is not None:
        figure.add_trace(ellipses(new.points, new.sd, dark).update(opacity=0.45))
    for trace in _new(marks, new, dark):
        figure.add_trace(trace)
    across, up = extent(np.vstack([rows.points, new.points]))
    figure.update_layout(
        template=template(dark),
        height=HEIGHT,
        hovermode="closest",
        margin={"t": 36},
        legend={"x": 0, "xanchor": "left", "y": -0.11, "yanchor": "top", "traceorder": "normal"},
        xaxis={"title": {"text": axis_title(axes[0])}, "range": across},
        yaxis={"title": {"text": axis_title(axes[1])}, "range": up},
    )
    return figure


def _new(marks: Any, new: NewLayer, dark: bool) -> Iterator[Any]:
    edge = {"width": 1.2, "color": ink(dark).text}
    plain = {"size": _SIZE, "symbol": _SHAPES[0], "line": edge}
    everything = np.arange(len(new.points))
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
        ramp = {"colorscale": NUMBERS, "cmin": 0, "cmax": 1, "colorbar": bar, "showscale": True}
        yield _trace(marks, new, everything, {**plain, **ramp, "color": new.unusual}, "new rows")
    elif new.codes is None:
        yield _trace(marks, new, everything, {**plain, "color": ACCENT}, "new rows")
    else:
        yield from _by_class(marks, new, plain, dark)
    ringed = np.flatnonzero(new.flagged)
    if len(ringed):
        yield marks(
            x=new.points[ringed, 0],
            y=new.points[ringed, 1],
            mode="markers",
            marker={
                "size": _SIZE + 9,
                "symbol": "circle-open",
                "color": ink(dark).text,
                "line": {"width": 1.6},
            },
            hoverinfo="skip",
            name="unusual",
        )


def _by_class(marks: Any, new: NewLayer, plain: dict[str, Any], dark: bool) -> Iterator[Any]:
    assert new.codes is not None
    grey = ink(dark).muted
    for code, name in enumerate(new.classes):
        found = np.flatnonzero(new.codes == code)
        if len(found):
            colour, _ = category(code, dark)
            look = {**plain, "color": colour, "symbol": _SHAPES[code // 8 % len(_SHAPES)]}
            yield _trace(marks, new, found, look, f"new: {name}")
    others = np.flatnonzero(new.codes == -2)
    if len(others):
        yield _trace(marks, new, others, {**plain, "color": grey}, "new: other or none")
    undecided = np.flatnonzero(new.codes == -1)
    if len(undecided):
        hollow = {"size": _SIZE, "symbol": "diamond-open", "color": grey, "line": {"width": 1.8}}
        yield _trace(marks, new, undecided, hollow, "new: not decided")


def _trace(
    marks: Any, new: NewLayer, rows: NDArray[np.intp], marker: dict[str, Any], name: str
) -> Any:
    if isinstance(marker["color"], np.ndarray):
        marker = {**marker, "color": marker["color"][rows]}
    return marks(
        x=new.points[rows, 0],
        y=new.points[rows, 1],
        mode="markers",
        marker=marker,
        hovertext=[hover_label(new.hover[i]) for i in rows],
        hoverinfo="text",
        name=escape(name),
    )
