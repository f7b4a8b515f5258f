"""Bounds on the log density of q-exponential blocks of unit covariance, and their noise.

A block of n numbers u = w/√ρ_n, w ~ q-ED_n(0, C), has the covariance C. With e = uᵀC⁻¹u its log
density is ψ_n(e) − ½ log|C|,

ψ_n(e) = log_radial(ρ_n e, n, q) + (n/2) log ρ_n,

at q = 2 the Gaussian's −(n/2) log 2π − e/2. ψ falls and is convex, so with any e₀

E ψ(e) ≥ ψ(E e) ≥ ψ(e₀) + ψ'(e₀) (E e − e₀):

The first bound needs the mean and covariance of q(u) only. A Gaussian has the greatest entropy
among distributions with these moments, so no q(u) of another form gives a higher bound. The second
bound is that of a Gaussian with w(e₀) = −2ψ'(e₀) times the precision: a q with a closed form keeps
it and is reweighted from step to step, and no step lowers the bound. For q < 2, ψ has a pole at 0;
below e = 1e-4 n its tangent at that point replaces it, which keeps it convex and below log p.

Source: Li, O'Connor and Lan 2023, and Chang, Obite, Zhou and Lan 2025 for the distribution; the
bounds are derived here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import norm
from torch import Tensor

from lvmcore.numerics.array_types import FloatArray
from lvmcore.qep.distribution import LOG_2PI, check_q, covariance_factor, log_radial, radial_slope

__all__ = [
    "block_factor",
    "block_kl",
    "block_tangent",
    "block_weight",
    "log_block",
    "noise_mixture",
]


# Times n: e below which the tangent replaces ψ.
MIN_SQUARE = 1e-4
# Components of the noise mixture, quantiles that it is fitted to, steps of expectation
# maximisation, and the smallest residual that is resolved, in standard deviations.
MIXTURE_PARTS, QUANTILE_POINTS, EM_STEPS, MIN_RESIDUAL = 8, 400, 300, 1e-3


def log_block(
    square: Float[Tensor, "*B"], n: int | Tensor, q: Tensor | float
) -> Float[Tensor, "*B"]:
    """ψ_n(e), [...]: log density of a block but for −½ log|C|.

    Args:
        square: e, [...].
        n: numbers in the block, or in each of the blocks, [...].
        q: from 0.1 to 2; a tensor where it is learned.
    """
    return block_tangent(square, n, q)[0]


def block_weight(
    square: Float[Tensor, "*B"], n: int | Tensor, q: Tensor | float
) -> Float[Tensor, "*B"]:
    """w = −2 ψ_n'(e), [...]: the precision of the tangent's Gaussian, 1 at q = 2.

    Args:
        square: e, [...].
        n: as of ``log_block``.
        q: likewise.
    """
    factor = block_factor(n, q).to(square)
    return -2 * factor * radial_slope(factor * _clamped_square(square, n), n, q)


def block_tangent(
    square: Float[Tensor, "*B"], n: int | Tensor, q: Tensor | float, factor: Tensor | None = None
) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]:
    """``log_block`` and ``block_weight``, which carries no gradient, [...] each.

    Args:
        square: e, [...].
        n: as of ``log_block``.
        q: likewise.
        factor: ``block_factor`` of n and q, if it is computed already.
    """
    factor = (block_factor(n, q) if factor is None else factor).to(square)
    clamped = _clamped_square(square, n)
    value = log_radial(factor * clamped, n, q) + 0.5 * n * factor.log()
    weight = -2 * factor * radial_slope(factor * clamped.detach(), n, q)
    return value - 0.5 * weight * (square - clamped), weight.detach()


def block_kl(
    gaussian: Float[Tensor, "*B"], square: Float[Tensor, "*B"], n: int, q: float
) -> Float[Tensor, "*B"]:
    """The upper bound −H(q(v)) − ψ_n(E ‖v‖²) on KL(q(v) ‖ p(v)) of a block with C = I, nats.

    Args:
        gaussian: KL(q(v) ‖ N(0, I)) of a Gaussian q(v), [...]; the result at q = 2.
        square: E ‖v‖² = ‖m‖² + tr V, [...].
        n: numbers in the block.
        q: from 0.1 to 2.
    """
    if q == 2:
        return gaussian
    return gaussian - 0.5 * (n * LOG_2PI + square) - log_block(square, n, q)


@lru_cache(maxsize=32)
def noise_mixture(q: float) -> tuple[FloatArray, FloatArray]:
    """Variances [K] and weights [K] of a Gaussian mixture that equals a block of one number.

    The density is a product of completely monotone functions of u², so it is a scale mixture of
    Gaussians with mean 0. Here K = 8, 1 at q = 2, fitted by expectation maximisation to quantiles
    of the distribution, which keeps the variance at 1; the quantiles follow from |u|√ρ_1 =
    |g|^{2/q} with g ~ N(0, 1). A residual below a thousandth of the standard deviation is set to
    that, as the density has a pole at 0.
    """
    if check_q(q) == 2:
        return np.ones(1), np.ones(1)
    g = np.geomspace(1e-3, 9, QUANTILE_POINTS)
    mass = norm.pdf(g) * np.gradient(g)
    mass /= mass.sum()
    square = np.maximum(g ** (4 / q) / float(block_factor(1, q)), MIN_RESIDUAL**2)
    square /= mass @ square
    variances = np.geomspace(4 * MIN_RESIDUAL**2, 1 + 8 * (2 / q - 1), MIXTURE_PARTS)
    weights = np.full(MIXTURE_PARTS, 1 / MIXTURE_PARTS)
    for _ in range(EM_STEPS):
        logs = np.log(weights / np.sqrt(variances)) - 0.5 * square[:, None] / variances
        shares = np.exp(logs - logs.max(1, keepdims=True))
        shares *= (mass / shares.sum(1))[:, None]
        weights = shares.sum(0)
        kept = weights > 1e-12
        weights = weights[kept]
        variances = (square @ shares[:, kept]) / weights
    return variances, weights


def _clamped_square(square: Float[Tensor, "*B"], n: int | Tensor) -> Float[Tensor, "*B"]:
    """e, at least the point of the tangent."""
    return square.maximum(torch.as_tensor(MIN_SQUARE * n).to(square))


def block_factor(n: int | Tensor, q: Tensor | float) -> Tensor:
    """ρ_n, [] or [...]."""
    if isinstance(n, Tensor) or isinstance(q, Tensor):
        return covariance_factor(n, q)
    return _cached_factor(n, q)


@lru_cache(maxsize=256)
def _cached_factor(n: int, q: float) -> Tensor:
    return covariance_factor(n, q)
