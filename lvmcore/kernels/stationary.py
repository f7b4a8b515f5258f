"""Covariance functions: RBF and linear with ARD, and the Matérn correlations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = [
    "RBF",
    "Kernel",
    "Linear",
    "StationaryName",
    "matern12_correlation",
    "matern32_correlation",
    "matern52_correlation",
]

#: Correlations of the scaled distance of two points.
StationaryName = Literal["rbf", "matern52", "matern32"]


@dataclass(frozen=True)
class RBF:
    """k(x, x') = v exp(−½ Σ_q (x_q − x'_q)² / ℓ_q²).

    Attributes:
        variance: v, [].
        lengthscales: ℓ, [Q].
    """

    variance: Float[Tensor, ""]
    lengthscales: Float[Tensor, "Q"]

    def __call__(self, X: Float[Tensor, "N Q"], X2: Float[Tensor, "N2 Q"]) -> Float[Tensor, "N N2"]:
        """Covariances between rows of X [N, Q] and X2 [N2, Q], [N, N2]."""
        centre = (X2 if len(X2) else X).detach().mean(0)
        A, B = (X - centre) / self.lengthscales, (X2 - centre) / self.lengthscales
        square = A.square().sum(1)[:, None] + B.square().sum(1) - 2 * A @ B.T
        return self.variance * (-0.5 * square.clamp_min(0)).exp()

    def diagonal(self, X: Float[Tensor, "N Q"]) -> Float[Tensor, "N"]:
        """k(x, x) of each row of X [N, Q], [N]."""
        return self.variance.expand(len(X))

    @property
    def relevance(self) -> Float[Tensor, "Q"]:
        """α_q = 1 / ℓ_q², [Q]."""
        return self.lengthscales**-2

    def detached(self) -> RBF:
        """A copy without gradients."""
        return RBF(self.variance.detach(), self.lengthscales.detach())


@dataclass(frozen=True)
class Linear:
    """k(x, x') = Σ_q a_q x_q x'_q.

    Attributes:
        variances: a, [Q].
    """

    variances: Float[Tensor, "Q"]

    def __call__(self, X: Float[Tensor, "N Q"], X2: Float[Tensor, "N2 Q"]) -> Float[Tensor, "N N2"]:
        """Covariances between rows of X [N, Q] and X2 [N2, Q], [N, N2]."""
        return (X * self.variances) @ X2.T

    def diagonal(self, X: Float[Tensor, "N Q"]) -> Float[Tensor, "N"]:
        """k(x, x) of each row of X [N, Q], [N]."""
        return X.square() @ self.variances

    @property
    def relevance(self) -> Float[Tensor, "Q"]:
        """α_q = a_q, [Q]."""
        return self.variances


Kernel = RBF | Linear


def matern12_correlation(exponent: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The Matérn-1/2 correlation exp(−d) of two points at scaled distance d.

    It has no derivative where d = 0; the gradient there is that at d = 1e-8, so that the gradient
    by a lengthscale, which moves no such point, is 0.

    Args:
        exponent: −d²/2, the exponent of the RBF kernel, any shape.
    """
    correlation: Tensor = _Matern12.apply(exponent)  # type: ignore[no-untyped-call]
    return correlation


class _Matern12(torch.autograd.Function):
    """e^{−d} of −d²/2; its derivative is e^{−d}/d."""

    @staticmethod
    def forward(ctx: Any, exponent: Tensor) -> Tensor:
        d = exponent.mul(-2).clamp_min_(1e-16).sqrt_()
        correlation = d.neg().exp_()
        ctx.save_for_backward(d, correlation)
        return correlation

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        d, correlation = ctx.saved_tensors
        gradient: Tensor = correlation / d * cotangent
        return gradient


def matern32_correlation(exponent: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The Matérn-3/2 correlation (1 + √3 d) exp(−√3 d) of two points at scaled distance d.

    Its gradient is finite where d = 0, which that of d itself is not.

    Args:
        exponent: −d²/2, the exponent of the RBF kernel, any shape.
    """
    correlation: Tensor = _Matern32.apply(exponent)  # type: ignore[no-untyped-call]
    return correlation


class _Matern32(torch.autograd.Function):
    """(1 + t) e^{−t} of −d²/2, with t = √3 d; its derivative is 3 e^{−t}."""

    @staticmethod
    def forward(ctx: Any, exponent: Tensor) -> Tensor:
        t = exponent.mul(-6).clamp_min_(0).sqrt_()
        decay = t.neg().exp_()
        ctx.save_for_backward(decay)
        return t.add_(1).mul_(decay)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        decay: Tensor = ctx.saved_tensors[0]
        return 3 * decay * cotangent


def matern52_correlation(exponent: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The Matérn-5/2 correlation (1 + t + t²/3) exp(−t), t = √5 d, at scaled distance d.

    Args:
        exponent: −d²/2, the exponent of the RBF kernel, any shape.
    """
    correlation: Tensor = _Matern52.apply(exponent)  # type: ignore[no-untyped-call]
    return correlation


class _Matern52(torch.autograd.Function):
    """(1 + t + t²/3) e^{−t} of −d²/2, with t = √5 d; its derivative is 5/3 (1 + t) e^{−t}."""

    @staticmethod
    def forward(ctx: Any, exponent: Tensor) -> Tensor:
        t = exponent.mul(-10).clamp_min_(0).sqrt_()
        slope = t.neg().exp_().mul_(t + 1)
        ctx.save_for_backward(slope)
        return slope + t.square() / 3 * t.neg().exp()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        slope: Tensor = ctx.saved_tensors[0]
        return 5 / 3 * slope * cotangent
