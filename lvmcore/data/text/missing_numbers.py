"""Sentinel numbers of missing cells: replaced if confirmed, else reported."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.text.cell_conversion import ConvertedColumn
from lvmcore.data.text.missing_markers import Sentinel, find_sentinels

__all__ = ["as_floats", "is_numeric", "mark_missing_numbers"]


def mark_missing_numbers(
    converted: Sequence[ConvertedColumn], names: Sequence[str], asked: Sequence[float]
) -> tuple[list[str], list[str]]:
    """Replace the sentinel numbers by missing cells, in place.

    Args:
        converted: The columns.
        names: Their names.
        asked: Sentinel numbers given by the caller, for all columns.

    Returns:
        The replaced numbers as text, and notes.
    """
    floats = _LazyFloats(converted)
    values = [number for number in asked if np.isfinite(number)]
    notes = []
    for sentinel in find_sentinels(floats):
        if sentinel.value in values:
            continue
        notes.append(_sentinel_note(sentinel, names))
        if sentinel.confirmed:
            values.append(sentinel.value)
    found = []
    for value in values:
        hits = [
            _set_missing(one, numbers == value)
            for one, numbers in zip(converted, floats, strict=True)
            if numbers is not None
        ]
        if any(hits):
            found.append(f"{value:g}")
    return found, notes


class _LazyFloats(Sequence[NDArray[np.float64] | None]):
    """The columns as floats, each converted on access to save memory."""

    def __init__(self, columns: Sequence[ConvertedColumn]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, index: int) -> NDArray[np.float64] | None: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[NDArray[np.float64] | None]: ...

    def __getitem__(
        self, index: int | slice
    ) -> NDArray[np.float64] | Sequence[NDArray[np.float64] | None] | None:
        if isinstance(index, slice):
            return _LazyFloats(self.columns[index])
        return as_floats(self.columns[index].values)


def is_numeric(values: Any) -> bool:
    """Whether a column is numeric."""
    if isinstance(values, pd.arrays.IntegerArray):
        return True
    return isinstance(values, np.ndarray) and values.dtype.kind in "iuf"


def as_floats(values: Any) -> NDArray[np.float64] | None:
    """Values of a numeric column with NaN for missing cells; None for other columns."""
    if isinstance(values, pd.arrays.IntegerArray):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if is_numeric(values):
        return np.asarray(values, dtype=np.float64)
    return None


def _sentinel_note(sentinel: Sentinel, names: Sequence[str]) -> str:
    shown = f"{sentinel.value:g}"
    count = len(sentinel.columns)
    columns = "1 column" if count == 1 else f"{count} columns"
    if sentinel.confirmed:
        return (
            f"{shown} means missing: it is the lowest value of {columns}, far below the others in "
            f"each, in {sentinel.cells:,} cells. These count as missing."
        )
    where = ", ".join(repr(names[place]) for place in sentinel.columns[:3])
    return (
        f"{shown} probably means missing in {columns} ({where}; {sentinel.cells:,} cells). It was "
        f"kept as a number; say that {shown} means missing if it does."
    )


def _set_missing(one: ConvertedColumn, hit: NDArray[np.bool_]) -> bool:
    if not hit.any():
        return False
    values = one.values
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        one.values = np.where(hit, np.nan, values)
    else:
        whole = pd.array(values, dtype="Int64")
        whole[hit] = pd.NA
        one.values = whole
    return True
