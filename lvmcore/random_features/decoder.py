"""Fitted decoder by random features: columns at latent points, and likelihoods of rows.

Each column is φ(x)ᵀh_d with h_d ~ N(weights_d, V_d). A covariance for every column is too expensive
in the inference of rows and in their density, which use a pooled one: share_d · V, V the mean over
columns weighted by their precision, and share_d its relative size at the rows of the fit.
Predictions of columns use V_d.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.gp.latent_inference import InferredRows
from lvmcore.numerics.quasi_random import antithetic_draws
from lvmcore.random_features.fourier import RandomFourierFeatures

__all__ = [
    "CHUNK_CELLS",
    "IMPUTATION_DRAWS",
    "LATENT_DRAWS",
    "FeatureDecoder",
    "ObservedCellRows",
    "WeightMoments",
    "pooled_moments",
]

# Draws of a latent position for the expected density of a row, and for the imputation of a cell.
LATENT_DRAWS, IMPUTATION_DRAWS = 8, 32
# Points × columns × features in a chunk; bounds memory, does not change results.
CHUNK_CELLS = 1 << 24


@dataclass(frozen=True)
class WeightMoments:
    """q(h) of every column.

    Attributes:
        mean: [R, D].
        basis: B with V_d = B diag(spread_d) Bᵀ, [R, R]; or [D, R, R], one per column.
        spread: [R, D].
        shared: V, the pooled covariance, [R, R].
        share: factor of V for each column, [D].
    """

    mean: Tensor
    basis: Tensor
    spread: Tensor
    shared: Tensor
    share: Tensor

    def to(self, like: Tensor) -> WeightMoments:
        """In the dtype and on the device of a tensor, contiguous as in a file."""
        parts = (self.mean, self.basis, self.spread, self.shared, self.share)
        return WeightMoments(*(part.detach().to(like).contiguous() for part in parts))


def pooled_moments(
    mean: Tensor, basis: Tensor, spread: Tensor, precision: Tensor, second: Tensor
) -> WeightMoments:
    """Weights with their pooled covariance.

    Args:
        mean: [R, D].
        basis: [R, R] or [D, R, R].
        spread: [R, D].
        precision: weight of each column's cells, [D].
        second: mean of φφᵀ over the rows of the fit, [R, R].
    """
    weight = precision / precision.sum()
    if basis.dim() == 2:
        shared = (basis * (spread @ weight)) @ basis.T
        each = ((basis.T @ second) * basis.T).sum(1) @ spread
    else:
        shared = torch.einsum("d,drm,md,dsm->rs", weight, basis, spread, basis)
        each = torch.einsum("drm,rs,dsm,md->d", basis, second, basis, spread)
    overall = (shared * second).sum()
    return WeightMoments(mean, basis, spread, shared, each / overall.clamp_min(1e-30))


class FeatureDecoder(ABC):
    """Predicts columns at latent points.

    Args:
        features: φ.
        weights: q(h).
    """

    def __init__(self, features: RandomFourierFeatures, weights: WeightMoments) -> None:
        self.features, self.weights = features, weights

    # ---- functions -----------------------------------------------------------------------------

    @abstractmethod
    def check_rows(self, Y: Tensor, names: Sequence[str]) -> None:
        """Refuse rows Y [B, D] of columns of these names that the likelihood does not allow.

        Raises:
            DataError: naming the first such column.
        """

    def functions(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of φ(x)ᵀh_d at points X [N, Q], each [N, D]."""
        Phi, q = self.features(X), self.weights
        mean = Phi @ q.mean
        if q.basis.dim() == 2:
            return mean, (Phi @ q.basis).square() @ q.spread
        variance = torch.empty_like(mean)
        size = max(1, CHUNK_CELLS // max(1, Phi.numel()))
        for begin in range(0, len(q.basis), size):
            some = slice(begin, begin + size)
            squares = (Phi @ q.basis[some]).square()  # [d, N, R]
            variance[:, some] = torch.einsum("dnr,rd->nd", squares, q.spread[:, some])
        return mean, variance

    def pooled_functions(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """``functions`` with the pooled covariance: mean [..., D], and φᵀVφ [..., 1]."""
        Phi = self.features(X)
        return Phi @ self.weights.mean, ((Phi @ self.weights.shared) * Phi).sum(-1, keepdim=True)

    def prior_variance_share(self, X: Tensor) -> Tensor:
        """Mean over columns of the posterior over the prior variance of f_d(x), 0 to 1, [N]."""
        posterior = self.pooled_functions(X)[1][:, 0] * self.weights.share.mean()
        return (posterior / self.features.variance).clamp(0, 1)

    # ---- rows ----------------------------------------------------------------------------------

    @property
    def complete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return self.incomplete_row_size

    @property
    def incomplete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return LATENT_DRAWS * (self.weights.mean.shape[1] + len(self.weights.mean))

    def latent_draws(self, mean: Tensor, variance: Tensor, count: int) -> Tensor:
        """Fixed quasi-random draws from N(mean, diag variance), [count, n, Q]."""
        draws = antithetic_draws(count, mean.shape[1], mean)
        return mean + variance.sqrt() * draws[:, None, :]

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``decode`` for x ~ N(mean, diag variance), averaged over fixed draws, each [N, D]."""
        first = second = noise = mean.new_zeros(())
        for X in self.latent_draws(mean, variance, IMPUTATION_DRAWS):
            # E y, E y² and the noise, averaged over the draws
            centre, spread, own = self.decode(X)
            first, noise = first + centre / IMPUTATION_DRAWS, noise + own / IMPUTATION_DRAWS
            second = second + (spread + centre.square()) / IMPUTATION_DRAWS
        return first, torch.maximum(second - first.square(), noise), noise

    @abstractmethod
    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of y at points X [N, Q], each [N, D]."""

    @abstractmethod
    def reconstruct(self, X: Tensor) -> Tensor:
        """Rows at points X [N, Q], on the scale of ``distance_features``, [N, D]."""

    @abstractmethod
    def distance_features(self, Y: Tensor) -> Tensor:
        """Rows [B, D] as features for Euclidean distances; NaN stays."""

    @abstractmethod
    def complete_rows(self, Y: Tensor) -> InferredRows:
        """Complete rows Y [B, D] as functions of their latent positions."""

    @abstractmethod
    def observed_rows(self, Y: Tensor) -> InferredRows:
        """Rows with missing cells, NaN, as functions of their latent positions."""

    @abstractmethod
    def expected(self, Y: Tensor, X: Tensor) -> Tensor:
        """E log p(y | x) over q(h), or a bound, of observed cells at points X [S, n, Q], [S, n]."""

    @abstractmethod
    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """log p(y_n | x_n) of the cells that are not NaN, at points X [S, N, Q], [S, N]."""

    @abstractmethod
    def metric(self, X: Tensor, scale: Tensor | None = None) -> Tensor:
        """Σ_d E[∂y_d ∂y_dᵀ]/scale_d² at points X [N, Q], for the expected columns, [N, Q, Q].

        Every scale is 1 where none is given.
        """

    @property
    @abstractmethod
    def noise(self) -> Tensor:
        """σ_d², [D].

        Raises:
            AttributeError: the columns have none.
        """

    @abstractmethod
    def sample(self, X: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """Rows drawn at points X [N, Q], noise included, [N, D]."""

    # ---- storage -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fitted state, for ``from_arrays``."""
        q, f = self.weights, self.features
        parts = {
            "points": f.points,
            "scale": f.scale,
            "mean": q.mean,
            "basis": q.basis,
            "spread": q.spread,
            "shared": q.shared,
            "share": q.share,
        }
        found = {f"features.{name}": part.detach().cpu().numpy() for name, part in parts.items()}
        return {**found, "features.offset": np.asarray(f.offset)}

    @staticmethod
    def _read_features(
        arrays: Mapping[str, NDArray[Any]], like: Tensor
    ) -> tuple[RandomFourierFeatures, WeightMoments]:
        def get(name: str) -> Tensor:
            return torch.as_tensor(arrays[f"features.{name}"].copy()).to(like)

        features = RandomFourierFeatures(
            get("points"), get("scale"), arrays["features.offset"].item()
        )
        return features, WeightMoments(*map(get, ("mean", "basis", "spread", "shared", "share")))


@dataclass(frozen=True)
class ObservedCellRows:
    """The likelihood of rows, cell by cell."""

    decoder: FeatureDecoder
    Y: Tensor

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``InferredRows``."""
        X = self.decoder.latent_draws(mean, variance, LATENT_DRAWS)
        return self.decoder.expected(self.Y[rows], X).mean(0)
