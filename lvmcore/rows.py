"""The rows of a table as a fit takes them: standardised, all at once or some at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["ROWS_AT_A_TIME", "HeldRows", "TableRows"]

# Rows in a block: bounds memory, changes no result but in its last digits.
ROWS_AT_A_TIME = 4096


class TableRows(ABC):
    """Standardised rows of a table without its constant columns, [N, D].

    Attributes:
        n_columns: D.
        complete: whether every cell is observed.
        like: a tensor [0, D] of the dtype and on the device that the rows come in.
    """

    n_columns: int
    complete: bool
    like: Tensor

    @abstractmethod
    def __len__(self) -> int:
        """N."""

    @abstractmethod
    def take(self, positions: Tensor | slice) -> tuple[Tensor, Tensor | None]:
        """Rows, 0 (the mean) where a cell is missing, and which cells are observed.

        Args:
            positions: of the rows, [B] or a slice.

        Returns:
            The rows, [B, D], and True where a cell is observed, [B, D]; None in its place for a
            table that is complete.
        """

    def blocks(self, size: int = ROWS_AT_A_TIME) -> Iterator[tuple[Tensor, Tensor | None]]:
        """All rows in their order, so many at a time, each block as ``take`` gives it."""
        for begin in range(0, len(self), size):
            yield self.take(slice(begin, begin + size))


class HeldRows(TableRows):
    """Rows held in memory, on the device.

    Args:
        Y: [N, D], 0 where a cell is missing.
        observed: True where a cell is observed, [N, D]; None where every one is.
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
