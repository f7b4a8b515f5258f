"""How probable it is that each row lies inside a region, given how sure the model is of it. Pure.

The place of a row on the map is uncertain: q(x) is Gaussian with its own variance in each
dimension. The probability that the row lies in a region is found by drawing from q(x) on the
region's axes. A row so far from every edge that its ellipse of ``REACH`` sd stays clear of them is
not drawn: its probability is 0 or 1 to eight digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.axes import positions
from app.regions import Polygon, Region
from lvmcore.results import Posterior

__all__ = ["SEED", "Lying", "lying"]

FloatArray = NDArray[np.float64]

#: Of the random draws.
SEED = 0
#: Draws a row at most and at least, and in all, between those two.
MOST_DRAWS, FEWEST_DRAWS, DRAWS_IN_ALL = 1000, 50, 1_000_000
#: Beyond so many sd a Gaussian in two dimensions has exp(−REACH² / 2) of its mass.
REACH = 6.0
_AT_A_TIME = 1_000_000


@dataclass(frozen=True)
class Lying:
    """Where rows lie, with their uncertainty.

    Attributes:
        probability: of each row to lie inside the region, [N].
        draws: from the posterior of each row that is near an edge.
    """

    probability: FloatArray
    draws: int

    @property
    def expected(self) -> float:
        """Expected number of rows inside."""
        return float(self.probability.sum())

    @property
    def sd(self) -> float:
        """Standard deviation of that number, the rows being independent given the model."""
        return float(np.sqrt((self.probability * (1 - self.probability)).sum()))


def lying(region: Region, posterior: Posterior, seed: int = SEED) -> Lying:
    """The probability of every row to lie inside a region.

    Args:
        region: on one or two latent dimensions.
        posterior: q(X) of the rows, [N, Q].
        seed: of the draws.
    """
    points = positions(posterior.mean, region.axes)
    first, second = region.axes
    sd = np.zeros_like(points)
    sd[:, 0] = np.sqrt(posterior.variance[:, first])
    if second is not None:
        sd[:, 1] = np.sqrt(posterior.variance[:, second])
    probability = region.members(points).astype(np.float64)
    clear = _distance(points, region.polygons) > REACH * sd.max(axis=1)
    near = np.flatnonzero(~clear & (sd.max(axis=1) > 0))
    draws = int(np.clip(DRAWS_IN_ALL // max(1, len(near)), FEWEST_DRAWS, MOST_DRAWS))
    rng = np.random.default_rng(seed)
    step = max(1, _AT_A_TIME // draws)
    for begin in range(0, len(near), step):
        part = near[begin : begin + step]
        drawn = rng.standard_normal((len(part), draws, 2))
        drawn = points[part][:, None] + sd[part][:, None] * drawn
        inside = region.members(drawn.reshape(-1, 2)).reshape(len(part), draws)
        probability[part] = inside.mean(axis=1)
    return Lying(probability, draws)


def _distance(points: FloatArray, polygons: tuple[Polygon, ...]) -> FloatArray:
    """Distance of each point [N, 2] to the nearest edge of any polygon, [N]."""
    nearest = np.full(len(points), np.inf)
    for polygon in polygons:
        corners = np.array(polygon)
        for start, edge in zip(corners, np.roll(corners, -1, axis=0) - corners, strict=True):
            length = float(edge @ edge)
            away = points - start
            along = np.clip(away @ edge / length, 0.0, 1.0) if length else np.zeros(len(points))
            nearest = np.minimum(nearest, np.square(away - along[:, None] * edge).sum(axis=1))
    return np.asarray(np.sqrt(nearest))
