"""Columns of counts at latent points, of a fit by random features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.feature_decoding import CellRows, FeatureDecoder, Weights
from lvmcore.features import Features
from lvmcore.inference import Placed
from lvmcore.logistic import Family, LogisticFamily
from lvmcore.poisson import PoissonFamily

__all__ = ["CountFamily", "CountFeatures", "CountKind"]

#: The likelihoods of counts.
CountKind = Family | Literal["poisson"]


class CountFamily(Protocol):
    """A likelihood of counts given ψ."""

    @property
    def size(self) -> Tensor:
        """A number of each column's own, [D]."""

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E p(y | ψ), ψ ~ N(mean, variance); the shape of ``mean``."""

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | ψ), or a bound on it; the shape of ``mean``."""

    def average_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | ψ) itself; the shape of ``mean``."""

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and noise variance of y, for ψ ~ N(mean, variance)."""

    def mean_slope(self, psi: Tensor) -> Tensor:
        """∂E(y | ψ)/∂ψ."""

    def draw(self, psi: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """y ~ p(y | ψ), the shape of ψ."""

    def to(self, like: Tensor) -> CountFamily:
        """In the dtype and on the device of a tensor."""


class CountFeatures(FeatureDecoder):
    """Counts, or what is 0 or 1, with ψ_d = φ(x)ᵀh_d.

    Args:
        features: φ.
        weights: q(h).
        family: the likelihood.
        exactly: place rows by E log p(y | ψ) itself, where a bound on it would mislead.
    """

    def __init__(
        self, features: Features, weights: Weights, family: CountFamily, *, exactly: bool = False
    ) -> None:
        super().__init__(features, weights)
        self.family, self.exactly = family, exactly

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
        return CellRows(self, Y)

    def observe(self, Y: Tensor) -> Placed:
        """See ``FeatureDecoder.observe``."""
        return CellRows(self, Y)

    def expected(self, Y: Tensor, X: Tensor) -> Tensor:
        """E log p(y | x) over q(h), or its bound, at points X [S, n, Q], [S, n]."""
        mean, pool = self.roughly(X)
        gaps = torch.isnan(Y)
        known = torch.where(gaps, 0.0, Y)
        family = self.family
        expected = family.average_log if self.exactly else family.expected_log
        cells = expected(known, mean, pool * self.weights.share)
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
        own = {"size": self.family.size.cpu().numpy(), "exactly": np.asarray(self.exactly)}
        return {**super().arrays(), **{f"features.{name}": part for name, part in own.items()}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], like: Tensor, kind: CountKind) -> Self:
        """Rebuild from ``arrays()``, on the device and in the dtype of ``like``."""
        size = torch.as_tensor(arrays["features.size"].copy()).to(like)
        family = PoissonFamily(size) if kind == "poisson" else LogisticFamily(kind, size)
        exactly = bool(arrays.get("features.exactly", False))
        return cls(*cls._parts(arrays, like), family, exactly=exactly)
