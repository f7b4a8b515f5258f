"""Exponents of the RBF kernel's psi statistics as bilinear forms, with their gradients.

Under q(x) = N(mean, diag S), E k(x, z) and E k(z, x) k(x, z') are both the exponential of
(features of the row) · (features of a point), for a point z or the midpoint of two: with the
order k = 1 or 2, w = 1/(k S + ℓ²) and μ = mean less any common centre, the row's features are
k w μ, −½ k w and k log v − ½ Σ_q log(1 + k S/ℓ²) − ½ k Σ_q w μ²; the point's are p, p² and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

__all__ = [
    "CACHE_CELLS",
    "PsiExponentials",
    "full_from_pairs",
    "pair_index",
    "pairs",
    "pairs_from_full",
    "point_features",
    "row_features",
    "symmetric_pairs",
]

# Exponentials that are cached between passes at most: 16 MB in float64.
CACHE_CELLS = 1 << 21


def row_features(
    order: int,
    mu: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    square: Float[Tensor, "Q"],
    amplitude: Float[Tensor, ""],
) -> tuple[Float[Tensor, "N 2*Q+1"], Float[Tensor, "N Q"]]:
    """Features of rows, [N, 2Q+1], and w, [N, Q].

    Args:
        order: k, 1 for psi1 and 2 for psi2.
        mu: centred means, [N, Q].
        variance: S, [N, Q].
        square: ℓ², [Q].
        amplitude: v, [].
    """
    spread = order * variance
    w = (spread + square).reciprocal()
    slope = w * mu
    constant = torch.log1p(spread / square).sum(1, keepdim=True)
    constant += order * (slope * mu).sum(1, keepdim=True)
    return torch.cat(
        [order * slope, -0.5 * order * w, order * amplitude.log() - 0.5 * constant], 1
    ), w


def point_features(points: Float[Tensor, "P Q"]) -> Float[Tensor, "2*Q+1 P"]:
    """Features of centred points [P, Q], [2Q+1, P]."""
    return torch.cat([points, points.square(), torch.ones_like(points[:, :1])], 1).T


@lru_cache(maxsize=16)
def pairs(M: int, device: torch.device) -> tuple[Int[Tensor, "P"], Int[Tensor, "P"]]:
    """The pairs m ≤ m', two index vectors of M(M+1)/2."""
    i, j = torch.triu_indices(M, M, device=device)
    return i, j


@lru_cache(maxsize=16)
def pair_index(M: int, device: torch.device) -> Int[Tensor, "{M} {M}"]:
    """Position of (m, m') among the pairs m ≤ m', [M, M]."""
    i, j = pairs(M, device)
    index = torch.empty(M, M, dtype=torch.long, device=device)
    index[i, j] = torch.arange(len(i), device=device)
    index[j, i] = index[i, j]
    return index


def full_from_pairs(values: Float[Tensor, "P *K"], M: int) -> Float[Tensor, "{M} {M} *K"]:
    """The symmetric [M, M, ...] from its pairs m ≤ m', [M(M+1)/2, ...]."""
    index = pair_index(M, values.device).reshape(-1)
    return values.index_select(0, index).reshape(M, M, *values.shape[1:])


def pairs_from_full(full: Float[Tensor, "M M"]) -> Float[Tensor, "M*(M+1)//2"]:
    """The pairs m ≤ m' of a matrix [M, M], [M(M+1)/2]."""
    M = len(full)
    i, j = pairs(M, full.device)
    return full.reshape(-1).index_select(0, i * M + j)


@lru_cache(maxsize=16)
def _pair_counts(M: int, device: torch.device) -> tuple[Int[Tensor, "P"], Float[Tensor, "P"]]:
    """Position of the pairs m ≤ m' in a flat [M, M], and how often each is in it: 1 or 2."""
    i, j = pairs(M, device)
    return i * M + j, torch.where(i == j, 1.0, 2.0).double()


def symmetric_pairs(gradients: Float64[Tensor, "K M M"]) -> Float64[Tensor, "K P"]:
    """Gradients by the pairs m ≤ m' of symmetric matrices from those by all entries, [K, P].

    Args:
        gradients: symmetric, [K, M, M].
    """
    index, counts = _pair_counts(gradients.shape[1], gradients.device)
    return gradients.flatten(1).index_select(1, index).mul_(counts)


class PsiExponentials:
    """E = 2 ** (leftᵀ right), [N, P], in chunks of rows, with sums over rows and their gradients.

    Gradients are those of the exponent of base e: by a feature of a row or of a point before it
    was scaled by log₂ e.

    Args:
        left: features of the rows, the last one 1, [F, N].
        right: features of the points, [F, P].
        chunk_cells: cells in a chunk.
        keeps: whether E is used again: it is cached if it has few cells, else computed again.
    """

    def __init__(
        self,
        left: Float[Tensor, "F N"],
        right: Float[Tensor, "F P"],
        chunk_cells: int,
        *,
        keeps: bool,
    ) -> None:
        self.left, self.right = left, right
        N, P = left.shape[1], right.shape[1]
        rows = max(1, chunk_cells // P)
        self._chunks = [slice(start, start + rows) for start in range(0, N, rows)]
        self._keeps, self._computed = keeps and N * P <= CACHE_CELLS, False
        self._cells = left.new_empty(N if self._keeps else min(N, rows), P)

    def __iter__(self) -> Iterator[tuple[slice, Float[Tensor, "F n"], Float[Tensor, "n P"]]]:
        """Chunks of rows, their features and E; a chunk is valid until the next is requested."""
        for rows in self._chunks:
            left = self.left[:, rows]
            E = self._cells[rows] if self._keeps else self._cells[: left.shape[1]]
            if not self._computed:
                torch.mm(left.T, self.right, out=E).exp2_()
            yield rows, left, E
        self._computed = self._keeps

    def row_sum(self) -> Float[Tensor, "P"]:
        """E summed over its rows, [P]."""
        out = self.right.new_zeros(self.right.shape[1])
        for _, _, E in self:
            out += E.sum(0)
        return out

    def moments(self) -> Float[Tensor, "F P"]:
        """left E, [F, P]: its last row is E summed over the rows.

        The gradient by right from that by this sum, g [P], is left E ∘ g.
        """
        out = torch.zeros_like(self.right)
        for _, left, E in self:
            out.addmm_(left, E)
        return out

    def weighted_sum(self, Y: Float[Tensor, "N D"]) -> Float[Tensor, "P D"]:
        """Eᵀ Y, [P, D]."""
        out = self.right.new_zeros((self.right.shape[1], Y.shape[1]))
        for rows, _, E in self:
            out.addmm_(E.T, Y[rows])
        return out

    def product(self, g: Float[Tensor, "P D"]) -> Float[Tensor, "N D"]:
        """E g, [N, D]."""
        return torch.cat([E @ g for _, _, E in self])

    def row_sum_gradient(
        self, g: Float[Tensor, "P"], out: Float[Tensor, "F N"]
    ) -> Float[Tensor, "F N"]:
        """The gradient by left from that by ``row_sum``, [P], written to ``out``."""
        scaled = self.right * g
        for rows, _, E in self:
            torch.mm(scaled, E.T, out=out[:, rows])
        return out

    def weighted_sum_gradients(
        self, Y: Float[Tensor, "N D"], g: Float[Tensor, "P D"], out: Float[Tensor, "F N"]
    ) -> Float[Tensor, "F P"]:
        """Gradients from that by ``weighted_sum(Y)``, [P, D]: by left to ``out``, and by right.

        That by right is of the features as they are, so log₂ e times the natural one.
        """
        d_right = torch.zeros_like(self.right)
        cells = torch.empty_like(self._cells[: self._chunks[0].stop])
        for rows, left, E in self:
            d_exponent = torch.mm(Y[rows], g.T, out=cells[: len(E)]).mul_(E)
            torch.mm(self.right, d_exponent.T, out=out[:, rows])
            d_right.addmm_(left, d_exponent)
        return d_right
