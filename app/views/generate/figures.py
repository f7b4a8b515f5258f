"""Figures of rows along a latent curve: curves of their columns, or a strip of images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.analysis.map.generation import DecodedPath
from app.figures.pictures import add_picture, add_widths
from app.figures.theme import (
    accent,
    escape,
    interval_colour,
    page_colours,
    template,
)
from app.formatting import number, shortened
from lvmcore.export.picture_pixels import pixel_widths
from lvmcore.preprocessing.picture_shape import ImageShape

__all__ = ["curves_figure", "strip_figure"]

_PER_LINE = 3
_LINE_PX, _IMAGE_PX = 170, 118


def curves_figure(
    found: DecodedPath, columns: Sequence[int], names: Sequence[str], title: str, *, dark: bool
) -> go.Figure:
    """Columns along a curve, each with the band of its interval, in data units.

    Args:
        found: the decoded curve.
        columns: positions of the columns to draw.
        names: names of all columns.
        title: title of the horizontal axes.
        dark: whether the page is dark.
    """
    lines = -(-len(columns) // _PER_LINE)
    per_line = min(_PER_LINE, len(columns))
    figure = make_subplots(
        rows=lines,
        cols=per_line,
        subplot_titles=[escape(shortened(names[d], 34)) for d in columns],
        shared_xaxes=True,
        horizontal_spacing=0.07,
        vertical_spacing=min(0.14, 0.5 / lines),
    )
    interval = "2 sd from" if found.symmetric else "95 % interval"
    for i, d in enumerate(columns):
        subplot = {"row": i // per_line + 1, "col": i % per_line + 1}
        figure.add_scatter(
            x=np.concatenate([found.at, found.at[::-1]]),
            y=np.concatenate([found.low[:, d], found.high[::-1, d]]),
            fill="toself",
            fillcolor=interval_colour(dark),
            line={"width": 0},
            hoverinfo="skip",
            name="± 2 sd" if found.symmetric else "95 % interval",
            **subplot,
        )
        ends = zip(found.value[:, d], found.low[:, d], found.high[:, d], strict=True)
        figure.add_scatter(
            x=found.at,
            y=found.value[:, d],
            mode="lines",
            line={"color": accent(dark), "width": 2},
            hovertext=[
                f"{number(v)}, {interval} {number(a, 3)} to {number(b, 3)}" for v, a, b in ends
            ],
            hoverinfo="text",
            name=escape(shortened(names[d], 60)),
            **subplot,
        )
        if i + per_line >= len(columns):
            # Three titles in a line would overlap on a narrow page.
            titled = per_line < _PER_LINE or subplot["col"] == (per_line + 1) // 2
            figure.update_xaxes(
                title_text=escape(title) if titled else None, showticklabels=True, **subplot
            )
    figure.update_layout(
        template=template(dark),
        height=60 + _LINE_PX * lines,
        showlegend=False,
        hovermode="closest",
        margin={"t": 28},
    )
    figure.update_annotations(font={"size": 12, "color": page_colours(dark).text})
    return figure


def strip_figure(
    found: DecodedPath,
    shape: ImageShape,
    limits: tuple[float, float],
    title: str,
    *,
    most: int,
    dark: bool,
) -> go.Figure:
    """Images along a curve, with the interval widths of their pixels below.

    The width of a pixel in colour is the root mean square over its channels.

    Args:
        found: the decoded curve.
        shape: height and width of the images, and 3 in colour.
        limits: darkest and lightest value of all images.
        title: title of ``found.at``.
        most: most images, evenly spaced along the curve.
        dark: whether the page is dark.
    """
    chosen = np.linspace(0, len(found.at) - 1, min(most, len(found.at))).round().astype(int)
    width = [pixel_widths(found.high[i] - found.low[i], shape) for i in chosen]
    figure = make_subplots(
        rows=2,
        cols=len(chosen),
        subplot_titles=[number(found.at[i], 3) for i in chosen],
        horizontal_spacing=0.008,
        vertical_spacing=0.03,
    )
    widest = max(float(one.max()) for one in width)
    bar = {"title": {"text": "interval width"}, "len": 0.5, "y": 0.25}
    for column, i in enumerate(chosen, start=1):
        name = f"{escape(title)} {number(found.at[i], 3)}"
        add_picture(figure, found.value[i], shape, limits, title=name, place=(1, column), dark=dark)
        add_widths(
            figure,
            width[column - 1],
            title=name,
            place=(2, column),
            most=widest,
            bar=bar if column == len(chosen) else None,
            dark=dark,
        )
    for k in range(2 * len(chosen)):
        name = "" if k == 0 else str(k + 1)
        figure.update_layout({f"yaxis{name}": {"autorange": "reversed", "scaleanchor": f"x{name}"}})
    figure.update_xaxes(visible=False, constrain="domain")
    figure.update_yaxes(visible=False, constrain="domain")
    figure.update_layout(
        template=template(dark), height=60 + 2 * _IMAGE_PX, margin={"t": 28}, showlegend=False
    )
    figure.update_annotations(font={"size": 11, "color": page_colours(dark).muted})
    return figure
