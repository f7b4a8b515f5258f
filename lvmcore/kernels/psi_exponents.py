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
from jaxtyping import Float, Int
from torch import Tensor

__all__ = [
    "CACHE_CELLS",
    "PsiExponentials",
    "full_from_pairs",
    "pair_index",
    "pairs",
    "pairs_from_full",
    "point_features",
    "point_gradient",
    "row_features",
    "row_gradients",
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


def row_gradients(
    order: int,
    gradient: Float[Tensor, "N F"],
    mu: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    w: Float[Tensor, "N Q"],
    square: Float[Tensor, "Q"],
    amplitude: Float[Tensor, ""],
) -> tuple[Float[Tensor, "N Q"], Float[Tensor, "N Q"], Float[Tensor, "Q"], Float[Tensor, ""]]:
    """Gradients by μ, S, ℓ² and v from the gradient by the rows' features, [N, 2Q+1]."""
    Q = mu.shape[1]
    by_slope, by_w, by_constant = gradient[:, :Q], gradient[:, Q : 2 * Q], gradient[:, 2 * Q :]
    inner = by_slope - by_constant * mu
    half = 0.5 * by_constant
    # d_w = gradient by w, divided by k.
    d_w = mu * (inner + half * mu) - 0.5 * by_w
    pull = order * w.square() * d_w
    # 1/ℓ² − w = k S w/ℓ², without the cancellation of the difference for large ℓ.
    d_square = (half * (order * variance * w)).sum(0) / square - pull.sum(0)
    d_variance = -order * (pull + half * w)
    return order * w * inner, d_variance, d_square, order * by_constant.sum() / amplitude


def point_features(points: Float[Tensor, "P Q"]) -> Float[Tensor, "2*Q+1 P"]:
    """Features of centred points [P, Q], [2Q+1, P]."""
    return torch.cat([points, points.square(), torch.ones_like(points[:, :1])], 1).T


def point_gradient(
    gradient: Float[Tensor, "F P"], points: Float[Tensor, "P Q"]
) -> Float[Tensor, "P Q"]:
    """The gradient by the points, [P, Q], from that by their features, [2Q+1, P]."""
    Q = points.shape[1]
    return gradient[:Q].T + 2 * points * gradient[Q : 2 * Q].T


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


class PsiExponentials:
    """E = exp(left @ right), [N, P], in chunks of rows, with sums over rows and their gradients.

    Args:
        left: [N, F].
        right: [F, P].
        chunk_cells: cells in a chunk.
        keeps: whether E is used again: it is cached if it has few cells, else computed again.
    """

    def __init__(
        self,
        left: Float[Tensor, "N F"],
        right: Float[Tensor, "F P"],
        chunk_cells: int,
        *,
        keeps: bool,
    ) -> None:
        self.left, self.right = left, right
        N, P = len(left), right.shape[1]
        rows = max(1, chunk_cells // P)
        self._chunks = [slice(start, start + rows) for start in range(0, N, rows)]
        self._keeps, self._computed = keeps and N * P <= CACHE_CELLS, False
        self._cells = left.new_empty(N if self._keeps else min(N, rows), P)

    def __iter__(self) -> Iterator[tuple[slice, Float[Tensor, "n P"]]]:
        """Chunks of rows and of E; a chunk is valid until the next one is requested."""
        for rows in self._chunks:
            left = self.left[rows]
            E = self._cells[rows] if self._keeps else self._cells[: len(left)]
            if not self._computed:
                torch.mm(left, self.right, out=E).exp_()
            yield rows, E
        self._computed = self._keeps

    def row_sum(self) -> Float[Tensor, "P"]:
        """E summed over its rows, [P]."""
        out = self.right.new_zeros(self.right.shape[1])
        for _, E in self:
            out += E.sum(0)
        return out

    def weighted_sum(self, Y: Float[Tensor, "N D"]) -> Float[Tensor, "P D"]:
        """Eᵀ Y, [P, D]."""
        out = self.right.new_zeros((self.right.shape[1], Y.shape[1]))
        for rows, E in self:
            out.addmm_(E.T, Y[rows])
        return out

    def product(self, g: Float[Tensor, "P D"]) -> Float[Tensor, "N D"]:
        """E g, [N, D]."""
        return torch.cat([E @ g for _, E in self])

    def row_sum_gradients(
        self, g: Float[Tensor, "P"]
    ) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F P"]]:
        """Gradients by left and right from the gradient by ``row_sum``, [P]."""
        d_left, d_right = torch.empty_like(self.left), torch.zeros_like(self.right.T)
        scaled = (self.right * g).T.contiguous()
        for rows, E in self:
            torch.mm(E, scaled, out=d_left[rows])
            d_right.addmm_(E.T, self.left[rows])
        return d_left, (d_right * g[:, None]).T

    def weighted_sum_gradients(
        self, Y: Float[Tensor, "N D"], g: Float[Tensor, "P D"]
    ) -> tuple[Float[Tensor, "N F"], Float[Tensor, "F P"]]:
        """Gradients by left and right from the gradient by ``weighted_sum(Y)``, [P, D]."""
        d_left, d_right = torch.empty_like(self.left), torch.zeros_like(self.right.T)
        for rows, E in self:
            d_exponent = E * (Y[rows] @ g.T)
            torch.mm(d_exponent, self.right.T, out=d_left[rows])
            d_right.addmm_(d_exponent.T, self.left[rows])
        return d_left, d_right.T
