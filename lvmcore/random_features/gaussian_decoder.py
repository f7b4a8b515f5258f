"""Fitted decoder of numeric columns by random features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.gp.latent_inference import InferredRows
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.quadratic_forms import quadratic_forms
from lvmcore.random_features.decoder import (
    CHUNK_CELLS,
    IMPUTATION_DRAWS,
    LATENT_DRAWS,
    FeatureDecoder,
    ObservedCellRows,
    WeightMoments,
)
from lvmcore.random_features.fourier import RandomFourierFeatures

__all__ = ["GaussianFeatureDecoder"]

# Cells in the second moments of all columns at most; beyond it rows are evaluated cell by cell.
MAX_SECOND_MOMENT_CELLS = 1 << 25


class GaussianFeatureDecoder(FeatureDecoder):
    """y_d = φ(x)ᵀh_d + ε_d, ε_d ~ N(0, σ_d²).

    Args:
        features: φ.
        weights: q(h).
        noise: σ_d², [D].
    """

    def __init__(
        self, features: RandomFourierFeatures, weights: WeightMoments, noise: Tensor
    ) -> None:
        super().__init__(features, weights)
        self._noise = noise

    def check_rows(self, Y: Tensor, names: Sequence[str]) -> None:
        """See ``FeatureDecoder.check_rows``: any number is allowed."""
        del Y, names

    @property
    def noise(self) -> Tensor:
        """σ_d², [D]."""
        return self._noise

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FeatureDecoder.decode``."""
        mean, variance = self.functions(X)
        noise = self.noise.expand_as(mean)
        return mean, variance + noise, noise

    def reconstruct(self, X: Tensor) -> Tensor:
        """Means of the columns, [N, D]."""
        return self.features(X) @ self.weights.mean

    def distance_features(self, Y: Tensor) -> Tensor:
        """Rows as they are."""
        return Y

    @cached_property
    def second(self) -> Tensor:
        """Σ_d E h_d h_dᵀ/σ_d², [R, R]; exact, as the pooled covariance is weighted by 1/σ_d²."""
        q = self.weights
        return (q.mean / self.noise) @ q.mean.T + q.shared * (1 / self.noise).sum()

    @cached_property
    def seconds(self) -> Tensor | None:
        """E h_d h_dᵀ of every column, [D, R²]; None if that needs too much memory."""
        q = self.weights
        R, D = q.mean.shape
        if D * R**2 > MAX_SECOND_MOMENT_CELLS:
            return None
        # V_d = B diag(spread_d) Bᵀ
        V = (q.basis * q.spread.T[:, None, :]) @ q.basis.mT
        means = q.mean.T
        return (V + means[:, :, None] * means[:, None, :]).reshape(D, R * R)

    @property
    def incomplete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return super().incomplete_row_size if self.seconds is None else len(self.weights.mean) ** 2

    @property
    def complete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return LATENT_DRAWS * len(self.weights.mean)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FeatureDecoder.moments``: E y and E y² by the averages of φ and φφᵀ."""
        seconds = self.seconds
        if seconds is None:
            return super().moments(mean, variance)
        R = len(self.weights.mean)
        first, second = (mean.new_empty(len(mean), len(seconds)) for _ in range(2))
        for rows in torch.split(torch.arange(len(mean)), max(1, CHUNK_CELLS // R**2)):
            Phi = self.features(self.latent_draws(mean[rows], variance[rows], IMPUTATION_DRAWS))
            # E φφᵀ, E y = E φᵀ E h_d and E f_d² = tr(E φφᵀ E h_d h_dᵀ)
            outer = torch.einsum("snr,snq->nrq", Phi, Phi) / len(Phi)
            first[rows] = Phi.mean(0) @ self.weights.mean
            second[rows] = outer.reshape(len(rows), -1) @ seconds.T
        noise = self.noise.expand_as(first)
        return first, (second - first.square()).clamp_min(0) + noise, noise

    def complete_rows(self, Y: Tensor) -> InferredRows:
        """See ``FeatureDecoder.complete_rows``."""
        constant = (LOG_2PI + self.noise.log()).sum() + (Y.square() / self.noise).sum(1)
        return _QuadraticRows(self, (Y / self.noise) @ self.weights.mean.T, self.second, constant)

    def observed_rows(self, Y: Tensor) -> InferredRows:
        """See ``FeatureDecoder.observed_rows``."""
        seconds = self.seconds
        if seconds is None:
            return ObservedCellRows(self, Y)
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
        mean, pool = self.pooled_functions(X)
        total = pool * self.weights.share + self.noise  # share_d φᵀVφ + σ_d²
        cells = LOG_2PI + total.log() + (Y - mean).square() / total
        return -0.5 * torch.where(torch.isnan(Y), 0.0, cells).sum(-1)

    def expected(self, Y: Tensor, X: Tensor) -> Tensor:
        """E log p(y | x) over q(h) at points X [S, n, Q], without NaN cells, [S, n]."""
        mean, pool = self.pooled_functions(X)
        gaps = torch.isnan(Y)
        # E (y − f)²
        square = (torch.where(gaps, 0.0, Y) - mean).square() + pool * self.weights.share
        cells = LOG_2PI + self.noise.log() + square / self.noise
        return -0.5 * torch.where(gaps, 0.0, cells).sum(-1)

    def metric(self, X: Tensor, scale: Tensor | None = None) -> Tensor:
        """See ``FeatureDecoder.metric``; exact for complete columns with one noise."""
        J, q = self.features.slopes(X), self.weights
        scale = q.share.new_ones(()) if scale is None else scale
        weighted = q.mean / scale
        # Σ_d E h_d h_dᵀ/scale_d²
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
        return cls(*cls._read_features(arrays, like), noise)


@dataclass(frozen=True)
class _QuadraticRows:
    """Rows under Gaussian noise: −½[constant − 2 firstᵀφ + φᵀ second φ].

    Attributes:
        decoder: the fitted decoder.
        first: Σ_d y_d E h_d/σ_d² over a row's cells, [B, R].
        second: Σ_d E h_d h_dᵀ/σ_d² over them, [R, R]; or [B, R, R] where cells are missing.
        constant: Σ_d log 2πσ_d² + y_d²/σ_d² over them, [B].
    """

    decoder: GaussianFeatureDecoder
    first: Tensor
    second: Tensor
    constant: Tensor

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        Phi = self.decoder.features(self.decoder.latent_draws(mean, variance, LATENT_DRAWS))
        if self.second.dim() == 2:
            square = ((Phi @ self.second) * Phi).sum((0, 2))
        else:
            square = quadratic_forms(Phi.transpose(0, 1), self.second, rows)
        linear = (Phi.mean(0) * self.first[rows]).sum(1)
        return linear - 0.5 * (self.constant[rows] + square / len(Phi))
