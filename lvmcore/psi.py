"""Psi statistics: expectations of the kernel under q(X), in closed form.

For the RBF kernel every entry of psi1 and psi2 is the exponential of a bilinear form
(row features) · (inducing features): one matrix product, one exponential. psi2 is symmetric, so
only its M(M+1)/2 pairs are computed. Sums over rows run in chunks, forwards and backwards, so that
neither memory nor the autograd graph ever holds an [N, pairs] array.

Source: Titsias and Lawrence 2010, section 3.1; the factorised form is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.cells import ObservedCells
from lvmcore.kernels import RBF, Kernel, Linear

__all__ = [
    "MaskedPsiSums",
    "PsiSums",
    "masked_psi_sums",
    "pair_index",
    "pair_weights",
    "pairs",
    "psi0",
    "psi1",
    "psi2_contraction",
    "psi2_products",
    "psi2_row_contraction",
    "psi_sums",
    "sampled_sums",
]

# Cells of exp(left @ right) held at a time: 8 MB in float64.
CHUNK_CELLS = 1 << 20


@dataclass(frozen=True)
class PsiSums:
    """What the bound needs, summed over rows.

    Attributes:
        psi0: Σ_n E k(x_n, x_n), [].
        psi1Y: Σ_n E k(Z, x_n) y_nᵀ, [M, D].
        psi2: Σ_n E k(Z, x_n) k(x_n, Z), [M, M].
    """

    psi0: Tensor
    psi1Y: Tensor
    psi2: Tensor


@dataclass(frozen=True)
class MaskedPsiSums:
    """The same where cells are missing: each column sums over the rows that it is observed in.

    Attributes:
        psi0: one a column, [D].
        psi1Y: [M, D].
        psi2: of its pairs m ≤ m', one a set of rows, [M(M+1)/2, K].
        groups: which set of rows a column has, [D].
    """

    psi0: Tensor
    psi1Y: Tensor
    psi2: Tensor
    groups: Tensor


def psi_sums(
    kernel: Kernel,
    mean: Tensor,
    variance: Tensor,
    Z: Tensor,
    Y: Tensor,
    *,
    chunk_cells: int = CHUNK_CELLS,
) -> PsiSums:
    """Sums of the psi statistics over rows; any chunking gives the same sums and gradients.

    Args:
        kernel: RBF or Linear.
        mean: means of q(X), [N, Q].
        variance: variances of q(X), [N, Q].
        Z: inducing inputs, [M, Q].
        Y: data, [N, D].
        chunk_cells: numbers held at a time.
    """
    total = psi0(kernel, mean, variance)
    if isinstance(kernel, Linear):
        projected = Z * kernel.variances
        second = mean.double().T @ mean.double() + variance.double().sum(0).diag()
        psi2 = projected.double() @ second @ projected.double().T
        return PsiSums(total.double(), projected.double() @ (mean.T @ Y).double(), psi2)
    left, right = _psi1_features(kernel, mean, variance, Z)
    psi1Y = _exp_product(left, right, Y, chunk_cells)
    left, right, distance = _psi2_features(kernel, mean, variance, Z)
    sums = _exp_product(left, right, None, chunk_cells) * (-0.25 * distance).double().exp()
    return PsiSums(total.double(), psi1Y, sums[pair_index(len(Z), Z.device)])


def masked_psi_sums(
    kernel: RBF,
    mean: Tensor,
    variance: Tensor,
    Z: Tensor,
    Y: Tensor,
    cells: ObservedCells,
    *,
    chunk_cells: int = CHUNK_CELLS,
) -> MaskedPsiSums:
    """Sums of the psi statistics over the rows that each column is observed in.

    A set of rows enters as a column of zeros and ones in the place of the data, so that all sums
    of psi2 come out of one pass over the exponentials.

    Args:
        kernel: RBF.
        mean: means of q(X), [N, Q].
        variance: variances of q(X), [N, Q].
        Z: inducing inputs, [M, Q].
        Y: data, 0 where missing, [N, D].
        cells: which cells are observed.
        chunk_cells: numbers held at a time.
    """
    left, right = _psi1_features(kernel, mean, variance, Z)
    psi1Y = _exp_product(left, right, Y, chunk_cells)
    left, right, distance = _psi2_features(kernel, mean, variance, Z)
    sums = _exp_product(left, right, cells.sets, chunk_cells)
    psi2 = sums * (-0.25 * distance).double().exp()[:, None]
    psi0_ = cells.counts * kernel.variance.double()
    return MaskedPsiSums(psi0_, psi1Y, psi2, cells.groups)


def sampled_sums(kernel: Kernel, X: Tensor, Z: Tensor, Y: Tensor) -> PsiSums:
    """The same sums without bias from one draw of each row's place: M columns instead of pairs.

    Args:
        kernel: RBF or Linear.
        X: a draw from q(X), [N, Q].
        Z: inducing inputs, [M, Q].
        Y: data, [N, D].
    """
    K = kernel(X, Z).double()
    return PsiSums(kernel.diagonal(X).double().sum(), K.T @ Y.double(), K.T @ K)


def psi0(kernel: Kernel, mean: Tensor, variance: Tensor) -> Tensor:
    """Σ_n E k(x_n, x_n), []."""
    if isinstance(kernel, RBF):
        return len(mean) * kernel.variance
    return ((mean.square() + variance) @ kernel.variances).sum()


def psi1(kernel: Kernel, mean: Tensor, variance: Tensor, Z: Tensor) -> Tensor:
    """E k(x_n, Z) of each row, [N, M]."""
    if isinstance(kernel, Linear):
        return (mean * kernel.variances) @ Z.T
    left, right = _psi1_features(kernel, mean, variance, Z)
    return (left @ right).exp()


def psi2_contraction(
    kernel: RBF, mean: Tensor, variance: Tensor, Z: Tensor, weights: Tensor
) -> Tensor:
    """tr[weights · E k(Z, x_n) k(x_n, Z)] of each row, [N], for symmetric weights [M, M]."""
    left, right, distance = _psi2_features(kernel, mean, variance, Z)
    return (left @ right).exp() @ (pair_weights(weights) * (-0.25 * distance).exp())


def psi2_row_contraction(
    kernel: RBF, mean: Tensor, variance: Tensor, Z: Tensor, weights: Tensor
) -> Tensor:
    """tr[W_n · E k(Z, x_n) k(x_n, Z)] of each row with its own W_n as ``pair_weights``, [N]."""
    return (_psi2_pairs(kernel, mean, variance, Z) * weights).sum(1)


def psi2_products(
    kernel: RBF, mean: Tensor, variance: Tensor, Z: Tensor, weights: Tensor
) -> Tensor:
    """tr[W_d · E k(Z, x_n) k(x_n, Z)] of all rows and W_d as ``pair_weights`` [D, P], [N, D]."""
    return _psi2_pairs(kernel, mean, variance, Z) @ weights.T


def pair_weights(weights: Tensor) -> Tensor:
    """Of symmetric W [..., M, M] what multiplies the pairs m ≤ m', [..., M(M+1)/2]."""
    M = weights.shape[-1]
    i, j = pairs(M, weights.device)
    return weights[..., i, j] * torch.where(i == j, 1.0, 2.0).to(weights.dtype)


def _psi2_pairs(kernel: RBF, mean: Tensor, variance: Tensor, Z: Tensor) -> Tensor:
    """psi2 of each row at its pairs m ≤ m', [N, M(M+1)/2]."""
    left, right, distance = _psi2_features(kernel, mean, variance, Z)
    return torch.addmm(-0.25 * distance, left, right).exp()


def _psi1_features(kernel: RBF, mean: Tensor, variance: Tensor, Z: Tensor) -> tuple[Tensor, Tensor]:
    """Left [N, 2Q+1] and right [2Q+1, M] with psi1 = exp(left @ right)."""
    square = kernel.lengthscales.square()
    centre = Z.detach().mean(0)
    mu, z = mean - centre, Z - centre
    # w = 1 / (S + ℓ²)
    w = 1 / (variance + square)
    constant = (
        kernel.variance.log()
        - 0.5 * torch.log1p(variance / square).sum(1, keepdim=True)
        - 0.5 * (w * mu.square()).sum(1, keepdim=True)
    )
    left = torch.cat([w * mu, -0.5 * w, constant], 1)
    return left, torch.cat([z, z.square(), torch.ones_like(z[:, :1])], 1).T


def _psi2_features(
    kernel: RBF, mean: Tensor, variance: Tensor, Z: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Left [N, 2Q+1], right [2Q+1, P] and squared distances [P] of the pairs m ≤ m'.

    psi2 of a row is exp(left @ right) · exp(−¼ distance).
    """
    square = kernel.lengthscales.square()
    centre = Z.detach().mean(0)
    mu, z = mean - centre, Z - centre
    i, j = pairs(len(Z), Z.device)
    distance = ((z[i] - z[j]).square() / square).sum(1)
    middle = 0.5 * (z[i] + z[j])
    # w = 1 / (2S + ℓ²)
    w = 1 / (2 * variance + square)
    constant = (
        2 * kernel.variance.log()
        - 0.5 * torch.log1p(2 * variance / square).sum(1, keepdim=True)
        - (w * mu.square()).sum(1, keepdim=True)
    )
    left = torch.cat([2 * w * mu, -w, constant], 1)
    right = torch.cat([middle, middle.square(), torch.ones_like(middle[:, :1])], 1).T
    return left, right, distance


@lru_cache(maxsize=16)
def pairs(M: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The pairs m ≤ m', two index vectors of M(M+1)/2."""
    i, j = torch.triu_indices(M, M, device=device)
    return i, j


@lru_cache(maxsize=16)
def pair_index(M: int, device: torch.device) -> Tensor:
    """Position of (m, m') among the pairs m ≤ m', [M, M]."""
    i, j = pairs(M, device)
    index = torch.empty(M, M, dtype=torch.long, device=device)
    index[i, j] = torch.arange(len(i), device=device)
    index[j, i] = index[i, j]
    return index


def _exp_product(left: Tensor, right: Tensor, Y: Tensor | None, chunk_cells: int) -> Tensor:
    """exp(left @ right)ᵀ Y, or exp(left @ right) summed over rows where Y is None."""
    result: Tensor = _ExpProduct.apply(left, right, Y, chunk_cells)  # type: ignore[no-untyped-call]
    return result


class _ExpProduct(torch.autograd.Function):
    """exp(left @ right)ᵀ Y (or its sum over rows, without Y), chunk by chunk, in float64.

    With E = exp(left @ right) and cotangent G of the result, dE = Y Gᵀ (or 1 gᵀ), so
    d left = (E ∘ dE) rightᵀ, d right = leftᵀ (E ∘ dE) and dY = E G. E is made again
    in the backward pass, which costs a tenth more time than keeping it and no memory.
    """

    @staticmethod
    def forward(
        ctx: Any, left: Tensor, right: Tensor, Y: Tensor | None, chunk_cells: int
    ) -> Tensor:
        rows = max(1, chunk_cells // right.shape[1])
        out = torch.zeros(
            (right.shape[1],) if Y is None else (right.shape[1], Y.shape[1]),
            dtype=torch.float64,
            device=left.device,
        )
        for start in range(0, len(left), rows):
            E = (left[start : start + rows] @ right).exp_()
            if Y is None:
                out += E.sum(0, dtype=torch.float64)
            else:
                out += E.T.double() @ Y[start : start + rows].double()
        ctx.save_for_backward(left, right, Y)
        ctx.rows = rows
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        left, right, Y = ctx.saved_tensors
        g = cotangents[0].to(left.dtype)
        d_left, d_right = torch.empty_like(left), torch.zeros_like(right)
        d_Y = torch.empty_like(Y) if ctx.needs_input_grad[2] else None
        scaled = (right * g).T.contiguous() if Y is None else right.T
        for start in range(0, len(left), ctx.rows):
            rows = slice(start, start + ctx.rows)
            E = (left[rows] @ right).exp_()
            if d_Y is not None:
                d_Y[rows] = E @ g
            if Y is not None:
                E.mul_(Y[rows] @ g.T)
            torch.matmul(E, scaled, out=d_left[rows])
            d_right += left[rows].T @ E
        if Y is None:
            d_right *= g
        return d_left, d_right, d_Y, None
