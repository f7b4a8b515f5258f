"""Columns of numbers at latent points, of a fit by random features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.feature_decoding import (
    FILLED_PLACES,
    NUMBERS_AT_A_TIME,
    PLACES,
    CellRows,
    FeatureDecoder,
    Weights,
)
from lvmcore.features import Features
from lvmcore.inference import Placed
from lvmcore.quadratic import quadratics
from lvmcore.variational import LOG_2PI

__all__ = ["GaussianFeatures"]

# Numbers in the second moments of all columns, at most; beyond it cells are looked at one by one.
MOST_NUMBERS = 1 << 25


class GaussianFeatures(FeatureDecoder):
    """y_d = φ(x)ᵀh_d + ε_d, ε_d ~ N(0, σ_d²).

    Args:
        features: φ.
        weights: q(h).
        noise: σ_d², [D].
    """

    def __init__(self, features: Features, weights: Weights, noise: Tensor) -> None:
        super().__init__(features, weights)
        self.noise = noise

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FeatureDecoder.decode``."""
        mean, variance = self.functions(X)
        noise = self.noise.expand_as(mean)
        return mean, variance + noise, noise

    def reconstruct(self, X: Tensor) -> Tensor:
        """Means of the columns, [N, D]."""
        return self.features(X) @ self.weights.mean

    def comparable(self, Y: Tensor) -> Tensor:
        """Rows as they are."""
        return Y

    @cached_property
    def second(self) -> Tensor:
        """Σ_d E h_d h_dᵀ/σ_d², [R, R]; exact, as the pooled covariance weighs by 1/σ_d²."""
        q = self.weights
        return (q.mean / self.noise) @ q.mean.T + q.shared * (1 / self.noise).sum()

    @cached_property
    def seconds(self) -> Tensor | None:
        """E h_d h_dᵀ of every column, [D, R²]; None where that would take too much room."""
        q = self.weights
        R, D = q.mean.shape
        if D * R**2 > MOST_NUMBERS:
            return None
        V = (q.basis * q.spread.T[:, None, :]) @ q.basis.mT
        means = q.mean.T
        return (V + means[:, :, None] * means[:, None, :]).reshape(D, R * R)

    @property
    def gap_numbers(self) -> int:
        """See ``inference.RowDecoder``."""
        return super().gap_numbers if self.seconds is None else len(self.weights.mean) ** 2

    @property
    def row_numbers(self) -> int:
        """See ``inference.RowDecoder``."""
        return PLACES * len(self.weights.mean)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FeatureDecoder.moments``: E y and E y² by the averages of φ and φφᵀ."""
        seconds = self.seconds
        if seconds is None:
            return super().moments(mean, variance)
        R = len(self.weights.mean)
        first, second = (mean.new_empty(len(mean), len(seconds)) for _ in range(2))
        for rows in torch.split(torch.arange(len(mean)), max(1, NUMBERS_AT_A_TIME // R**2)):
            Phi = self.features(self.places(mean[rows], variance[rows], FILLED_PLACES))
            outer = torch.einsum("snr,snq->nrq", Phi, Phi) / len(Phi)
            first[rows] = Phi.mean(0) @ self.weights.mean
            second[rows] = outer.reshape(len(rows), -1) @ seconds.T
        noise = self.noise.expand_as(first)
        return first, (second - first.square()).clamp_min(0) + noise, noise

    def whole(self, Y: Tensor) -> Placed:
        """See ``FeatureDecoder.whole``."""
        constant = (LOG_2PI + self.noise.log()).sum() + (Y.square() / self.noise).sum(1)
        return _QuadraticRows(self, (Y / self.noise) @ self.weights.mean.T, self.second, constant)

    def observe(self, Y: Tensor) -> Placed:
        """See ``FeatureDecoder.observe``."""
        seconds = self.seconds
        if seconds is None:
            return CellRows(self, Y)
        precision = ~torch.isnan(Y) / self.noise
        known = torch.nan_to_num(Y, nan=0.0)
        R = len(self.weights.mean)
        return _QuadraticRows(
            self,
            (known * precision) @ self.weights.mean.T,
            (precision @ seconds).reshape(-1, R, R),
            (~torch.isnan(Y) * (LOG_2PI + self.noise.log()) + known.square() * precision).sum(1),
        )

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """See ``FeatureDecoder.log_density``."""
        mean, pool = self.roughly(X)
        total = pool * self.weights.share + self.noise
        cells = LOG_2PI + total.log() + (Y - mean).square() / total
        return -0.5 * torch.where(torch.isnan(Y), 0.0, cells).sum(-1)

    def expected(self, Y: Tensor, X: Tensor) -> Tensor:
        """E log p(y | x) over q(h) at points X [S, n, Q], NaN cells left out, [S, n]."""
        mean, pool = self.roughly(X)
        gaps = torch.isnan(Y)
        square = (torch.where(gaps, 0.0, Y) - mean).square() + pool * self.weights.share
        cells = LOG_2PI + self.noise.log() + square / self.noise
        return -0.5 * torch.where(gaps, 0.0, cells).sum(-1)

    def metric(self, X: Tensor, scale: Tensor) -> Tensor:
        """See ``FeatureDecoder.metric``; exact where the columns share a noise and every cell."""
        J, q = self.features.slopes(X), self.weights
        weighted = q.mean / scale
        total = weighted @ weighted.T + q.shared * (q.share / scale.square()).sum()
        return J @ total @ J.mT

    def sample(self, X: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """See ``FeatureDecoder.sample``."""
        mean, variance, _ = (part.cpu().double().numpy() for part in self.decode(X))
        return np.asarray(mean + np.sqrt(variance) * rng.standard_normal(mean.shape))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See ``FeatureDecoder.arrays``."""
        return {**super().arrays(), "features.noise": self.noise.cpu().numpy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> Self:
        """Rebuild from ``arrays()``, on the device and in the dtype of ``like``."""
        noise = torch.as_tensor(arrays["features.noise"].copy()).to(like)
        return cls(*cls._parts(arrays, like), noise)


@dataclass(frozen=True)
class _QuadraticRows:
    """Rows under Gaussian noise: −½[constant − 2 firstᵀφ + φᵀ second φ].

    Attributes:
        decoder: what they are rows of.
        first: Σ_d y_d E h_d/σ_d² over a row's cells, [B, R].
        second: Σ_d E h_d h_dᵀ/σ_d² over them, [R, R]; or [B, R, R] where cells are missing.
        constant: Σ_d log 2πσ_d² + y_d²/σ_d² over them, [B].
    """

    decoder: GaussianFeatures
    first: Tensor
    second: Tensor
    constant: Tensor

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        Phi = self.decoder.features(self.decoder.places(mean, variance, PLACES))
        if self.second.dim() == 2:
            square = ((Phi @ self.second) * Phi).sum((0, 2))
        else:
            square = quadratics(Phi.transpose(0, 1), self.second, rows)
        linear = (Phi.mean(0) * self.first[rows]).sum(1)
        return linear - 0.5 * (self.constant[rows] + square / len(Phi))
