"""Posterior probability that each row lies inside a region of the map. Pure.

The latent position of a row is uncertain: q(x) is Gaussian with a variance per dimension. The
probability of lying in a region is a Monte Carlo estimate from draws of q(x) on the region's axes,
on which they are correlated if these are of a projection. A row whose ellipse of ``REACH`` sd does
not touch an edge needs no draws: its probability is 0 or 1 to eight digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.analysis.map.map_axes import covariances, positions
from app.analysis.map.regions import Polygon, Region
from app.analysis.map.subsampling import evenly_spaced
from lvmcore.numerics.array_types import FloatArray
from lvmcore.results import Posterior

__all__ = ["SEED", "RegionProbability", "probability_in_region"]


#: Seed of the draws.
SEED = 0
#: Most and fewest draws per row, and most draws in all.
MOST_DRAWS, FEWEST_DRAWS, DRAWS_IN_ALL = 1000, 40, 400_000
#: Most rows with a probability, evenly spaced.
MOST_ROWS = 30_000
#: A Gaussian in two dimensions has exp(−REACH² / 2) of its mass beyond this many sd.
REACH = 6.0
_DRAWS_PER_BLOCK = 1_000_000


@dataclass(frozen=True)
class RegionProbability:
    """Posterior probabilities of rows to lie inside a region.

    Attributes:
        probability: probability of each row, [N]; NaN for rows without an estimate.
        expected: expected number of rows inside.
        sd: standard deviation of that number; the rows are independent given the model.
        draws: number of draws for each row near an edge.
        considered: number of rows that were considered.
    """

    probability: FloatArray
    expected: float
    sd: float
    draws: int
    considered: int


def probability_in_region(
    region: Region,
    posterior: Posterior,
    among: NDArray[np.bool_] | None = None,
    seed: int = SEED,
) -> RegionProbability:
    """The posterior probability of every row to lie inside a region.

    Args:
        region: a region on one or two latent dimensions, or on a projection.
        posterior: q(X) of the rows, [N, Q].
        among: mask of the rows to consider, [N]; None considers all. The others have no
            probability, and are not expected inside.
        seed: seed of the draws.
    """
    points = positions(posterior.mean, region.axes)
    root = _roots(covariances(posterior.variance, region.axes))
    probability = np.full(len(points), np.nan)
    among = np.ones(len(points), dtype=np.bool_) if among is None else among
    considered = np.flatnonzero(among)
    rows = considered[evenly_spaced(len(considered), MOST_ROWS)]
    probability[rows] = region.members(points[rows])
    reach = REACH * np.linalg.norm(root[rows], ord=2, axis=(1, 2))  # largest sd in any direction
    far = _distance(points[rows], region.polygons) > reach
    near = rows[~far & (reach > 0)]
    drawn = near[evenly_spaced(len(near), DRAWS_IN_ALL // FEWEST_DRAWS)]
    draws = min(MOST_DRAWS, DRAWS_IN_ALL // max(1, len(drawn)))
    probability[near] = np.nan
    step = max(1, _DRAWS_PER_BLOCK // draws)
    rng = np.random.default_rng(seed)
    for first_row in range(0, len(drawn), step):
        part = drawn[first_row : first_row + step]
        noise = rng.standard_normal((len(part), draws, 2))
        samples = points[part][:, None] + noise @ root[part].transpose(0, 2, 1)
        inside = region.members(samples.reshape(-1, 2)).reshape(len(part), draws)
        probability[part] = inside.mean(axis=1)
    uncertain = probability[drawn]
    weight = len(considered) / max(1, len(rows))  # rows that each row of the subsample stands for
    near_weight = len(near) / max(1, len(drawn))
    certain = np.setdiff1d(rows, near, assume_unique=True)
    return RegionProbability(
        probability,
        expected=weight * float(probability[certain].sum() + near_weight * uncertain.sum()),
        sd=float(np.sqrt(weight * near_weight * (uncertain * (1 - uncertain)).sum())),
        draws=draws,
        considered=len(considered),
    )


def _roots(covariance: FloatArray) -> FloatArray:
    """Lower Cholesky factors of covariances [N, 2, 2], which may be singular."""
    sd = np.sqrt(covariance[:, [0, 1], [0, 1]])
    root = np.zeros_like(covariance)
    root[:, 0, 0] = sd[:, 0]
    root[:, 1, 0] = covariance[:, 1, 0] / np.where(sd[:, 0] > 0, sd[:, 0], 1.0)
    root[:, 1, 1] = np.sqrt(np.clip(covariance[:, 1, 1] - np.square(root[:, 1, 0]), 0.0, None))
    return root


def _distance(points: FloatArray, polygons: tuple[Polygon, ...]) -> FloatArray:
    """Distance of each point [N, 2] to the nearest edge of any polygon, [N]."""
    nearest = np.full(len(points), np.inf)
    for polygon in polygons:
        corners = np.array(polygon)
        for start, edge in zip(corners, np.roll(corners, -1, axis=0) - corners, strict=True):
            length = float(edge @ edge)
            offset = points - start
            along = np.clip(offset @ edge / length, 0.0, 1.0) if length else np.zeros(len(points))
            nearest = np.minimum(nearest, np.square(offset - along[:, None] * edge).sum(axis=1))
    return np.asarray(np.sqrt(nearest))
