"""Fitted decoder of count columns by random features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import DataError
from lvmcore.gp.latent_inference import InferredRows
from lvmcore.likelihoods.poisson import PoissonLikelihood
from lvmcore.likelihoods.polya_gamma import Family, LogisticLikelihood
from lvmcore.random_features.decoder import FeatureDecoder, ObservedCellRows, WeightMoments
from lvmcore.random_features.fourier import RandomFourierFeatures

__all__ = ["CountFamily", "CountFeatureDecoder", "CountKind"]

#: The likelihoods of counts.
CountKind = Family | Literal["poisson"]


class CountFamily(Protocol):
    """A likelihood of counts given ψ."""

    @property
    def size(self) -> Tensor:
        """A parameter of each column, [D]."""

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E p(y | ψ), ψ ~ N(mean, variance); the shape of ``mean``."""

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | ψ), or a bound on it; the shape of ``mean``."""

    def expected_log_quadrature(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | ψ) without a bound; the shape of ``mean``."""

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and noise variance of y, for ψ ~ N(mean, variance)."""

    def mean_slope(self, psi: Tensor) -> Tensor:
        """∂E(y | ψ)/∂ψ."""

    def draw(self, psi: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """y ~ p(y | ψ), the shape of ψ."""

    def to(self, like: Tensor) -> CountFamily:
        """In the dtype and on the device of a tensor."""


class CountFeatureDecoder(FeatureDecoder):
    """Count or binary columns with ψ_d = φ(x)ᵀh_d.

    Args:
        features: φ.
        weights: q(h).
        family: the likelihood.
        exactly: whether rows are inferred from E log p(y | ψ) by quadrature, for likelihoods whose
            bound is too loose.
    """

    def __init__(
        self,
        features: RandomFourierFeatures,
        weights: WeightMoments,
        family: CountFamily,
        *,
        exactly: bool = False,
    ) -> None:
        super().__init__(features, weights)
        self.family, self.exactly = family, exactly

    def check_rows(self, Y: Tensor, names: Sequence[str]) -> None:
        """See ``FeatureDecoder.check_rows``: counts that are more than the trials."""
        if not isinstance(self.family, LogisticLikelihood) or self.family.kind != "binomial":
            return
        trials = self.family.size
        over = (trials < Y).any(0)
        if bool(over.any()):
            column = int(over.nonzero()[0])
            raise DataError(
                f"A count of {float(Y[:, column].nan_to_num(0).max()):g} in column "
                f"{names[column]} is more than the {float(trials[column]):g} trials that the "
                "model was fitted with. Leave such rows out, or fit with n_trials set."
            )

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FeatureDecoder.decode``."""
        return self.family.moments(*self.functions(X))

    def reconstruct(self, X: Tensor) -> Tensor:
        """log(1 + the expected columns at the mean of q(h)), [N, D]."""
        psi = self.features(X) @ self.weights.mean
        return self.distance_features(self.family.moments(psi, torch.zeros_like(psi))[0])

    def distance_features(self, Y: Tensor) -> Tensor:
        """Counts as log(1 + count)."""
        return torch.log1p(Y)

    def complete_rows(self, Y: Tensor) -> InferredRows:
        """See ``FeatureDecoder.complete_rows``."""
        return ObservedCellRows(self, Y)

    def observed_rows(self, Y: Tensor) -> InferredRows:
        """See ``FeatureDecoder.observed_rows``."""
        return ObservedCellRows(self, Y)

    def expected(self, Y: Tensor, X: Tensor) -> Tensor:
        """E log p(y | x) over q(h), or its bound, at points X [S, n, Q], [S, n]."""
        mean, pool = self.pooled_functions(X)
        gaps = torch.isnan(Y)
        known = torch.where(gaps, 0.0, Y)
        family = self.family
        expected = family.expected_log_quadrature if self.exactly else family.expected_log
        cells = expected(known, mean, pool * self.weights.share)
        return torch.where(gaps, 0.0, cells).sum(-1)

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """See ``FeatureDecoder.log_density``."""
        mean, pool = self.pooled_functions(X)
        gaps = torch.isnan(Y)
        known = torch.where(gaps, 0.0, Y)
        cells = self.family.log_predictive(known, mean, pool * self.weights.share)
        return torch.where(gaps, 0.0, cells).sum(-1)

    @property
    def noise(self) -> Tensor:
        """Raises AttributeError: the variance of counts depends on the latent point."""
        raise AttributeError("Counts have no noise variance: it depends on the latent point.")

    def metric(self, X: Tensor, scale: Tensor | None = None) -> Tensor:
        """See ``FeatureDecoder.metric``: the metric of ψ times the squared ∂E y/∂ψ."""
        J, q = self.features.slopes(X), self.weights
        scale = q.share.new_ones(()) if scale is None else scale
        slope = self.family.mean_slope(self.features(X) @ q.mean) / scale  # [N, D]
        gradients = (J @ q.mean) * slope[:, None, :]
        spread = (slope.square() @ q.share)[:, None, None] * (J @ q.shared @ J.mT)
        return gradients @ gradients.mT + spread

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
        family = PoissonLikelihood(size) if kind == "poisson" else LogisticLikelihood(kind, size)
        exactly = bool(arrays.get("features.exactly", False))
        return cls(*cls._read_features(arrays, like), family, exactly=exactly)
