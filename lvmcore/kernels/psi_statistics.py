"""Psi statistics: expectations of the kernel under q(X).

Those of the RBF and the linear kernel are in closed form, those of a kernel of an expression means
over fixed draws (``lvmcore.kernels.expression_psi_sums``).

For the RBF kernel every entry of psi1 and psi2 is the exponential of a bilinear form
(``lvmcore.kernels.psi_exponents``): one matrix product, one exponential. psi2 is symmetric, so
only its M(M+1)/2 pairs are computed. Sums over rows run in chunks, forwards and backwards, so that
neither memory nor the autograd graph holds an [N, pairs] array; their gradient is explicit.

Source: Titsias and Lawrence 2010, section 3.1; the factorised form is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.kernels.expression_kernel import ExpressionKernel, MapKernel
from lvmcore.kernels.expression_psi_sums import (
    expression_masked_sums,
    expression_psi_pairs,
    expression_sums,
)
from lvmcore.kernels.psi_exponents import (
    full_from_pairs,
    pairs,
    pairs_from_full,
    point_features,
    row_features,
)
from lvmcore.kernels.rbf_psi_sums import RBFPsiSums
from lvmcore.kernels.stationary import RBF, Linear
from lvmcore.preprocessing.observed_cells import ObservedCells

__all__ = [
    "MaskedPsiSums",
    "PsiSums",
    "expected_diagonal",
    "masked_psi_sums",
    "pair_weights",
    "psi0",
    "psi1",
    "psi2_contraction",
    "psi2_products",
    "psi2_row_contraction",
    "psi_sums",
    "sampled_psi_sums",
]


@dataclass(frozen=True)
class PsiSums:
    """Psi statistics summed over rows.

    Attributes:
        psi0: Σ_n E k(x_n, x_n), [].
        psi1Y: Σ_n E k(Z, x_n) y_nᵀ, [M, D].
        psi2: Σ_n E k(Z, x_n) k(x_n, Z), [M, M].
    """

    psi0: Float64[Tensor, ""]
    psi1Y: Float64[Tensor, "M D"]
    psi2: Float64[Tensor, "M M"]

    def __add__(self, other: PsiSums) -> PsiSums:
        """The sums over the rows of both."""
        return PsiSums(self.psi0 + other.psi0, self.psi1Y + other.psi1Y, self.psi2 + other.psi2)


@dataclass(frozen=True)
class MaskedPsiSums:
    """Psi statistics with missing cells: each column sums over its observed rows.

    Attributes:
        psi0: one a column, [D].
        psi1Y: [M, D].
        psi2: of its pairs m ≤ m', for each set of rows, [M(M+1)/2, K].
        groups: index of each column's set of rows, [D].
    """

    psi0: Float64[Tensor, "D"]
    psi1Y: Float64[Tensor, "M D"]
    psi2: Float64[Tensor, "P K"]
    groups: Int[Tensor, "D"]

    def __add__(self, other: MaskedPsiSums) -> MaskedPsiSums:
        """The sums over the rows of both, with the same groups."""
        return MaskedPsiSums(
            self.psi0 + other.psi0,
            self.psi1Y + other.psi1Y,
            self.psi2 + other.psi2,
            self.groups,
        )

    def subtract(self, other: MaskedPsiSums) -> MaskedPsiSums:
        """The sums without the cells of ``other``, each column in its own group."""
        return MaskedPsiSums(
            self.psi0 - other.psi0,
            self.psi1Y - other.psi1Y,
            self.psi2[:, self.groups] - other.psi2[:, other.groups],
            torch.arange(len(self.groups), device=self.groups.device),
        )


def psi_sums(
    kernel: MapKernel | Linear,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
    Y: Float[Tensor, "N D"],
    *,
    chunk_cells: int | None = None,
) -> PsiSums:
    """Sums of the psi statistics over rows; they do not depend on the chunks.

    Args:
        kernel: RBF, of an expression, or linear.
        mean: means of q(X), [N, Q].
        variance: variances of q(X), [N, Q].
        Z: inducing inputs, [M, Q].
        Y: data, [N, D].
        chunk_cells: cells in a chunk of the RBF kernel; None for the fastest on this device.
    """
    if isinstance(kernel, ExpressionKernel):
        return PsiSums(*expression_sums(kernel, mean, variance, Z, Y))
    total = psi0(kernel, mean, variance)
    if isinstance(kernel, Linear):
        projected = Z * kernel.variances
        second = mean.double().T @ mean.double() + variance.double().sum(0).diag()
        psi2 = projected.double() @ second @ projected.double().T
        return PsiSums(total.double(), projected.double() @ (mean.T @ Y).double(), psi2)
    psi1Y, psi2 = _psi_sums(kernel, mean, variance, Z, Y, None, chunk_cells)
    return PsiSums(total.double(), psi1Y, psi2)


def masked_psi_sums(
    kernel: MapKernel,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
    Y: Float[Tensor, "N D"],
    cells: ObservedCells,
    *,
    chunk_cells: int | None = None,
) -> MaskedPsiSums:
    """Sums of the psi statistics over each column's observed rows.

    A set of rows is a column of zeros and ones in place of the data, so that one pass over the
    exponentials gives all sums of psi2.

    Args:
        kernel: RBF, or of an expression.
        mean: means of q(X), [N, Q].
        variance: variances of q(X), [N, Q].
        Z: inducing inputs, [M, Q].
        Y: data, 0 where missing, [N, D].
        cells: the observed cells.
        chunk_cells: cells in a chunk of the RBF kernel; None for the fastest on this device.
    """
    if isinstance(kernel, ExpressionKernel):
        rows = (mean, variance, Z, Y, cells.mask, cells.sets)
        return MaskedPsiSums(*expression_masked_sums(kernel, *rows), cells.groups)
    psi1Y, psi2 = _psi_sums(kernel, mean, variance, Z, Y, cells.sets, chunk_cells)
    psi0_ = cells.counts * kernel.variance.double()
    return MaskedPsiSums(psi0_, psi1Y, psi2, cells.groups)


def sampled_psi_sums(
    kernel: MapKernel | Linear,
    X: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
    Y: Float[Tensor, "N D"],
) -> PsiSums:
    """Unbiased estimates of the sums from one draw of q(X), with M columns instead of pairs.

    Args:
        kernel: the kernel.
        X: a draw from q(X), [N, Q].
        Z: inducing inputs, [M, Q].
        Y: data, [N, D].
    """
    K = kernel(X, Z).double()
    return PsiSums(kernel.diagonal(X).double().sum(), K.T @ Y.double(), K.T @ K)


def psi0(
    kernel: MapKernel | Linear, mean: Float[Tensor, "N Q"], variance: Float[Tensor, "N Q"]
) -> Float[Tensor, ""]:
    """Σ_n E k(x_n, x_n), []."""
    if isinstance(kernel, RBF):
        return len(mean) * kernel.variance
    if isinstance(kernel, ExpressionKernel):
        return kernel.diagonal(kernel.positions(mean, variance)).mean(1).sum()
    return ((mean.square() + variance) @ kernel.variances).sum()


def expected_diagonal(
    kernel: MapKernel, mean: Float[Tensor, "N Q"], variance: Float[Tensor, "N Q"]
) -> Float[Tensor, "*N"]:
    """E k(x_n, x_n) of each row, [N]; [] where it is the same for all."""
    if isinstance(kernel, RBF):
        return kernel.variance
    return kernel.diagonal(kernel.positions(mean, variance)).mean(1).to(mean)


def psi1(
    kernel: MapKernel | Linear,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
) -> Float[Tensor, "N M"]:
    """E k(x_n, Z) of each row, [N, M]."""
    if isinstance(kernel, Linear):
        return (mean * kernel.variances) @ Z.T
    if isinstance(kernel, ExpressionKernel):
        return kernel.rows(mean, variance, Z)[0].mean(1).to(mean)
    centre = Z.detach().mean(0)
    left, _ = row_features(
        1, mean - centre, variance, kernel.lengthscales.square(), kernel.variance
    )
    return (left @ point_features(Z - centre)).exp()


def psi2_contraction(
    kernel: MapKernel,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
    weights: Float[Tensor, "M M"],
) -> Float[Tensor, "N"]:
    """tr[weights · E k(Z, x_n) k(x_n, Z)] of each row, [N], for symmetric weights [M, M]."""
    if isinstance(kernel, ExpressionKernel):
        K, _ = kernel.rows(mean, variance, Z)
        return ((K @ weights.to(K)) * K).sum(-1).mean(1).to(mean)
    left, right, distance = _psi2_features(kernel, mean, variance, Z)
    return (left @ right).exp() @ (pair_weights(weights) * (-0.25 * distance).exp())


def psi2_row_contraction(
    kernel: MapKernel,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
    weights: Float[Tensor, "N P"],
) -> Float[Tensor, "N"]:
    """tr[W_n · E k(Z, x_n) k(x_n, Z)] of each row with its own W_n as ``pair_weights``, [N]."""
    return (_psi2_pairs(kernel, mean, variance, Z) * weights).sum(1)


def psi2_products(
    kernel: MapKernel,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
    weights: Float[Tensor, "D P"],
) -> Float[Tensor, "N D"]:
    """tr[W_d · E k(Z, x_n) k(x_n, Z)] of all rows and W_d as ``pair_weights`` [D, P], [N, D]."""
    return _psi2_pairs(kernel, mean, variance, Z) @ weights.T


def pair_weights(weights: Float[Tensor, "*D M M"]) -> Float[Tensor, "*D M*(M+1)//2"]:
    """Weights of the pairs m ≤ m' in tr[W psi2] for symmetric W [..., M, M], [..., M(M+1)/2]."""
    M = weights.shape[-1]
    i, j = pairs(M, weights.device)
    return weights[..., i, j] * torch.where(i == j, 1.0, 2.0).to(weights.dtype)


def _psi2_pairs(
    kernel: MapKernel,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
) -> Float[Tensor, "N P"]:
    """psi2 of each row at its pairs m ≤ m', [N, M(M+1)/2]."""
    if isinstance(kernel, ExpressionKernel):
        return expression_psi_pairs(kernel, mean, variance, Z)[2].to(mean)
    left, right, distance = _psi2_features(kernel, mean, variance, Z)
    return torch.addmm(-0.25 * distance, left, right).exp()


def _psi2_features(
    kernel: RBF, mean: Float[Tensor, "N Q"], variance: Float[Tensor, "N Q"], Z: Float[Tensor, "M Q"]
) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F P"], Float[Tensor, "P"]]:
    """Left [N, 2Q+1], right [2Q+1, P] and squared distances [P] of the pairs m ≤ m'.

    psi2 of a row is exp(left @ right) · exp(−¼ distance).
    """
    square = kernel.lengthscales.square()
    centre = Z.detach().mean(0)
    left, _ = row_features(2, mean - centre, variance, square, kernel.variance)
    middle, distance = _midpoints(Z - centre, square)
    return left, point_features(middle), distance


def _midpoints(
    z: Float[Tensor, "M Q"], square: Float[Tensor, "Q"]
) -> tuple[Float[Tensor, "P Q"], Float[Tensor, "P"]]:
    """Midpoints [P, Q] and squared distances [P] of the pairs m ≤ m' of centred points."""
    i, j = pairs(len(z), z.device)
    first, second = z.index_select(0, i), z.index_select(0, j)
    return 0.5 * (first + second), (first - second).square() @ square.reciprocal()


def _psi_sums(
    kernel: RBF,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
    Y: Float[Tensor, "N D"],
    sets: Float[Tensor, "N K"] | None,
    chunk_cells: int | None,
) -> tuple[Float64[Tensor, "M D"], Float64[Tensor, "..."]]:
    """psi1ᵀY [M, D], and psi2's sum over rows [M, M], or its pairs' over the sets [P, K]."""
    tensors = (mean, variance, Z, kernel.lengthscales, kernel.variance, Y)
    result: tuple[Tensor, Tensor] = _PsiSums.apply(  # type: ignore[no-untyped-call]
        chunk_cells,
        torch.is_grad_enabled(),
        None if sets is None else sets.double(),
        *(tensor.double() for tensor in tensors),
    )
    return result


class _PsiSums(torch.autograd.Function):
    """Sums of psi1 times the data and of psi2 over rows, with explicit gradients.

    Everything is in float64: the root of Kuu would amplify the rounding of float32 in psi2.
    """

    @staticmethod
    def forward(
        ctx: Any, chunk_cells: int | None, keeps: bool, sets: Tensor | None, *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        keeps = keeps and any(ctx.needs_input_grad)
        ctx.sums = sums = RBFPsiSums(*tensors, sets=sets, chunk_cells=chunk_cells, keeps=keeps)
        ctx.save_for_backward(*tensors)
        # Tensors of their own: an output that the context holds would never be freed.
        first, psi2 = sums.psi1Y.detach(), sums.psi2.detach()
        return first, full_from_pairs(psi2, len(tensors[2])) if sets is None else psi2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # raises where one of them was changed in place
        sums: RBFPsiSums = ctx.sums
        g1, g2 = cotangents
        if sums.sets is None:
            g2 = pairs_from_full(g2 + g2.T - g2.diagonal().diag())
        d_Y = sums.data_gradient(g1) if ctx.needs_input_grad[8] else None
        return None, None, None, *sums.gradients(g1, g2), d_Y
