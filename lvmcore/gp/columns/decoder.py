"""Fitted path to columns with likelihoods of their own: predictions at latent points.

Notation: lvmcore/README.md; F functions, of which a category has one for each level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.gp.columns.likelihood_decoder import LikelihoodDecoder
from lvmcore.kernels.stationary import RBF
from lvmcore.likelihoods.mixed import MixedLikelihood

__all__ = ["ColumnDecoder"]

_ARRAYS = ("Z", "whitening", "slopes", "weights", "basis", "spread")


@dataclass(frozen=True)
class ColumnDecoder(LikelihoodDecoder):
    """Predictions of columns at latent points.

    The covariances of q are diagonal in one basis: that of the eigenvectors of their mean, in
    which each keeps its diagonal. With a = (L⁻¹ k(Z, x), s ∘ x) as in ``ColumnPath``, E g(x) = aᵀW
    and Var g_f(x) = k(x, x) − |L⁻¹ k(Z, x)|² + Σ_m (Bᵀa)_m² c_mf.

    Attributes:
        kernel: RBF.
        Z: inducing inputs, [M, Q].
        whitening: L⁻ᵀ, LLᵀ = k(Z, Z), [M, M].
        slopes: s, [Q].
        weights: W, [M + Q, F].
        basis: B, [M + Q, M + Q].
        spread: c, [M + Q, F].
        likelihood: of the columns.
    """

    kernel: RBF
    Z: Tensor
    whitening: Tensor
    slopes: Tensor
    weights: Tensor
    basis: Tensor
    spread: Tensor
    likelihood: MixedLikelihood

    def __post_init__(self) -> None:
        """Make the arrays contiguous, as in a file: the memory layout affects rounding."""
        for name in _ARRAYS:
            object.__setattr__(self, name, getattr(self, name).contiguous())

    # ---- predictions at points -----------------------------------------------------------------

    def functions(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of g at points X [n, Q], [n, F] each."""
        smooth = self.kernel(X, self.Z) @ self.whitening
        a = torch.cat([smooth, X * self.slopes], 1)
        left = (self.kernel.variance - smooth.square().sum(1)).clamp_min(0)
        variance = left[:, None] + (a @ self.basis).square() @ self.spread
        return a @ self.weights, variance.clamp_min(1e-12)

    def prior_variance_share(self, X: Tensor) -> Tensor:
        """Mean of the ratio of Var g_f(x) to its prior variance over the functions, [N]."""
        prior = self.kernel.variance + (X * self.slopes).square().sum(1)
        return (self.functions(X)[1].mean(1) / prior).clamp(0, 1)

    @property
    def n_basis(self) -> int:
        """M."""
        return len(self.Z)

    @property
    def noise(self) -> Tensor:
        """Mean noise variance of standardised cells at the inducing inputs, [D]."""
        return self.decode(self.Z)[2].mean(0)

    # ---- storage -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays for ``from_arrays``."""
        own = {
            "variance": self.kernel.variance,
            "lengthscales": self.kernel.lengthscales,
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

        kernel = RBF(get("variance").reshape(()), get("lengthscales"))
        likelihood = MixedLikelihood.from_arrays(text, arrays, like, "columns.likelihood.")
        return cls(kernel, **{name: get(name) for name in _ARRAYS}, likelihood=likelihood)
