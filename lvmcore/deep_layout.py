"""A layer's kernel at its inducing inputs, and the quadratic forms of rows that a step is made of.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.linalg import cholesky_batch

__all__ = ["JITTER", "KernelName", "Layout", "row_moments"]

# Relative to the kernel's variance, on the diagonal of K(Z).
JITTER = {torch.float64: 1e-7, torch.float32: 1e-4}
KernelName = Literal["rbf", "matern32"]
_KUU = "The kernel matrix of a layer's inducing inputs"


@dataclass(frozen=True)
class Layout:
    """A layer's kernel at its inducing inputs, which differ from draw to draw or not.

    Attributes:
        centre: what is taken off inputs before they are multiplied, [..., 1, H].
        lengthscales: ℓ, [H].
        features: of Z, so that log v − d²/2 = features(z)ᵀ features(x), [..., M, H + 2], d² =
            Σ_h (z_h − x_h)²/ℓ_h².
        variance: v = k(x, x), [].
        C: lower factor of K(Z), [..., M, M].
        inverse: C⁻¹, [..., M, M].
        offset: mean(Z), [..., M, D]; None where the mean is zero.
        kernel: ``rbf``, v exp(−d²/2), or ``matern32``, v (1 + √3 d) exp(−√3 d).
    """

    centre: Tensor
    lengthscales: Tensor
    features: Tensor
    variance: Tensor
    C: Tensor
    inverse: Tensor
    offset: Tensor | None = None
    kernel: KernelName = "rbf"

    @classmethod
    def of(
        cls,
        variance: Tensor,
        lengthscales: Tensor,
        Z: Tensor,
        offset: Tensor | None = None,
        kernel: KernelName = "rbf",
    ) -> Layout:
        """A kernel at inducing inputs Z, [..., M, H].

        Raises:
            NumericalError: K(Z) could not be factorised.
        """
        centre = Z.detach().mean(-2, keepdim=True)
        rows = _features(Z, centre, lengthscales)
        # The row's features with log v in the place that meets the other's 1.
        features = torch.cat(
            [rows[..., :-2], rows[..., -1:] + variance.log(), rows[..., -2:-1]], -1
        )
        eye = torch.eye(Z.shape[-2]).to(Z)
        K = _of_exponents(features @ rows.mT, variance, kernel) + JITTER[Z.dtype] * variance * eye
        C = cholesky_batch(K.reshape(-1, *K.shape[-2:]), _KUU).reshape(K.shape)
        inverse = torch.linalg.solve_triangular(C, eye, upper=False)
        return cls(centre, lengthscales, features, variance, C, inverse, offset, kernel)

    def cross(self, X: Tensor) -> Tensor:
        """k(Z, x) of rows X [..., B, H], [..., M, B]."""
        rows = _features(X, self.centre, self.lengthscales)
        return _of_exponents(self.features @ rows.mT, self.variance, self.kernel)

    @property
    def precision(self) -> Tensor:
        """K⁻¹, [..., M, M]."""
        return self.inverse.mT @ self.inverse

    def values(self, v: Tensor) -> Tensor:
        """f(Z) = mean(Z) + C v, [S, M, D], of whitened values v [S, M, D]."""
        f = self.C @ v
        return f if self.offset is None else f + self.offset


def _of_exponents(E: Tensor, variance: Tensor, kernel: KernelName) -> Tensor:
    """k of exponents E = log v − d²/2, which are not kept."""
    if kernel == "rbf":
        return E.exp_()
    shape: Tensor = _Matern32.apply(E - variance.log())  # type: ignore[no-untyped-call]
    return variance * shape


class _Matern32(torch.autograd.Function):
    """(1 + t) e^{−t} of −d²/2, t = √3 d; its slope 3 e^{−t} is finite where d = 0."""

    @staticmethod
    def forward(ctx: Any, half: Tensor) -> Tensor:
        t = half.mul(-6).clamp_min_(0).sqrt_()
        falling = t.neg().exp_()
        ctx.save_for_backward(falling)
        return t.add_(1).mul_(falling)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        falling: Tensor = ctx.saved_tensors[0]
        return 3 * falling * cotangent


def row_moments(k: Tensor, weights: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """weights k [..., P, B] and kᵀ G_g k [..., g, B] of each row.

    Args:
        k: [M, B], or for each draw [S, M, B].
        weights: [P, M] or [S, P, M].
        G: symmetric, [g, M, M] or [S, g, M, M].
    """
    mean, square = _RowMoments.apply(k, weights, G)  # type: ignore[no-untyped-call]
    return mean, square


class _RowMoments(torch.autograd.Function):
    """With T = G k: d kᵀGk/dk = 2 T, so that the gradient by k costs no further product with G."""

    @staticmethod
    def forward(ctx: Any, k: Tensor, weights: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
        T = G.flatten(-3, -2) @ k
        T = T.reshape(*T.shape[:-2], *G.shape[-3:-1], T.shape[-1])
        ctx.save_for_backward(k, weights, G, T)
        return weights @ k, (T * k.unsqueeze(-3)).sum(-2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_mean: Tensor, by_square: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, weights, G, T = ctx.saved_tensors
        by_row = by_square.unsqueeze(-2)
        by_G = (k.unsqueeze(-3) * by_row).flatten(-3, -2) @ k.mT
        by_G = by_G.reshape(*by_G.shape[:-2], *G.shape[-3:])
        by_weights = by_mean @ k.mT
        by_k = _to_shape(weights.mT @ by_mean, k)
        if G.shape[-3] == 1 and T.shape[:-3] == k.shape[:-2]:
            by_k = by_k.addcmul_(T.squeeze(-3), by_row.squeeze(-3), value=2)
        else:
            by_k = by_k + _to_shape((2 * T * by_row).sum(-3), k)
        return by_k, _to_shape(by_weights, weights), _to_shape(by_G, G)


def _to_shape(gradient: Tensor, like: Tensor) -> Tensor:
    """Summed over the draws that the argument was shared by."""
    return gradient if gradient.shape == like.shape else gradient.sum_to_size(like.shape)


def _features(X: Tensor, centre: Tensor, lengthscales: Tensor) -> Tensor:
    """(x/ℓ, 1, −½‖x/ℓ‖²) of centred rows, [..., B, H + 2]."""
    scaled = (X - centre) / lengthscales
    half = -0.5 * scaled.square().sum(-1, keepdim=True)
    return torch.cat([scaled, torch.ones_like(half), half], -1)
