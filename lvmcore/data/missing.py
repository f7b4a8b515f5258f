"""Numbers that mean missing: turned into missing cells where that is sure, else reported."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.convert import Converted
from lvmcore.data.markers import Sentinel, find_sentinels

__all__ = ["as_floats", "is_numeric", "mark_missing_numbers"]


def mark_missing_numbers(
    converted: Sequence[Converted], names: Sequence[str], asked: Sequence[float]
) -> tuple[list[str], list[str]]:
    """Make the numbers that mean missing into missing cells, in place.

    Args:
        converted: The columns.
        names: Their names.
        asked: Numbers that the caller says mean missing, in any column.

    Returns:
        The numbers that were found and are missing now, as text, and notes.
    """
    floats = _Floats(converted)
    values = [number for number in asked if np.isfinite(number)]
    notes = []
    for sentinel in find_sentinels(floats):
        if sentinel.value in values:
            continue
        notes.append(_note(sentinel, names))
        if sentinel.sure:
            values.append(sentinel.value)
    found = []
    for value in values:
        hits = [
            _blank_out(one, numbers == value)
            for one, numbers in zip(converted, floats, strict=True)
            if numbers is not None
        ]
        if any(hits):
            found.append(f"{value:g}")
    return found, notes


class _Floats(Sequence[NDArray[np.float64] | None]):
    """The columns as `as_floats` gives them, each when it is asked for: all would be too many."""

    def __init__(self, columns: Sequence[Converted]) -> None:
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
            return _Floats(self.columns[index])
        return as_floats(self.columns[index].values)


def is_numeric(values: Any) -> bool:
    """Whether a column holds numbers."""
    if isinstance(values, pd.arrays.IntegerArray):
        return True
    return isinstance(values, np.ndarray) and values.dtype.kind in "iuf"


def as_floats(values: Any) -> NDArray[np.float64] | None:
    """The values of a numeric column with NaN for missing; None for any other column."""
    if isinstance(values, pd.arrays.IntegerArray):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if is_numeric(values):
        return np.asarray(values, dtype=np.float64)
    return None


def _note(sentinel: Sentinel, names: Sequence[str]) -> str:
    shown = f"{sentinel.value:g}"
    count = len(sentinel.columns)
    columns = "1 column" if count == 1 else f"{count} columns"
    if sentinel.sure:
        return (
            f"{shown} means missing: it is the lowest value of {columns}, far below the others in "
            f"each, in {sentinel.cells:,} cells. These count as missing."
        )
    where = ", ".join(repr(names[place]) for place in sentinel.columns[:3])
    return (
        f"{shown} probably means missing in {columns} ({where}; {sentinel.cells:,} cells). It was "
        f"kept as a number; say that {shown} means missing if it does."
    )


def _blank_out(one: Converted, hit: NDArray[np.bool_]) -> bool:
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
