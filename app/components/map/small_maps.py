"""Small multiples of maps: fits of a sweep, restarts of one fit, or the maps of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.analysis.map import subsampling
from app.analysis.map.row_colours import Colouring, group_of_rows
from app.components.map import row_texts
from app.components.small_figures import SmallFigure, small_figures
from app.figures import row_traces
from app.figures.aligned_map import aligned_map_figure
from app.state.session import session
from lvmcore.data import Dataset

__all__ = ["MOST_MAPS", "MOST_ROWS", "SmallMap", "small_maps"]

#: Most small maps, their number per line, their height, and the size of their markers.
MOST_MAPS, PER_LINE, HEIGHT, MARKER = 12, 4, 210, 4
#: Most rows drawn on each.
MOST_ROWS = 1500


@dataclass(frozen=True)
class SmallMap:
    """A small map.

    Attributes:
        key: widget key of its chart.
        name: title above the map.
        caption: text below the map, as Markdown.
        alt: alternative text for screen readers.
        row_positions: position of each of its rows in the whole dataset, [n].
        points: displayed positions of the rows, [n, 2].
        equal: whether both axes have the same scale.
    """

    key: str
    name: str
    caption: str
    alt: str
    row_positions: NDArray[np.intp]
    points: NDArray[np.float64]
    equal: bool


def small_maps(
    maps: Sequence[SmallMap],
    full_dataset: Dataset,
    colouring: Colouring,
    *,
    per_line: int = PER_LINE,
) -> None:
    """Draw small maps in lines.

    Args:
        maps: the maps in their order.
        full_dataset: the dataset with all rows.
        colouring: colours of its rows.
        per_line: number of maps in a line.
    """
    small_figures([_small(one, full_dataset, colouring) for one in maps], per_line=per_line)


def _small(one: SmallMap, full_dataset: Dataset, colouring: Colouring) -> SmallFigure:
    shown = subsampling.evenly_spaced(len(one.points), MOST_ROWS)
    positions = one.row_positions[shown]
    rows = row_traces.MapRows(
        points=one.points[shown],
        number=positions,
        hover=row_texts.hover(full_dataset, colouring, positions),
        colouring=group_of_rows(colouring, positions),
    )
    figure = aligned_map_figure(
        rows, equal=one.equal, dark=session.is_dark, height=HEIGHT, size=MARKER
    )
    return SmallFigure(one.key, one.name, one.caption, one.alt, figure)
