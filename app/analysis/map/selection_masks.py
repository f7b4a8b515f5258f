"""The rows of a selection, as a mask over all rows. Pure."""

from __future__ import annotations

import operator as operators
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.analysis.map.map_axes import positions
from app.analysis.map.regions import Region
from app.analysis.map.selections import (
    Between,
    Bound,
    Combination,
    Not,
    OneOf,
    RowFilter,
    Selection,
    Test,
    is_number,
)
from lvmcore.data import Dataset
from lvmcore.numerics.array_types import FloatArray

__all__ = ["cell_levels", "date_cells", "selected_rows"]

Mask = NDArray[np.bool_]

_COMPARISONS = {
    "at least": operators.ge,
    "at most": operators.le,
    "more than": operators.gt,
    "less than": operators.lt,
    "equal to": operators.eq,
}


def selected_rows(selection: Selection, mean: NDArray[np.float64], dataset: Dataset) -> Mask:
    """Mask of the selected rows, [N].

    A condition on a column that the table does not have, or with a value of another type than the
    column's, holds for no row.

    Args:
        selection: regions and conditions.
        mean: latent means, [N, Q].
        dataset: the same rows.
    """
    match selection:
        case Region():
            return selection.members(positions(mean, selection.axes))
        case Not(condition):
            return ~selected_rows(condition, mean, dataset)
        case Combination(operator, conditions):
            combine = np.logical_and if operator == "and" else np.logical_or
            masks = [selected_rows(one, mean, dataset) for one in conditions]
            return np.asarray(combine.reduce(masks), dtype=np.bool_)
    return _rows_that_meet(selection, dataset)


def _rows_that_meet(condition: RowFilter | Between | OneOf, dataset: Dataset) -> Mask:
    if condition.column is None:
        return _passes(pd.Series(dataset.row_ids, dtype=object), condition)
    if condition.column not in dataset.frame:
        return np.zeros(len(dataset), dtype=np.bool_)
    column = dataset.frame[condition.column]
    match condition:
        case Between(_, low, high):
            return _compared(column, "at least", low) & _compared(column, "at most", high)
        case OneOf(_, values):
            return _is_one_of(column, values)
    return _passes(column, condition)


def _passes(column: pd.Series[Any], found: RowFilter) -> Mask:
    if found.test == "missing":
        return column.isna().to_numpy(dtype=np.bool_)
    if found.test in _COMPARISONS:
        if found.value is None or isinstance(found.value, str):
            return np.zeros(len(column), dtype=np.bool_)
        return _compared(column, found.test, found.value)
    codes, levels = cell_levels(column)
    wanted = str(found.value)
    if found.test == "is":
        passed = [level == wanted for level in levels]
    else:
        folded = wanted.casefold()
        passed = [folded in level.casefold() for level in levels]
    return _of_levels(codes, passed, missing=False)


def _compared(column: pd.Series[Any], test: Test, value: Bound) -> Mask:
    """Comparison of numbers with a number, or of dates with a date; False where missing."""
    compare = _COMPARISONS[test]
    if isinstance(value, datetime):
        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            return np.asarray(compare(date_cells(column), np.datetime64(value)), dtype=np.bool_)
    elif is_number(column.dtype):
        cells = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(compare(cells, value), dtype=np.bool_)
    return np.zeros(len(column), dtype=np.bool_)


def _is_one_of(column: pd.Series[Any], values: tuple[str | float | None, ...]) -> Mask:
    passed = np.zeros(len(column), dtype=np.bool_)
    if None in values:
        passed |= column.isna().to_numpy(dtype=np.bool_)
    numbers: FloatArray = np.array([one for one in values if isinstance(one, float)])
    if len(numbers) and is_number(column.dtype):
        passed |= np.isin(column.to_numpy(dtype=np.float64, na_value=np.nan), numbers)
    texts = {one for one in values if isinstance(one, str)}
    if texts:
        codes, levels = cell_levels(column)
        passed |= _of_levels(codes, [level in texts for level in levels], missing=False)
    return passed


def cell_levels(column: pd.Series[Any]) -> tuple[NDArray[np.intp], list[str]]:
    """The cells of a column as codes, [N], and the text of each code; −1 is a missing cell.

    Texts are distinct, in the order of their first row.
    """
    codes, values = pd.factorize(column)
    same, texts = pd.factorize(pd.Series(values).astype(str))
    if len(texts) < len(values):  # different cells of one text, such as 1 and "1"
        codes = np.append(same, -1)[codes]
    return codes, [str(text) for text in texts]


def date_cells(column: pd.Series[Any]) -> NDArray[np.datetime64]:
    """Dates in UTC without a time zone, [N]; NaT where missing."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(column.to_numpy())


def _of_levels(codes: NDArray[np.intp], passed: list[bool], *, missing: bool) -> Mask:
    """Whether the level of each row is among those that passed; ``missing`` is for code −1."""
    return np.array([*passed, missing], dtype=np.bool_)[codes]
