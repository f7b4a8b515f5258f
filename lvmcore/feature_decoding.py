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
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.draws import mirrored_draws
from lvmcore.features import Features
from lvmcore.inference import Placed
from lvmcore.logistic import Family, LogisticFamily
from lvmcore.variational import LOG_2PI

__all__ = ["FeatureDecoder", "GaussianFeatures", "LogisticFeatures", "Weights", "pooled"]

# Draws of a row's place that its expected density averages, and those of a cell to be filled.
PLACES, FILLED_PLACES = 8, 32
# Points × columns × features held at a time: bounds memory, changes no result.
NUMBERS_AT_A_TIME = 1 << 24
# Numbers in the second moments of all columns, at most; beyond it cells are looked at one by one.
MOST_NUMBERS = 1 << 25


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
        return len(self.weights.mean) ** 2

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FeatureDecoder.moments``: E y and E y² by the averages of φ and φφᵀ."""
        seconds = self.seconds
        if seconds is None:
            return super().moments(mean, variance)
        Phi = self.features(self.places(mean, variance, FILLED_PLACES))
        first = Phi.mean(0) @ self.weights.mean
        outer = torch.einsum("snr,snq->nrq", Phi, Phi) / len(Phi)
        second = outer.reshape(len(mean), -1) @ seconds.T
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
            return _GappedRows(self, Y)
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
        """See ``FeatureDecoder.metric``; exact where one basis serves all columns."""
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
            turned = Phi @ self.second
        else:
            turned = (Phi.transpose(0, 1) @ self.second[rows]).transpose(0, 1)
        square = (turned * Phi).sum(-1) - 2 * (Phi * self.first[rows]).sum(-1)
        return -0.5 * (self.constant[rows] + square.mean(0))


@dataclass(frozen=True)
class _GappedRows:
    """Rows whose cells are looked at one by one."""

    decoder: GaussianFeatures | LogisticFeatures
    Y: Tensor

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        X = self.decoder.places(mean, variance, PLACES)
        return self.decoder.expected(self.Y[rows], X).mean(0)


class LogisticFeatures(FeatureDecoder):
    """Counts, or what is 0 or 1, of the logistic family with ψ_d = φ(x)ᵀh_d.

    Args:
        features: φ.
        weights: q(h).
        family: the likelihood.
    """

    def __init__(self, features: Features, weights: Weights, family: LogisticFamily) -> None:
        super().__init__(features, weights)
        self.family = family

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FeatureDecoder.decode``."""
        return self.family.moments(*self.functions(X))

    def reconstruct(self, X: Tensor) -> Tensor:
        """Expected columns at the mean of q(h), log(1 + them), [N, D]."""
        psi = self.features(X) @ self.weights.mean
        return self.comparable(self.family.moments(psi, torch.zeros_like(psi))[0])

    def comparable(self, Y: Tensor) -> Tensor:
        """Counts as log(1 + count)."""
        return torch.log1p(Y)

    def whole(self, Y: Tensor) -> Placed:
        """See ``FeatureDecoder.whole``."""
        return _GappedRows(self, Y)

    def observe(self, Y: Tensor) -> Placed:
        """See ``FeatureDecoder.observe``."""
        return _GappedRows(self, Y)

    def expected(self, Y: Tensor, X: Tensor) -> Tensor:
        """The bound on E log p(y | x) over q(h) at points X [S, n, Q], [S, n]."""
        mean, pool = self.roughly(X)
        gaps = torch.isnan(Y)
        known = torch.where(gaps, 0.0, Y)
        cells = self.family.expected_log(known, mean, pool * self.weights.share)
        return torch.where(gaps, 0.0, cells).sum(-1)

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """See ``FeatureDecoder.log_density``."""
        mean, pool = self.roughly(X)
        gaps = torch.isnan(Y)
        known = torch.where(gaps, 0.0, Y)
        cells = self.family.log_predictive(known, mean, pool * self.weights.share)
        return torch.where(gaps, 0.0, cells).sum(-1)

    def metric(self, X: Tensor, scale: Tensor) -> Tensor:
        """See ``FeatureDecoder.metric``: that of ψ, times the slope of the columns in it."""
        J, q = self.features.slopes(X), self.weights
        slope = self.family.mean_slope(self.features(X) @ q.mean) / scale  # [N, D]
        moved = (J @ q.mean) * slope[:, None, :]
        spread = (slope.square() @ q.share)[:, None, None] * (J @ q.shared @ J.mT)
        return moved @ moved.mT + spread

    def sample(self, X: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """See ``FeatureDecoder.sample``."""
        mean, variance = self.functions(X)
        noise = torch.as_tensor(rng.standard_normal(mean.shape)).to(mean)
        return self.family.draw(mean + variance.sqrt() * noise, rng)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See ``FeatureDecoder.arrays``."""
        return {**super().arrays(), "features.size": self.family.size.cpu().numpy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], like: Tensor, kind: Family) -> Self:
        """Rebuild from ``arrays()``, on the device and in the dtype of ``like``."""
        size = torch.as_tensor(arrays["features.size"].copy()).to(like)
        return cls(*cls._parts(arrays, like), LogisticFamily(kind, size))
