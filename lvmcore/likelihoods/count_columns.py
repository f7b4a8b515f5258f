"""Likelihoods of counts: Poisson, negative binomial, and zero-inflated negative binomial."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.likelihoods.column import ColumnLikelihood, observed_mean
from lvmcore.likelihoods.polya_gamma import MAX_LOG_MEAN, log_normal_moments
from lvmcore.likelihoods.quadrature import expectation, log_expected_density, normal_nodes

__all__ = ["NegativeBinomialColumns", "PoissonColumns", "ZeroInflatedColumns"]

# Initial scale of the logarithms of mean counts, and the range of the size r.
START_SCALE, LEAST_SIZE, MOST_SIZE = 0.5, 0.05, 1e3
# Nodes of each of the two values of a zero-inflated count.
NODES = 10
# Largest count that is drawn, against overflow.
LARGEST = 1e15


class _LogMeanColumns(ColumnLikelihood):
    """Counts whose mean is exp f."""

    is_whole = True

    def __init__(self, n_functions: int, n_columns: int, like: Tensor) -> None:
        super().__init__(n_functions, like)
        self.centre: Tensor
        self.spread: Tensor
        self.register_buffer("centre", like.new_zeros(n_columns))
        self.register_buffer("spread", like.new_ones(n_columns))

    @torch.no_grad()
    def _start_log_mean(self, mean: Tensor) -> None:
        """b and s of the first functions, from mean counts [D]."""
        D = len(mean)
        self.offset[:D] = mean.clamp_min(1e-3).log() - 0.5 * START_SCALE**2
        self.log_scale[:D] = math.log(START_SCALE)

    @torch.no_grad()
    def _start_inputs(self, Y: Tensor, observed: Tensor) -> None:
        logs = torch.log1p(Y)
        self.centre.copy_(observed_mean(logs, observed))
        spread = observed_mean((logs - self.centre).square(), observed).sqrt()
        self.spread.copy_(torch.where(spread > 0, spread, torch.ones_like(spread)))

    def inputs(self, Y: Tensor) -> Tensor:
        """log(1 + y), standardised."""
        return (torch.log1p(Y.clamp_min(0)) - self.centre) / self.spread


class PoissonColumns(_LogMeanColumns):
    """y_d ~ Poisson(exp f_d).

    Args:
        n_columns: D.
        like: dtype and device.
    """

    def __init__(self, n_columns: int, like: Tensor) -> None:
        super().__init__(n_columns, n_columns, like)

    def start(self, Y: Tensor, observed: Tensor) -> None:
        """b from the mean count."""
        self._start_log_mean(observed_mean(Y, observed))
        self._start_inputs(Y, observed)

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """y m − exp(m + v/2) − log y!."""
        rate = (mean + 0.5 * variance).clamp_max(MAX_LOG_MEAN).exp()
        return Y * mean - rate - torch.lgamma(Y + 1)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E Poisson(y | exp f) by quadrature."""
        return log_expected_density(
            lambda f: Y * f - f.clamp_max(MAX_LOG_MEAN).exp() - torch.lgamma(Y + 1), mean, variance
        )

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of a Poisson of log-normal mean."""
        first, spread = log_normal_moments(mean, variance)
        return first, first + spread, first

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """From the Poisson distribution."""
        rate = f.detach().cpu().clamp_max(MAX_LOG_MEAN).exp().numpy()
        return np.asarray(rng.poisson(np.minimum(rate, LARGEST)), dtype=np.float64)


class NegativeBinomialColumns(_LogMeanColumns):
    """y_d negative binomial of mean μ = exp f_d and variance μ + μ²/r_d.

    Args:
        n_columns: D.
        like: dtype and device.
    """

    def __init__(self, n_columns: int, like: Tensor) -> None:
        super().__init__(n_columns, n_columns, like)
        self.log_size = nn.Parameter(like.new_zeros(n_columns))

    @property
    def size(self) -> Tensor:
        """r, [D]."""
        return self.log_size.exp().clamp(LEAST_SIZE, MOST_SIZE)

    @torch.no_grad()
    def start(self, Y: Tensor, observed: Tensor) -> None:
        """b from the mean count, r from the variance beyond that of a Poisson count."""
        mean = observed_mean(Y, observed)
        variance = observed_mean((Y - mean).square(), observed)
        size = mean.square() / (variance - mean).clamp_min(1e-6 * mean.square() + 1e-12)
        self._start_log_mean(mean)
        self._start_inputs(Y, observed)
        self.log_size.copy_((2 * size).clamp(LEAST_SIZE, 100.0).log())

    def log_density(self, Y: Tensor, f: Tensor) -> Tensor:
        """log p(y | f), the shape of f."""
        r = self.size
        total = torch.logaddexp(f, r.log().expand_as(f))
        coefficient = torch.lgamma(Y + r) - torch.lgamma(r) - torch.lgamma(Y + 1)
        return coefficient + r * (r.log() - total) + Y * (f - total)

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | f) by quadrature."""
        return expectation(lambda f: self.log_density(Y, f), mean, variance)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E p(y | f) by quadrature."""
        return log_expected_density(lambda f: self.log_density(Y, f), mean, variance)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """E μ, E(μ + μ²/r) + Var μ, and the former."""
        first, spread = log_normal_moments(mean, variance)
        noise = first + (first.square() + spread) / self.size
        return first, noise + spread, noise

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """From the negative binomial distribution."""
        rate = f.detach().cpu().clamp_max(MAX_LOG_MEAN).exp().numpy()
        size = self.size.detach().cpu().numpy()
        return _negative_binomial(np.minimum(rate, LARGEST), size, rng)


class ZeroInflatedColumns(_LogMeanColumns):
    """y_d is 0 with probability σ(h_d), else negative binomial of mean exp f_d.

    The functions are f_1 … f_D, then h_1 … h_D; σ is the logistic function.

    Args:
        n_columns: D.
        like: dtype and device.
    """

    def __init__(self, n_columns: int, like: Tensor) -> None:
        super().__init__(2 * n_columns, n_columns, like)
        self.counts = NegativeBinomialColumns(n_columns, like)
        for parameter in (self.counts.offset, self.counts.log_scale):
            parameter.requires_grad = False  # f has those of this likelihood

    @torch.no_grad()
    def start(self, Y: Tensor, observed: Tensor) -> None:
        """Counts as those above 0, zeros as many as there are."""
        D = Y.shape[1]
        above = observed * (Y > 0)
        self.counts.start(Y, above)
        self._start_log_mean(observed_mean(Y, above))
        self._start_inputs(Y, observed)
        zeros = (1 - above.sum(0) / observed.sum(0).clamp_min(1)).clamp(0.01, 0.99)
        self.offset[D:] = torch.special.logit(zeros)

    def _log_density(self, Y: Tensor, f: Tensor, h: Tensor) -> Tensor:
        zero, some = nn.functional.logsigmoid(h), nn.functional.logsigmoid(-h)
        count = some + self.counts.log_density(Y, f)
        return torch.where(Y > 0, count, torch.logaddexp(zero.expand_as(count), count))

    def _grid(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Nodes of f and h, [nodes, n, D] each, and logarithms of their weights, [nodes, 1, 1]."""
        D = mean.shape[-1] // 2
        points, log_weights = (part.to(mean) for part in normal_nodes(NODES))
        shape = (-1, *[1] * mean.dim())
        z, w = torch.meshgrid(points, points, indexing="ij"), log_weights[:, None] + log_weights
        f, h = (
            mean[..., part] + variance[..., part].sqrt() * own.reshape(shape)
            for part, own in zip((slice(None, D), slice(D, None)), z, strict=True)
        )
        return f, h, w.reshape(shape)

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | f, h) by quadrature."""
        f, h, log_weight = self._grid(mean, variance)
        return (log_weight.exp() * self._log_density(Y, f, h)).sum(0)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E p(y | f, h) by quadrature."""
        f, h, log_weight = self._grid(mean, variance)
        return (log_weight + self._log_density(Y, f, h)).logsumexp(0)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of E σ(−h) times a count, with its share of zeros in the noise."""
        D = mean.shape[-1] // 2
        count, total, noise = self.counts.moments(mean[..., :D], variance[..., :D])
        p = expectation(torch.sigmoid, -mean[..., D:], variance[..., D:])
        p_square = expectation(lambda h: h.sigmoid().square(), -mean[..., D:], variance[..., D:])
        square = total + count.square()  # E y² of the counts
        first = p * count
        # Var E(y | f, h) = E σ² E μ² − (E σ E μ)²
        mean_square = square - noise
        explained = (p_square * mean_square - first.square()).clamp_min(0)
        whole = (p * square - first.square()).clamp_min(0)
        return first, whole, (whole - explained).clamp_min(0)

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """A count, or 0."""
        D = f.shape[-1] // 2
        counts = self.counts.draw(f[..., :D], rng)
        zero = rng.random(counts.shape) < f[..., D:].detach().cpu().sigmoid().numpy()
        return np.where(zero, 0.0, counts)


def _negative_binomial(
    rate: NDArray[np.float64], size: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Counts of mean ``rate`` and variance rate + rate²/size."""
    return np.asarray(
        rng.negative_binomial(np.broadcast_to(size, rate.shape), size / (size + rate)),
        dtype=np.float64,
    )
