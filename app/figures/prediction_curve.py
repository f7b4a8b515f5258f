"""Figures of predictions along one column: a number with its band, or class probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.analysis.tables.column_curves import ClassCurves
from app.analysis.tables.prediction_curves import PredictionCurve
from app.figures.date_axis import date_format
from app.figures.theme import accent, category, escape, page_colours, template
from app.formatting import shortened
from lvmcore.numerics.array_types import FloatArray

__all__ = ["MOST_CLASSES", "class_curve_figure", "curve_figure"]


#: Opacity of the band over the data, and beyond them.
_BAND, _BEYOND_BAND = 0.28, 0.12
BEYOND = "beyond the data"
#: Most classes with a curve, and the distance of the lines of their rows below the axis.
MOST_CLASSES, _LINE = 8, 0.045


def curve_figure(
    curve: PredictionCurve,
    target: str,
    *,
    dark: bool,
    height: int,
    points: tuple[FloatArray, FloatArray, NDArray[np.bool_]] | None = None,
) -> go.Figure:
    """Draw a mean with its band; beyond the data the line is dashed and the band lighter.

    Args:
        curve: the mean and its band.
        target: title of the vertical axis.
        dark: whether the page is dark.
        height: in pixels.
        points: column, target and whether held out of rows to draw, [n] each; None for none.
    """
    figure = go.Figure()
    ahead = curve.x > curve.last
    split = int(np.argmax(ahead)) if ahead.any() else len(curve.x)
    _add_part(figure, curve, slice(0, split), dark, "mean", dashed=False)
    if split < len(curve.x):
        _add_part(figure, curve, slice(max(0, split - 1), None), dark, BEYOND, dashed=True)
        _mark_end(figure, curve, dark)
    if points is not None:
        _add_points(figure, curve, points, dark)
    figure.update_layout(
        template=template(dark),
        height=height,
        hovermode="closest",
        showlegend=points is not None,
        legend={"x": 0, "xanchor": "left"},
        margin={"t": 34 if points is not None else 18},
        xaxis={
            "title": {"text": escape(shortened(curve.column))},
            "type": "linear" if curve.dates is None else "date",
        },
        yaxis={"title": {"text": escape(shortened(target, 40))}},
    )
    return figure


def _add_part(
    figure: go.Figure, curve: PredictionCurve, part: slice, dark: bool, name: str, *, dashed: bool
) -> None:
    """A part of the curve and its band."""
    x, colour = _axis(curve, curve.x[part]), accent(dark)
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    opacity = _BEYOND_BAND if dashed else _BAND
    figure.add_scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([curve.upper[part], curve.lower[part][::-1]]),
        mode="lines",
        fill="toself",
        fillcolor=f"rgba({red},{green},{blue},{opacity})",
        line={"width": 0},
        hoverinfo="skip",
        name=f"90 % band {BEYOND}" if dashed else "90 % band",
        showlegend=not dashed,
    )
    figure.add_scatter(
        x=x,
        y=curve.mean[part],
        mode="lines",
        line={"color": colour, "width": 2, "dash": "dash" if dashed else "solid"},
        customdata=np.column_stack([curve.lower[part], curve.upper[part]]),
        hovertemplate=f"{_hover(curve)}: %{{y:.4g}} (%{{customdata[0]:.4g}} to "
        "%{customdata[1]:.4g})<extra></extra>",
        name=name,
        showlegend=not dashed,
    )


def _mark_end(figure: go.Figure, curve: PredictionCurve, dark: bool) -> None:
    """A line at the last row, and the label of what is after it."""
    muted = page_colours(dark).muted
    last = _axis(curve, np.array([curve.last]))[0]
    figure.add_vline(x=last, line={"color": muted, "width": 1, "dash": "dot"})
    figure.add_annotation(
        x=last,
        y=1,
        yref="paper",
        text=BEYOND,
        showarrow=False,
        xanchor="left",
        yanchor="bottom",
        font={"color": muted, "size": 12},
    )


def class_curve_figure(
    curves: ClassCurves,
    *,
    dark: bool,
    height: int,
    points: tuple[FloatArray, NDArray[np.str_]],
) -> go.Figure:
    """Draw the probability of each class, and below them a line with the rows of each class.

    Of many classes the ``MOST_CLASSES`` with the highest probability anywhere are drawn.

    Args:
        curves: the probabilities.
        dark: whether the page is dark.
        height: in pixels.
        points: column and class of rows to draw, [n] each.
    """
    figure = go.Figure()
    x, labels = points
    highest = np.argsort(-curves.probability.max(axis=0), kind="stable")[:MOST_CLASSES]
    for line, code in enumerate(np.sort(highest).tolist()):
        name, colour = curves.classes[code], category(code, dark)[0]
        title = escape(shortened(name, 24))
        figure.add_scatter(
            x=_axis(curves, curves.x),
            y=curves.probability[:, code],
            mode="lines",
            line={"color": colour, "width": 2},
            hovertemplate=f"{_hover(curves)}: %{{y:.3f}}<extra>{title}</extra>",
            name=title,
        )
        own = x[labels == name]
        figure.add_scatter(
            x=_axis(curves, own),
            y=np.full(len(own), -_LINE * (line + 1)),
            mode="markers",
            marker={"color": colour, "size": 7, "symbol": "line-ns-open", "opacity": 0.7},
            hovertemplate=f"{_hover(curves)}<extra>row of {title}</extra>",
            name=f"rows of {title}",
            showlegend=False,
        )
    figure.update_layout(
        template=template(dark),
        height=height,
        hovermode="closest",
        showlegend=True,
        legend={"x": 0, "xanchor": "left"},
        margin={"t": 34},
        xaxis={
            "title": {"text": escape(shortened(curves.column))},
            "type": "linear" if curves.dates is None else "date",
        },
        yaxis={
            "title": {"text": "probability"},
            "range": [-_LINE * (len(highest) + 1), 1.03],
            "tickvals": [0, 0.25, 0.5, 0.75, 1],
        },
    )
    return figure


def _axis(curve: PredictionCurve | ClassCurves, x: FloatArray) -> NDArray[Any]:
    """Values of the column on the horizontal axis: dates as texts in ISO 8601, or numbers."""
    return x if curve.dates is None else np.datetime_as_string(curve.dates.dates(x), unit="s")


def _hover(curve: PredictionCurve | ClassCurves) -> str:
    """The value of the column in a hover text."""
    return "%{x:.4g}" if curve.dates is None else f"%{{x|{date_format(curve.dates)}}}"


def _add_points(
    figure: go.Figure,
    curve: PredictionCurve,
    points: tuple[FloatArray, FloatArray, NDArray[np.bool_]],
    dark: bool,
) -> None:
    """The rows of the fit, and the held-out ones as rings."""
    x, y, held_out = _axis(curve, points[0]), *points[1:]
    colours = page_colours(dark)
    for chosen, name, symbol in (
        (~held_out, "rows of the fit", "circle"),
        (held_out, "held-out rows", "circle-open"),
    ):
        if chosen.any():
            figure.add_scatter(
                x=x[chosen],
                y=y[chosen],
                mode="markers",
                marker={"color": colours.text, "size": 4, "symbol": symbol, "opacity": 0.75},
                hovertemplate=f"{_hover(curve)}: %{{y:.4g}}<extra></extra>",
                name=name,
            )
