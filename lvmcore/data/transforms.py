"""Columns as features: log(1 + x), one-hot encoding, and the checks of their cells."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.column_types import ColumnDescription, ColumnType
from lvmcore.data.dataset import labels_as_text
from lvmcore.errors import ConfigError, DataError
from lvmcore.likelihoods.catalogue import (
    LIKELIHOODS,
    ColumnTerm,
    check_cells,
    read_column_likelihood,
)
from lvmcore.likelihoods.level_order import ordered_levels
from lvmcore.likelihoods.order_text import check_order, write_order

if TYPE_CHECKING:
    from lvmcore.data.dataset import Dataset
    from lvmcore.data.table import Table

__all__ = [
    "MAX_LEVELS",
    "check_likelihood",
    "check_log1p",
    "check_log1p_cells",
    "check_one_hot",
    "levels",
    "one_hot_columns",
    "one_hot_features",
]

#: Limit of the levels of a one-hot category.
MAX_LEVELS = 50
_NUMERIC_TYPES = (ColumnType.NUMERIC, ColumnType.COUNT)


def check_log1p(table: "Table", name: str) -> None:
    """Check that a column's type and cells allow log(1 + x).

    Args:
        table: The table.
        name: Name of the column.

    Raises:
        DataError: The column is neither numeric nor a count, or a cell is −1 or less; the message
            names its row.
    """
    column = table.column(name)
    values = table.frame[name]
    if column.type not in _NUMERIC_TYPES or not pd.api.types.is_numeric_dtype(values.dtype):
        raise DataError(
            f"Column {name!r} cannot be transformed by log(1 + x): its type is {column.type}. "
            "Expected a numeric column or a count."
        )
    check_log1p_cells(table, name, values.to_numpy(dtype=np.float64, na_value=np.nan))


def check_log1p_cells(table: "Table", name: str, cells: NDArray[np.float64]) -> None:
    """Check that cells allow log(1 + x): all are above −1.

    Args:
        table: The table.
        name: Name of the column.
        cells: Its cells, NaN where missing [N]; a second header row is ignored.

    Raises:
        DataError: A cell is −1 or less; the message names its row.
    """
    if table.detected.second_header:
        cells = np.where(np.arange(len(cells)) == 0, np.nan, cells)
    low = np.flatnonzero((cells <= -1) & np.isfinite(cells))
    if low.size:
        row = int(table.frame.index[low[0]]) + 1
        raise DataError(
            f"Column {name!r} cannot be transformed by log(1 + x): row {row} has "
            f"{cells[low[0]]:g}. Expected every cell above -1. Use the column without the "
            "transform, or correct the cell in the file."
        )


def check_one_hot(table: "Table", name: str) -> None:
    """Check that a column's type and number of levels allow one-hot encoding.

    Args:
        table: The table.
        name: Name of the column.

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
    if column.distinct > MAX_LEVELS:
        raise DataError(
            f"Column {name!r} cannot be one-hot features: it has {column.distinct:,} levels. "
            f"Expected at most {MAX_LEVELS}. Join the rare levels in the file, or leave the "
            "column out."
        )


def check_likelihood(table: "Table", column_name: str, text: str) -> None:
    """Check that the cells of a column of a table allow a likelihood.

    Args:
        table: The table.
        column_name: Name of the column.
        text: Name of the likelihood; "ordinal(low < mid < high)" with the order of the levels.

    Raises:
        DataError: They do not; the message names the row, the level, or what the column should be.
    """
    column = table.column(column_name)
    try:
        name, order = read_column_likelihood(text)
    except ConfigError as error:
        raise DataError(
            f"Column {column.name!r} cannot have the likelihood {text!r}. {error}"
        ) from error
    kind = LIKELIHOODS.get(name)  # type: ignore[call-overload] # any text
    if kind is None:
        raise DataError(
            f"Column {column.name!r} cannot have the likelihood {text!r}. Expected one of "
            f"{', '.join(LIKELIHOODS)}."
        )
    if column.type is ColumnType.DATE and name != "gaussian":
        raise DataError(
            f"Column {column.name!r} cannot have the likelihood {name}: it is a date. Expected "
            "gaussian."
        )
    if kind.is_one_hot != (column.type is ColumnType.CATEGORY):
        advice = "Make its type a category" if kind.is_one_hot else "Make its type numeric"
        raise DataError(
            f"Column {column.name!r} cannot have the likelihood {name}: its type is "
            f"{column.type}. {advice}, or choose another likelihood."
        )
    values = table.frame[column.name]
    if order:
        try:
            check_order(column.name, order, levels(values))
        except ConfigError as error:
            raise DataError(str(error)) from error
    if not kind.is_one_hot and pd.api.types.is_numeric_dtype(values.dtype):
        cells = values.to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
        check_cells([ColumnTerm(name)], cells, [column.name])  # type: ignore[arg-type] # a key


def levels(values: pd.Series) -> list[str]:
    """Distinct cells of a column as text, in the order of numbers or of ``ordered_levels``."""
    known = pd.unique(values.dropna())
    numeric = values.dtype.kind in "iuf"
    listed = pd.Series(sorted(known) if numeric else list(known), dtype=object)
    texts = [str(text) for text in labels_as_text(listed).tolist()]
    return texts if numeric else ordered_levels(texts)


def one_hot_features(
    column: ColumnDescription, values: pd.Series, order: Sequence[str] = ()
) -> tuple[list[str], NDArray[np.float64], str]:
    """One-hot encoding: one 0/1 feature a level.

    Args:
        column: The column.
        values: Its cells [N].
        order: Its levels in the order of the features; by default that of `levels`.

    Returns:
        Names "column = level"; features [N, levels], all NaN in a row whose cell is missing;
        and a note.
    """
    texts = labels_as_text(values)
    known = [*order] or levels(values)
    features = np.column_stack([np.where(texts == level, 1.0, 0.0) for level in known])
    features[values.isna().to_numpy()] = np.nan
    what = "1 feature, its only level" if len(known) == 1 else f"{len(known)} features, one a level"
    note = f"Column {column.name!r} is one-hot encoded as {what}: 1 where a row has it, else 0."
    if order:
        note += f" They are in the order that was set, {write_order(order)}."
    return [f"{column.name} = {level}" for level in known], features, note


def one_hot_columns(dataset: "Dataset") -> dict[str, tuple[int, ...]]:
    """Positions of the features of each one-hot encoded column of a dataset, by its name."""
    features = set(dataset.feature_names)
    names = sorted((str(name) for name in dataset.frame.columns), key=len, reverse=True)
    coded = [name for name in names if name not in features]
    found: dict[str, tuple[int, ...]] = {}
    for d, feature in enumerate(dataset.feature_names):
        column = next((name for name in coded if feature.startswith(f"{name} = ")), None)
        if column is not None:
            found[column] = (*found.get(column, ()), d)
    return found
