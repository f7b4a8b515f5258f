"""psi1ᵀY and psi2 of the RBF kernel summed over rows, with their gradients written out.

With E = 2 ** (leftᵀ right) summed as EᵀY and G the gradient by the sum, dE = Y Gᵀ,
d left = right (E ∘ dE)ᵀ and d right = left (E ∘ dE), in chunks of rows. Where E is summed over all
rows, left E holds the sum and all of d right that the rows contribute, so that the backward pass
needs one matrix product alone.

Source: Titsias and Lawrence 2010, section 3.1; the factorised form is ours.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from torch import Tensor

from lvmcore.kernels.psi_exponents import PsiExponentials
from lvmcore.kernels.psi_features import PointFeatures, RowFeatures
from lvmcore.numerics.block_sizes import block_cells

__all__ = ["Gradients", "RBFPsiSums"]

# Cells of psi2 in a chunk: 2 MB in float64, which stays in the cache of a core. With several
# threads, the synchronisation after each chunk costs more than the cache gains: 8 MB.
CHUNK_CELLS, SHARED_CHUNK_CELLS = 1 << 18, 1 << 20

#: Gradients by the mean, S, Z, ℓ and v.
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


class RBFPsiSums:
    """The sums, and what their gradients need.

    Args:
        mean: means of q(X), [N, Q].
        variance: S, [N, Q].
        Z: inducing inputs, [M, Q].
        lengthscales: ℓ, [Q].
        amplitude: v, [].
        Y: data, [N, D].
        sets: 0 or 1 for each set of rows that psi2 is summed over, [N, K]; None for all rows.
        chunk_cells: cells in a chunk; None for the fastest on this device.
        keeps: whether ``gradients`` will be called.

    Attributes:
        psi1Y: [M, D].
        psi2: of the pairs m ≤ m', [P], or [P, K] for sets of rows.
        distance: scaled squared distances of the pairs, [P].
    """

    def __init__(
        self,
        mean: Float64[Tensor, "N Q"],
        variance: Float64[Tensor, "N Q"],
        Z: Float64[Tensor, "M Q"],
        lengthscales: Float64[Tensor, "Q"],
        amplitude: Float64[Tensor, ""],
        Y: Float64[Tensor, "N D"],
        *,
        sets: Float64[Tensor, "N K"] | None = None,
        chunk_cells: int | None = None,
        keeps: bool = False,
    ) -> None:
        if chunk_cells is None:
            alone = torch.get_num_threads() == 1 and Z.device.type == "cpu"
            chunk_cells = block_cells(CHUNK_CELLS if alone else SHARED_CHUNK_CELLS)
        self.lengthscales, self.amplitude, self.Y, self.sets = lengthscales, amplitude, Y, sets
        square = lengthscales.square()
        self.points = points = PointFeatures(Z, square)
        self.rows = RowFeatures(mean, variance, points.centre, square, amplitude)
        left = self.rows.left
        self.first = PsiExponentials(left[0, :-1], points.first, chunk_cells, keeps=keeps)
        self.second = PsiExponentials(left[1], points.second, chunk_cells, keeps=keeps)
        self.psi1Y = self.first.weighted_sum(Y)
        self.distance = points.distance
        # left E, where the sum is over all rows and has a gradient.
        self._moments: Tensor | None = None
        if sets is not None:
            self.psi2 = self.second.weighted_sum(sets)
        elif keeps:
            self._moments = self.second.moments()
            self.psi2 = self._moments[-1]
        else:
            self.psi2 = self.second.row_sum()

    def gradients(
        self,
        by_first_sum: Float64[Tensor, "M D"],
        by_second_sum: Float64[Tensor, "P"] | Float64[Tensor, "P K"],
        by_distance: Float64[Tensor, "P"] | None = None,
    ) -> Gradients:
        """Gradients by the mean, S, Z, ℓ and v.

        Args:
            by_first_sum: gradient by psi1Y.
            by_second_sum: gradient by psi2.
            by_distance: gradient by the distances beside that through psi2.
        """
        d_left = torch.empty_like(self.rows.left)
        by_first = self.first.weighted_sum_gradients(self.Y, by_first_sum, d_left[0, :-1])
        by_first.mul_(math.log(2))
        if self._moments is not None:
            self.second.row_sum_gradient(by_second_sum, d_left[1])
            by_second = self._moments * (by_second_sum * math.log(2))
            pull = by_second_sum * self.psi2
        else:
            sets = self.rows.left.new_ones(len(self.Y), 1) if self.sets is None else self.sets
            g = by_second_sum[:, None] if self.sets is None else by_second_sum
            by_second = self.second.weighted_sum_gradients(sets, g, d_left[1])
            pull = by_second[-1].clone()
            by_second.mul_(math.log(2))
        pull = pull.mul_(-0.25)
        if by_distance is not None:
            pull += by_distance
        d_mean, d_variance, d_square, d_amplitude = self.rows.gradients(d_left)
        d_Z, own = self.points.gradients(by_first, by_second, pull)
        d_lengthscales = (d_square + own).mul_(2).mul_(self.lengthscales)
        return d_mean, d_variance, d_Z, d_lengthscales, d_amplitude

    def data_gradient(self, by_first_sum: Float64[Tensor, "M D"]) -> Float64[Tensor, "N D"]:
        """Gradient by Y from that by psi1Y, [N, D]."""
        return self.first.product(by_first_sum)
