"""The rows of an array some at a time, so that what is worked on stays small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROWS_AT_A_TIME", "FoundCells", "blocks", "find_cells"]

# Rows in a block: bounds memory, changes no result but in its last digits.
ROWS_AT_A_TIME = 4096


def blocks(rows: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """All rows in their order, ``ROWS_AT_A_TIME`` of them at a time, as views."""
    for begin in range(0, len(rows), ROWS_AT_A_TIME):
        yield rows[begin : begin + ROWS_AT_A_TIME]


@dataclass(frozen=True)
class FoundCells:
    """Cells of one kind in a table.

    Attributes:
        count: how many there are.
        row: of the first of them, row by row, counted from 0; −1 where there is none.
        column: of that cell.
    """

    count: int = 0
    row: int = -1
    column: int = -1


def find_cells(
    data: NDArray[Any], *kinds: Callable[[NDArray[Any]], NDArray[np.bool_]]
) -> list[FoundCells]:
    """Cells of some kinds, looked for in one pass.

    Args:
        data: [N, D].
        kinds: each tells by True which cells of a block are of its kind.

    Returns:
        What was found of each kind.
    """
    found, begin = [FoundCells()] * len(kinds), 0
    for block in blocks(data):
        for k, is_of_kind in enumerate(kinds):
            mask = is_of_kind(block)
            if not mask.any():
                continue
            before, (row, column) = found[k], np.argwhere(mask)[0]
            first = (before.row, before.column) if before.count else (begin + int(row), int(column))
            found[k] = FoundCells(before.count + int(mask.sum()), *first)
        begin += len(block)
    return found
