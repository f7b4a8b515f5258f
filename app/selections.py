"""What can be selected: rows encircled on the map, or rows found by their cells. Pure.

A selection is a description, not a list of rows: it is short however many rows it holds, and is
decided over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.axes import positions
from app.regions import Region
from app.words import shortened
from lvmcore.data import Dataset
from lvmcore.errors import DataError

__all__ = [
    "NUMBER_TESTS",
    "TEXT_TESTS",
    "Found",
    "Selection",
    "Test",
    "from_json",
    "is_number",
    "members",
    "said",
    "to_json",
]

Test = Literal["contains", "is", "at least", "at most", "equal to", "missing"]
#: What can be asked of a column of text, and of one of numbers.
TEXT_TESTS: tuple[Test, ...] = ("contains", "is", "missing")
NUMBER_TESTS: tuple[Test, ...] = ("at least", "at most", "equal to", "missing")


@dataclass(frozen=True)
class Found:
    """The rows whose cell in a column passes a test.

    Attributes:
        column: of the table; None for the row's name.
        test: what is asked of the cell. Capital letters do not matter to "contains".
        value: what it is compared with: text, or a number; None for "missing".
    """

    column: str | None
    test: Test
    value: str | float | None = None


Selection = Region | Found


def members(selection: Selection, mean: NDArray[np.float64], dataset: Dataset) -> NDArray[np.bool_]:
    """Which rows a selection holds, [N].

    Args:
        selection: what was drawn or asked for.
        mean: latent means, [N, Q].
        dataset: the same rows.
    """
    if isinstance(selection, Region):
        return selection.members(positions(mean, selection.axes))
    if selection.column is None:
        return _passes(pd.Series(dataset.row_ids, dtype=object), selection)
    if selection.column not in dataset.frame:
        return np.zeros(len(dataset), dtype=np.bool_)
    return _passes(dataset.frame[selection.column], selection)


def is_number(dtype: Any) -> bool:
    """Whether a column of such a type is searched by number, and not by text."""
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


def _passes(column: pd.Series[Any], found: Found) -> NDArray[np.bool_]:
    if found.test == "missing":
        return column.isna().to_numpy(dtype=np.bool_)
    if found.test in NUMBER_TESTS:
        if not is_number(column.dtype) or not isinstance(found.value, int | float):
            return np.zeros(len(column), dtype=np.bool_)
        cells = column.to_numpy(dtype=np.float64, na_value=np.nan)
        compare = {"at least": np.greater_equal, "at most": np.less_equal, "equal to": np.equal}
        return np.asarray(compare[found.test](cells, found.value))
    known = column.notna().to_numpy(dtype=np.bool_)
    passed = np.zeros(len(column), dtype=np.bool_)
    texts = column[known].astype(str)
    wanted = str(found.value)
    if found.test == "is":
        passed[known] = (texts == wanted).to_numpy(dtype=np.bool_)
    else:
        folded = texts.str.casefold()
        passed[known] = folded.str.contains(wanted.casefold(), regex=False).to_numpy(np.bool_)
    return passed


def said(selection: Selection) -> str:
    """How a selection was made, in plain words that may hold user text."""
    if isinstance(selection, Region):
        shown = [str(dimension + 1) for dimension in selection.axes if dimension is not None]
        noun = "dimension" if len(shown) == 1 else "dimensions"
        return f"drawn on {noun} {' and '.join(shown)}"
    what = "whose name" if selection.column is None else f"whose {shortened(selection.column)}"
    if selection.test == "missing":
        return f"{what} is missing"
    if isinstance(selection.value, str):
        verb = "contains" if selection.test == "contains" else "is"
        return f"{what} {verb} “{shortened(selection.value)}”"
    value = f"{selection.value:.10g}".replace("-", "−")
    return f"{what} is {selection.test} {value}"


# ---- as JSON ---------------------------------------------------------------------------------


def to_json(selection: Selection) -> dict[str, Any]:
    """A selection as JSON holds it."""
    if isinstance(selection, Region):
        return {"axes": list(selection.axes), "polygons": [list(p) for p in selection.polygons]}
    return {"column": selection.column, "test": selection.test, "value": selection.value}


def from_json(stored: Mapping[str, Any], dimensions: int) -> Selection:
    """A selection from ``to_json``.

    Args:
        stored: what was kept.
        dimensions: how many latent dimensions the map has.

    Raises:
        DataError: it describes no selection of such a map.
    """
    try:
        return _drawn(stored, dimensions) if "polygons" in stored else _found(stored)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"A saved selection makes no sense: {error}.") from error


def _drawn(stored: Mapping[str, Any], dimensions: int) -> Region:
    first, second = stored["axes"]
    axes = (int(first), None if second is None else int(second))
    if not all(axis is None or 0 <= axis < dimensions for axis in axes):
        raise ValueError(f"the map has {dimensions} dimensions, not those of {axes}")
    polygons = tuple(
        tuple((float(x), float(y)) for x, y in polygon) for polygon in stored["polygons"]
    )
    if not polygons or not all(len(corners) > 2 for corners in polygons):
        raise ValueError("a region has three corners or more")
    return Region(axes, polygons)


def _found(stored: Mapping[str, Any]) -> Found:
    column, test, value = (stored[part] for part in ("column", "test", "value"))
    if test not in get_args(Test) or not isinstance(column, str | None):
        raise ValueError(f"no column is searched for {test!r}")
    expected = float | int if test in NUMBER_TESTS else str
    if test == "missing":
        value = None
    elif not isinstance(value, expected) or isinstance(value, bool):
        raise ValueError(f"{value!r} is nothing that a cell can be {test}")
    return Found(column, cast("Test", test), value)
