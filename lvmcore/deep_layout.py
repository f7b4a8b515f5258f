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
    """With T = G k: d kᵀGk/dk = 2 T, so that the gradient by k costs no further product with G.

    Of several G a draw is taken at a time: what is made of it then stays near the processor.
    """

    @staticmethod
    def forward(ctx: Any, k: Tensor, weights: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
        if G.shape[-3] == 1:
            T = G.flatten(-3, -2) @ k
            square = (T * k).sum(-2).unsqueeze(-2)
        else:
            T, square = _forms_by_draw(k, G)
        ctx.save_for_backward(k, weights, G, T)
        return weights @ k, square

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_mean: Tensor, by_square: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, weights, G, T = ctx.saved_tensors
        by_weights = by_mean @ k.mT
        by_k = _to_shape(weights.mT @ by_mean, k)
        if G.shape[-3] > 1:
            by_G = _slopes_by_draw(k, T, by_square, by_k, G)
        else:
            by_G = ((k * by_square) @ k.mT).unsqueeze(-3)
            if T.shape[:-2] == k.shape[:-2]:
                by_k = by_k.addcmul_(T, by_square, value=2)
            else:
                by_k = by_k + _to_shape(2 * T * by_square, k)
        return by_k, _to_shape(by_weights, weights), _to_shape(by_G, G)


def _draws(k: Tensor, G: Tensor) -> int:
    return max(len(k) if k.dim() > 2 else 1, len(G) if G.dim() > 3 else 1)


def _of_draw(tensor: Tensor, number: int, n_dimensions: int) -> Tensor:
    """That of a draw, where there is a dimension of them."""
    return tensor[number] if tensor.dim() > n_dimensions else tensor


def _forms_by_draw(k: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """T = G k, [S, g, M, B], and kᵀGk, [..., g, B]."""
    S, (g, M), B = _draws(k, G), G.shape[-3:-1], k.shape[-1]
    T, square, product = k.new_empty(S, g * M, B), k.new_empty(S, g, B), k.new_empty(g, M, B)
    for s in range(S):
        own = _of_draw(k, s, 2)
        torch.mm(_of_draw(G, s, 3).reshape(g * M, M), own, out=T[s])
        torch.mul(T[s].view(g, M, B), own, out=product)
        torch.sum(product, 1, out=square[s])
    alone = k.dim() == 2 and G.dim() == 3
    return T.view(S, g, M, B), square[0] if alone else square


def _slopes_by_draw(k: Tensor, T: Tensor, by_square: Tensor, by_k: Tensor, G: Tensor) -> Tensor:
    """The gradient by G, [..., g, M, M]; what is by k is added to ``by_k``."""
    S, g, M, B = T.shape
    by_G, product = G.new_zeros(S if G.dim() > 3 else 1, g * M, M), k.new_empty(g, M, B)
    for s in range(S):
        own, slope = _of_draw(k, s, 2), _of_draw(by_square, s, 2).unsqueeze(-2)
        torch.mul(own, slope, out=product)
        by_G[s if len(by_G) > 1 else 0].addmm_(product.view(g * M, B), own.mT)
        torch.mul(T[s], slope, out=product)
        _of_draw(by_k, s, 2).add_(product.sum(0), alpha=2)
    return by_G.view(-1, g, M, M) if G.dim() > 3 else by_G.view(g, M, M)


def _to_shape(gradient: Tensor, like: Tensor) -> Tensor:
    """Summed over the draws that the argument was shared by."""
    return gradient if gradient.shape == like.shape else gradient.sum_to_size(like.shape)


def _features(X: Tensor, centre: Tensor, lengthscales: Tensor) -> Tensor:
    """(x/ℓ, 1, −½‖x/ℓ‖²) of centred rows, [..., B, H + 2]."""
    scaled = (X - centre) / lengthscales
    half = -0.5 * scaled.square().sum(-1, keepdim=True)
    return torch.cat([scaled, torch.ones_like(half), half], -1)
