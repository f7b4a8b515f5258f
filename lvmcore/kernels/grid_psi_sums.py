"""psi1ᵀY and psi2 of the RBF kernel for inducing inputs on a grid of two dimensions.

The inducing inputs are all pairs of m nodes of the first and m of the second dimension. The RBF
kernel is a product over dimensions, and so are its expectations under q(x) = N(mean, diag S):
psi1 of a row is C⁰_i C¹_j, with one factor for each dimension, and psi2 is A⁰_p A¹_p', p and p'
the pairs of nodes of each dimension. The sum of psi2 over rows is therefore A⁰ᵀ A¹: for M = m²
inducing inputs N m (m + 1) exponentials and one matrix product of N m⁴/4 terms, where inducing
inputs without structure need N m⁴/2 exponentials.

Source: the factors are those of Titsias and Lawrence 2010, section 3.1; the product grid is that of
Saatçi 2011, chapter 5, for kernel matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.kernels.psi_exponents import (
    CACHE_CELLS,
    full_from_pairs,
    pair_index,
    symmetric_pairs,
)
from lvmcore.kernels.psi_features import PointFeatures, RowFeatures
from lvmcore.kernels.psi_statistics import PsiSums
from lvmcore.kernels.rbf_psi_sums import Gradients
from lvmcore.kernels.stationary import RBF

__all__ = ["GridPsiSums", "grid_inputs", "grid_psi_sums"]

# Cells of the largest array of a chunk of rows: 2 MB in float64.
CHUNK_CELLS = 1 << 18

#: C⁰, A⁰, C¹ and A¹ of a chunk of rows: [n, m] and [n, m (m + 1)/2] for each dimension.
_Factors = tuple[Tensor, Tensor, Tensor, Tensor]


def grid_inputs(nodes: Float[Tensor, "m 2"]) -> Float[Tensor, "m*m 2"]:
    """The inducing inputs: all pairs of a node of each dimension, the second varying fastest."""
    return torch.cartesian_prod(nodes[:, 0], nodes[:, 1])


def grid_psi_sums(
    kernel: RBF,
    mean: Float[Tensor, "N 2"],
    variance: Float[Tensor, "N 2"],
    nodes: Float[Tensor, "m 2"],
    Y: Float[Tensor, "N D"],
) -> PsiSums:
    """``psi_sums`` for the inducing inputs ``grid_inputs(nodes)``.

    Args:
        kernel: RBF.
        mean: means of q(X), [N, 2].
        variance: variances of q(X), [N, 2].
        nodes: of each dimension, [m, 2].
        Y: data, a constant, [N, D].
    """
    tensors = (mean, variance, nodes, kernel.lengthscales, kernel.variance)
    psi1Y, psi2 = _GridPsiSums.apply(  # type: ignore[no-untyped-call]
        torch.is_grad_enabled(), Y.double(), *(tensor.double() for tensor in tensors)
    )
    return PsiSums(len(Y) * kernel.variance.double(), psi1Y, psi2)


class _GridPsiSums(torch.autograd.Function):
    """The sums, with explicit gradients."""

    @staticmethod
    def forward(ctx: Any, keeps: bool, Y: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        keeps = keeps and any(ctx.needs_input_grad)
        mean, variance, nodes, lengthscales, amplitude = tensors
        sums = GridPsiSums(mean, variance, nodes, lengthscales, amplitude, Y, keeps=keeps)
        ctx.sums = sums
        ctx.save_for_backward(*tensors)
        # Tensors of their own: an output that the context holds would never be freed.
        return sums.psi1Y.detach(), sums.psi2.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # raises where one of them was changed in place
        sums: GridPsiSums = ctx.sums
        return None, None, *sums.gradients(*cotangents)


class _Dimension:
    """Features of the rows and nodes of one dimension, and the gradients by them.

    Args:
        mean: means of q(X), [N, 1].
        variance: S, [N, 1].
        nodes: [m, 1].
        square: ℓ², [1].
        amplitude: v in the factor of this dimension, [].
    """

    def __init__(
        self, mean: Tensor, variance: Tensor, nodes: Tensor, square: Tensor, amplitude: Tensor
    ) -> None:
        self.points = PointFeatures(nodes, square)
        self.rows = RowFeatures(mean, variance, self.points.centre, square, amplitude)
        self.first, self.second = self.rows.left[0, :-1], self.rows.left[1]
        #: The kernel of the pairs of nodes at v = 1, [m (m + 1)/2].
        self.covariance = (self.points.distance * -0.5).exp_()

    def factors(self, rows: slice) -> tuple[Tensor, Tensor]:
        """C [n, m] and A [n, m (m + 1)/2] of some rows."""
        first, second = self.first[:, rows], self.second[:, rows]
        return (first.T @ self.points.first).exp2_(), (second.T @ self.points.second).exp2_()

    def start_gradients(self) -> None:
        """Set the gradients to zero."""
        self._by_left = torch.empty_like(self.rows.left)
        self._by_first = torch.zeros_like(self.points.first)
        self._by_second = torch.zeros_like(self.points.second)

    def add_gradients(self, rows: slice, by_first: Tensor, by_second: Tensor) -> None:
        """Add those of some rows, from the gradients by the exponents of C and A."""
        torch.mm(self.points.first, by_first.T, out=self._by_left[0, :-1, rows])
        torch.mm(self.points.second, by_second.T, out=self._by_left[1, :, rows])
        self._by_first.addmm_(self.first[:, rows], by_first)
        self._by_second.addmm_(self.second[:, rows], by_second)

    def gradients(self, by_distance: Float64[Tensor, "P"]) -> Gradients:
        """Gradients by the mean, S, the nodes, ℓ² and v.

        Args:
            by_distance: gradient by the distances of the pairs beside that through A.
        """
        pull = by_distance - 0.25 * self._by_second[-1]
        mean, variance, square, amplitude = self.rows.gradients(self._by_left)
        by_first, by_second = self._by_first * math.log(2), self._by_second * math.log(2)
        nodes, own = self.points.gradients(by_first, by_second, pull)
        return mean, variance, nodes, square + own, amplitude


class GridPsiSums:
    """The sums, and what their gradients need.

    Args:
        mean: means of q(X), [N, 2].
        variance: S, [N, 2].
        nodes: of each dimension, [m, 2].
        lengthscales: ℓ, [2].
        amplitude: v, [].
        Y: data, [N, D].
        keeps: whether ``gradients`` will be called.

    Attributes:
        psi1Y: [M, D].
        psi2: [M, M].
    """

    def __init__(
        self,
        mean: Float64[Tensor, "N 2"],
        variance: Float64[Tensor, "N 2"],
        nodes: Float64[Tensor, "m 2"],
        lengthscales: Float64[Tensor, "2"],
        amplitude: Float64[Tensor, ""],
        Y: Float64[Tensor, "N D"],
        *,
        keeps: bool = False,
    ) -> None:
        m, N = len(nodes), len(Y)
        self.Y, self.lengthscales, self.amplitude, self.side = Y, lengthscales, amplitude, m
        square = lengthscales.square()
        self.dimensions = [
            _Dimension(
                mean[:, q, None], variance[:, q, None], nodes[:, q, None], square[q, None], v
            )
            for q, v in enumerate((amplitude, torch.ones_like(amplitude)))
        ]
        pairs = m * (m + 1) // 2
        size = max(1, CHUNK_CELLS // max(m * m, pairs))
        self._chunks = [slice(start, start + size) for start in range(0, N, size)]
        kept: list[_Factors] | None = [] if keeps and 2 * N * (m + pairs) <= CACHE_CELLS else None
        self._kept: list[_Factors] | None = None
        self.psi1Y = Y.new_zeros(m * m, Y.shape[1])
        by_pairs = Y.new_zeros(pairs, pairs)
        for rows, factors in self._factors():
            first, second, other_first, other_second = factors
            psi1 = (first[:, :, None] * other_first[:, None, :]).flatten(1)
            self.psi1Y.addmm_(psi1.T, Y[rows])
            by_pairs.addmm_(second.T, other_second)
            if kept is not None:
                kept.append(factors)
        self._kept = kept
        self.psi2 = self._full(by_pairs)

    def _factors(self) -> Iterator[tuple[slice, _Factors]]:
        """Chunks of rows and their factors."""
        for i, rows in enumerate(self._chunks):
            if self._kept is not None:
                yield rows, self._kept[i]
            else:
                one, other = self.dimensions
                yield rows, (*one.factors(rows), *other.factors(rows))

    def _full(self, by_pairs: Float64[Tensor, "P P"]) -> Float64[Tensor, "M M"]:
        """The symmetric matrix of the grid from the pairs of both dimensions."""
        m = self.side
        index = pair_index(m, by_pairs.device).reshape(-1)
        full = by_pairs.index_select(0, index).index_select(1, index)
        return full.view(m, m, m, m).transpose(1, 2).reshape(m * m, m * m)

    def _by_pairs(self, gradient: Float64[Tensor, "M M"]) -> Float64[Tensor, "P P"]:
        """The gradient by ``_full``'s argument from that by its result."""
        m = self.side
        index = pair_index(m, gradient.device).reshape(-1)
        entries = gradient.reshape(m, m, m, m).transpose(1, 2).reshape(m * m, m * m)
        pairs = m * (m + 1) // 2
        rows = entries.new_zeros(pairs, m * m).index_add_(0, index, entries)
        return entries.new_zeros(pairs, pairs).index_add_(1, index, rows)

    @property
    def covariance(self) -> Float64[Tensor, "M M"]:
        """The kernel matrix of the inducing inputs."""
        m = self.side
        one, other = (full_from_pairs(d.covariance, m) for d in self.dimensions)
        return torch.kron(one, other).mul_(self.amplitude)

    def gradients(
        self,
        by_first: Float64[Tensor, "M D"],
        by_second: Float64[Tensor, "M M"],
        by_covariance: Float64[Tensor, "M M"] | None = None,
    ) -> Gradients:
        """Gradients by the mean, S, the nodes, ℓ and v.

        Args:
            by_first: gradient by psi1Y.
            by_second: gradient by psi2.
            by_covariance: symmetric gradient by ``covariance``.
        """
        m, (one, other) = self.side, self.dimensions
        by_pairs = self._by_pairs(by_second)
        for dimension in self.dimensions:
            dimension.start_gradients()
        for rows, (C, A, other_C, other_A) in self._factors():
            by_psi1 = (self.Y[rows] @ by_first.T).view(-1, m, m)
            by_C = torch.bmm(by_psi1, other_C[:, :, None])[:, :, 0]
            by_other_C = torch.bmm(C[:, None, :], by_psi1)[:, 0]
            one.add_gradients(rows, by_C.mul_(C), (other_A @ by_pairs.T).mul_(A))
            other.add_gradients(rows, by_other_C.mul_(other_C), (A @ by_pairs).mul_(other_A))
        pull = torch.zeros_like(by_second)
        if by_covariance is not None:
            torch.mul(by_covariance, self.covariance, out=pull)
        entries = pull.view(m, m, m, m)
        by_distance = symmetric_pairs(
            torch.stack((entries.sum((1, 3)), entries.sum((0, 2)))).mul_(-0.5)
        )
        found = [d.gradients(by) for d, by in zip(self.dimensions, by_distance, strict=True)]
        mean, variance, nodes = (torch.cat([g[i] for g in found], 1) for i in range(3))
        by_square = torch.cat([g[3] for g in found])
        amplitude = found[0][4] + pull.sum() / self.amplitude
        return mean, variance, nodes, 2 * by_square * self.lengthscales, amplitude
