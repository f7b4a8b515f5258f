"""Predictions of held-out cells with their intervals, over the true values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from app.figures.theme import accent, category, escape, interval_colour, page_colours, template
from app.formatting import number, shortened
from lvmcore.numerics.array_types import FloatArray

__all__ = ["HiddenCellPredictions", "coverage_figure"]


_HEIGHT = 360
_MARGIN = 0.06
#: Category code of vermilion, for values outside their interval.
_OUTSIDE = 3


@dataclass(frozen=True)
class HiddenCellPredictions:
    """Predictions of held-out cells of one column, in its units.

    Attributes:
        row: names of the rows, n of them.
        truth: true values, [n].
        mean: predictive means, [n].
        lower: lower ends of the intervals, [n].
        upper: upper ends of the intervals, [n].
    """

    row: Sequence[str]
    truth: FloatArray
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray


def coverage_figure(
    cells: HiddenCellPredictions,
    column: str,
    level: float,
    *,
    dark: bool,
    quantity: str = "prediction",
    height: int = _HEIGHT,
) -> go.Figure:
    """Predictions of cells with intervals over the true values; exact ones lie on the line.

    Args:
        cells: cells of the column.
        column: name of the column.
        level: level of the intervals.
        dark: whether the page is dark.
        quantity: name of the prediction in the figure.
        height: height of the figure in pixels.
    """
    figure = go.Figure()
    inside = (cells.lower <= cells.truth) & (cells.truth <= cells.upper)
    low, high = _extent(np.concatenate([cells.truth, cells.mean]))
    figure.add_scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        line={"color": page_colours(dark).muted, "width": 1, "dash": "dot"},
        hoverinfo="skip",
        name="exact",
    )
    vermilion, _ = category(_OUTSIDE, dark)
    looks = (
        (inside, "true value inside the interval", accent(dark), "circle", interval_colour(dark)),
        (~inside, "outside", vermilion, "diamond", _translucent(vermilion)),
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
            hovertext=[_label(cells, int(i), column, level, quantity) for i in rows],
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
        xaxis={"title": {"text": f"{name}, true value"}, "range": [low, high]},
        yaxis={"title": {"text": f"{name}, {quantity}"}},
    )
    return figure


def _extent(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = _MARGIN * (high - low) or 1.0
    return low - margin, high + margin


def _translucent(colour: str) -> str:
    """A translucent colour for the bars of the intervals, from #RRGGBB."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.45)"


def _label(cells: HiddenCellPredictions, i: int, column: str, level: float, quantity: str) -> str:
    interval = f"{number(cells.lower[i])} to {number(cells.upper[i])}"
    return (
        f"<b>row {escape(shortened(cells.row[i], 60))}</b><br>{escape(shortened(column))}: "
        f"{number(cells.truth[i])}<br>{quantity}: {number(cells.mean[i])}"
        f"<br>{100 * level:g} % interval: {interval}"
    )
