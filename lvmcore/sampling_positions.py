"""Moves of latent positions and frequencies: Hamiltonian dynamics, and moves the data cannot see.

With the weights integrated out the likelihood depends on X and W through Φ Φᵀ alone, so through the
angles w_lᵀ(x_n − x_m). Shifting every position, or stretching an axis of X while W shrinks, leaves
it as it is: along these directions the priors decide, and they are moved directly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lvmcore.sampling_spectral import Mixture

__all__ = ["Leap", "shift", "stretch"]

FloatArray = NDArray[np.float64]
#: A log density and its slope at a place.
Target = Callable[[FloatArray], tuple[float, FloatArray]]

#: Share of moves to accept that the step is adapted to (Beskos et al. 2013 advise 0.65 and more).
ACCEPTED = 0.8
#: Steps of a move. Long ways pay: on bicycle counts of Montreal 20 for X and W at once reached a
#: likelihood in as much time that 10 for each in turn were far from.
LEAPFROGS = 20


@dataclass
class Leap:
    """Hamiltonian Monte Carlo with a step length that the warm-up adapts (Neal 2011).

    Attributes:
        log_step: logarithm of the step length.
        accepted: mean probability of acceptance of the last move.
    """

    log_step: float
    accepted: float = 0.0

    def move(
        self, start: FloatArray, target: Target, rng: np.random.Generator, rate: float
    ) -> FloatArray:
        """One move that leaves the density exp(target) as it is.

        Args:
            start: where it starts.
            target: log density up to a constant, and its slope.
            rng: the source of randomness.
            rate: how fast the step length follows the acceptance; 0 after the warm-up.

        Returns:
            The new place, or the old one.
        """
        step = np.exp(self.log_step) * rng.uniform(0.8, 1.2)
        value, slope = target(start)
        momentum = rng.standard_normal(start.shape)
        energy = value - 0.5 * float(np.square(momentum).sum())
        place = start
        with np.errstate(over="ignore", invalid="ignore"):
            momentum = momentum + 0.5 * step * slope
            for i in range(LEAPFROGS):
                place = place + step * momentum
                if not np.isfinite(place).all():
                    break
                value, slope = target(place)
                momentum = momentum + (1.0 if i + 1 < LEAPFROGS else 0.5) * step * slope
            change = value - 0.5 * float(np.square(momentum).sum()) - energy
        sound = bool(np.isfinite(change) and np.isfinite(place).all())
        self.accepted = float(np.exp(min(0.0, change))) if sound else 0.0
        self.log_step += rate * (self.accepted - ACCEPTED)
        return place if rng.random() < self.accepted else start


def shift(X: FloatArray, rng: np.random.Generator) -> FloatArray:
    """X [N, Q] with the place of its centre drawn anew: N(0, I/N), as the likelihood has no say."""
    N, Q = X.shape
    return np.asarray(X - X.mean(axis=0) + rng.standard_normal(Q) / np.sqrt(N))


def stretch(
    X: FloatArray, W: FloatArray, mixture: Mixture, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Metropolis moves x_q → c x_q, w_q → w_q/c of each axis q in turn.

    The likelihood is the same, so the ratio of the priors and the Jacobian c^{N − L} decide.

    Args:
        X: positions, [N, Q].
        W: frequencies, [L, Q].
        mixture: the prior of W.
        rng: the source of randomness.
    """
    N, L = len(X), len(W)
    for q in range(X.shape[1]):
        log_c = rng.standard_normal() / np.sqrt(N + L)
        X_new, W_new = X.copy(), W.copy()
        X_new[:, q] *= np.exp(log_c)
        W_new[:, q] *= np.exp(-log_c)
        before, after = (
            np.square(x).sum() + np.square(mixture.whiten(w)).sum()
            for x, w in ((X, W), (X_new, W_new))
        )
        if np.log(rng.random()) < 0.5 * (before - after) + (N - L) * log_c:
            X, W = X_new, W_new
    return X, W
