"""Small figures in lines, each with its title and a caption."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from app.formatting import markdown, shortened

__all__ = ["SmallFigure", "small_figures"]

_MOST_CHARACTERS = 60


@dataclass(frozen=True)
class SmallFigure:
    """A small figure.

    Attributes:
        key: widget key of its chart.
        name: title above it.
        caption: text below it, as Markdown; "" for none.
        alt: alternative text for screen readers.
        figure: the chart.
    """

    key: str
    name: str
    caption: str
    alt: str
    figure: go.Figure


def small_figures(figures: Iterable[SmallFigure], *, per_line: int) -> None:
    """Draw small figures in lines, each as soon as it is there.

    Args:
        figures: the figures in their order.
        per_line: number of figures in a line.
    """
    left = iter(figures)
    first = next(left, None)
    while first is not None:
        left = itertools.chain([first], left)
        for column in st.columns(per_line, gap="small"):
            with column:
                one = next(left, None)
                if one is None:
                    break
                st.markdown(f":small[**{markdown(shortened(one.name, _MOST_CHARACTERS))}**]")
                st.plotly_chart(
                    one.figure,
                    theme=None,
                    key=one.key,
                    config={"displayModeBar": False},
                    alt=one.alt,
                )
                if one.caption:
                    st.caption(one.caption)
        first = next(left, None)
