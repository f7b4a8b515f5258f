"""Fitted path from random features to columns with likelihoods of their own.

Notation: lvmcore/README.md; R features, F functions, of which a category has one for each level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.gp.columns.likelihood_decoder import MOMENT_DRAWS, LikelihoodDecoder
from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.numerics.quasi_random import antithetic_draws
from lvmcore.random_features.fourier import RandomFourierFeatures

__all__ = ["FeatureColumnDecoder"]

_ARRAYS = ("weights", "basis", "spread")


@dataclass(frozen=True)
class FeatureColumnDecoder(LikelihoodDecoder):
    """Predictions of columns at latent points.

    E g(x) = φ(x)ᵀW and Var g_f(x) = Σ_r (Bᵀφ(x))_r² c_rf, as in ``ColumnDecoder``.

    Attributes:
        features: φ.
        weights: W, [R, F].
        basis: B, [R, R].
        spread: c, [R, F].
        likelihood: of the columns.
    """

    features: RandomFourierFeatures
    weights: Tensor
    basis: Tensor
    spread: Tensor
    likelihood: MixedLikelihood

    def __post_init__(self) -> None:
        """Make the arrays contiguous, as in a file: the memory layout affects rounding."""
        for name in _ARRAYS:
            object.__setattr__(self, name, getattr(self, name).contiguous())

    def check_rows(self, Y: Tensor, names: Sequence[str]) -> None:
        """Nothing: the model has compared the cells with the likelihoods of their columns."""

    def functions(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of g at points X [n, Q], [n, F] each."""
        a = self.features(X)
        return a @ self.weights, ((a @ self.basis).square() @ self.spread).clamp_min(1e-12)

    def prior_variance_share(self, X: Tensor) -> Tensor:
        """Mean of the ratio of Var g_f(x) to its prior variance over the functions, [N]."""
        return (self.functions(X)[1].mean(1) / self.features.variance).clamp(0, 1)

    @property
    def n_basis(self) -> int:
        """R."""
        return self.features.width

    @property
    def noise(self) -> Tensor:
        """Mean noise variance of standardised cells over x ~ N(0, I), [D]."""
        Q = self.features.points.shape[1]
        return self.decode(antithetic_draws(MOMENT_DRAWS, Q, self.weights))[2].mean(0)

    # ---- storage -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays for ``from_arrays``."""
        own = {
            "points": self.features.points,
            "scale": self.features.scale,
            **{name: getattr(self, name) for name in _ARRAYS},
        }
        found = {
            f"columns.{name}": np.asarray(one.detach().cpu().numpy(), dtype=np.float64)
            for name, one in own.items()
        }
        return found | self.likelihood.arrays("columns.likelihood.")

    @classmethod
    def from_arrays(cls, text: str, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> Self:
        """Rebuild from the text of the likelihoods and ``arrays()``, as ``like``."""

        def get(name: str) -> Tensor:
            return torch.as_tensor(arrays[f"columns.{name}"].copy()).to(like)

        likelihood = MixedLikelihood.from_arrays(text, arrays, like, "columns.likelihood.")
        return cls(
            RandomFourierFeatures(get("points"), get("scale")),
            **{name: get(name) for name in _ARRAYS},
            likelihood=likelihood,
        )
