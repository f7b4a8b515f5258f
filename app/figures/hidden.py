"""What a model made of cells it did not see, with intervals, over what they held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.theme import accent, category, escape, ink, template, veil
from app.words import number, shortened

__all__ = ["Hidden", "hidden_figure"]

FloatArray = NDArray[np.float64]

_HEIGHT = 360
_MARGIN = 0.06
#: Vermilion, for what lies outside its interval.
_OUTSIDE = 3


@dataclass(frozen=True)
class Hidden:
    """Cells of one column that the model did not see, in its units.

    Attributes:
        row: names of their rows, n of them.
        truth: what they held, [n].
        mean: what the model made of them, [n].
        lower: lower ends of the intervals, [n].
        upper: upper ends of the intervals, [n].
    """

    row: Sequence[str]
    truth: FloatArray
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray


def hidden_figure(
    cells: Hidden,
    column: str,
    level: float,
    *,
    dark: bool,
    made: str = "filled in",
    height: int = _HEIGHT,
) -> go.Figure:
    """What was made of cells with its interval, over what they held; exact ones lie on the line.

    Args:
        cells: of the column.
        column: its name.
        level: of the intervals.
        dark: whether the page is dark.
        made: what was made of them, in a word or two.
        height: of the figure, pixels.
    """
    figure = go.Figure()
    inside = (cells.lower <= cells.truth) & (cells.truth <= cells.upper)
    low, high = _extent(np.concatenate([cells.truth, cells.mean]))
    figure.add_scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        line={"color": ink(dark).muted, "width": 1, "dash": "dot"},
        hoverinfo="skip",
        name="exact",
    )
    vermilion, _ = category(_OUTSIDE, dark)
    looks = (
        (inside, "truth inside the interval", accent(dark), "circle", veil(dark)),
        (~inside, "outside", vermilion, "diamond", _through(vermilion)),
    )
    for chosen, name, colour, symbol, bar in looks:
        rows = np.flatnonzero(chosen)
        if not len(rows):
            continue
        figure.add_scatter(
            x=cells.truth[rows],
            y=cells.mean[rows],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": (cells.upper - cells.mean)[rows],
                "arrayminus": (cells.mean - cells.lower)[rows],
                "width": 0,
                "thickness": 1.6,
                "color": bar,
            },
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 7},
            hovertext=[_label(cells, int(i), column, level, made) for i in rows],
            hoverinfo="text",
            name=name,
        )
    name = escape(shortened(column, 40))
    figure.update_layout(
        template=template(dark),
        height=height,
        hovermode="closest",
        margin={"t": 30},
        legend={"x": 0, "xanchor": "left"},
        xaxis={"title": {"text": f"{name}, as it was"}, "range": [low, high]},
        yaxis={"title": {"text": f"{name}, {made}"}},
    )
    return figure


def _extent(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = _MARGIN * (high - low) or 1.0
    return low - room, high + room


def _through(colour: str) -> str:
    """A colour #RRGGBB let through: for the bar of an interval."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.45)"


def _label(cells: Hidden, i: int, column: str, level: float, made: str) -> str:
    interval = f"{number(cells.lower[i])} to {number(cells.upper[i])}"
    return (
        f"<b>row {escape(shortened(cells.row[i], 60))}</b><br>{escape(shortened(column))}: "
        f"{number(cells.truth[i])}<br>{made}: {number(cells.mean[i])}"
        f"<br>{100 * level:g} % interval: {interval}"
    )
