"""What models report and return: plain NumPy arrays with names, in the data's units."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Callback", "FitStep", "LabelPredictive", "Posterior", "Predictive", "Snapshot"]


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
            n: how many.
            rng: the source of randomness.
            rows: positions of the rows to draw from, each as likely as the others; None for all.
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
        variance: of a new observation, the noise included, [N, D], squared units.
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
    """The map as it stands during a fit.

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
    """One report of a fit under way.

    Attributes:
        iteration: evaluations or optimiser steps done, from 1; counted over all starts.
        total: the most there can be (``max_iter``, times the starts).
        seconds: since the fit began.
        objective: the bound (ELBO), total nats: of numbers standardised, of counts plain.
        terms: the named parts of the bound; they add up to ``objective``.
        snapshot: the map forming, now and then; None otherwise.
        start: which start of the fit this step belongs to, from 1.
        starts: how many there are.
        ends: it is known to be the last of its start. Its snapshot, if any, is the map kept.
        held_out: mean −log p(y | x) of rows that the fit does not see (NLPP), nats, in the target's
            units; NaN where it was not measured at this step.
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


Callback = Callable[[FitStep], bool | None]
