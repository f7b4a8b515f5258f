"""A layer's kernel at its inducing inputs, and quadratic forms of rows under it.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.stationary import StationaryName, matern32_correlation, matern52_correlation
from lvmcore.numerics.linalg import cholesky_batch

__all__ = [
    "JITTER",
    "MIXED_JITTER",
    "CompositeLayerKernel",
    "LayerKernel",
    "StationaryLayerKernel",
    "row_moments",
    "stationary_covariance",
    "whitened_moments",
]

# Relative to the kernel's variance, the mean over Z of k(z, z), on the diagonal of K(Z).
JITTER = {torch.float64: 1e-7, torch.float32: 1e-4}
#: The same in mixed precision: K(Z) is factorised in double, and rows are whitened in single.
MIXED_JITTER = 1e-6
_KUU = "The kernel matrix of a layer's inducing inputs"


@dataclass(frozen=True)
class LayerKernel(ABC):
    """A layer's kernel at its inducing inputs, which may differ between draws.

    Attributes:
        C: lower factor of K(Z), [..., M, M].
        inverse: C⁻¹, [..., M, M].
        offset: mean(Z), [..., M, D]; None where the mean is zero.
        mixed: whether exponentials and products of rows are in single precision.
    """

    C: Float[Tensor, "*S M M"]
    inverse: Float[Tensor, "*S M M"]
    offset: Float[Tensor, "*S M D"] | None
    mixed: bool

    @abstractmethod
    def cross(self, X: Float[Tensor, "... B H"]) -> Float[Tensor, "... M B"]:
        """k(Z, x) of rows X [..., B, H], [..., M, B]."""

    @abstractmethod
    def diagonal(self, X: Float[Tensor, "... B H"]) -> Float[Tensor, "..."]:
        """k(x, x) of rows X [..., B, H], [..., 1, B], or [] where it is the same for all rows."""

    @property
    def precision(self) -> Float[Tensor, "*S M M"]:
        """K⁻¹, [..., M, M]."""
        return self.inverse.mT @ self.inverse

    def whitened(self, k: Float[Tensor, "... M B"]) -> Float[Tensor, "... M B"]:
        """a = C⁻¹ k, [..., M, B]; in mixed precision a tensor in single.

        There a triangular solve, whose error is that of a change of C in its last digits: C⁻¹ and
        K⁻¹ have entries as large as the reciprocal of the jitter, and products with them in single
        would lose the variance of a row.
        """
        if not self.mixed:
            return self.inverse @ k
        solved: Tensor = torch.linalg.solve_triangular(self.C.float(), k.float(), upper=False)
        return solved

    def values(self, v: Float[Tensor, "S M D"]) -> Float[Tensor, "S M D"]:
        """f(Z) = mean(Z) + C v, [S, M, D], of whitened values v [S, M, D]."""
        f = self.C @ v
        return f if self.offset is None else f + self.offset


@dataclass(frozen=True)
class StationaryLayerKernel(LayerKernel):
    """v κ(d), d² = Σ_h (z_h − x_h)²/ℓ_h², from one matrix product.

    Attributes:
        centre: subtracted from inputs, for the rounding of products, [..., 1, H].
        lengthscales: ℓ, [H].
        features: of Z, so that log v − d²/2 = features(z)ᵀ features(x), [..., M, H + 2].
        variance: v = k(x, x), [].
        kernel: ``rbf``, v exp(−d²/2); ``matern32``, v (1 + √3 d) exp(−√3 d); or ``matern52``.
    """

    centre: Float[Tensor, "*S 1 H"]
    lengthscales: Float[Tensor, "H"]
    features: Float[Tensor, "*S M F"]
    variance: Float[Tensor, ""]
    kernel: StationaryName

    @classmethod
    def from_inputs(
        cls,
        variance: Float[Tensor, ""],
        lengthscales: Float[Tensor, "H"],
        Z: Float[Tensor, "*S M H"],
        offset: Float[Tensor, "*S M D"] | None = None,
        kernel: StationaryName = "rbf",
        *,
        mixed: bool = False,
    ) -> StationaryLayerKernel:
        """A kernel at inducing inputs Z, [..., M, H].

        Raises:
            NumericalError: K(Z) could not be factorised.
        """
        centre = Z.detach().mean(-2, keepdim=True)
        rows = _features(Z, centre, lengthscales)
        features = _inducing_features(rows, variance)
        eye = torch.eye(Z.shape[-2]).to(Z)
        jitter = _jitter(Z, mixed=mixed) * variance
        K = _kernel_values(features @ rows.mT, variance, kernel) + jitter * eye
        C, inverse = _factor_and_inverse(K, eye)
        return cls(C, inverse, offset, mixed, centre, lengthscales, features, variance, kernel)

    def cross(self, X: Float[Tensor, "... B H"]) -> Float[Tensor, "... M B"]:
        """k(Z, x) of rows X [..., B, H], [..., M, B]."""
        E = self.features @ _features(X, self.centre, self.lengthscales).mT
        if not self.mixed:
            return _kernel_values(E, self.variance, self.kernel)
        # Exponents cancel, so they are in double; the exponentials take the time.
        return _kernel_values(E.float(), self.variance.float(), self.kernel).to(E)

    def diagonal(self, X: Float[Tensor, "... B H"]) -> Float[Tensor, ""]:
        """v, []."""
        del X
        return self.variance


@dataclass(frozen=True)
class CompositeLayerKernel(LayerKernel):
    """A sum or product of kernels.

    Attributes:
        composite: k.
        Z: inducing inputs, [..., M, H].
    """

    composite: CompositeKernel
    Z: Float[Tensor, "*S M H"]

    @classmethod
    def from_inputs(
        cls,
        composite: CompositeKernel,
        Z: Float[Tensor, "*S M H"],
        offset: Float[Tensor, "*S M D"] | None = None,
        *,
        mixed: bool = False,
    ) -> CompositeLayerKernel:
        """A kernel at inducing inputs Z, [..., M, H].

        Raises:
            NumericalError: K(Z) could not be factorised.
        """
        eye = torch.eye(Z.shape[-2]).to(Z)
        scale = composite.diagonal(Z).mean(-1)[..., None, None]  # of the jitter
        K = composite.forward(Z, Z) + _jitter(Z, mixed=mixed) * scale * eye
        return cls(*_factor_and_inverse(K, eye), offset, mixed, composite, Z)

    def cross(self, X: Float[Tensor, "... B H"]) -> Float[Tensor, "... M B"]:
        """k(Z, x) of rows X [..., B, H], [..., M, B]."""
        # The second argument gives the centre of products, which must not depend on the rows.
        return self.composite.forward(X, self.Z).mT

    def diagonal(self, X: Float[Tensor, "... B H"]) -> Float[Tensor, "... 1 B"]:
        """k(x, x) of rows X [..., B, H], [..., 1, B]."""
        return self.composite.diagonal(X)[..., None, :]


def stationary_covariance(
    variance: Float[Tensor, ""],
    lengthscales: Float[Tensor, "H"],
    X: Float[Tensor, "N H"],
    kernel: StationaryName,
) -> Float[Tensor, "N N"]:
    """v κ(d) between rows X [N, H], [N, N]."""
    rows = _features(X, X.mean(0), lengthscales)
    return _kernel_values(_inducing_features(rows, variance) @ rows.mT, variance, kernel)


def _inducing_features(
    rows: Float[Tensor, "*S M F"], variance: Float[Tensor, ""]
) -> Float[Tensor, "*S M F"]:
    """features(z): the row's features, with log v added where features(x) has its 1."""
    return torch.cat([rows[..., :-2], rows[..., -1:] + variance.log(), rows[..., -2:-1]], -1)


def _factor_and_inverse(
    K: Float[Tensor, "*S M M"], eye: Float[Tensor, "M M"]
) -> tuple[Float[Tensor, "*S M M"], Float[Tensor, "*S M M"]]:
    """C, C Cᵀ = K, and C⁻¹."""
    C = cholesky_batch(K.reshape(-1, *K.shape[-2:]), _KUU).reshape(K.shape)
    return C, torch.linalg.solve_triangular(C, eye, upper=False)


def _kernel_values(
    E: Float[Tensor, "*shape"], variance: Float[Tensor, ""], kernel: StationaryName
) -> Float[Tensor, "*shape"]:
    """k of exponents E = log v − d²/2, which are overwritten."""
    if kernel == "rbf":
        return E.exp_()
    correlation = matern52_correlation if kernel == "matern52" else matern32_correlation
    return variance * correlation(E - variance.log())


def _jitter(Z: Tensor, *, mixed: bool) -> float:
    return MIXED_JITTER if mixed else JITTER[Z.dtype]


def whitened_moments(
    layer_kernel: LayerKernel,
    k: Float[Tensor, "... M B"],
    mean: Float[Tensor, "... P M"],
    root: Float[Tensor, "... g M M"] | None = None,
) -> tuple[Float[Tensor, "... P B"], Float[Tensor, "... g B"]]:
    """m_p·a [..., P, B] and ‖a‖² − ‖R_g a‖² [..., g, B] of each row, a = C⁻¹k.

    Args:
        layer_kernel: of the layer.
        k: k(Z, x), [M, B], or for each draw [S, M, B].
        mean: m, [P, M] or [S, P, M].
        root: R, [g, M, M] or [S, g, M, M]; None for 0, with g = 1.
    """
    if layer_kernel.mixed:
        a = layer_kernel.whitened(k)
        square = a.square().sum(-2, keepdim=True)
        if root is not None:
            square = square - (root.to(a) @ a.unsqueeze(-3)).square().sum(-2)
        return (mean.to(a) @ a).to(k), square.to(k)
    if root is None:
        weights = mean @ layer_kernel.inverse
        return row_moments(k, weights, layer_kernel.precision.unsqueeze(-3))
    half = root @ layer_kernel.inverse.unsqueeze(-3)
    # G = K⁻¹ − C⁻ᵀ RᵀR C⁻¹, so that kᵀGk = ‖a‖² − ‖R a‖²
    G = layer_kernel.precision.unsqueeze(-3) - half.mT @ half
    return row_moments(k, mean @ layer_kernel.inverse, G)


def row_moments(
    k: Float[Tensor, "... M B"], weights: Float[Tensor, "... P M"], G: Float[Tensor, "... g M M"]
) -> tuple[Float[Tensor, "... P B"], Float[Tensor, "... g B"]]:
    """weights k [..., P, B] and kᵀ G_g k [..., g, B] of each row.

    Args:
        k: [M, B], or for each draw [S, M, B].
        weights: [P, M] or [S, P, M].
        G: symmetric, [g, M, M] or [S, g, M, M].
    """
    mean, square = _RowMoments.apply(k, weights, G)  # type: ignore[no-untyped-call]
    return mean, square


class _RowMoments(torch.autograd.Function):
    """With T = G k, d kᵀGk/dk = 2 T: the gradient by k needs no further product with G.

    With several G, draws are processed one by one, so that intermediate results stay in the cache.
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


def _n_draws(k: Tensor, G: Tensor) -> int:
    return max(len(k) if k.dim() > 2 else 1, len(G) if G.dim() > 3 else 1)


def _select_draw(tensor: Tensor, number: int, n_dimensions: int) -> Tensor:
    """The part of one draw, if the tensor has a dimension of draws."""
    return tensor[number] if tensor.dim() > n_dimensions else tensor


def _forms_by_draw(k: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """T = G k, [S, g, M, B], and kᵀGk, [..., g, B]."""
    S, (g, M), B = _n_draws(k, G), G.shape[-3:-1], k.shape[-1]
    T, square, product = k.new_empty(S, g * M, B), k.new_empty(S, g, B), k.new_empty(g, M, B)
    for s in range(S):
        own = _select_draw(k, s, 2)
        torch.mm(_select_draw(G, s, 3).reshape(g * M, M), own, out=T[s])
        torch.mul(T[s].view(g, M, B), own, out=product)
        torch.sum(product, 1, out=square[s])
    alone = k.dim() == 2 and G.dim() == 3
    return T.view(S, g, M, B), square[0] if alone else square


def _slopes_by_draw(k: Tensor, T: Tensor, by_square: Tensor, by_k: Tensor, G: Tensor) -> Tensor:
    """The gradient by G, [..., g, M, M]; the gradient by k is added to ``by_k``."""
    S, g, M, B = T.shape
    by_G, product = G.new_zeros(S if G.dim() > 3 else 1, g * M, M), k.new_empty(g, M, B)
    for s in range(S):
        own, slope = _select_draw(k, s, 2), _select_draw(by_square, s, 2).unsqueeze(-2)
        torch.mul(own, slope, out=product)
        by_G[s if len(by_G) > 1 else 0].addmm_(product.view(g * M, B), own.mT)
        torch.mul(T[s], slope, out=product)
        _select_draw(by_k, s, 2).add_(product.sum(0), alpha=2)
    return by_G.view(-1, g, M, M) if G.dim() > 3 else by_G.view(g, M, M)


def _to_shape(gradient: Tensor, like: Tensor) -> Tensor:
    """The gradient summed over the draws that share the argument."""
    return gradient if gradient.shape == like.shape else gradient.sum_to_size(like.shape)


def _features(X: Tensor, centre: Tensor, lengthscales: Tensor) -> Tensor:
    """(x/ℓ, 1, −½‖x/ℓ‖²) of centred rows, [..., B, H + 2]."""
    scaled = (X - centre) / lengthscales
    half = -0.5 * scaled.square().sum(-1, keepdim=True)
    return torch.cat([scaled, torch.ones_like(half), half], -1)
