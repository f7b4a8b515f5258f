"""Scores of several fits as grouped bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from app.figures.theme import escape, page_colours, path_colours, template
from app.formatting import shortened

__all__ = ["scores_figure"]


def scores_figure(
    fits: Sequence[str], scores: Mapping[str, Sequence[float]], *, chance: float, dark: bool
) -> go.Figure:
    """Draw a group of bars for each fit, a bar for each score, and a line at chance level.

    Args:
        fits: names of the fits.
        scores: values from 0 to 1 of each fit, by the name of the score.
        chance: score of guessing.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    for (name, values), colour in zip(scores.items(), path_colours(len(scores), dark), strict=True):
        figure.add_bar(
            x=[escape(shortened(fit, 60)) for fit in fits],
            y=list(values),
            name=escape(shortened(name, 60)),
            marker={"color": colour},
            text=[f"{value:.2f}" for value in values],
            textposition="outside",
            cliponaxis=False,
            hoverinfo="skip",
        )
    figure.add_hline(y=chance, line={"color": page_colours(dark).muted, "width": 1, "dash": "dot"})
    figure.update_layout(
        template=template(dark),
        height=320,
        bargap=0.5,
        margin={"t": 40},
        showlegend=True,
        yaxis={"title": {"text": "share of rows"}, "range": [0, 1.12]},
    )
    return figure
