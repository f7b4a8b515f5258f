"""Blocks of rows of an array, for computations in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.numerics.block_sizes import block_cells

__all__ = ["BLOCK_ROWS", "CellMatches", "find_cells", "row_blocks"]

# Rows in a block; bounds memory, changes results in their last digits only.
BLOCK_ROWS = 4096


def row_blocks(rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Consecutive blocks of ``BLOCK_ROWS`` rows, or of fewer, as views."""
    size = block_cells(BLOCK_ROWS)
    for begin in range(0, len(rows), size):
        yield rows[begin : begin + size]


@dataclass(frozen=True)
class CellMatches:
    """Cells of one kind in a table.

    Attributes:
        count: how many there are.
        row: of the first of them in row-major order, from 0; −1 if there is none.
        column: of that cell.
    """

    count: int = 0
    row: int = -1
    column: int = -1


def find_cells(
    data: NDArray[Any], *kinds: Callable[[NDArray[Any]], NDArray[np.bool_]]
) -> list[CellMatches]:
    """Cells of several kinds, found in one pass.

    Args:
        data: [N, D].
        kinds: for each kind, the function of a block to the mask of its cells.

    Returns:
        The cells of each kind.
    """
    found, begin = [CellMatches()] * len(kinds), 0
    for block in row_blocks(data):
        for k, is_of_kind in enumerate(kinds):
            mask = is_of_kind(block)
            if not mask.any():
                continue
            before, (row, column) = found[k], np.argwhere(mask)[0]
            first = (before.row, before.column) if before.count else (begin + int(row), int(column))
            found[k] = CellMatches(before.count + int(mask.sum()), *first)
        begin += len(block)
    return found
