"""Psi statistics: expectations of the kernel under q(X), in closed form.

For the RBF kernel every entry of psi1 and psi2 is the exponential of a bilinear form
(``lvmcore.bilinear``): one matrix product, one exponential. psi2 is symmetric, so only its
M(M+1)/2 pairs are computed. Sums over rows run in chunks, forwards and backwards, so that neither
memory nor the autograd graph ever holds an [N, pairs] array; their gradient is written by hand.

Source: Titsias and Lawrence 2010, section 3.1; the factorised form is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.bilinear import (
    Exponentials,
    full_from_pairs,
    pairs,
    pairs_from_full,
    point_features,
    point_gradient,
    row_features,
    row_gradients,
)
from lvmcore.cells import ObservedCells
from lvmcore.kernels import RBF, Kernel, Linear

__all__ = [
    "MaskedPsiSums",
    "PsiSums",
    "masked_psi_sums",
    "pair_weights",
    "psi0",
    "psi1",
    "psi2_contraction",
    "psi2_products",
    "psi2_row_contraction",
    "psi_sums",
    "sampled_sums",
]

# Cells of psi2 worked on at a time: 1 MB in float64, which a core's cache holds. Threads that share
# the work lose more by waiting for each other at every piece than the cache gains: 8 MB.
CHUNK_CELLS, SHARED_CHUNK_CELLS = 1 << 17, 1 << 20


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

    def __add__(self, other: PsiSums) -> PsiSums:
        """The sums over the rows of both."""
        return PsiSums(self.psi0 + other.psi0, self.psi1Y + other.psi1Y, self.psi2 + other.psi2)


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

    def __add__(self, other: MaskedPsiSums) -> MaskedPsiSums:
        """The sums over the rows of both, whose columns are grouped alike."""
        return MaskedPsiSums(
            self.psi0 + other.psi0,
            self.psi1Y + other.psi1Y,
            self.psi2 + other.psi2,
            self.groups,
        )

    def without(self, other: MaskedPsiSums) -> MaskedPsiSums:
        """The sums without those cells that ``other`` holds, each column a group of its own."""
        return MaskedPsiSums(
            self.psi0 - other.psi0,
            self.psi1Y - other.psi1Y,
            self.psi2[:, self.groups] - other.psi2[:, other.groups],
            torch.arange(len(self.groups), device=self.groups.device),
        )


def psi_sums(
    kernel: Kernel,
    mean: Tensor,
    variance: Tensor,
    Z: Tensor,
    Y: Tensor,
    *,
    chunk_cells: int | None = None,
) -> PsiSums:
    """Sums of the psi statistics over rows; any chunking gives the same sums and gradients.

    Args:
        kernel: RBF or Linear.
        mean: means of q(X), [N, Q].
        variance: variances of q(X), [N, Q].
        Z: inducing inputs, [M, Q].
        Y: data, [N, D].
        chunk_cells: numbers worked on at a time; None takes what is quick here.
    """
    total = psi0(kernel, mean, variance)
    if isinstance(kernel, Linear):
        projected = Z * kernel.variances
        second = mean.double().T @ mean.double() + variance.double().sum(0).diag()
        psi2 = projected.double() @ second @ projected.double().T
        return PsiSums(total.double(), projected.double() @ (mean.T @ Y).double(), psi2)
    psi1Y, psi2 = _sums(kernel, mean, variance, Z, Y, None, chunk_cells)
    return PsiSums(total.double(), psi1Y, psi2)


def masked_psi_sums(
    kernel: RBF,
    mean: Tensor,
    variance: Tensor,
    Z: Tensor,
    Y: Tensor,
    cells: ObservedCells,
    *,
    chunk_cells: int | None = None,
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
        chunk_cells: numbers worked on at a time; None takes what is quick here.
    """
    psi1Y, psi2 = _sums(kernel, mean, variance, Z, Y, cells.sets, chunk_cells)
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
    centre = Z.detach().mean(0)
    left, _ = row_features(
        1, mean - centre, variance, kernel.lengthscales.square(), kernel.variance
    )
    return (left @ point_features(Z - centre)).exp()


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


def _psi2_features(
    kernel: RBF, mean: Tensor, variance: Tensor, Z: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Left [N, 2Q+1], right [2Q+1, P] and squared distances [P] of the pairs m ≤ m'.

    psi2 of a row is exp(left @ right) · exp(−¼ distance).
    """
    square = kernel.lengthscales.square()
    centre = Z.detach().mean(0)
    left, _ = row_features(2, mean - centre, variance, square, kernel.variance)
    middle, distance = _middles(Z - centre, square)
    return left, point_features(middle), distance


def _middles(z: Tensor, square: Tensor) -> tuple[Tensor, Tensor]:
    """Middles [P, Q] and squared distances [P] of the pairs m ≤ m' of centred points."""
    i, j = pairs(len(z), z.device)
    first, second = z.index_select(0, i), z.index_select(0, j)
    return 0.5 * (first + second), (first - second).square() @ square.reciprocal()


def _sums(
    kernel: RBF,
    mean: Tensor,
    variance: Tensor,
    Z: Tensor,
    Y: Tensor,
    sets: Tensor | None,
    chunk_cells: int | None,
) -> tuple[Tensor, Tensor]:
    """psi1ᵀY [M, D], and psi2's sum over rows [M, M], or its pairs' over the sets [P, K]."""
    if chunk_cells is None:
        alone = torch.get_num_threads() == 1 and Z.device.type == "cpu"
        chunk_cells = CHUNK_CELLS if alone else SHARED_CHUNK_CELLS
    tensors = (mean, variance, Z, kernel.lengthscales, kernel.variance, Y)
    result: tuple[Tensor, Tensor] = _Sums.apply(  # type: ignore[no-untyped-call]
        chunk_cells,
        torch.is_grad_enabled(),
        None if sets is None else sets.double(),
        *(tensor.double() for tensor in tensors),
    )
    return result


class _Sums(torch.autograd.Function):
    """Sums of psi1 times the data and of psi2 over rows, and their gradients by hand.

    All of it is in float64: what float32 loses in psi2, the root of Kuu would make large.

    With E = exp(left @ right) summed as EᵀY and G the sum's gradient, dE = Y Gᵀ,
    d left = (E ∘ dE) rightᵀ and d right = leftᵀ (E ∘ dE), some rows at a time. The backward pass
    finds E where a short table has kept it, and makes it again where the table is long.
    """

    @staticmethod
    def forward(
        ctx: Any, chunk_cells: int, keeps: bool, sets: Tensor | None, *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        mean, variance, Z, lengthscales, amplitude, Y = tensors
        square = lengthscales.square()
        centre = Z.mean(0)
        mu, z = mean - centre, Z - centre
        middle, distance = _middles(z, square)
        decay = (-0.25 * distance).exp()
        keeps = keeps and any(ctx.needs_input_grad)

        left, w1 = row_features(1, mu, variance, square, amplitude)
        ctx.first = Exponentials(left, point_features(z), chunk_cells, keeps=keeps)
        left, w2 = row_features(2, mu, variance, square, amplitude)
        ctx.second = Exponentials(left, point_features(middle), chunk_cells, keeps=keeps)
        psi1Y = ctx.first.weigh(Y)
        psi2 = _each_pair(ctx.second.add() if sets is None else ctx.second.weigh(sets), decay)
        ctx.save_for_backward(*tensors, sets, mu, z, middle, w1, w2, decay, psi2)
        return psi1Y, full_from_pairs(psi2, len(Z)) if sets is None else psi2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        _, variance, _, lengthscales, amplitude, Y, sets, *found = ctx.saved_tensors
        mu, z, middle, w1, w2, decay, psi2 = found
        square = lengthscales.square()
        g1, g2 = cotangents
        d_Y = ctx.first.product(g1) if ctx.needs_input_grad[8] else None

        d_left, d_right = ctx.first.weighed_gradients(Y, g1)
        d_mu, d_variance, d_square, d_amplitude = row_gradients(
            1, d_left, mu, variance, w1, square, amplitude
        )
        d_z = point_gradient(d_right, z)

        if sets is None:
            g2 = pairs_from_full(g2 + g2.T - g2.diagonal().diag())
            d_left, d_right = ctx.second.added_gradients(g2 * decay)
        else:
            d_left, d_right = ctx.second.weighed_gradients(sets, _each_pair(g2, decay))
        gradients = row_gradients(2, d_left, mu, variance, w2, square, amplitude)
        d_mu += gradients[0]
        d_variance += gradients[1]
        d_square += gradients[2]
        d_amplitude += gradients[3]
        d_middle = full_from_pairs(point_gradient(d_right, middle), len(z))
        d_z += 0.5 * (d_middle.sum(1) + d_middle.diagonal().T)

        # By the squared distances of the pairs, Σ_q (z_q − z'_q)²/ℓ_q².
        product = g2 * psi2
        by_distance = -0.25 * (product if sets is None else product.sum(1))
        full = full_from_pairs(by_distance, len(z))
        pull = full.sum(1, keepdim=True) * z - full @ z
        d_z += 2 * pull / square
        d_square -= (z * pull).sum(0) / square.square()
        d_lengthscales = 2 * lengthscales * d_square
        return None, None, None, d_mu, d_variance, d_z, d_lengthscales, d_amplitude, d_Y


def _each_pair(values: Tensor, factors: Tensor) -> Tensor:
    """Values of pairs [P] or [P, K] times the pairs' factors [P]."""
    return values * (factors if values.ndim == 1 else factors[:, None])
