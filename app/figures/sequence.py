"""Rows along a curve of the latent space: as curves of their columns, or as a strip of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.figures.theme import accent, escape, ink, ramp, template, veil
from app.generating import Along
from app.words import number, shortened

__all__ = ["curves_figure", "strip_figure"]

_ACROSS = 3
_LINE_PX, _IMAGE_PX = 170, 118


def curves_figure(
    found: Along, columns: Sequence[int], names: Sequence[str], title: str, *, dark: bool
) -> go.Figure:
    """Some columns along a curve, each with its band of ± 2 sd, in the data's units.

    Args:
        found: the decoded curve.
        columns: positions of the columns to draw.
        names: of all columns.
        title: of the horizontal axes.
        dark: whether the page is dark.
    """
    lines = -(-len(columns) // _ACROSS)
    across = min(_ACROSS, len(columns))
    figure = make_subplots(
        rows=lines,
        cols=across,
        subplot_titles=[escape(shortened(names[d], 34)) for d in columns],
        shared_xaxes=True,
        horizontal_spacing=0.07,
        vertical_spacing=min(0.14, 0.5 / lines),
    )
    for i, d in enumerate(columns):
        place = {"row": i // across + 1, "col": i % across + 1}
        figure.add_scatter(
            x=np.concatenate([found.at, found.at[::-1]]),
            y=np.concatenate([found.low[:, d], found.high[::-1, d]]),
            fill="toself",
            fillcolor=veil(dark),
            line={"width": 0},
            hoverinfo="skip",
            name="± 2 sd",
            **place,
        )
        ends = zip(found.value[:, d], found.low[:, d], found.high[:, d], strict=True)
        figure.add_scatter(
            x=found.at,
            y=found.value[:, d],
            mode="lines",
            line={"color": accent(dark), "width": 2},
            hovertext=[
                f"{number(v)}, 2 sd from {number(a, 3)} to {number(b, 3)}" for v, a, b in ends
            ],
            hoverinfo="text",
            name=escape(shortened(names[d], 60)),
            **place,
        )
        if i + across >= len(columns):
            # Beside one another three titles would run into each other on a narrow page.
            named = across < _ACROSS or place["col"] == (across + 1) // 2
            figure.update_xaxes(
                title_text=escape(title) if named else None, showticklabels=True, **place
            )
    figure.update_layout(
        template=template(dark),
        height=60 + _LINE_PX * lines,
        showlegend=False,
        hovermode="closest",
        margin={"t": 28},
    )
    figure.update_annotations(font={"size": 12, "color": ink(dark).text})
    return figure


def strip_figure(
    found: Along,
    shape: tuple[int, int],
    limits: tuple[float, float],
    title: str,
    *,
    most: int,
    dark: bool,
) -> go.Figure:
    """Images along a curve, and below each the width of its pixels' intervals.

    Args:
        found: the decoded curve.
        shape: height and width of the images.
        limits: darkest and lightest value of all images.
        title: what ``found.at`` is.
        most: how many images to draw, evenly along it.
        dark: whether the page is dark.
    """
    chosen = np.linspace(0, len(found.at) - 1, min(most, len(found.at))).round().astype(int)
    width = found.high[chosen] - found.low[chosen]
    figure = make_subplots(
        rows=2,
        cols=len(chosen),
        subplot_titles=[number(found.at[i], 3) for i in chosen],
        horizontal_spacing=0.008,
        vertical_spacing=0.03,
    )
    doubt = {
        "zmin": 0.0,
        "zmax": float(width.max()),
        "colorscale": ramp(sure_is_low=True, dark=dark),
        "colorbar": {"title": {"text": "interval width"}, "len": 0.5, "y": 0.25},
    }
    for column, i in enumerate(chosen, start=1):
        image: dict[str, Any] = {"zmin": limits[0], "zmax": limits[1], "colorscale": "Greys_r"}
        for line, cells, look in ((1, found.value[i], image), (2, width[column - 1], doubt)):
            figure.add_heatmap(
                z=cells.reshape(shape),
                showscale=line == 2 and column == len(chosen),
                hovertemplate="%{z:.3g}<extra>row %{y}, column %{x}</extra>",
                name=f"{escape(title)} {number(found.at[i], 3)}",
                row=line,
                col=column,
                **look,
            )
    for k in range(2 * len(chosen)):
        name = "" if k == 0 else str(k + 1)
        figure.update_layout({f"yaxis{name}": {"autorange": "reversed", "scaleanchor": f"x{name}"}})
    figure.update_xaxes(visible=False, constrain="domain")
    figure.update_yaxes(visible=False, constrain="domain")
    figure.update_layout(
        template=template(dark), height=60 + 2 * _IMAGE_PX, margin={"t": 28}, showlegend=False
    )
    figure.update_annotations(font={"size": 11, "color": ink(dark).muted})
    return figure
