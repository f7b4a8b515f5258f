"""Likelihoods of a deep Gaussian process: what the values of its last layer say of a target.

Notation: lvmcore/README.md and lvmcore/deep_layers.py; P outputs, B rows.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn

from lvmcore.layers import NOISE_FLOOR
from lvmcore.likelihoods import Link, label_expectation, label_probability
from lvmcore.qexponential_blocks import block_weight, log_block, noise_parts
from lvmcore.variational import LOG_2PI

__all__ = ["Classes", "Gaussian", "Likelihood", "QExponentialNoise"]


class Likelihood(Protocol):
    """What the last layer's values f say of a target."""

    def expectation(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | f), [..., B], for f_p ~ N(mean_p, variance_p), [..., B, P]; Y [B, P]."""

    @property
    def unit(self) -> Tensor:
        """σ² by which curvatures and shifts are kept multiplied: that of a Gaussian, or 1."""


class Gaussian(nn.Module):
    """y_p = f_p + N(0, σ²).

    Args:
        noise: σ² to start from, of standardised targets.
        like: dtype and device.
    """

    def __init__(self, noise: float, like: Tensor) -> None:
        super().__init__()
        self.log_noise = nn.Parameter(like.new_tensor(math.log(noise)))

    @property
    def noise(self) -> Tensor:
        """σ², []."""
        return self.log_noise.exp() + NOISE_FLOOR

    @property
    def unit(self) -> Tensor:
        """σ², []: sums over rows know nothing of it, so that they need not follow it."""
        return self.noise

    @property
    def parts(self) -> tuple[Tensor, Tensor]:
        """Variances and weights of normal distributions that mix to the noise, [K] each."""
        return self.noise[None], torch.ones_like(self.noise)[None]

    def square(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E ‖y − f‖²/σ², [..., B]; arguments as of ``expectation``."""
        return ((Y - mean).square() + variance).sum(-1) / self.noise

    def precision(self, square: Tensor, n_outputs: int) -> Tensor | None:
        """w of rows with such ``square``, [..., B]; None, as every row's noise is σ²."""
        del square, n_outputs
        return None

    def expectation(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``Likelihood``."""
        scale = Y.shape[-1] * (LOG_2PI + self.noise.log())
        return -0.5 * (scale + self.square(Y, mean, variance))


class QExponentialNoise(Gaussian):
    """y_n = f_n + a q-exponential block of each row's own, of covariance σ²I.

    Below q = 2 its tails are heavier than a Gaussian's and its peak sharper: a row far off is put
    up with. With e_n = E ‖y_n − f_n‖²/σ² a row adds no less than ψ_P(e_n) − (P/2) log σ²
    (`qexponential_blocks`), and to a q in closed form what a Gaussian of noise σ²/w(e_n) would.
    Rows stay independent given f. One block of all rows would have one radius for all of them,
    which σ² takes in: that is no robust noise, and no sum over rows.

    Args:
        noise: σ² to start from, of standardised targets.
        like: dtype and device.
        exponent: q.
    """

    def __init__(self, noise: float, like: Tensor, exponent: float) -> None:
        super().__init__(noise, like)
        self.exponent = exponent

    @property
    def parts(self) -> tuple[Tensor, Tensor]:
        """See ``Gaussian``; of one output."""
        variances, weights = (torch.as_tensor(p) for p in noise_parts(self.exponent))
        return self.noise * variances.to(self.log_noise), weights.to(self.log_noise)

    def precision(self, square: Tensor, n_outputs: int) -> Tensor:
        """See ``Gaussian``."""
        return block_weight(square, n_outputs, self.exponent)

    def expectation(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """No more than E log p(y | f), [..., B]; arguments as of ``Likelihood``."""
        P, square = Y.shape[-1], self.square(Y, mean, variance)
        return log_block(square, P, self.exponent) - 0.5 * P * self.noise.log()


class Classes(nn.Module):
    """Class labels, given as signs: +1 for a row's class, −1 otherwise, [n, P].

    Args:
        link: ``softmax`` of all classes; ``probit`` of each class against the rest, or of the one
            column that two classes need.
        like: dtype and device.
    """

    unit: Tensor

    def __init__(self, link: Link, like: Tensor) -> None:
        super().__init__()
        self.link: Link = link
        self.register_buffer("unit", like.new_ones(()), persistent=False)

    def expectation(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``Likelihood``."""
        P, shape = Y.shape[-1], mean.shape[:-1]
        signs = Y.expand(mean.shape).reshape(-1, P)
        flat = mean.reshape(-1, P), variance.expand(mean.shape).reshape(-1, P)
        parts = math.prod(shape[:-1])  # the draws of the layers before
        return label_expectation(self.link, signs, *flat, parts=parts).reshape(shape)

    def probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """E P(class | f) averaged over S, [n, P]; mean and variance [S, n, P].

        For the probit, of each class against the rest, not normalised.
        """
        P = mean.shape[-1]
        flat = label_probability(self.link, mean.reshape(-1, P), variance.reshape(-1, P))
        return flat.reshape(mean.shape).mean(0)
