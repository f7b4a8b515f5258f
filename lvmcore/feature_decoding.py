"""What is left of a fit by random features: columns at latent points, and what rows say of theirs.

Each column is φ(x)ᵀh_d with h_d ~ N(weights_d, V_d). Where a covariance for every column would cost
a row too much, in placing it and in its density, V_d stands pooled: share_d · V, V the mean over
columns by their precision and share_d its size against the others at the rows of the fit. Predicted
columns have their own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.draws import mirrored_draws
from lvmcore.features import Features
from lvmcore.inference import Placed

__all__ = [
    "FILLED_PLACES",
    "NUMBERS_AT_A_TIME",
    "PLACES",
    "CellRows",
    "FeatureDecoder",
    "Weights",
    "pooled",
]

# Draws of a row's place that its expected density averages, and those of a cell to be filled.
PLACES, FILLED_PLACES = 8, 32
# Points × columns × features held at a time: bounds memory, changes no result.
NUMBERS_AT_A_TIME = 1 << 24


@dataclass(frozen=True)
class Weights:
    """q(h) of every column.

    Attributes:
        mean: [R, D].
        basis: B with V_d = B diag(spread_d) Bᵀ, [R, R]; or [D, R, R], one a column.
        spread: [R, D].
        shared: V, the pooled covariance, [R, R].
        share: of each column, [D].
    """

    mean: Tensor
    basis: Tensor
    spread: Tensor
    shared: Tensor
    share: Tensor

    def to(self, like: Tensor) -> Weights:
        """In the dtype and on the device of a tensor, laid out as a file would."""
        parts = (self.mean, self.basis, self.spread, self.shared, self.share)
        return Weights(*(part.detach().to(like).contiguous() for part in parts))


def pooled(
    mean: Tensor, basis: Tensor, spread: Tensor, precision: Tensor, second: Tensor
) -> Weights:
    """Weights with their pooled covariance.

    Args:
        mean: [R, D].
        basis: [R, R] or [D, R, R].
        spread: [R, D].
        precision: how much each column's cells weigh, [D].
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
    return Weights(mean, basis, spread, shared, each / overall.clamp_min(1e-30))


class FeatureDecoder(ABC):
    """Predicts columns at latent points.

    Args:
        features: φ.
        weights: q(h).
    """

    def __init__(self, features: Features, weights: Weights) -> None:
        self.features, self.weights = features, weights

    # ---- of the functions ----------------------------------------------------------------------

    def functions(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of φ(x)ᵀh_d at points X [N, Q], each [N, D]."""
        Phi, q = self.features(X), self.weights
        mean = Phi @ q.mean
        if q.basis.dim() == 2:
            return mean, (Phi @ q.basis).square() @ q.spread
        variance = torch.empty_like(mean)
        size = max(1, NUMBERS_AT_A_TIME // max(1, Phi.numel()))
        for begin in range(0, len(q.basis), size):
            some = slice(begin, begin + size)
            squares = (Phi @ q.basis[some]).square()  # [d, N, R]
            variance[:, some] = torch.einsum("dnr,rd->nd", squares, q.spread[:, some])
        return mean, variance

    def roughly(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """``functions`` by the pooled covariance: mean [..., D], and φᵀVφ [..., 1] to share."""
        Phi = self.features(X)
        return Phi @ self.weights.mean, ((Phi @ self.weights.shared) * Phi).sum(-1, keepdim=True)

    def doubt(self, X: Tensor) -> Tensor:
        """Mean of Var f_d(x)/variance over columns, the share of the prior's that is left, [N]."""
        left = self.roughly(X)[1][:, 0] * self.weights.share.mean()
        return (left / self.features.variance).clamp(0, 1)

    # ---- of rows -------------------------------------------------------------------------------

    @property
    def row_numbers(self) -> int:
        """See ``inference.RowDecoder``."""
        return self.gap_numbers

    @property
    def gap_numbers(self) -> int:
        """See ``inference.RowDecoder``."""
        return PLACES * (self.weights.mean.shape[1] + len(self.weights.mean))

    def places(self, mean: Tensor, variance: Tensor, count: int) -> Tensor:
        """Fixed quasi-random draws from N(mean, diag variance), [count, n, Q]."""
        draws = mirrored_draws(count, mean.shape[1], mean)
        return mean + variance.sqrt() * draws[:, None, :]

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``decode`` for x ~ N(mean, diag variance), averaged over fixed draws, each [N, D]."""
        first = second = noise = mean.new_zeros(())
        for X in self.places(mean, variance, FILLED_PLACES):
            centre, spread, own = self.decode(X)
            first, noise = first + centre / FILLED_PLACES, noise + own / FILLED_PLACES
            second = second + (spread + centre.square()) / FILLED_PLACES
        return first, torch.maximum(second - first.square(), noise), noise

    @abstractmethod
    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of y at points X [N, Q], each [N, D]."""

    @abstractmethod
    def reconstruct(self, X: Tensor) -> Tensor:
        """Rows at points X [N, Q], on the scale of ``comparable``, [N, D]."""

    @abstractmethod
    def comparable(self, Y: Tensor) -> Tensor:
        """Rows [B, D] on a scale on which distances mean something; NaN stays."""

    @abstractmethod
    def whole(self, Y: Tensor) -> Placed:
        """Complete rows Y [B, D] as functions of their places."""

    @abstractmethod
    def observe(self, Y: Tensor) -> Placed:
        """The same of rows with missing cells, NaN."""

    @abstractmethod
    def expected(self, Y: Tensor, X: Tensor) -> Tensor:
        """E log p(y | x) over q(h), or a bound, at points X [S, n, Q], NaN left out, [S, n]."""

    @abstractmethod
    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """log p(y_n | x_n) of the cells that are not NaN, at points X [S, N, Q], [S, N]."""

    @abstractmethod
    def metric(self, X: Tensor, scale: Tensor) -> Tensor:
        """Σ_d E[∂y_d ∂y_dᵀ]/scale_d² at points X [N, Q], for the expected columns, [N, Q, Q]."""

    @abstractmethod
    def sample(self, X: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """Rows drawn at points X [N, Q], noise included, [N, D]."""

    # ---- storage -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What ``from_arrays`` needs."""
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
    def _parts(arrays: Mapping[str, NDArray[Any]], like: Tensor) -> tuple[Features, Weights]:
        def get(name: str) -> Tensor:
            return torch.as_tensor(arrays[f"features.{name}"].copy()).to(like)

        features = Features(get("points"), get("scale"), arrays["features.offset"].item())
        return features, Weights(*map(get, ("mean", "basis", "spread", "shared", "share")))


@dataclass(frozen=True)
class CellRows:
    """Rows whose cells are looked at one by one."""

    decoder: FeatureDecoder
    Y: Tensor

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``inference.Placed``."""
        X = self.decoder.places(mean, variance, PLACES)
        return self.decoder.expected(self.Y[rows], X).mean(0)
