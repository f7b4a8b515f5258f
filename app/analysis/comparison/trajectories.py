"""Displacement of rows between two aligned maps, and the neighbours that they keep. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.analysis.map.subsampling import evenly_spaced
from lvmcore.metrics.stability import shared_neighbours
from lvmcore.numerics.array_types import FloatArray

if TYPE_CHECKING:
    from app.analysis.comparison.map_alignment import AlignedMap

__all__ = ["MOST", "NEIGHBOURS", "Trajectories", "largest_moves", "trajectories"]


#: Most trajectories drawn with a selection, and without one.
MOST, UNSELECTED = 300, 30
#: Most rows whose neighbours are compared.
MOST_COMPARED = 5000
#: Number of nearest neighbours of each row that are compared.
NEIGHBOURS = 10


@dataclass(frozen=True)
class Trajectories:
    """Displacements of the common rows of two maps.

    Attributes:
        row_positions: position of each common row in the whole dataset, [n].
        start: its position on the first map, [n, 2].
        end: its position on the second map, aligned to the first, [n, 2].
        moved: distance between both, in root mean square radii of the first map, [n].
        rows: positions of the compared rows among the common ones: the selected rows, or all
            without a selection, [m].
        kept: share of common nearest neighbours on both maps, for each compared row, [m].
        neighbours: number of nearest neighbours.
        chance: expected share by chance.
        drawn: positions among the compared rows of those whose trajectories are drawn.
        without_selection: whether there was no selection.
        subsampled: whether the compared rows are an even subsample.
        absent: number of selected rows that one of the maps lacks.
    """

    row_positions: NDArray[np.intp]
    start: FloatArray
    end: FloatArray
    moved: FloatArray
    rows: NDArray[np.intp]
    kept: FloatArray
    neighbours: int
    chance: float
    drawn: NDArray[np.intp]
    without_selection: bool
    subsampled: bool
    absent: int


def trajectories(
    first: AlignedMap, second: AlignedMap, chosen: NDArray[np.bool_] | None
) -> Trajectories | None:
    """Displacements of rows between two displayed maps.

    Args:
        first: a map of two dimensions.
        second: another map, aligned to the same map as the first.
        chosen: mask of the selected rows of the whole dataset, [N]; None without a selection.

    Returns:
        None if the maps have fewer than two common rows, or all rows of the first are at one point.
    """
    common, ours, theirs = np.intersect1d(
        first.row_positions, second.row_positions, assume_unique=True, return_indices=True
    )
    start, end = first.points[ours], second.points[theirs]
    if len(common) < 2:
        return None
    radius = float(np.sqrt(np.square(start - start.mean(axis=0)).sum(axis=1).mean()))
    if not radius > 0:
        return None
    wanted = np.arange(len(common)) if chosen is None else np.flatnonzero(chosen[common])
    rows = wanted[evenly_spaced(len(wanted), MOST_COMPARED)]
    kept, chance = shared_neighbours(start, end, rows=rows, n_neighbors=NEIGHBOURS)
    moved = np.sqrt(np.square(end - start).sum(axis=1)) / radius
    drawn = evenly_spaced(len(rows), MOST)
    if chosen is None:
        drawn = np.lexsort((-moved[rows], kept))[:UNSELECTED]
    return Trajectories(
        row_positions=common,
        start=start,
        end=end,
        moved=moved,
        rows=rows,
        kept=kept,
        neighbours=min(NEIGHBOURS, len(common) - 1),
        chance=chance,
        drawn=drawn,
        without_selection=chosen is None,
        subsampled=len(rows) < len(wanted),
        absent=0 if chosen is None else int(chosen.sum()) - len(wanted),
    )


def largest_moves(found: Trajectories, n: int) -> NDArray[np.intp]:
    """Positions among the compared rows of the largest displacements, the largest first."""
    return np.argsort(-found.moved[found.rows], kind="stable")[:n]
