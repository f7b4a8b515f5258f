"""Small maps in rows, beside one another: of the fits of a sweep, or of the starts of one fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app import chart, figures, state
from app.colouring import Colouring, part_of
from app.words import markdown, shortened
from lvmcore.data import Dataset

__all__ = ["MOST_MAPS", "MOST_ROWS", "Small", "small_maps"]

#: Maps drawn at once, how many beside each other, their height, and the size of their markers.
MOST_MAPS, ACROSS, HEIGHT, MARKER = 12, 4, 210, 4
#: Rows drawn on each at most.
MOST_ROWS = 1500


@dataclass(frozen=True)
class Small:
    """A small map.

    Attributes:
        key: of its chart.
        name: above it.
        said: below it, as Markdown.
        alt: what it shows, for a screen reader.
        place: position of each of its rows in the whole dataset, [n].
        points: where they are drawn, [n, 2].
        equal: whether both axes have the same unit.
    """

    key: str
    name: str
    said: str
    alt: str
    place: NDArray[np.intp]
    points: NDArray[np.float64]
    equal: bool


def small_maps(maps: Sequence[Small], whole: Dataset, look: Colouring) -> None:
    """Draw small maps, so many beside one another.

    Args:
        maps: in their order.
        whole: all rows of the dataset.
        look: how its rows are coloured.
    """
    for first in range(0, len(maps), ACROSS):
        row = maps[first : first + ACROSS]
        for one, column in zip(row, st.columns(ACROSS, gap="small"), strict=False):
            with column:
                _small(one, whole, look)


def _small(one: Small, whole: Dataset, look: Colouring) -> None:
    shown = figures.evenly(len(one.points), MOST_ROWS)
    place = one.place[shown]
    rows = figures.Rows(
        points=one.points[shown],
        number=place,
        hover=chart.hover(whole, look, place),
        colouring=part_of(look, place),
    )
    st.markdown(f":small[**{markdown(shortened(one.name, 60))}**]")
    st.plotly_chart(
        figures.side_figure(rows, equal=one.equal, dark=state.dark(), height=HEIGHT, size=MARKER),
        theme=None,
        key=one.key,
        config={"displayModeBar": False},
        alt=one.alt,
    )
    st.caption(one.said)
