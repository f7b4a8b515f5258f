"""Coordinate ascent of hierarchical Poisson factorisation, and its bound.

y_nd ~ Poisson(Σ_q θ_nq β_dq), θ_nq ~ Gamma(a, ξ_n), ξ_n ~ Gamma(e, r); β_dq ~ Gamma(c, η_d),
η_d ~ Gamma(g, h); each with shape and rate (Gopalan, Hofman and Blei 2015). All factors of q are
Gamma. With s_nq = exp E log θ_nq and w_dq = exp E log β_dq the count of a cell is split among the
components in proportion to s_nq w_dq, and the optimal q(θ) has

shape a + s_nq Σ_d y_nd w_dq / (s wᵀ)_nd and rate E ξ_n + Σ_d E β_dq, d over the observed cells,

q(ξ_n) the shape e + Q a and the rate r + Σ_q E θ_nq. The bound on the log probability of the
observed counts is

Σ_nd [y_nd log (s wᵀ)_nd − E θ_n · E β_d − log y_nd!] − KL(q(θ, ξ) ‖ p) − KL(q(β, η) ‖ p).

Rows and columns have the same equations, so `GammaWeights` is both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["CountTable", "GammaPrior", "GammaWeights", "counts_bound", "infer_weights"]

# Added to denominators.
TINY = torch.finfo(torch.float64).tiny
# Range of the learned shapes of a prior.
SHAPES = (1e-3, 1e4)
# Steps of Newton's method for an inverse digamma function: it converges in five.
NEWTON_STEPS = 8
# Shape of the gamma draws, of mean 1, that initialise the weights.
START_SHAPE = 10.0


@dataclass(frozen=True)
class CountTable:
    """Counts with the mask of the observed cells; float64.

    Attributes:
        counts: [N, D]; 0 where a cell is missing.
        observed: 1 where a cell is observed, else 0, [N, D]; None where every one is.
    """

    counts: Tensor
    observed: Tensor | None = None

    @cached_property
    def log_factorials(self) -> Tensor:
        """Σ_d log y_nd!, [N]."""
        return (self.counts + 1).lgamma().sum(1)

    @classmethod
    def from_rows(cls, Y: Tensor) -> CountTable:
        """The table of rows [N, D] with NaN where a cell is missing."""
        rows = Y.double()
        missing = rows.isnan()
        observed = (~missing).double() if bool(missing.any()) else None
        return cls(rows.nan_to_num(), observed)

    @property
    def transposed(self) -> CountTable:
        """The table with rows and columns exchanged."""
        return CountTable(self.counts.T, None if self.observed is None else self.observed.T)

    def take(self, rows: Tensor) -> CountTable:
        """The table of some rows."""
        observed = None if self.observed is None else self.observed[rows]
        return CountTable(self.counts[rows], observed)

    def exposure(self, weights: Tensor) -> Tensor:
        """Σ_d of weights [D, Q] over each row's observed cells, [N, Q]."""
        if self.observed is None:
            return weights.sum(0).expand(len(self.counts), -1)
        return self.observed @ weights


@dataclass(frozen=True)
class GammaPrior:
    """Prior of weights and of their rates.

    Attributes:
        shape: a of the weights.
        rate_shape: e of the rates ξ.
        rate_rate: r of the rates ξ.
    """

    shape: float
    rate_shape: float
    rate_rate: float

    def scaled(self, factor: float) -> GammaPrior:
        """The prior of the weights times a factor."""
        return replace(self, rate_rate=self.rate_rate * factor)

    def log_density(self, weights: Tensor) -> Tensor:
        """log p of rows' weights with their rates integrated, of [..., Q]: [...].

        ∫ Gamma(ξ; e, r) Π_q Gamma(θ_q; a, ξ) dξ = Γ(e + Qa) r^e Π_q θ_q^(a − 1) /
        [Γ(e) Γ(a)^Q (r + Σ_q θ_q)^(e + Qa)].
        """
        Q, a, e, r = weights.shape[-1], self.shape, self.rate_shape, self.rate_rate
        constant = math.lgamma(e + Q * a) - math.lgamma(e) - Q * math.lgamma(a) + e * math.log(r)
        powers = (a - 1) * weights.log().sum(-1)
        density: Tensor = constant + powers - (e + Q * a) * (r + weights.sum(-1)).log()
        return density


@dataclass(frozen=True)
class GammaWeights:
    """q(θ) q(ξ) of the rows' weights and their rates, or of the columns'; float64.

    Attributes:
        shape: of q(θ), [N, Q].
        rate: of q(θ), [N, Q].
        rates_shape: of q(ξ), the same for all rows.
        rates_rate: of q(ξ), [N].
    """

    shape: Tensor
    rate: Tensor
    rates_shape: float
    rates_rate: Tensor

    @classmethod
    def draw(
        cls, size: tuple[int, int], prior: GammaPrior, like: Tensor, generator: torch.Generator
    ) -> GammaWeights:
        """Weights with means near 1, [N, Q], on the device of ``like``."""
        spread = torch.full(size, START_SHAPE, dtype=torch.float64)
        shape = torch._standard_gamma(spread, generator=generator)
        own = cls(shape, spread, 1.0, torch.ones(size[0], dtype=torch.float64))
        return own.to(like)._with_rates(prior)

    def to(self, like: Tensor) -> GammaWeights:
        """The same on the device of ``like``."""
        tensors = (part.to(like.device) for part in (self.shape, self.rate, self.rates_rate))
        shape, rate, rates_rate = tensors
        return GammaWeights(shape, rate, self.rates_shape, rates_rate)

    @property
    def mean(self) -> Tensor:
        """E θ, [N, Q]."""
        return self.shape / self.rate

    @property
    def variance(self) -> Tensor:
        """Var θ, [N, Q]."""
        return self.shape / self.rate.square()

    @property
    def log_mean(self) -> Tensor:
        """E log θ, [N, Q]."""
        return self.shape.digamma() - self.rate.log()

    @property
    def rates(self) -> Tensor:
        """E ξ, [N]."""
        return self.rates_shape / self.rates_rate

    @property
    def log_rates(self) -> Tensor:
        """E log ξ, [N]."""
        shape = self.rates_rate.new_tensor(self.rates_shape)
        return shape.digamma() - self.rates_rate.log()

    def update(self, table: CountTable, other: GammaWeights, prior: GammaPrior) -> GammaWeights:
        """q(θ), then q(ξ), at their optima for the weights of the other side."""
        s, w = self.log_mean.exp(), other.log_mean.exp()
        shape = prior.shape + s * ((table.counts / (s @ w.T + TINY)) @ w)
        rate = self.rates[:, None] + table.exposure(other.mean)
        return replace(self, shape=shape, rate=rate)._with_rates(prior)

    def _with_rates(self, prior: GammaPrior) -> GammaWeights:
        """q(ξ) at its optimum."""
        shape = prior.rate_shape + self.shape.shape[1] * prior.shape
        return replace(self, rates_shape=shape, rates_rate=prior.rate_rate + self.mean.sum(1))

    def take(self, rows: Tensor) -> GammaWeights:
        """The factors of some rows."""
        return replace(
            self,
            shape=self.shape[rows],
            rate=self.rate[rows],
            rates_rate=self.rates_rate[rows],
        )

    def scaled(self, factor: float) -> GammaWeights:
        """q of the weights times a factor, and of their rates divided by it."""
        return replace(self, rate=self.rate / factor, rates_rate=self.rates_rate * factor)

    def divergence(self, prior: GammaPrior) -> Tensor:
        """KL(q(θ_n, ξ_n) ‖ p) of each row, [N]."""
        rates, log_rates = self.rates, self.log_rates
        mean, log_mean = self.mean, self.log_mean
        shape = self.shape
        entropy = (shape - self.rate.log() + shape.lgamma() + (1 - shape) * shape.digamma()).sum(1)
        k = self.rates_rate.new_tensor(self.rates_shape)
        entropy = entropy + k - self.rates_rate.log() + k.lgamma() + (1 - k) * k.digamma()
        Q, a, e, r = shape.shape[1], prior.shape, prior.rate_shape, prior.rate_rate
        expected = Q * (a * log_rates - math.lgamma(a)) + (a - 1) * log_mean.sum(1)
        expected = expected - rates * mean.sum(1)
        expected = expected + e * math.log(r) - math.lgamma(e) + (e - 1) * log_rates - r * rates
        return -entropy - expected

    def best_prior(self) -> GammaPrior:
        """The prior with the largest bound for this q: each shape and rate at its optimum."""
        rates, log_rates = self.rates, self.log_rates
        a = _inverse_digamma(float(self.log_mean.mean() + log_rates.mean()))
        mean = float(rates.mean())
        e = _gamma_shape(math.log(mean) - float(log_rates.mean()))
        return GammaPrior(a, e, e / mean)


def counts_bound(table: CountTable, rows: GammaWeights, columns: GammaWeights) -> Tensor:
    """Σ_d E log p(y_nd | θ_n, β_d), split at its optimum, over each row's observed cells, [N]."""
    expected = rows.log_mean.exp() @ columns.log_mean.exp().T
    fit = (table.counts * (expected + TINY).log()).sum(1) - table.log_factorials
    return fit - (rows.mean * table.exposure(columns.mean)).sum(1)


def infer_weights(
    table: CountTable, columns: GammaWeights, prior: GammaPrior, *, rounds: int, settled: float
) -> GammaWeights:
    """q(θ_n) q(ξ_n) of rows at their optimum for the columns' weights.

    The start of each row is the same for all components. Rounds go on until no mean of a row
    changes by more than a share ``settled`` of their sum; a row at its optimum is left.

    Args:
        table: rows of counts, [N, D].
        columns: weights of the columns, [D, Q].
        prior: of the rows' weights.
        rounds: at most.
        settled: see above.
    """
    total = table.counts.sum(1) / table.exposure(columns.mean).sum(1).clamp_min(TINY)
    mean = (total + prior.rate_rate / max(prior.rate_shape, 1.0) * prior.shape)[:, None]
    shape = torch.ones_like(columns.shape[:1]) * (prior.shape + table.counts.sum(1))[:, None]
    found = GammaWeights(shape, shape / mean, 1.0, mean[:, 0])._with_rates(prior)
    moving = torch.arange(len(shape), device=shape.device)
    for _ in range(rounds):
        before = found.take(moving)
        after = before.update(table.take(moving), columns, prior)
        for whole, part in zip(
            (found.shape, found.rate, found.rates_rate),
            (after.shape, after.rate, after.rates_rate),
            strict=True,
        ):
            whole[moving] = part
        change = (after.mean - before.mean).abs().amax(1)
        moving = moving[change > settled * after.mean.sum(1)]
        if not len(moving):
            break
    return found


def _inverse_digamma(value: float) -> float:
    """The positive x with digamma(x) = value, within ``SHAPES``, by Newton's method."""
    x = torch.tensor(
        math.exp(value) + 0.5 if value > -2.22 else -1 / (value + 0.5772156649), dtype=torch.float64
    )
    for _ in range(NEWTON_STEPS):
        step = (x.digamma() - value) / torch.special.polygamma(1, x)
        x = torch.maximum(x - step, x / 10)
    return min(max(float(x), SHAPES[0]), SHAPES[1])


def _gamma_shape(gap: float) -> float:
    """The shape x of a Gamma with log E − E log = ``gap``: log x − digamma(x) = gap.

    Newton's steps in 1/x, from the approximation of Minka (2002).
    """
    if gap <= 0:
        return SHAPES[1]
    x = (3 - gap + math.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(NEWTON_STEPS):
        at = torch.tensor(x, dtype=torch.float64)
        difference = math.log(x) - float(at.digamma()) - gap
        slope = 1 / x - float(torch.special.polygamma(1, at))
        x = max(x - difference / slope, x / 10)
    return min(max(x, SHAPES[0]), SHAPES[1])
