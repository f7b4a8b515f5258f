"""q-exponential blocks of a given covariance: what a Gaussian q pays for them, and their noise.

A block of n numbers u = w/√ρ_n, w ~ q-ED_n(0, C), has the covariance C. With e = uᵀC⁻¹u its log
density is ψ_n(e) − ½ log|C|,

ψ_n(e) = log_radial(ρ_n e, n, q) + (n/2) log ρ_n,

at q = 2 the Gaussian's −(n/2) log 2π − e/2. ψ falls and is convex, so with any e₀

E ψ(e) ≥ ψ(E e) ≥ ψ(e₀) + ψ'(e₀) (E e − e₀):

the first bound needs a mean and a covariance of what is unknown, and no more; among distributions
with these a Gaussian has the greatest entropy, so no q(u) of another form comes higher. The second
is a Gaussian's, of precision w(e₀) = −2ψ'(e₀) times its own: with it a q in closed form stays one,
reweighted from step to step, each step no lower than the one before. For q < 2 ψ has a pole at 0;
below e = 1e-4 n its tangent there takes its place, which leaves it convex and below the law's.

Source: Li, O'Connor and Lan 2023, and Chang, Obite, Zhou and Lan 2025 for the distribution; the
bounds are derived here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from lvmcore.qexponential import LOG_2PI, check_q, covariance_factor, log_radial, radial_slope

__all__ = [
    "block_factor",
    "block_tangent",
    "block_weight",
    "divergence",
    "log_block",
    "noise_parts",
]

FloatArray = NDArray[np.float64]

# Of n: where the tangent begins.
LEAST_SQUARE = 1e-4
# Normal distributions that stand for the noise, places of its law, turns; the least residual that
# is resolved, in standard deviations.
PARTS, PLACES, TURNS, LEAST_RESIDUAL = 8, 400, 300, 1e-3


def log_block(square: Tensor, n: int | Tensor, q: Tensor | float) -> Tensor:
    """ψ_n(e), [...]: log density of a block but for −½ log|C|.

    Args:
        square: e, [...].
        n: numbers in the block, or in each of the blocks, [...].
        q: from 0.1 to 2; a tensor where it is learned.
    """
    return block_tangent(square, n, q)[0]


def block_weight(square: Tensor, n: int | Tensor, q: Tensor | float) -> Tensor:
    """w = −2 ψ_n'(e), [...]: the precision of the tangent's Gaussian, 1 at q = 2.

    Args:
        square: e, [...].
        n: as of ``log_block``.
        q: likewise.
    """
    factor = block_factor(n, q).to(square)
    return -2 * factor * radial_slope(factor * _kept(square, n), n, q)


def block_tangent(
    square: Tensor, n: int | Tensor, q: Tensor | float, factor: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """``log_block`` and ``block_weight``, which carries no gradient, [...] each.

    Args:
        square: e, [...].
        n: as of ``log_block``.
        q: likewise.
        factor: ``block_factor`` of n and q, where it is known.
    """
    factor = (block_factor(n, q) if factor is None else factor).to(square)
    kept = _kept(square, n)
    value = log_radial(factor * kept, n, q) + 0.5 * n * factor.log()
    weight = -2 * factor * radial_slope(factor * kept.detach(), n, q)
    return value - 0.5 * weight * (square - kept), weight.detach()


def divergence(gaussian: Tensor, square: Tensor, n: int, q: float) -> Tensor:
    """−H(q(v)) − ψ_n(E ‖v‖²), no less than KL(q(v) ‖ p(v)) of one block with C = I, nats, [...].

    Args:
        gaussian: KL(q(v) ‖ N(0, I)) of a Gaussian q(v), [...]; it is the result at q = 2.
        square: E ‖v‖² = ‖m‖² + tr V, [...].
        n: numbers in the block.
        q: from 0.1 to 2.
    """
    if q == 2:
        return gaussian
    return gaussian - 0.5 * (n * LOG_2PI + square) - log_block(square, n, q)


@lru_cache(maxsize=32)
def noise_parts(q: float) -> tuple[FloatArray, FloatArray]:
    """Variances [K] and weights [K] of normal distributions that mix to a block of one number.

    The density is a product of completely monotone functions of its square, so it is a mixture of
    normal distributions around 0; here of 8, one at q = 2, which are those of least divergence from
    it (expectation maximisation over places of its law, which keeps the variance at 1). As |u|√ρ_1
    = |g|^{2/q} with g ~ N(0, 1), places are known by their probabilities. A residual below a
    thousandth of the standard deviation counts as one, where the density has its pole.
    """
    if check_q(q) == 2:
        return np.ones(1), np.ones(1)
    g = np.geomspace(1e-3, 9, PLACES)
    mass = norm.pdf(g) * np.gradient(g)
    mass /= mass.sum()
    square = np.maximum(g ** (4 / q) / float(block_factor(1, q)), LEAST_RESIDUAL**2)
    square /= mass @ square
    variances = np.geomspace(4 * LEAST_RESIDUAL**2, 1 + 8 * (2 / q - 1), PARTS)
    weights = np.full(PARTS, 1 / PARTS)
    for _ in range(TURNS):
        logs = np.log(weights / np.sqrt(variances)) - 0.5 * square[:, None] / variances
        shares = np.exp(logs - logs.max(1, keepdims=True))
        shares *= (mass / shares.sum(1))[:, None]
        weights = shares.sum(0)
        kept = weights > 1e-12
        weights = weights[kept]
        variances = (square @ shares[:, kept]) / weights
    return variances, weights


def _kept(square: Tensor, n: int | Tensor) -> Tensor:
    """e, or where the tangent begins."""
    return square.maximum(torch.as_tensor(LEAST_SQUARE * n).to(square))


def block_factor(n: int | Tensor, q: Tensor | float) -> Tensor:
    """ρ_n, [] or [...]."""
    if isinstance(n, Tensor) or isinstance(q, Tensor):
        return covariance_factor(n, q)
    return _known_factor(n, q)


@lru_cache(maxsize=256)
def _known_factor(n: int, q: float) -> Tensor:
    return covariance_factor(n, q)
