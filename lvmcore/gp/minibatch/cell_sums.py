"""Sums over the cells of some rows, as the bound of a batch needs them beside psi statistics."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["CellSums", "count_cells"]


def count_cells(Y: Tensor, observed: Tensor | None) -> Tensor:
    """Number of observed cells in each column of rows Y [B, D], [D]."""
    if observed is None:
        return Y.new_full(Y.shape[1:], len(Y), dtype=torch.float64)
    return observed.sum(0).double()


@dataclass(frozen=True)
class CellSums:
    """Sums over the cells of some rows.

    Attributes:
        n_rows: B.
        squares: ‖y_d‖², [D].
        counts: observed cells of each column, [D].
    """

    n_rows: int
    squares: Tensor
    counts: Tensor

    @classmethod
    def of(cls, Y: Tensor, observed: Tensor | None) -> CellSums:
        """Of rows Y [B, D], 0 where a cell is missing."""
        return cls(len(Y), Y.square().sum(0, dtype=torch.float64), count_cells(Y, observed))
