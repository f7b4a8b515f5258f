"""The covariance matrix of many rows as an operator, computed in blocks and never stored."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.gp.exact_regression import ExactGP
from lvmcore.kernels.composite import CompositeKernel, Summand

__all__ = ["BlockedCovariance", "cross_product", "row_ranges"]

#: Rows and columns of a block of the matrix: 8 MB, which stays in the cache.
BLOCK = 1024


class BlockedCovariance:
    """A = K + diag(σ² + known), [N, N].

    Args:
        gp: kernel and noise.
        X: rows, standardised, [N, H].
        known: known variances of the noise of the rows, beside σ², [N]; None for none.

    Attributes:
        noise: σ² + known, [N].
    """

    @torch.no_grad()
    def __init__(
        self,
        gp: ExactGP,
        X: Float[Tensor, "N H"],
        known: Float[Tensor, "N"] | None = None,
    ) -> None:
        self.gp, self.X = gp, X
        noise = gp.noise * X.new_ones(len(X))
        self.noise: Tensor = noise if known is None else noise + known

    @torch.no_grad()
    def product(self, V: Float[Tensor, "N R"]) -> Float[Tensor, "N R"]:
        """A V, [N, R]; each block of K is computed once and used for its transpose too."""
        found = self.noise[:, None] * V
        for rows, columns in self._upper_blocks():
            K = self.gp.covariance(self.X[rows], self.X[columns])
            found[rows] += K @ V[columns]
            if rows != columns:
                found[columns] += K.mT @ V[rows]
        return found

    def _upper_blocks(self) -> Iterator[tuple[slice, slice]]:
        ranges = list(row_ranges(len(self.X), BLOCK))
        for i, rows in enumerate(ranges):
            for columns in ranges[i:]:
                yield rows, columns


@torch.no_grad()
def cross_product(
    kernel: CompositeKernel | Summand,
    X: Float[Tensor, "n H"],
    X2: Float[Tensor, "N H"],
    V: Float[Tensor, "N R"],
) -> Float[Tensor, "n R"]:
    """k(X, X2) V in blocks, [n, R]."""
    found = V.new_zeros(len(X), V.shape[1])
    for rows in row_ranges(len(X), BLOCK):
        for columns in row_ranges(len(X2), BLOCK):
            found[rows] += kernel.forward(X[rows], X2[columns]) @ V[columns]
    return found


def row_ranges(n_rows: int, size: int) -> Iterator[slice]:
    """Consecutive ranges of at most so many rows."""
    for begin in range(0, n_rows, size):
        yield slice(begin, min(begin + size, n_rows))
