"""How far maps of the same rows agree: row by row, and over all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors

from lvmcore.errors import DataError
from lvmcore.metrics import procrustes

__all__ = ["NEIGHBOURS", "Stability", "shared_neighbours", "stability"]

FloatArray = NDArray[np.float64]

#: Neighbours of a row that two maps can share.
NEIGHBOURS = 15
#: Rows that can be neighbours: of longer tables every so manieth.
MOST_CANDIDATES = 5000
# Cells of neighbours compared at a time: bounds memory, changes no result.
CELLS_AT_A_TIME = 1 << 24


@dataclass(frozen=True)
class Stability:
    """How far maps of the same rows agree.

    Attributes:
        disagreement: root mean square distance between two of a row's places, in units of the
            map's root mean square radius, [N]; 0 where every map has the row in the same place.
        overall: root mean square of it over the rows; at most √2, of maps with nothing in common.
        neighbour_agreement: share of a row's nearest rows that two maps have in common, [N].
        overall_agreement: its mean over the rows; 1 for maps with the same neighbours throughout.
        neighbours: how many nearest rows were compared.
        chance: what the share would be if neighbours were drawn at random.
    """

    disagreement: FloatArray
    overall: float
    neighbour_agreement: FloatArray
    overall_agreement: float
    neighbours: int
    chance: float


def stability(maps: Sequence[ArrayLike], relevance: Sequence[ArrayLike] | None = None) -> Stability:
    """How far maps of the same rows agree, whatever their shift, rotation, mirroring and scale.

    Every map is centred and brought to a root mean square radius of 1. For each pair of them one is
    rotated onto the other (orthogonal Procrustes, Schönemann 1966), and d_n is then the distance
    between the two places of row n. A row's disagreement is the root mean square of d_n over the
    pairs: for places that scatter independently with variance s² in each of Q dimensions, relative
    to the squared radius, about √(2 Q s²).

    Neighbours are those on each map by itself, so a map that is torn in two shows in the distances
    and hardly in the neighbours. Of more than 5000 rows every so manieth can be a neighbour.

    Args:
        maps: the latent means of the same rows from R starts, [N, Q] each; two at least.
        relevance: α of each map's dimensions, [Q] each; distances then count every dimension in
            units of its length scale, 1/√α, so that one which the data do not need does not count.

    Raises:
        DataError: there is one map only, their shapes differ, or all rows of one lie in one place.
    """
    weighed = [np.asarray(points, dtype=np.float64) for points in maps]
    if len(weighed) < 2:
        raise DataError(
            f"Stability compares maps of the same rows: expected two at least, got {len(weighed)}."
        )
    if relevance is not None:
        weighed = [
            points * np.sqrt(np.asarray(alpha, dtype=np.float64))
            for points, alpha in zip(weighed, relevance, strict=True)
        ]
    pairs = list(itertools.combinations(range(len(weighed)), 2))
    shapes = [_standard(points) for points in weighed]
    squares = np.mean([_squared_distances(shapes[a], shapes[b]) for a, b in pairs], axis=0)
    count, candidates = _candidates(len(weighed[0]), NEIGHBOURS)
    every = np.arange(len(weighed[0]))
    nearest = [_nearest(points, candidates, count, every) for points in weighed]
    shared = np.mean([_shared(nearest[a], nearest[b]) for a, b in pairs], axis=0)
    return Stability(
        disagreement=np.sqrt(squares),
        overall=float(np.sqrt(squares.mean())),
        neighbour_agreement=shared,
        overall_agreement=float(shared.mean()),
        neighbours=count,
        chance=count / (len(candidates) - 1),
    )


def shared_neighbours(
    one: ArrayLike,
    two: ArrayLike,
    *,
    rows: NDArray[np.intp] | None = None,
    n_neighbors: int = 10,
) -> tuple[FloatArray, float]:
    """The share of a row's nearest rows on one map that are its nearest rows on another too.

    Its mean over all rows less what chance gives is the local continuity meta-criterion (Chen and
    Buja 2009). Each map's own distances count, so neither has to be aligned to the other. Of more
    than 5000 rows every so manieth can be a neighbour.

    Args:
        one: positions of the rows on one map, [N, Q].
        two: positions of the same rows on another map, which may have other dimensions, [N, P].
        rows: positions of the rows to look at, [n]; None for all.
        n_neighbors: how many nearest rows are compared; fewer where there are not as many.

    Returns:
        The share for each of the rows, [n], and what it would be if neighbours were drawn at
        random.

    Raises:
        DataError: the maps are not of the same rows, or of two rows at least.
    """
    A, B = np.asarray(one, dtype=np.float64), np.asarray(two, dtype=np.float64)
    if len(A) != len(B) or len(A) < 2:
        raise DataError(
            f"Neighbours are compared on two maps of the same rows: expected two rows at least, "
            f"got {len(A)} and {len(B)}."
        )
    looked_at = np.arange(len(A)) if rows is None else np.asarray(rows, dtype=np.intp)
    count, candidates = _candidates(len(A), n_neighbors)
    chance = count / (len(candidates) - 1)
    if not len(looked_at):
        return np.empty(0), chance
    first, second = (_nearest(points, candidates, count, looked_at) for points in (A, B))
    return _shared(first, second), chance


def _standard(points: FloatArray) -> FloatArray:
    """A map about 0 with a root mean square radius of 1; one of a single place stays in it."""
    centred = points - points.mean(axis=0)
    radius = float(np.sqrt(np.square(centred).sum(axis=1).mean()))
    return np.asarray(centred / (radius or 1.0))


def _squared_distances(one: FloatArray, two: FloatArray) -> FloatArray:
    """Between the places of each row on two standard maps, the second rotated onto the first."""
    return np.asarray(np.square(one - two @ procrustes(one, two).rotation).sum(axis=1))


def _candidates(n_rows: int, most: int) -> tuple[int, NDArray[np.intp]]:
    """How many neighbours are compared, and which rows can be neighbours."""
    candidates = np.arange(0, n_rows, max(1, -(-n_rows // MOST_CANDIDATES)))
    return min(most, len(candidates) - 1), candidates


def _nearest(
    points: FloatArray, candidates: NDArray[np.intp], count: int, rows: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The nearest candidates of some rows but the row itself, [n, count]."""
    index = NearestNeighbors(n_neighbors=count + 1).fit(points[candidates])
    found = candidates[index.kneighbors(points[rows], return_distance=False)]
    itself = found == rows[:, None]
    itself[~itself.any(axis=1), -1] = True  # not among them: the furthest goes
    return np.asarray(found[~itself].reshape(len(rows), count))


def _shared(one: NDArray[np.intp], two: NDArray[np.intp]) -> FloatArray:
    """Share of neighbours that each row has on both maps, [N]."""
    rows = max(1, CELLS_AT_A_TIME // one.shape[1] ** 2)
    parts = [
        (one[i : i + rows, :, None] == two[i : i + rows, None, :]).any(axis=2).mean(axis=1)
        for i in range(0, len(one), rows)
    ]
    return np.concatenate(parts)
