"""Random features and their weights: the marginal likelihood, draws of weights and of the noise.

The natural parameter of Y is ψ = Φ H, with the features Φ [N, R] of the rows (and a column of ones
for an offset), each column of H ~ N(0, diag(1/λ)). Given Pólya–gamma variables ω
(Polson, Scott and Windle 2013) a logistic likelihood exp(aψ)/(1 + exp ψ)^b is Gaussian in ψ,
exp(κψ − ½ωψ²) with κ = a − b/2; a Gaussian likelihood has that form with ω = 1/σ² and κ = y/σ².
So one class, ``WeightEvidence``, serves every likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import expit, gammaln

from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "Likelihood",
    "WeightEvidence",
    "draw_inverse_gamma",
    "draw_rows",
    "feature_gradient",
    "features",
    "log_likelihood",
    "slice_draw",
]

Likelihood = Literal["gaussian", "bernoulli", "negative_binomial"]
# Largest mean of NumPy's Poisson generator.
_MAX_RATE = 2.0**62


def features(X: FloatArray, W: FloatArray) -> FloatArray:
    """Random features φ(x) = L^−½ [sin w_lᵀx …, cos w_lᵀx …], L = R/2; [N, R].

    Args:
        X: latent positions, [N, Q].
        W: frequencies, [L, Q].
    """
    angles = X @ W.T
    both = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return np.asarray(both / np.sqrt(len(W)))


def feature_gradient(
    Phi: FloatArray, slope: FloatArray, X: FloatArray, W: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradients by X [N, Q] and W [L, Q] from the gradient ``slope`` [N, R] by the features Φ."""
    L = len(W)
    by_angle = slope[:, :L] * Phi[:, L : 2 * L] - slope[:, L : 2 * L] * Phi[:, :L]
    return by_angle @ W, by_angle.T @ X


@dataclass(frozen=True)
class WeightEvidence:
    """The Gaussian pseudo-likelihood Π exp(κψ − ½ωψ²) under the prior of the weights.

    Attributes:
        kappa: κ, [N, D].
        omega: ω, [N, D]; one number if all cells share it.
        precision: λ of the weights, [R].
    """

    kappa: FloatArray
    omega: FloatArray | float
    precision: FloatArray

    def __call__(self, Phi: FloatArray) -> tuple[float, FloatArray]:
        """The logarithm of the integral over H, and its gradient by Φ.

        Σ_d ½ [log|Λ| − log|B_d| + b_dᵀ B_d⁻¹ b_d] with B_d = Φᵀ diag(ω_d) Φ + Λ, b_d = Φᵀκ_d. Its
        gradient by Φ is Σ_d (κ_d − ω_d ψ_d) m_dᵀ − diag(ω_d) Φ B_d⁻¹ with m_d = B_d⁻¹ b_d, ψ = Φ m.
        """
        value, slope = 0.0, np.zeros_like(Phi)
        identity = np.eye(Phi.shape[1])
        for columns, omega in self._groups():
            kappa = self.kappa[:, columns]
            factor = self._factor(Phi, omega)
            inverse = cho_solve((factor, True), identity, check_finite=False)
            b = Phi.T @ kappa
            means = inverse @ b  # m_d = B⁻¹ b_d
            # log|Λ| − log|B|
            log_det = np.log(self.precision).sum() - 2 * np.log(np.diagonal(factor)).sum()
            value += 0.5 * float(kappa.shape[1] * log_det + (b * means).sum())
            slope += (kappa - omega * (Phi @ means)) @ means.T
            slope -= kappa.shape[1] * omega * (Phi @ inverse)
        return value, slope

    def draw(self, Phi: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Weights given everything else, N(B_d⁻¹ b_d, B_d⁻¹) for each column, [R, D]."""
        drawn = rng.standard_normal((Phi.shape[1], self.kappa.shape[1]))
        for columns, omega in self._groups():
            # With B = L Lᵀ and z ~ N(0, I): L⁻ᵀ(L⁻¹b + z) ~ N(B⁻¹b, B⁻¹)
            factor = self._factor(Phi, omega)
            white = solve_triangular(
                factor, Phi.T @ self.kappa[:, columns], lower=True, check_finite=False
            )
            drawn[:, columns] = solve_triangular(
                factor, white + drawn[:, columns], lower=True, trans=1, check_finite=False
            )
        return drawn

    def _groups(self) -> Iterator[tuple[slice, FloatArray | float]]:
        """Groups of columns with their shared ω, [N, 1] or one number."""
        if isinstance(self.omega, float):
            yield slice(None), self.omega
            return
        for d in range(self.kappa.shape[1]):
            yield slice(d, d + 1), self.omega[:, d : d + 1]

    def _factor(self, Phi: FloatArray, omega: FloatArray | float) -> FloatArray:
        """Cholesky factor of B, [R, R]."""
        # B = Φᵀ diag(ω) Φ + Λ
        B = (omega * Phi).T @ Phi
        B[np.diag_indices_from(B)] += self.precision
        return np.asarray(np.linalg.cholesky(B))


def log_likelihood(
    likelihood: Likelihood, Y: FloatArray, psi: FloatArray, spread: FloatArray
) -> FloatArray:
    """log p(y | ψ) of every cell, [N, D].

    Args:
        likelihood: of the cells; of a negative binomial p(y) = C(y + r − 1, y) e^{yψ}/(1 +
            e^ψ)^{y+r}.
        Y: data, [N, D].
        psi: natural parameters, [N, D].
        spread: σ² [1] of a Gaussian, r [D] of a negative binomial.
    """
    if likelihood == "gaussian":
        return np.asarray(-0.5 * (np.log(2 * np.pi * spread) + np.square(Y - psi) / spread))
    soft = np.logaddexp(0, psi)
    if likelihood == "bernoulli":
        return Y * psi - soft
    coefficient = gammaln(Y + spread) - gammaln(spread) - gammaln(Y + 1)
    return np.asarray(coefficient + Y * psi - (Y + spread) * soft)


def draw_rows(
    likelihood: Likelihood, psi: FloatArray, spread: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Cells drawn at natural parameters ψ [N, D]; ``spread`` as in ``log_likelihood``."""
    if likelihood == "gaussian":
        return np.asarray(psi + np.sqrt(spread) * rng.standard_normal(psi.shape))
    if likelihood == "bernoulli":
        return (rng.random(psi.shape) < expit(psi)).astype(np.float64)
    # A Poisson count with a rate e^ψ Gamma(r) is negative binomial.
    rate = rng.gamma(np.broadcast_to(spread, psi.shape)) * np.exp(psi)
    return rng.poisson(np.minimum(rate, _MAX_RATE)).astype(np.float64)


def draw_inverse_gamma(shape: float, scale: float, rng: np.random.Generator) -> float:
    """1/g with g ~ Gamma(shape, rate = scale)."""
    return float(scale / rng.gamma(shape))


def slice_draw(
    log_density: Callable[[FloatArray], FloatArray],
    at: FloatArray,
    width: float,
    rng: np.random.Generator,
) -> FloatArray:
    """One slice-sampling step for many independent numbers (Neal 2003).

    An interval of a fixed width is placed at random around the number, and shrinks to it until a
    sampled point lies in the slice.

    Args:
        log_density: of each number up to a constant, [D] → [D].
        at: current values, [D].
        width: of the interval.
        rng: the source of randomness.
    """
    level = log_density(at) - rng.exponential(size=at.shape)
    low = at - width * rng.random(at.shape)
    high = low + width
    drawn, open_ = at.copy(), np.ones(at.shape, dtype=bool)
    while open_.any():
        tried = low + (high - low) * rng.random(at.shape)
        inside = log_density(tried) >= level
        drawn = np.where(open_ & inside, tried, drawn)
        open_ &= ~inside
        low = np.where(open_ & (tried < at), tried, low)
        high = np.where(open_ & (tried >= at), tried, high)
    return drawn
