"""What a model of counts, of shares, or of what is 0 or 1 asks of the cells of a table."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lvmcore.blocks import find_cells
from lvmcore.errors import DataError

__all__ = ["MOST", "Cells", "cells_of", "check_binary", "check_counts", "check_positive"]

#: What the cells of a table are, or what a model needs them to be, the widest kind first.
Cells = Literal["any", "positive", "counts", "binary"]

#: Beyond this a cell is hardly a count, and the digits of a log-gamma function drown.
MOST = 10**9


def cells_of(data: NDArray[Any]) -> Cells:
    """The narrowest kind that all cells of a table [N, D] are of; missing ones are of any."""
    below, others, large = find_cells(
        data, lambda block: block < 0, _is_no_count, lambda block: block > 1
    )
    if below.count:
        return "any"
    if others.count:
        return "positive"
    return "counts" if large.count else "binary"


def check_positive(data: NDArray[Any], names: list[str], who: str) -> None:
    """Refuse cells below 0; missing ones pass.

    Args:
        data: [N, D].
        names: of the columns.
        who: what cannot use them, the subject of the sentence.

    Raises:
        DataError: naming the first such cell.
    """
    (below,) = find_cells(data, lambda block: block < 0)
    if below.count:
        raise DataError(
            f"Negative values in data. {_where(data, names, below.row, below.column)} is below 0"
            f"{_others(below.count)}. {who} needs cells of 0 and more: leave such columns out, or "
            "choose a model of continuous columns."
        )


def check_counts(
    data: NDArray[Any],
    names: list[str],
    who: str,
    instead: str = "choose likelihood gaussian",
) -> None:
    """Refuse cells that are no counts: below 0, fractions, more than ``MOST``; missing ones pass.

    Args:
        data: [N, D].
        names: of the columns.
        who: what cannot use them, the subject of the sentence.
        instead: what to do where such columns are to stay.

    Raises:
        DataError: naming the first such cell.
    """
    check_positive(data, names, who)
    parts, large = find_cells(
        data,
        _is_fraction,
        lambda block: block > MOST,
    )
    if parts.count:
        raise DataError(
            f"{_where(data, names, parts.row, parts.column)} is no whole number"
            f"{_others(parts.count)}. {who} counts: leave such columns out, round them if they are "
            f"counts, or {instead}."
        )
    if large.count:
        raise DataError(
            f"{_where(data, names, large.row, large.column)} is more than {MOST:,}"
            f"{_others(large.count)}. Numbers of that size are measurements rather than counts: "
            f"{instead}, with log(1 + x) for the column."
        )


def check_binary(data: NDArray[Any], names: list[str], who: str) -> None:
    """Refuse cells other than 0 and 1; missing ones pass.

    Args:
        data: [N, D].
        names: of the columns.
        who: what cannot use them, the subject of the sentence.

    Raises:
        DataError: naming the first such cell.
    """
    (other,) = find_cells(data, lambda block: (block != 0) & (block != 1) & ~np.isnan(block))
    if other.count:
        raise DataError(
            f"{_where(data, names, other.row, other.column)} is neither 0 nor 1"
            f"{_others(other.count)}. {who} needs columns of 0 and 1: leave such columns out, or "
            "choose another likelihood."
        )


def _is_fraction(block: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((np.asarray(block) != np.round(block)) & ~np.isnan(block))


def _is_no_count(block: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(_is_fraction(block) | (np.asarray(block) > MOST))


def _where(data: NDArray[Any], names: list[str], row: int, column: int) -> str:
    return f"The value {data[row, column]:g} in row {row + 1}, column {names[column]},"


def _others(count: int) -> str:
    return "" if count == 1 else f" (one of {count:,} such cells)"
