"""The logistic family of likelihoods, and its Pólya–gamma bound.

p(y | ψ) = coefficient · exp(ψ)^a / (1 + exp ψ)^b. With ω ~ PG(b, 0) the logarithm becomes quadratic
in ψ (Polson, Scott and Windle 2013): under q(ω) = PG(b, c), for any c,
log p(y | ψ) ≥ log coefficient + κψ − ½ E ω ψ² − b log 2 − KL, κ = a − b/2,
E ω = b tanh(c/2)/(2c), KL = b [log cosh(c/2) − (c/4) tanh(c/2)], an equality where c = |ψ|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from lvmcore.likelihoods.quadrature import log_expected_density, quadrature_chunks

__all__ = [
    "MAX_LOG_MEAN",
    "MIN_CURVATURE_SHARE",
    "Family",
    "LogisticLikelihood",
    "bounded_size",
    "expected_precision",
    "log_normal_moments",
    "log_two_cosh",
    "polya_gamma_constant",
    "unbounded_log_size",
]

Family = Literal["bernoulli", "binomial", "negative_binomial"]

# Largest logarithm of a mean count, against overflow.
MAX_LOG_MEAN = 50.0
# Least curvature of a damped site, as a share of the curvature at the count's optimal ψ.
MIN_CURVATURE_SHARE = 0.5
# Largest learned r of a negative binomial; beyond it the counts are practically Poisson.
MAX_SIZE = 1000.0


def expected_precision(c: Tensor) -> Tensor:
    """E ω / b of PG(b, c): tanh(c/2)/(2c), 1/4 at 0."""
    small = c.abs() < 1e-4
    safe = torch.where(small, 1.0, c)
    return torch.where(small, 0.25 - c.square() / 48, torch.tanh(0.5 * safe) / (2 * safe))


def log_two_cosh(c: Tensor) -> Tensor:
    """log(2 cosh(c/2)), without overflow."""
    size = c.abs()
    return 0.5 * size + torch.log1p(torch.exp(-size))


def _softplus(psi: Tensor) -> Tensor:
    """log(1 + exp ψ), so that log p(y | ψ) = log coefficient + aψ − b log(1 + exp ψ)."""
    return torch.nn.functional.softplus(psi, threshold=36)


def polya_gamma_constant(c: Tensor) -> Tensor:
    """−(log 2 + KL/b) of q(ω) = PG(b, c) against PG(b, 0): a cell's constant over b."""
    return 0.25 * c * torch.tanh(0.5 * c) - log_two_cosh(c)


def bounded_size(log_size: Tensor) -> Tensor:
    """r below ``MAX_SIZE``, and close to exp(log_size) well below it."""
    limit = math.log(MAX_SIZE)
    return (limit - torch.nn.functional.softplus(limit - log_size)).exp()


def unbounded_log_size(size: Tensor) -> Tensor:
    """The inverse of ``bounded_size``."""
    limit = math.log(MAX_SIZE)
    return limit - (limit - size.log()).clamp_min(1e-12).expm1().log()


@dataclass(frozen=True)
class LogisticLikelihood:
    """A likelihood of the logistic family, with a parameter for each column.

    Attributes:
        kind: "bernoulli" (y is 0 or 1), "binomial" (y of ``size`` trials), or "negative_binomial"
            (counts of mean r exp ψ and variance r exp ψ (1 + exp ψ)).
        size: trials of the binomial, or r of the negative binomial, [D]; 1 for Bernoulli.
    """

    kind: Family
    size: Tensor

    def __post_init__(self) -> None:
        """Check the name of the family."""
        assert self.kind in get_args(Family)

    def trials(self, Y: Tensor) -> Tensor:
        """b of cells Y [..., D]."""
        if self.kind == "negative_binomial":
            return Y + self.size
        return self.size.expand_as(Y)

    def kappa(self, Y: Tensor) -> Tensor:
        """κ = a − b/2 of cells Y [..., D]."""
        return Y - 0.5 * self.trials(Y)

    def log_coefficient(self, Y: Tensor) -> Tensor:
        """Logarithm of the coefficient of cells Y [..., D]."""
        if self.kind == "bernoulli":
            return torch.zeros_like(Y)
        if self.kind == "binomial":
            n = self.size
            return torch.lgamma(n + 1) - torch.lgamma(Y + 1) - torch.lgamma(n - Y + 1)
        r = self.size
        return torch.lgamma(Y + r) - torch.lgamma(r) - torch.lgamma(Y + 1)

    def log_probability(self, Y: Tensor, psi: Tensor) -> Tensor:
        """log p(y | ψ) of cells, the shape of ψ."""
        return self.log_coefficient(Y) + Y * psi - self.trials(Y) * _softplus(psi)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E p(y | ψ), ψ ~ N(mean, variance), by quadrature; the shape of ``mean``."""
        total = self.trials(Y)
        found = log_expected_density(lambda psi: Y * psi - total * _softplus(psi), mean, variance)
        return found + self.log_coefficient(Y)

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """The Pólya–gamma bound on E log p(y | ψ) at its optimal c; the shape of ``mean``."""
        c = (mean.square() + variance).clamp_min(1e-12).sqrt()
        return self.log_coefficient(Y) + self.kappa(Y) * mean - self.trials(Y) * log_two_cosh(c)

    def expected_log_quadrature(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | ψ), ψ ~ N(mean, variance), by quadrature; the shape of ``mean``."""
        soft = torch.zeros_like(mean)
        for psi, log_weight in quadrature_chunks(mean, variance):
            soft = soft + (log_weight.exp() * _softplus(psi)).sum(0)
        return self.log_coefficient(Y) + Y * mean - self.trials(Y) * soft

    def sites(
        self, Y: Tensor, mean: Tensor, variance: Tensor, *, damped: bool
    ) -> tuple[Tensor, Tensor]:
        """ω and κ at which exp(κψ − ½ωψ²) has the likelihood's expected gradient and curvature.

        ω = b E σ(1 − σ) and κ = a − b E σ + ω E ψ, σ = 1/(1 + e^−ψ), ψ ~ N(mean, variance). Far
        above its count the negative binomial log likelihood is linear in ψ, and steps diverge. With
        ``damped``, ω is at least half the curvature at the count's optimal ψ, ry/(r + y).
        """
        p, p_squared = self._probability_moments(mean, variance)
        total = self.trials(Y)
        omega = total * (p - p_squared)
        if damped and self.kind == "negative_binomial":
            omega = torch.maximum(omega, MIN_CURVATURE_SHARE * self.size * Y / (self.size + Y))
        return omega, Y - total * p + omega * mean

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and noise variance E Var(y | ψ) of y, for ψ ~ N(mean, variance)."""
        if self.kind == "negative_binomial":
            first, spread = log_normal_moments(mean, variance)
            noise = self.size * (first + first.square() + spread)  # r E[e^ψ (1 + e^ψ)]
            return self.size * first, noise + self.size.square() * spread, noise
        p, p_squared = self._probability_moments(mean, variance)
        # E Var(y | ψ) = b E σ(1 − σ), and Var E(y | ψ) = b² Var σ
        noise = self.size * (p - p_squared)
        spread = self.size.square() * (p_squared - p.square()).clamp_min(0)
        return self.size * p, noise + spread, noise

    def mean_slope(self, psi: Tensor) -> Tensor:
        """∂E(y | ψ)/∂ψ."""
        if self.kind == "negative_binomial":
            return self.size * psi.clamp_max(MAX_LOG_MEAN).exp()
        p = psi.sigmoid()
        return self.size * p * (1 - p)

    def draw(self, psi: Tensor, rng: np.random.Generator) -> np.ndarray:
        """y ~ p(y | ψ), the shape of ψ."""
        size = np.broadcast_to(self.size.detach().cpu().double().numpy(), psi.shape)
        value = psi.detach().cpu().double()
        if self.kind == "negative_binomial":
            p = (-value).sigmoid().clamp(1e-15, 1.0).numpy()
            return np.asarray(rng.negative_binomial(size, p), dtype=np.float64)
        drawn = rng.binomial(np.round(size).astype(np.int64), value.sigmoid().numpy())
        return np.asarray(drawn, dtype=np.float64)

    def select_columns(self, some: Tensor | slice) -> LogisticLikelihood:
        """The likelihood of a subset of the columns."""
        return replace(self, size=self.size[some])

    def to(self, like: Tensor) -> LogisticLikelihood:
        """In the dtype and on the device of a tensor, without gradients."""
        return replace(self, size=self.size.detach().to(like))

    def _probability_moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """E σ(ψ) and E σ(ψ)²."""
        first, second = torch.zeros_like(mean), torch.zeros_like(mean)
        for psi, log_weight in quadrature_chunks(mean, variance):
            p = psi.sigmoid()
            part = log_weight.exp() * p
            first, second = first + part.sum(0), second + (part * p).sum(0)
        return first, second


def log_normal_moments(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """E exp ψ and Var exp ψ = (E exp ψ)² (e^v − 1), ψ ~ N(mean, v), without cancellation."""
    first = (mean + 0.5 * variance).clamp_max(MAX_LOG_MEAN).exp()
    # e^v − 1
    share = torch.expm1(variance.clamp_max(MAX_LOG_MEAN))
    return first, first * share * first
