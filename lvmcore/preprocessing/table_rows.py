"""Standardised rows of a table for a fit, all at once or in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from lvmcore.numerics.row_blocks import BLOCK_ROWS

__all__ = ["InMemoryRows", "TableRows"]


class TableRows(ABC):
    """Standardised rows of a table without its constant columns, [N, D].

    Attributes:
        n_columns: D.
        complete: whether every cell is observed.
        like: a tensor [0, D] with the dtype and device of the rows.
    """

    n_columns: int
    complete: bool
    like: Tensor

    @abstractmethod
    def __len__(self) -> int:
        """N."""

    @abstractmethod
    def take(self, positions: Tensor | slice) -> tuple[Tensor, Tensor | None]:
        """Rows, with 0 (the mean) for missing cells, and the mask of observed cells.

        Args:
            positions: of the rows, [B] or a slice.

        Returns:
            The rows, [B, D], and the mask of observed cells, [B, D], None for a complete table.
        """

    @abstractmethod
    def part(self, rows: slice) -> TableRows:
        """Consecutive rows as a table, which can be pickled without the other rows."""

    def blocks(self, size: int = BLOCK_ROWS) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Consecutive blocks of ``size`` rows, each as from ``take``."""
        for begin in range(0, len(self), size):
            yield self.take(slice(begin, begin + size))

    def map_blocks(self, work: Callable[[Tensor, Tensor | None], Tensor], width: int) -> Tensor:
        """Apply a function to all blocks and stack the results, [N, width], float64, no gradient.

        Results are written to one preallocated tensor: separate ones would fragment the memory
        between the large blocks.

        Args:
            work: (rows and observed cells of a block, as from ``take``) → [n, width].
            width: number of results per row.
        """
        found, begin = self.like.new_empty((len(self), width), dtype=torch.float64), 0
        with torch.no_grad():
            for Y, observed in self.blocks():
                found[begin : begin + len(Y)] = work(Y, observed)
                begin += len(Y)
        return found


class InMemoryRows(TableRows):
    """Rows held in memory, on the device.

    Args:
        Y: [N, D], 0 for missing cells.
        observed: mask of observed cells, [N, D]; None for a complete table.
    """

    def __init__(self, Y: Tensor, observed: Tensor | None = None) -> None:
        self.Y, self.observed = Y, observed
        self.n_columns, self.complete, self.like = Y.shape[1], observed is None, Y[:0]

    def __len__(self) -> int:
        return len(self.Y)

    def take(self, positions: Tensor | slice) -> tuple[Tensor, Tensor | None]:
        """See ``TableRows.take``."""
        if isinstance(positions, torch.Tensor):
            positions = positions.to(self.Y.device)
        return self.Y[positions], None if self.observed is None else self.observed[positions]

    def part(self, rows: slice) -> InMemoryRows:
        """See ``TableRows.part``."""
        observed = None if self.observed is None else self.observed[rows].clone()
        return InMemoryRows(self.Y[rows].clone(), observed)
