"""Agreement of maps of the same rows, for each row and overall."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors

from lvmcore.errors import DataError
from lvmcore.metrics.scores import procrustes
from lvmcore.numerics.array_types import FloatArray

__all__ = ["N_NEIGHBOURS", "Stability", "shared_neighbours", "stability"]


#: Neighbours of a row that are compared.
N_NEIGHBOURS = 15
#: Rows that can be neighbours; longer tables are thinned evenly.
MAX_CANDIDATES = 5000
#: Rows whose neighbours are compared; longer tables are thinned evenly.
MAX_COMPARED = 50_000
# Cells of neighbours in a chunk; bounds memory, does not change results.
CHUNK_CELLS = 1 << 24


@dataclass(frozen=True)
class Stability:
    """Agreement of maps of the same rows.

    Attributes:
        disagreement: root mean square distance between two positions of a row, in units of the
            map's root mean square radius, [N]; 0 for equal positions on all maps.
        overall: its root mean square over the rows; at most √2, for unrelated maps.
        neighbour_agreement: share of a row's nearest rows that two maps share, [N]; NaN for rows
            that are not compared.
        overall_agreement: its mean over the compared rows; 1 for equal neighbours on all maps.
        compared: number of rows whose neighbours are compared.
        neighbours: number of nearest rows compared.
        chance: expected share for random neighbours.
    """

    disagreement: FloatArray
    overall: float
    neighbour_agreement: FloatArray
    overall_agreement: float
    compared: int
    neighbours: int
    chance: float


def stability(maps: Sequence[ArrayLike], relevance: Sequence[ArrayLike] | None = None) -> Stability:
    """Agreement of maps of the same rows, up to translation, rotation, reflection and scale.

    Every map is centred and scaled to a root mean square radius of 1. For each pair of maps one is
    rotated onto the other (orthogonal Procrustes, Schönemann 1966), and d_n is the distance between
    the two positions of row n. A row's disagreement is the root mean square of d_n over the
    pairs: for positions with independent errors of variance s² in each of Q dimensions, relative
    to the squared radius, about √(2 Q s²).

    Neighbours are found on each map separately, so a map that is split in two affects the distances
    and hardly the neighbours. With more than 5000 rows an even subset can be neighbours, and with
    more than 50,000 the neighbours of an even subset are compared.

    Args:
        maps: latent means of the same rows from R ≥ 2 starts, [N, Q] each.
        relevance: α of each map's dimensions, [Q] each; distances are then in units of each
            dimension's lengthscale, 1/√α, so that irrelevant dimensions have no effect.

    Raises:
        DataError: there is only one map, shapes differ, or all rows of a map coincide.
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
    shapes = [_standardise_map(points) for points in weighed]
    squares = np.mean([_squared_distances(shapes[a], shapes[b]) for a, b in pairs], axis=0)
    count, candidates = _candidates(len(weighed[0]), N_NEIGHBOURS)
    compared = _thinned(len(weighed[0]), MAX_COMPARED)
    nearest = [_nearest(points, candidates, count, compared) for points in weighed]
    shared = np.full(len(weighed[0]), np.nan)
    shared[compared] = np.mean([_shared_share(nearest[a], nearest[b]) for a, b in pairs], axis=0)
    return Stability(
        disagreement=np.sqrt(squares),
        overall=float(np.sqrt(squares.mean())),
        neighbour_agreement=shared,
        overall_agreement=float(shared[compared].mean()),
        compared=len(compared),
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
    """The share of a row's nearest rows on one map that are also its nearest rows on another.

    Its mean over all rows less the chance level is the local continuity meta-criterion (Chen and
    Buja 2009). Each map's own distances are used, so the maps need no alignment. With more than
    5000 rows an even subset can be neighbours.

    Args:
        one: positions of the rows on one map, [N, Q].
        two: positions of the same rows on another map, which may have other dimensions, [N, P].
        rows: positions of the rows to compare, [n]; None for all.
        n_neighbors: number of nearest rows that are compared, at most N − 1.

    Returns:
        The share for each of the rows, [n], and its expectation for random neighbours.

    Raises:
        DataError: the maps are not of the same rows, or of two rows at least.
    """
    A, B = np.asarray(one, dtype=np.float64), np.asarray(two, dtype=np.float64)
    if len(A) != len(B) or len(A) < 2:
        raise DataError(
            f"Neighbours are compared on two maps of the same rows: expected two rows at least, "
            f"got {len(A)} and {len(B)}."
        )
    selected = np.arange(len(A)) if rows is None else np.asarray(rows, dtype=np.intp)
    count, candidates = _candidates(len(A), n_neighbors)
    chance = count / (len(candidates) - 1)
    if not len(selected):
        return np.empty(0), chance
    first, second = (_nearest(points, candidates, count, selected) for points in (A, B))
    return _shared_share(first, second), chance


def _standardise_map(points: FloatArray) -> FloatArray:
    """A centred map with a root mean square radius of 1, or 0 if all rows coincide."""
    centred = points - points.mean(axis=0)
    radius = float(np.sqrt(np.square(centred).sum(axis=1).mean()))
    return np.asarray(centred / (radius or 1.0))


def _squared_distances(one: FloatArray, two: FloatArray) -> FloatArray:
    """Squared distances of each row on two standardised maps, the second rotated onto the first."""
    return np.asarray(np.square(one - two @ procrustes(one, two).rotation).sum(axis=1))


def _candidates(n_rows: int, most: int) -> tuple[int, NDArray[np.intp]]:
    """Number of neighbours that are compared, and rows that can be neighbours."""
    candidates = _thinned(n_rows, MAX_CANDIDATES)
    return min(most, len(candidates) - 1), candidates


def _thinned(n_rows: int, most: int) -> NDArray[np.intp]:
    """Positions of at most so many rows, evenly spaced."""
    return np.arange(0, n_rows, max(1, -(-n_rows // most)))


def _nearest(
    points: FloatArray, candidates: NDArray[np.intp], count: int, rows: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The nearest candidates of some rows but the row itself, [n, count]."""
    index = NearestNeighbors(n_neighbors=count + 1).fit(points[candidates])
    found = candidates[index.kneighbors(points[rows], return_distance=False)]
    itself = found == rows[:, None]
    itself[~itself.any(axis=1), -1] = True  # if it is not among them, drop the furthest
    return np.asarray(found[~itself].reshape(len(rows), count))


def _shared_share(one: NDArray[np.intp], two: NDArray[np.intp]) -> FloatArray:
    """Share of neighbours that each row has on both maps, [N]."""
    rows = max(1, CHUNK_CELLS // one.shape[1] ** 2)
    parts = [
        (one[i : i + rows, :, None] == two[i : i + rows, None, :]).any(axis=2).mean(axis=1)
        for i in range(0, len(one), rows)
    ]
    return np.concatenate(parts)
