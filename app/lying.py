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
#: Draws a row at most and at least, and in all.
MOST_DRAWS, FEWEST_DRAWS, DRAWS_IN_ALL = 1000, 40, 400_000
#: Rows that are looked at, at most, evenly spaced.
MOST_ROWS = 30_000
#: Beyond so many sd a Gaussian in two dimensions has exp(−REACH² / 2) of its mass.
REACH = 6.0
_AT_A_TIME = 1_000_000


@dataclass(frozen=True)
class Lying:
    """Where rows lie, with their uncertainty.

    Attributes:
        probability: of each row to lie inside the region, [N]; NaN where it was not worked out.
        expected: expected number of rows inside.
        sd: standard deviation of that number, the rows being independent given the model.
        draws: from the posterior of each row that is near an edge.
    """

    probability: FloatArray
    expected: float
    sd: float
    draws: int


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
    probability = np.full(len(points), np.nan)
    rows = _evenly(np.arange(len(points)), MOST_ROWS)
    probability[rows] = region.members(points[rows])
    reach = REACH * sd[rows].max(axis=1)
    clear = _distance(points[rows], region.polygons) > reach
    near = rows[~clear & (reach > 0)]
    drawn = _evenly(near, DRAWS_IN_ALL // FEWEST_DRAWS)
    draws = min(MOST_DRAWS, DRAWS_IN_ALL // max(1, len(drawn)))
    probability[near] = np.nan
    step = max(1, _AT_A_TIME // draws)
    rng = np.random.default_rng(seed)
    for begin in range(0, len(drawn), step):
        part = drawn[begin : begin + step]
        places = points[part][:, None] + sd[part][:, None] * rng.standard_normal(
            (len(part), draws, 2)
        )
        inside = region.members(places.reshape(-1, 2)).reshape(len(part), draws)
        probability[part] = inside.mean(axis=1)
    uncertain = probability[drawn]
    many = len(points) / len(rows)  # each row that was looked at stands for so many
    each = len(near) / max(1, len(drawn))
    sure = np.setdiff1d(rows, near, assume_unique=True)
    return Lying(
        probability,
        expected=many * float(probability[sure].sum() + each * uncertain.sum()),
        sd=float(np.sqrt(many * each * (uncertain * (1 - uncertain)).sum())),
        draws=draws,
    )


def _evenly(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most so many of some rows, evenly spaced."""
    return rows[:: max(1, -(-len(rows) // most))]


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
