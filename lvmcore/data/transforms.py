"""How the cells of a column become features: log(1 + x), or one 0/1 feature a level."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.columns import Column, ColumnType
from lvmcore.data.dataset import labels_as_text
from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = [
    "MOST_LEVELS",
    "check_log1p",
    "check_one_hot",
    "levels",
    "one_hot_features",
    "refuse_low_cells",
]

#: The most levels of a category that can be learned from, a feature each.
MOST_LEVELS = 50
_MEASURED = (ColumnType.NUMERIC, ColumnType.COUNT)


def check_log1p(table: "Table", name: str) -> None:
    """Refuse log(1 + x) for a column whose type or cells do not allow it.

    Args:
        table: The table.
        name: Of one of its columns.

    Raises:
        DataError: The column is neither numeric nor a count, or a cell is −1 or less; the message
            names its row.
    """
    column = table.column(name)
    values = table.frame[name]
    if column.type not in _MEASURED or not pd.api.types.is_numeric_dtype(values.dtype):
        raise DataError(
            f"Column {name!r} cannot be learned as log(1 + x): its type is {column.type}. Expected "
            "a numeric column or a count."
        )
    refuse_low_cells(table, name, values.to_numpy(dtype=np.float64, na_value=np.nan))


def refuse_low_cells(table: "Table", name: str, cells: NDArray[np.float64]) -> None:
    """Refuse log(1 + x) for cells of −1 or less.

    Args:
        table: The table.
        name: Of the column.
        cells: Its cells, NaN where missing [N]; a second header row does not count.

    Raises:
        DataError: A cell is −1 or less; the message names its row.
    """
    if table.detected.second_header:
        cells = np.where(np.arange(len(cells)) == 0, np.nan, cells)
    low = np.flatnonzero((cells <= -1) & np.isfinite(cells))
    if low.size:
        raise DataError(
            f"Column {name!r} cannot be learned as log(1 + x): row {low[0] + 1} has "
            f"{cells[low[0]]:g}. Expected every cell above -1. Use the column without the "
            "transform, or correct the cell in the file."
        )


def check_one_hot(table: "Table", name: str) -> None:
    """Refuse one feature a level for a column whose type or number of levels does not allow it.

    Args:
        table: The table.
        name: Of one of its columns.

    Raises:
        DataError: The column is no category (or binary text), or has more than 50 levels.
    """
    column = table.column(name)
    numeric = pd.api.types.is_numeric_dtype(table.frame[name].dtype)
    if column.type is ColumnType.BINARY and not numeric:
        return
    if column.type is not ColumnType.CATEGORY:
        advice = "Use it as a number" if numeric else "Leave it out"
        raise DataError(
            f"Column {name!r} cannot be one-hot features: its type is {column.type}. Expected a "
            f"category. {advice}, or make its type a category."
        )
    if column.distinct > MOST_LEVELS:
        raise DataError(
            f"Column {name!r} cannot be one-hot features: it has {column.distinct:,} levels. "
            f"Expected at most {MOST_LEVELS}. Join the rare levels in the file, or leave the "
            "column out."
        )


def levels(values: pd.Series) -> list[str]:
    """The different cells of a column as text: by size where all are numbers, else by name."""
    known = pd.unique(values.dropna())
    ordered = sorted(known) if values.dtype.kind in "iuf" else sorted(known, key=str)
    return [str(text) for text in labels_as_text(pd.Series(ordered, dtype=object)).tolist()]


def one_hot_features(
    column: Column, values: pd.Series
) -> tuple[list[str], NDArray[np.float64], str]:
    """One 0/1 feature a level.

    Args:
        column: The column.
        values: Its cells [N].

    Returns:
        Names "column = level"; features [N, levels], NaN in every one of them where the cell is
        missing; and a note.
    """
    texts = labels_as_text(values)
    known = levels(values)
    features = np.column_stack([np.where(texts == level, 1.0, 0.0) for level in known])
    features[values.isna().to_numpy()] = np.nan
    what = "1 feature, its only level" if len(known) == 1 else f"{len(known)} features, one a level"
    note = f"Column {column.name!r} is learned as {what}: 1 where a row has it, else 0."
    return [f"{column.name} = {level}" for level in known], features, note
