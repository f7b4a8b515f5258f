"""The exponents of the RBF kernel's psi statistics as bilinear forms, with gradients by hand.

Under q(x) = N(mean, diag S), E k(x, z) and E k(z, x) k(x, z') are both the exponential of
(features of the row) · (features of a point), for one point z or for the middle of two: with the
order k = 1 or 2, w = 1/(k S + ℓ²) and μ = mean less any common centre, the row's features are
k w μ, −½ k w and k log v − ½ Σ_q log(1 + k S/ℓ²) − ½ k Σ_q w μ²; the point's are p, p² and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor

__all__ = [
    "KEPT_CELLS",
    "Exponentials",
    "full_from_pairs",
    "pair_index",
    "pairs",
    "pairs_from_full",
    "point_features",
    "point_gradient",
    "row_features",
    "row_gradients",
]

# Exponentials that are used again are kept if there are no more: 16 MB in float64.
KEPT_CELLS = 1 << 21


def row_features(
    order: int, mu: Tensor, variance: Tensor, square: Tensor, amplitude: Tensor
) -> tuple[Tensor, Tensor]:
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
    gradient: Tensor,
    mu: Tensor,
    variance: Tensor,
    w: Tensor,
    square: Tensor,
    amplitude: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """From the gradient by the rows' features, [N, 2Q+1], those by μ, S, ℓ² and v."""
    Q = mu.shape[1]
    by_slope, by_w, by_constant = gradient[:, :Q], gradient[:, Q : 2 * Q], gradient[:, 2 * Q :]
    inner = by_slope - by_constant * mu
    half = 0.5 * by_constant
    # The gradient by w, divided by k.
    d_w = mu * (inner + half * mu) - 0.5 * by_w
    pull = order * w.square() * d_w
    # 1/ℓ² − w is k S w/ℓ²; the difference would lose its digits where ℓ is long.
    d_square = (half * (order * variance * w)).sum(0) / square - pull.sum(0)
    d_variance = -order * (pull + half * w)
    return order * w * inner, d_variance, d_square, order * by_constant.sum() / amplitude


def point_features(points: Tensor) -> Tensor:
    """Features of centred points [P, Q], [2Q+1, P]."""
    return torch.cat([points, points.square(), torch.ones_like(points[:, :1])], 1).T


def point_gradient(gradient: Tensor, points: Tensor) -> Tensor:
    """From the gradient by the points' features, [2Q+1, P], the one by the points, [P, Q]."""
    Q = points.shape[1]
    return gradient[:Q].T + 2 * points * gradient[Q : 2 * Q].T


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


def full_from_pairs(values: Tensor, M: int) -> Tensor:
    """The symmetric [M, M, ...] whose pairs m ≤ m' are given, [M(M+1)/2, ...]."""
    index = pair_index(M, values.device).reshape(-1)
    return values.index_select(0, index).reshape(M, M, *values.shape[1:])


def pairs_from_full(full: Tensor) -> Tensor:
    """The pairs m ≤ m' of a matrix [M, M], [M(M+1)/2]."""
    M = len(full)
    i, j = pairs(M, full.device)
    return full.reshape(-1).index_select(0, i * M + j)


class Exponentials:
    """E = exp(left @ right), [N, P], some rows at a time, and what sums over its rows need.

    Args:
        left: [N, F].
        right: [F, P].
        chunk_cells: cells at a time.
        keeps: whether E is used again: it is kept if it has few cells, and made again if not.
    """

    def __init__(self, left: Tensor, right: Tensor, chunk_cells: int, *, keeps: bool) -> None:
        self.left, self.right = left, right
        N, P = len(left), right.shape[1]
        rows = max(1, chunk_cells // P)
        self._chunks = [slice(start, start + rows) for start in range(0, N, rows)]
        self._keeps, self._made = keeps and N * P <= KEPT_CELLS, False
        self._cells = left.new_empty(N if self._keeps else min(N, rows), P)

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        """Rows and their part of E, which lasts until the next one is asked for."""
        for rows in self._chunks:
            left = self.left[rows]
            E = self._cells[rows] if self._keeps else self._cells[: len(left)]
            if not self._made:
                torch.mm(left, self.right, out=E).exp_()
            yield rows, E
        self._made = self._keeps

    def add(self) -> Tensor:
        """E summed over its rows, [P]."""
        out = self.right.new_zeros(self.right.shape[1])
        for _, E in self:
            out += E.sum(0)
        return out

    def weigh(self, Y: Tensor) -> Tensor:
        """Eᵀ Y, [P, D]."""
        out = self.right.new_zeros((self.right.shape[1], Y.shape[1]))
        for rows, E in self:
            out.addmm_(E.T, Y[rows])
        return out

    def product(self, g: Tensor) -> Tensor:
        """E g, [N, D]."""
        return torch.cat([E @ g for _, E in self])

    def added_gradients(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """From the gradient by ``add``, [P], those by left and by right."""
        d_left, d_right = torch.empty_like(self.left), torch.zeros_like(self.right.T)
        scaled = (self.right * g).T.contiguous()
        for rows, E in self:
            torch.mm(E, scaled, out=d_left[rows])
            d_right.addmm_(E.T, self.left[rows])
        return d_left, (d_right * g[:, None]).T

    def weighed_gradients(self, Y: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """From the gradient by ``weigh(Y)``, [P, D], those by left and by right."""
        d_left, d_right = torch.empty_like(self.left), torch.zeros_like(self.right.T)
        for rows, E in self:
            weighed = E * (Y[rows] @ g.T)
            torch.mm(weighed, self.right.T, out=d_left[rows])
            d_right.addmm_(weighed.T, self.left[rows])
        return d_left, d_right.T
