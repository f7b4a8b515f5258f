"""Likelihoods of numbers: Gaussian, Student-t, log-normal and Beta."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.likelihoods.column import ColumnLikelihood, observed_mean
from lvmcore.likelihoods.quadrature import expectation, log_expected_density
from lvmcore.numerics.gaussians import LOG_2PI

__all__ = ["BetaColumns", "GaussianColumns", "LogNormalColumns", "StudentColumns"]

# Initial noise variance of a column of unit variance, and the least.
START_NOISE, LEAST_NOISE = 0.3, 1e-4
# Initial degrees of freedom, and the least, at which the variance is still finite.
START_FREEDOM, LEAST_FREEDOM = 4.0, 2.05
# Ratio of sd to the median absolute deviation of a normal variable.
NORMAL_DEVIATION = 1.4826
# Inputs of networks are clipped to so many sds; distance of a share from 0 and 1.
REACH, SHARE_MARGIN = 4.0, 1e-6
# Initial scale of the values of shares on the probit scale.
SHARE_SCALE = 0.5


class GaussianColumns(ColumnLikelihood):
    """y_d = f_d + N(0, σ_d²), cells standardised.

    Args:
        n_columns: D.
        like: dtype and device.
    """

    def __init__(self, n_columns: int, like: Tensor) -> None:
        super().__init__(n_columns, like)
        self.log_noise = nn.Parameter(like.new_full((n_columns,), math.log(START_NOISE)))

    @property
    def noise(self) -> Tensor:
        """σ², [D]."""
        return self.log_noise.exp() + LEAST_NOISE

    def start(self, Y: Tensor, observed: Tensor) -> None:
        """Nothing: the cells have mean 0 and sd 1."""

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """−½ [log 2πσ² + ((y − m)² + v)/σ²]."""
        square = (Y - mean).square() + variance
        return -0.5 * (LOG_2PI + self.noise.log() + square / self.noise)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log N(y | m, v + σ²)."""
        total = variance + self.noise
        return -0.5 * (LOG_2PI + total.log() + (Y - mean).square() / total)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """m, v + σ² and σ²."""
        noise = self.noise.expand_as(mean)
        return mean, variance + noise, noise

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """f + σ N(0, 1)."""
        sd = self.noise.sqrt().detach().cpu().numpy()
        return np.asarray(f.detach().cpu().numpy() + sd * rng.standard_normal(f.shape))


class StudentColumns(ColumnLikelihood):
    """y_d = f_d + σ_d t(ν_d): numbers of which some are far off.

    Args:
        n_columns: D.
        like: dtype and device.
    """

    def __init__(self, n_columns: int, like: Tensor) -> None:
        super().__init__(n_columns, like)
        self.log_noise = nn.Parameter(like.new_full((n_columns,), math.log(START_NOISE)))
        freedom = math.log(START_FREEDOM - LEAST_FREEDOM)
        self.log_freedom = nn.Parameter(like.new_full((n_columns,), freedom))
        self.centre: Tensor
        self.spread: Tensor
        self.register_buffer("centre", like.new_zeros(n_columns))
        self.register_buffer("spread", like.new_ones(n_columns))

    @property
    def noise(self) -> Tensor:
        """σ², [D]."""
        return self.log_noise.exp() + LEAST_NOISE * self.spread.square()

    @property
    def freedom(self) -> Tensor:
        """ν, [D]."""
        return self.log_freedom.exp() + LEAST_FREEDOM

    @torch.no_grad()
    def start(self, Y: Tensor, observed: Tensor) -> None:
        """b at the median and s at the sd that the median absolute deviation implies."""
        cells = torch.where(observed > 0, Y, torch.nan)
        centre = cells.nanmedian(0).values
        deviation = NORMAL_DEVIATION * (cells - centre).abs().nanmedian(0).values
        spread = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
        self.centre.copy_(centre)
        self.spread.copy_(spread)
        self.offset.copy_(centre)
        self.log_scale.copy_(spread.log())
        self.log_noise.copy_(math.log(START_NOISE) + 2 * spread.log())

    def _log_density(self, Y: Tensor, f: Tensor) -> Tensor:
        nu, noise = self.freedom, self.noise
        constant = (
            torch.lgamma(0.5 * (nu + 1))
            - torch.lgamma(0.5 * nu)
            - 0.5 * (math.pi * nu * noise).log()
        )
        return constant - 0.5 * (nu + 1) * torch.log1p((Y - f).square() / (nu * noise))

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log t(y | f, σ, ν) by quadrature."""
        return expectation(lambda f: self._log_density(Y, f), mean, variance)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E t(y | f, σ, ν) by quadrature."""
        return log_expected_density(lambda f: self._log_density(Y, f), mean, variance)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """m, v + σ² ν/(ν − 2) and σ² ν/(ν − 2)."""
        noise = (self.noise * self.freedom / (self.freedom - 2)).expand_as(mean)
        return mean, variance + noise, noise

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """f + σ t(ν)."""
        sd, nu = (part.detach().cpu().numpy() for part in (self.noise.sqrt(), self.freedom))
        return np.asarray(f.detach().cpu().numpy() + sd * rng.standard_t(nu, f.shape))

    def inputs(self, Y: Tensor) -> Tensor:
        """(y − median)/spread, clipped: a far cell counts as one four sds off."""
        return ((Y - self.centre) / self.spread).clamp(-REACH, REACH)

    def is_gross(self, Y: Tensor) -> Tensor:
        """Mask of the cells four sds off or more."""
        return self.inputs(Y).abs() >= REACH


class LogNormalColumns(ColumnLikelihood):
    """log y_d = μ_d + τ_d (f_d + N(0, σ_d²)), μ and τ the mean and sd of the logarithms.

    Args:
        n_columns: D.
        like: dtype and device.
    """

    def __init__(self, n_columns: int, like: Tensor) -> None:
        super().__init__(n_columns, like)
        self.log_noise = nn.Parameter(like.new_full((n_columns,), math.log(START_NOISE)))
        self.centre: Tensor
        self.spread: Tensor
        self.register_buffer("centre", like.new_zeros(n_columns))
        self.register_buffer("spread", like.new_ones(n_columns))

    @property
    def noise(self) -> Tensor:
        """σ², [D]."""
        return self.log_noise.exp() + LEAST_NOISE

    @torch.no_grad()
    def start(self, Y: Tensor, observed: Tensor) -> None:
        """μ and τ from the observed cells."""
        logs = torch.where(observed > 0, Y, 1.0).log()
        self.centre.copy_(observed_mean(logs, observed))
        square = observed_mean((logs - self.centre).square(), observed)
        self.spread.copy_(torch.where(square > 0, square, torch.ones_like(square)).sqrt())

    def inputs(self, Y: Tensor) -> Tensor:
        """(log y − μ)/τ."""
        tiny = torch.finfo(Y.dtype).tiny
        return (Y.clamp_min(tiny).log() - self.centre) / self.spread

    def _jacobian(self, Y: Tensor) -> Tensor:
        """log of ∂((log y − μ)/τ)/∂y."""
        return -Y.clamp_min(torch.finfo(Y.dtype).tiny).log() - self.spread.log()

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """That of a Gaussian of the logarithm, less log τy."""
        square = (self.inputs(Y) - mean).square() + variance
        density = -0.5 * (LOG_2PI + self.noise.log() + square / self.noise)
        return density + self._jacobian(Y)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log N(log y | μ + τm, τ²(v + σ²)) − log y."""
        total = variance + self.noise
        density = -0.5 * (LOG_2PI + total.log() + (self.inputs(Y) - mean).square() / total)
        return density + self._jacobian(Y)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of a log-normal: M = exp(μ + τm + t/2), (eᵗ − 1) M² with t = τ²(v + σ²), and noise."""
        tau = self.spread.square()
        total = tau * (variance + self.noise)
        first = (self.centre + self.spread * mean + 0.5 * total).exp()
        spread = torch.expm1(total) * first.square()
        # Var E(y | f) = (e^(τ²v) − 1) M²
        noise = spread - torch.expm1(tau * variance) * first.square()
        return first, spread, noise

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """exp(μ + τ (f + σ N(0, 1)))."""
        sd, centre, spread = (
            part.detach().cpu().numpy() for part in (self.noise.sqrt(), self.centre, self.spread)
        )
        logs = f.detach().cpu().numpy() + sd * rng.standard_normal(f.shape)
        return np.asarray(np.exp(centre + spread * logs))


class BetaColumns(ColumnLikelihood):
    """y_d ~ Beta(μφ_d, (1 − μ)φ_d), μ = Φ(f_d): shares between 0 and 1.

    Args:
        n_columns: D.
        like: dtype and device.
    """

    def __init__(self, n_columns: int, like: Tensor) -> None:
        super().__init__(n_columns, like)
        self.log_precision = nn.Parameter(like.new_full((n_columns,), math.log(10.0)))
        self.centre: Tensor
        self.spread: Tensor
        self.register_buffer("centre", like.new_zeros(n_columns))
        self.register_buffer("spread", like.new_ones(n_columns))

    @torch.no_grad()
    def start(self, Y: Tensor, observed: Tensor) -> None:
        """b from the mean, φ from the variance of the shares."""
        mean = observed_mean(Y, observed).clamp(0.01, 0.99)
        square = observed_mean((Y - mean).square(), observed).clamp_min(1e-6)
        self.offset.copy_(torch.special.ndtri(mean))
        self.log_scale.fill_(math.log(SHARE_SCALE))
        self.log_precision.copy_((mean * (1 - mean) / square - 1).clamp(1.0, 1e4).log())
        probits = self._probits(torch.where(observed > 0, Y, 0.5))
        self.centre.copy_(observed_mean(probits, observed))
        spread = observed_mean((probits - self.centre).square(), observed).sqrt()
        self.spread.copy_(torch.where(spread > 0, spread, torch.ones_like(spread)))

    def _probits(self, Y: Tensor) -> Tensor:
        probits: Tensor = torch.special.ndtri(Y.clamp(SHARE_MARGIN, 1 - SHARE_MARGIN))
        return probits

    def inputs(self, Y: Tensor) -> Tensor:
        """Φ⁻¹(y), standardised."""
        return (self._probits(Y) - self.centre) / self.spread

    def _shapes(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """Both parameters of the Beta distribution, above a small number."""
        mean = torch.special.ndtr(f).clamp(SHARE_MARGIN, 1 - SHARE_MARGIN)
        precision = self.log_precision.exp()
        return mean * precision, (1 - mean) * precision

    def _log_density(self, Y: Tensor, f: Tensor) -> Tensor:
        a, b = self._shapes(f)
        y = Y.clamp(SHARE_MARGIN, 1 - SHARE_MARGIN)
        norm = torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b)
        return norm + (a - 1) * y.log() + (b - 1) * torch.log1p(-y)

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log Beta(y | f) by quadrature."""
        return expectation(lambda f: self._log_density(Y, f), mean, variance)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E Beta(y | f) by quadrature."""
        return log_expected_density(lambda f: self._log_density(Y, f), mean, variance)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """E Φ(f), E Φ(f)(1 − Φ(f))/(φ + 1) beside Var Φ(f), and the former."""
        first = torch.special.ndtr(mean / (1 + variance).sqrt())
        second = expectation(lambda f: torch.special.ndtr(f).square(), mean, variance)
        noise = (first - second) / (self.log_precision.exp() + 1)
        return first, noise + (second - first.square()).clamp_min(0), noise

    def draw(self, f: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """From the Beta distribution."""
        a, b = (part.detach().cpu().numpy() for part in self._shapes(f))
        return np.asarray(rng.beta(a, b))
