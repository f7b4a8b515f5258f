"""The rows of a table as a fit takes them: standardised, all at once or some at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from lvmcore.blocks import ROWS_AT_A_TIME

__all__ = ["ROWS_AT_A_TIME", "HeldRows", "TableRows"]


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

    def collect(self, work: Callable[[Tensor, Tensor | None], Tensor], width: int) -> Tensor:
        """What is made of all rows, block by block, [N, width], float64; no gradient.

        The results go into one tensor made beforehand: kept apart, each would lie behind the large
        block that it was made of, and the memory between them could not be used again.

        Args:
            work: (rows and observed cells of a block, as ``take`` gives them) → [n, width].
            width: how many numbers are made of a row.
        """
        found, begin = self.like.new_empty((len(self), width), dtype=torch.float64), 0
        with torch.no_grad():
            for Y, observed in self.blocks():
                found[begin : begin + len(Y)] = work(Y, observed)
                begin += len(Y)
        return found


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
