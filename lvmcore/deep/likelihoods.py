"""Likelihoods of a target given the last layer's values of a deep Gaussian process.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py; P outputs, B rows.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.gp.paths import NOISE_FLOOR
from lvmcore.likelihoods.classification import (
    Link,
    label_expectation,
    label_log_probability,
    label_probability,
)
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.qep.blocks import block_weight, log_block, noise_mixture

__all__ = ["GaussianNoise", "Likelihood", "QExponentialNoise", "SoftmaxClasses"]


class Likelihood(Protocol):
    """The likelihood of a target given the last layer's values f."""

    def expectation(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
    ) -> Float[Tensor, "*S B"]:
        """E log p(y | f), [..., B], for f_p ~ N(mean_p, variance_p), [..., B, P]; Y [B, P]."""

    def log_density(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
    ) -> Float[Tensor, "*S B"]:
        """log E p(y | f), [..., B], the predictive density; arguments as of ``expectation``."""

    @property
    def site_scale(self) -> Float[Tensor, ""]:
        """The factor of the stored curvatures and shifts: σ² of a Gaussian, 1 of classes."""


class GaussianNoise(nn.Module):
    """y_p = f_p + N(0, σ²).

    Args:
        noise: initial σ² of standardised targets.
        like: dtype and device.
    """

    def __init__(self, noise: float, like: Tensor) -> None:
        super().__init__()
        self.log_noise = nn.Parameter(like.new_tensor(math.log(noise)))

    @property
    def noise(self) -> Float[Tensor, ""]:
        """σ², []."""
        return self.log_noise.exp() + NOISE_FLOOR

    @property
    def site_scale(self) -> Float[Tensor, ""]:
        """σ², []: sums over rows do not depend on it, so a change of σ² keeps them valid."""
        return self.noise

    @property
    def noise_mixture(self) -> tuple[Float[Tensor, "K"], Float[Tensor, "K"]]:
        """Variances and weights of the Gaussian mixture of the noise, [K] each."""
        return self.noise[None], torch.ones_like(self.noise)[None]

    def square(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
    ) -> Float[Tensor, "*S B"]:
        """E ‖y − f‖²/σ², [..., B]; arguments as of ``expectation``."""
        return ((Y - mean).square() + variance).sum(-1) / self.noise

    def precision(
        self, square: Float[Tensor, "*S B"], n_outputs: int
    ) -> Float[Tensor, "*S B"] | None:
        """Weights w of rows with this ``square``, [..., B]; None: the noise of every row is σ²."""
        del square, n_outputs
        return None

    def expectation(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
    ) -> Float[Tensor, "*S B"]:
        """See ``Likelihood``."""
        scale = Y.shape[-1] * (LOG_2PI + self.noise.log())
        return -0.5 * (scale + self.square(Y, mean, variance))

    def log_density(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
    ) -> Float[Tensor, "*S B"]:
        """Σ_p log N(y_p | mean_p, variance_p + σ²), [..., B]; see ``Likelihood``."""
        total = variance + self.noise
        return -0.5 * ((Y - mean).square() / total + total.log() + LOG_2PI).sum(-1)


class QExponentialNoise(GaussianNoise):
    """y_n = f_n + ε_n, ε_n a q-exponential block of each row with covariance σ²I.

    For q < 2 the tails are heavier and the peak is sharper than a Gaussian's, so the fit is robust
    to outlying rows. With e_n = E ‖y_n − f_n‖²/σ² a row contributes at least
    ψ_P(e_n) − (P/2) log σ² (`qep.blocks`); in a q of closed form it counts as a row with Gaussian
    noise σ²/w(e_n). Rows are independent given f. A single block of all rows would have one radius,
    which σ² absorbs: that noise is not robust, and its likelihood is no sum over rows.

    Args:
        noise: initial σ² of standardised targets.
        like: dtype and device.
        exponent: q.
    """

    def __init__(self, noise: float, like: Tensor, exponent: float) -> None:
        super().__init__(noise, like)
        self.exponent = exponent

    @property
    def noise_mixture(self) -> tuple[Float[Tensor, "K"], Float[Tensor, "K"]]:
        """See ``GaussianNoise``; for one output."""
        variances, weights = (torch.as_tensor(p) for p in noise_mixture(self.exponent))
        return self.noise * variances.to(self.log_noise), weights.to(self.log_noise)

    def precision(self, square: Float[Tensor, "*S B"], n_outputs: int) -> Float[Tensor, "*S B"]:
        """See ``GaussianNoise``."""
        return block_weight(square, n_outputs, self.exponent)

    def expectation(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
    ) -> Float[Tensor, "*S B"]:
        """A lower bound on E log p(y | f), [..., B]; arguments as of ``Likelihood``."""
        P, square = Y.shape[-1], self.square(Y, mean, variance)
        return log_block(square, P, self.exponent) - 0.5 * P * self.noise.log()

    def log_density(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
    ) -> Float[Tensor, "*S B"]:
        """log Σ_k w_k N(y | mean, variance + σ²v_k), [..., B], for one output."""
        noise, weights = self.noise_mixture
        total = variance + noise  # [..., B, K]
        logs = -0.5 * ((Y - mean).square() / total + total.log() + LOG_2PI)
        return torch.logsumexp(logs + weights.log(), -1)


class SoftmaxClasses(nn.Module):
    """Class labels, encoded as signs: +1 for a row's class, −1 otherwise, [n, P].

    Args:
        link: ``softmax`` of all classes; ``probit`` of each class against the rest, or of the
            single column of two classes.
        like: dtype and device.
    """

    site_scale: Float[Tensor, ""]

    def __init__(self, link: Link, like: Tensor) -> None:
        super().__init__()
        self.link: Link = link
        self.register_buffer("site_scale", like.new_ones(()), persistent=False)

    def expectation(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
    ) -> Float[Tensor, "*S B"]:
        """See ``Likelihood``."""
        shape = mean.shape[:-1]
        parts = math.prod(shape[:-1])  # draws of the hidden layers
        rows = _flat_rows(Y, mean, variance)
        return label_expectation(self.link, *rows, parts=parts).reshape(shape)

    def log_density(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
    ) -> Float[Tensor, "*S B"]:
        """log P(class) of each row, [..., B]; see ``Likelihood``."""
        rows = _flat_rows(Y, mean, variance)
        return label_log_probability(self.link, *rows).reshape(mean.shape[:-1])

    def probability(
        self, mean: Float[Tensor, "S n P"], variance: Float[Tensor, "S n P"]
    ) -> Float[Tensor, "S n P"]:
        """E P(class | f) under each draw, [S, n, P]; arguments likewise.

        For the probit, of each class against the rest, not normalised.
        """
        P = mean.shape[-1]
        flat = label_probability(self.link, mean.reshape(-1, P), variance.reshape(-1, P))
        return flat.reshape(mean.shape)


def _flat_rows(
    Y: Float[Tensor, "B P"], mean: Float[Tensor, "*S B P"], variance: Float[Tensor, "... B G"]
) -> tuple[Float[Tensor, "R P"], Float[Tensor, "R P"], Float[Tensor, "R P"]]:
    """Targets and moments of all draws and rows, [R, P] each."""
    P = Y.shape[-1]
    signs = Y.expand(mean.shape).reshape(-1, P)
    return signs, mean.reshape(-1, P), variance.expand(mean.shape).reshape(-1, P)
