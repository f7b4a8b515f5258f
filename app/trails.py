"""From one map to another: where rows go, how far, and which neighbours they keep. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.figures import evenly
from lvmcore.disagreement import shared_neighbours

if TYPE_CHECKING:
    from app.comparing import Side

__all__ = ["MOST", "NEIGHBOURS", "Trails", "furthest", "trails"]

FloatArray = NDArray[np.float64]

#: Trails drawn at most, and how many without a selection.
MOST, UNASKED = 300, 30
#: Rows whose neighbours are compared at most.
MOST_LOOKED_AT = 5000
#: Neighbours of each row that are compared.
NEIGHBOURS = 10


@dataclass(frozen=True)
class Trails:
    """Rows on their way from one map to another.

    Attributes:
        place: position in the whole dataset of each row that both maps have, [n].
        start: where they are on the first map, [n, 2].
        end: where they are on the second, laid over the first, [n, 2].
        moved: how far apart these are, in root mean square radii of the first map, [n].
        rows: of these, the ones looked at: the selected ones, or else those that keep fewest
            neighbours; positions, [m].
        kept: share of each one's nearest rows that both maps have in common, [m].
        neighbours: how many nearest rows are compared.
        chance: what that share is by chance.
        drawn: of those looked at, the ones whose trails are drawn; positions among them.
        unasked: whether there was no selection.
        thinned: whether not all rows were looked at, but some evenly spaced.
        absent: selected rows that one of the maps lacks.
    """

    place: NDArray[np.intp]
    start: FloatArray
    end: FloatArray
    moved: FloatArray
    rows: NDArray[np.intp]
    kept: FloatArray
    neighbours: int
    chance: float
    drawn: NDArray[np.intp]
    unasked: bool
    thinned: bool
    absent: int


def trails(first: Side, second: Side, chosen: NDArray[np.bool_] | None) -> Trails | None:
    """The way of rows from one map to another, as both are drawn.

    Args:
        first: a map of two dimensions.
        second: another one, laid over the same map as the first.
        chosen: which rows of the whole dataset are selected, [N]; None without a selection.

    Returns:
        None where the maps have fewer than two rows in common, or the rows of the first all lie in
        one place.
    """
    place, ours, theirs = np.intersect1d(
        first.place, second.place, assume_unique=True, return_indices=True
    )
    start, end = first.points[ours], second.points[theirs]
    if len(place) < 2:
        return None
    radius = float(np.sqrt(np.square(start - start.mean(axis=0)).sum(axis=1).mean()))
    if not radius > 0:
        return None
    wanted = np.arange(len(place)) if chosen is None else np.flatnonzero(chosen[place])
    rows = wanted[evenly(len(wanted), MOST_LOOKED_AT)]
    kept, chance = shared_neighbours(start, end, rows=rows, n_neighbors=NEIGHBOURS)
    moved = np.sqrt(np.square(end - start).sum(axis=1)) / radius
    drawn = evenly(len(rows), MOST)
    if chosen is None:
        drawn = np.lexsort((-moved[rows], kept))[:UNASKED]
    return Trails(
        place=place,
        start=start,
        end=end,
        moved=moved,
        rows=rows,
        kept=kept,
        neighbours=min(NEIGHBOURS, len(place) - 1),
        chance=chance,
        drawn=drawn,
        unasked=chosen is None,
        thinned=len(rows) < len(wanted),
        absent=0 if chosen is None else int(chosen.sum()) - len(wanted),
    )


def furthest(found: Trails, n: int) -> NDArray[np.intp]:
    """Those of the rows looked at that move furthest, the furthest first; positions among them."""
    return np.argsort(-found.moved[found.rows], kind="stable")[:n]
