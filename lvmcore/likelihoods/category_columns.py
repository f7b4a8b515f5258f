"""Likelihoods of categories: Bernoulli, categorical and ordinal."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.likelihoods.classification import (
    bernoulli_probit_expectation,
    softmax_expectation,
    softmax_moments,
)
from lvmcore.likelihoods.column import ColumnLikelihood, observed_mean
from lvmcore.likelihoods.quadrature import expectation

__all__ = ["BernoulliColumns", "CategoricalColumn", "OrdinalColumn"]

# Range of initial shares, and initial scale of the functions of categories.
SHARES, START_SCALE = (0.005, 0.995), 2.0
# Rows in a part of the expectation of a category, each with its own draws.
PARTS = 8
# Least distance of the thresholds of an ordinal column, and least probability of a level.
LEAST_STEP, LEAST_PROBABILITY = 1e-3, 1e-12


class BernoulliColumns(ColumnLikelihood):
    """P(y_d is the larger of the column's two values) = Φ(f_d).

    Args:
        n_columns: D.
        like: dtype and device.
    """

    def __init__(self, n_columns: int, like: Tensor) -> None:
        super().__init__(n_columns, like)
        self.share: Tensor
        self.low: Tensor
        self.span: Tensor
        self.register_buffer("share", like.new_full((n_columns,), 0.5))
        self.register_buffer("low", like.new_zeros(n_columns))
        self.register_buffer("span", like.new_ones(n_columns))

    def _ones(self, Y: Tensor) -> Tensor:
        """1 for the larger value and 0 for the smaller one; NaN stays NaN."""
        return (Y - self.low) / self.span

    @torch.no_grad()
    def start(self, Y: Tensor, observed: Tensor) -> None:
        """The two values, and b at which E Φ(b + g) is the share of the larger one."""
        low = torch.where(observed > 0, Y, torch.inf).amin(0)
        span = torch.where(observed > 0, Y, -torch.inf).amax(0) - low
        self.low.copy_(low)
        self.span.copy_(torch.where(span > 0, span, torch.ones_like(span)))
        self.share.copy_(observed_mean(self._ones(Y), observed).clamp(*SHARES))
        self.offset.copy_(torch.special.ndtri(self.share) * math.sqrt(2))

    def inputs(self, Y: Tensor) -> Tensor:
        """Standardised."""
        return (self._ones(Y) - self.share) / (self.share * (1 - self.share)).sqrt()

    def _signs(self, Y: Tensor) -> Tensor:
        """1 for the larger value, −1 for the smaller one."""
        return torch.where(self._ones(Y) > 0.5, 1.0, -1.0).to(Y)

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log Φ(±f) by quadrature."""
        return bernoulli_probit_expectation(self._signs(Y), mean, variance)

    def smooth_bound(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log Φ(±f) by quadrature, twice differentiable."""
        sign = self._signs(Y)
        return expectation(lambda f: torch.special.log_ndtr(sign * f), mean, variance)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log Φ(±m/√(1 + v))."""
        log_p: Tensor = torch.special.log_ndtr(self._signs(Y) * mean / (1 + variance).sqrt())
        return log_p

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """p, p(1 − p) and E Φ(f)(1 − Φ(f)), on the scale of the two values."""
        p = torch.special.ndtr(mean / (1 + variance).sqrt())
        square = expectation(lambda f: torch.special.ndtr(f).square(), mean, variance)
        scale = self.span.square()
        noise = scale * (p - square).clamp_min(0)
        return self.low + self.span * p, scale * p * (1 - p), noise

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """The larger value with probability Φ(f)."""
        p, low, span = (
            part.detach().cpu().numpy() for part in (torch.special.ndtr(f), self.low, self.span)
        )
        return np.asarray(low + span * (rng.random(p.shape) < p), dtype=np.float64)


class CategoricalColumn(ColumnLikelihood):
    """P(level k) = softmax(f)_k, one function a level.

    Args:
        n_levels: K, the number of one-hot features.
        like: dtype and device.
    """

    is_whole = True

    def __init__(self, n_levels: int, like: Tensor) -> None:
        super().__init__(n_levels, like)
        self.shares: Tensor
        self.register_buffer("shares", like.new_full((n_levels,), 1 / n_levels))

    @torch.no_grad()
    def start(self, Y: Tensor, observed: Tensor) -> None:
        """b at the logarithms of the shares of the levels."""
        shares = observed_mean(Y, observed.expand_as(Y)).clamp_min(1e-3)
        self.shares.copy_(shares / shares.sum())
        self.offset.copy_(self.shares.log())
        self.log_scale.fill_(math.log(START_SCALE))

    def inputs(self, Y: Tensor) -> Tensor:
        """Standardised, over √K: the levels together weigh about as much as a number."""
        sd = (self.shares * (1 - self.shares)).sqrt()
        return (Y - self.shares) / (sd * math.sqrt(self.n_functions))

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log softmax(f)_y by quasi-random draws, other ones for each eighth of the rows."""
        spare = -len(Y) % PARTS
        if spare:
            Y, mean, variance = (
                torch.cat([part, part[-1:].expand(spare, -1)]) for part in (Y, mean, variance)
            )
        found = softmax_expectation(Y, mean, variance, parts=PARTS)
        return found[: len(found) - spare, None]

    def smooth_bound(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """m_y − log Σ_k exp(m_k + v_k/2), below the expectation by Jensen's inequality."""
        chosen = (mean * Y).sum(-1, keepdim=True)
        return chosen - (mean + 0.5 * variance).logsumexp(-1, keepdim=True)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E softmax(f)_y by quasi-random draws."""
        return _log_chosen(softmax_moments(mean, variance)[0], Y)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """p = E softmax(f), p(1 − p), and E of the variance given f."""
        p, spread = softmax_moments(mean, variance)
        whole = p * (1 - p)
        return p, whole, (whole - spread).clamp_min(0)

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """One level, by the largest of f plus Gumbel noise."""
        best = (f.detach().cpu().numpy() + rng.gumbel(size=f.shape)).argmax(-1)
        return np.asarray(np.eye(f.shape[-1])[best])


class OrdinalColumn(ColumnLikelihood):
    """P(level k) = Φ(b_k − f) − Φ(b_(k−1) − f), thresholds b increasing; one function.

    Args:
        n_levels: K, the number of one-hot features, in order.
        like: dtype and device.
    """

    is_whole = True

    def __init__(self, n_levels: int, like: Tensor) -> None:
        super().__init__(1, like)
        self.offset.requires_grad = False  # the thresholds shift as well
        self.first = nn.Parameter(like.new_zeros(()))
        self.log_steps = nn.Parameter(like.new_zeros(n_levels - 2))
        self.centre: Tensor
        self.spread: Tensor
        self.register_buffer("centre", like.new_zeros(()))
        self.register_buffer("spread", like.new_ones(()))

    @property
    def thresholds(self) -> Tensor:
        """b_1 < … < b_(K−1), [K − 1]."""
        steps = self.log_steps.exp() + LEAST_STEP
        return torch.cat([self.first[None], self.first + steps.cumsum(0)])

    @torch.no_grad()
    def start(self, Y: Tensor, observed: Tensor) -> None:
        """Thresholds at which the shares of the levels are those of the observed cells."""
        K = Y.shape[1]
        shares = observed_mean(Y, observed.expand_as(Y)).clamp_min(0.002)
        below = (shares / shares.sum()).cumsum(0)[:-1].clamp(*SHARES)
        at = torch.special.ndtri(below) * math.sqrt(2)
        self.first.copy_(at[0])
        self.log_steps.copy_((at.diff() - LEAST_STEP).clamp_min(0.02).log())
        code = Y @ torch.arange(K).to(Y)
        known = observed[:, 0]
        self.centre.copy_(observed_mean(code, known))
        spread = observed_mean((code - self.centre).square(), known).sqrt()
        self.spread.copy_(torch.where(spread > 0, spread, torch.ones_like(spread)))

    def inputs(self, Y: Tensor) -> Tensor:
        """The number of the level, standardised; split evenly among its K features."""
        K = Y.shape[-1]
        code = (Y @ torch.arange(K).to(Y) - self.centre) / self.spread
        return (code / math.sqrt(K))[..., None].expand(Y.shape)

    def _probabilities(self, f: Tensor) -> Tensor:
        """P(level k | f), [..., n, K], for f [..., n, 1]."""
        below = torch.special.ndtr(self.thresholds - f)
        edge = torch.zeros_like(below[..., :1])
        above = torch.cat([below, edge + 1], -1)
        return (above - torch.cat([edge, below], -1)).clamp_min(LEAST_PROBABILITY)

    def _expected(self, power: int, mean: Tensor, variance: Tensor) -> Tensor:
        return expectation(
            lambda f: self._probabilities(f[..., :1]).pow(power),
            mean.expand(-1, len(self.thresholds) + 1),
            variance.expand(-1, len(self.thresholds) + 1),
        )

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log P(level | f) by quadrature."""
        return expectation(lambda f: _log_chosen(self._probabilities(f), Y), mean, variance)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log P(level): Φ((b_k − m)/√(1 + v)) less that of the level below."""
        return _log_chosen(self._marginal(mean, variance), Y)

    def _marginal(self, mean: Tensor, variance: Tensor) -> Tensor:
        """E P(level k | f), [n, K]."""
        below = torch.special.ndtr((self.thresholds - mean) / (1 + variance).sqrt())
        edge = torch.zeros_like(below[..., :1])
        p = torch.cat([below, edge + 1], -1) - torch.cat([edge, below], -1)
        return p.clamp_min(LEAST_PROBABILITY)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """p, p(1 − p), and E of the variance given f."""
        p = self._marginal(mean, variance)
        return p, p * (1 - p), (p - self._expected(2, mean, variance)).clamp_min(0)

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """One level."""
        below = self._probabilities(f).detach().cpu().numpy().cumsum(-1)[..., :-1]
        level = (rng.random((*f.shape[:-1], 1)) > below).sum(-1)
        return np.asarray(np.eye(below.shape[-1] + 1)[level])


def _log_chosen(p: Tensor, Y: Tensor) -> Tensor:
    """Logarithm of the probability of the level that a row has, [..., n, 1]."""
    return (p * Y).sum(-1, keepdim=True).clamp_min(LEAST_PROBABILITY).log()
