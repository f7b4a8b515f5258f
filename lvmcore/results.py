"""Results of models: named NumPy arrays in the data's units, and reports of a fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "PACE_STEPS",
    "Callback",
    "FitStep",
    "LabelPredictive",
    "Posterior",
    "Predictive",
    "Snapshot",
]


@dataclass(frozen=True)
class Posterior:
    """q(X): a Gaussian with diagonal covariance for each row.

    Attributes:
        mean: [N, Q].
        variance: [N, Q].
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]

    def draw(
        self, n: int, rng: np.random.Generator, rows: NDArray[np.intp] | None = None
    ) -> NDArray[np.float64]:
        """Latent points from the mixture of the rows' Gaussians, [n, Q].

        Args:
            n: number of points.
            rng: the source of randomness.
            rows: positions of the rows to draw from, with equal probability; None for all.
        """
        among = np.arange(len(self.mean)) if rows is None else rows
        chosen = rng.choice(among, size=n)
        mean, variance = self.mean[chosen], self.variance[chosen]
        return np.asarray(mean + np.sqrt(variance) * rng.standard_normal(mean.shape))


@dataclass(frozen=True)
class Predictive:
    """Predicted columns in the data's units.

    Attributes:
        mean: [N, D].
        variance: of a new observation with noise, [N, D], squared units.
        noise_variance: the noise alone, [N, D], squared units.
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    noise_variance: NDArray[np.float64]


@dataclass(frozen=True)
class LabelPredictive:
    """Predicted class probabilities.

    Attributes:
        probability: normalised over the classes, [N, C].
        unnormalised: P(class k) of each one-against-rest classifier, [N, C].
        variance: of the unnormalised probability under the posterior of f, [N, C].
    """

    probability: NDArray[np.float64]
    unnormalised: NDArray[np.float64]
    variance: NDArray[np.float64]


@dataclass(frozen=True)
class Snapshot:
    """The map at a step of a fit.

    Attributes:
        mean: latent means on the two most relevant dimensions, [n, 2], of ``rows``.
        rows: positions of those rows in the data, [n] (at most 2000, evenly spaced).
        dimensions: the two latent dimensions, most relevant first.
        relevance: share of each latent dimension per path, each [Q].
    """

    mean: NDArray[np.float64]
    rows: NDArray[np.intp]
    dimensions: tuple[int, int]
    relevance: dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class FitStep:
    """A report of one step of a fit.

    Attributes:
        iteration: evaluations or optimiser steps done, from 1; counted over all starts.
        total: their largest number (``max_iter`` times the starts).
        seconds: since the fit began.
        objective: the bound (ELBO), total nats: of standardised numbers, or of counts.
        terms: the named parts of the bound; they add up to ``objective``.
        snapshot: the current map, at some steps; else None.
        start: number of the start, from 1.
        starts: number of starts.
        ends: whether it is the last step of its start; its snapshot, if any, is the final map.
        held_out: mean −log p(y | x) of held-out rows (NLPP), nats, in the target's units; NaN if it
            was not computed at this step.
        left: further steps at most, in multiples of the duration of this one; None for the steps
            up to ``total``.
    """

    iteration: int
    total: int
    seconds: float
    objective: float
    terms: Mapping[str, float] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    start: int = 1
    starts: int = 1
    ends: bool = False
    held_out: float = math.nan
    left: float | None = None

    @property
    def steps_left(self) -> float:
        """Further steps at most, in multiples of the duration of this one."""
        return self.total - self.iteration if self.left is None else self.left

    def seconds_left(self, before: FitStep | None = None) -> float:
        """Duration of the further steps at most, at the pace since an earlier step.

        Args:
            before: the earlier step; None for the beginning of the fit.
        """
        if before is None or before.iteration >= self.iteration:
            return self.seconds / self.iteration * self.steps_left
        pace = (self.seconds - before.seconds) / (self.iteration - before.iteration)
        return pace * self.steps_left


#: Last steps whose pace gives the time that is left.
PACE_STEPS = 20

Callback = Callable[[FitStep], bool | None]
