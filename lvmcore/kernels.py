"""Covariance functions: RBF with one lengthscale per dimension (ARD), and linear ARD."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["RBF", "Kernel", "Linear"]


@dataclass(frozen=True)
class RBF:
    """k(x, x') = v exp(−½ Σ_q (x_q − x'_q)² / ℓ_q²).

    Attributes:
        variance: v, [].
        lengthscales: ℓ, [Q].
    """

    variance: Tensor
    lengthscales: Tensor

    def __call__(self, X: Tensor, X2: Tensor) -> Tensor:
        """Covariances between rows of X [N, Q] and X2 [N2, Q], [N, N2]."""
        centre = (X2 if len(X2) else X).detach().mean(0)
        A, B = (X - centre) / self.lengthscales, (X2 - centre) / self.lengthscales
        square = A.square().sum(1)[:, None] + B.square().sum(1) - 2 * A @ B.T
        return self.variance * (-0.5 * square.clamp_min(0)).exp()

    def diagonal(self, X: Tensor) -> Tensor:
        """k(x, x) of each row of X [N, Q], [N]."""
        return self.variance.expand(len(X))

    @property
    def relevance(self) -> Tensor:
        """α_q = 1 / ℓ_q², [Q]."""
        return self.lengthscales**-2


@dataclass(frozen=True)
class Linear:
    """k(x, x') = Σ_q a_q x_q x'_q.

    Attributes:
        variances: a, [Q].
    """

    variances: Tensor

    def __call__(self, X: Tensor, X2: Tensor) -> Tensor:
        """Covariances between rows of X [N, Q] and X2 [N2, Q], [N, N2]."""
        return (X * self.variances) @ X2.T

    def diagonal(self, X: Tensor) -> Tensor:
        """k(x, x) of each row of X [N, Q], [N]."""
        return X.square() @ self.variances

    @property
    def relevance(self) -> Tensor:
        """α_q = a_q, [Q]."""
        return self.variances


Kernel = RBF | Linear
