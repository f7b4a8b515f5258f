"""Types of a table's cells: continuous, positive, counts, binary; and checks of them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import DataError
from lvmcore.numerics.row_blocks import find_cells

__all__ = ["MAX_COUNT", "Cells", "cell_type", "check_binary", "check_counts", "check_positive"]

#: The type of a table's cells, or the type that a model needs, the widest first.
Cells = Literal["any", "positive", "counts", "binary"]

#: A larger cell is hardly a count, and a log-gamma function loses its digits there.
MAX_COUNT = 10**9


def cell_type(data: NDArray[Any]) -> Cells:
    """The narrowest type of all observed cells of a table [N, D]."""
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
        who: the model that needs them, the subject of the message.

    Raises:
        DataError: there is such a cell; the message names the first.
    """
    (below,) = find_cells(data, lambda block: block < 0)
    if below.count:
        raise DataError(
            f"Negative values in data. {_cell_text(data, names, below.row, below.column)} "
            f"is below 0"
            f"{_other_cells(below.count)}. {who} needs cells of 0 and more: leave such columns "
            "out, or choose a model of continuous columns."
        )


def check_counts(
    data: NDArray[Any],
    names: list[str],
    who: str,
    instead: str = "choose likelihood gaussian",
) -> None:
    """Refuse cells that are no counts: below 0, fractional, or above ``MAX_COUNT``.

    Missing cells pass.

    Args:
        data: [N, D].
        names: of the columns.
        who: the model that needs them, the subject of the message.
        instead: advice on how to keep such columns.

    Raises:
        DataError: there is such a cell; the message names the first.
    """
    check_positive(data, names, who)
    parts, large = find_cells(
        data,
        _is_fraction,
        lambda block: block > MAX_COUNT,
    )
    if parts.count:
        raise DataError(
            f"{_cell_text(data, names, parts.row, parts.column)} is no whole number"
            f"{_other_cells(parts.count)}. {who} counts: leave such columns out, round them if "
            f"they are counts, or {instead}."
        )
    if large.count:
        raise DataError(
            f"{_cell_text(data, names, large.row, large.column)} is more than {MAX_COUNT:,}"
            f"{_other_cells(large.count)}. Numbers of that size are measurements rather than "
            f"counts: {instead}, with log(1 + x) for the column."
        )


def check_binary(data: NDArray[Any], names: list[str], who: str) -> None:
    """Refuse cells other than 0 and 1; missing ones pass.

    Args:
        data: [N, D].
        names: of the columns.
        who: the model that needs them, the subject of the message.

    Raises:
        DataError: there is such a cell; the message names the first.
    """
    (other,) = find_cells(data, lambda block: (block != 0) & (block != 1) & ~np.isnan(block))
    if other.count:
        raise DataError(
            f"{_cell_text(data, names, other.row, other.column)} is neither 0 nor 1"
            f"{_other_cells(other.count)}. {who} needs columns of 0 and 1: leave such columns "
            "out, or choose another likelihood."
        )


def _is_fraction(block: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((np.asarray(block) != np.round(block)) & ~np.isnan(block))


def _is_no_count(block: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(_is_fraction(block) | (np.asarray(block) > MAX_COUNT))


def _cell_text(data: NDArray[Any], names: list[str], row: int, column: int) -> str:
    return f"The value {data[row, column]:g} in row {row + 1}, column {names[column]},"


def _other_cells(count: int) -> str:
    return "" if count == 1 else f" (one of {count:,} such cells)"
