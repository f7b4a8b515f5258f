"""Selections of rows: by a region of the map, or by a condition on a column. Pure.

A selection is a description, not a list of rows. Its size does not depend on the number of rows,
and its members are computed over all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.analysis.map.map_axes import View, positions, shown_dimensions
from app.analysis.map.regions import Region
from app.formatting import shortened
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.projection import BEST_VIEW, LatentProjection

__all__ = [
    "NUMBER_TESTS",
    "TEXT_TESTS",
    "RowFilter",
    "Selection",
    "Test",
    "describe_selection",
    "from_json",
    "is_number",
    "selected_rows",
    "to_json",
]

Test = Literal["contains", "is", "at least", "at most", "equal to", "missing"]
#: Conditions for a column of text, and for a numeric column.
TEXT_TESTS: tuple[Test, ...] = ("contains", "is", "missing")
NUMBER_TESTS: tuple[Test, ...] = ("at least", "at most", "equal to", "missing")


@dataclass(frozen=True)
class RowFilter:
    """The rows whose cell in a column satisfies a condition.

    Attributes:
        column: a column of the table; None for the row name.
        test: the condition; "contains" is not case-sensitive.
        value: text or number of the comparison; None for "missing".
    """

    column: str | None
    test: Test
    value: str | float | None = None


Selection = Region | RowFilter


def selected_rows(
    selection: Selection, mean: NDArray[np.float64], dataset: Dataset
) -> NDArray[np.bool_]:
    """Mask of the selected rows, [N].

    Args:
        selection: a region or a condition.
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
    """Whether a column of this type has numeric conditions, not text conditions."""
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


def _passes(column: pd.Series[Any], found: RowFilter) -> NDArray[np.bool_]:
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


def describe_selection(selection: Selection) -> str:
    """Description of a selection (may hold user text)."""
    if isinstance(selection, Region):
        if isinstance(selection.axes, LatentProjection):
            return f"drawn on {BEST_VIEW}"
        shown = [str(dimension + 1) for dimension in shown_dimensions(selection.axes)]
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


def to_json(selection: Selection) -> dict[str, Any]:
    """A selection as a JSON object."""
    if isinstance(selection, Region):
        axes = selection.axes
        drawn = asdict(axes) if isinstance(axes, LatentProjection) else list(axes)
        return {"axes": drawn, "polygons": [list(p) for p in selection.polygons]}
    return {"column": selection.column, "test": selection.test, "value": selection.value}


def from_json(stored: Mapping[str, Any], dimensions: int) -> Selection:
    """A selection from ``to_json``.

    Args:
        stored: the JSON object.
        dimensions: number of latent dimensions of the map.

    Raises:
        DataError: the object describes no selection of such a map.
    """
    try:
        return _drawn(stored, dimensions) if "polygons" in stored else _found(stored)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"A saved selection is invalid: {error}.") from error


def _drawn(stored: Mapping[str, Any], dimensions: int) -> Region:
    axes = _axes(stored["axes"], dimensions)
    polygons = tuple(
        tuple((float(x), float(y)) for x, y in polygon) for polygon in stored["polygons"]
    )
    if not polygons or not all(len(corners) > 2 for corners in polygons):
        raise ValueError("a region needs at least three corners")
    return Region(axes, polygons)


def _axes(stored: Any, dimensions: int) -> View:
    """The axes on which a region was drawn: two dimensions, or a projection."""
    if isinstance(stored, Mapping):
        weights, basis = (np.array(stored[part], dtype=np.float64) for part in ("weights", "basis"))
        centre = np.array(stored["centre"], dtype=np.float64)
        shapes = [part.shape for part in (weights, basis, centre)]
        if shapes != [(dimensions, 2), (dimensions, 2), (dimensions,)]:
            raise ValueError(f"the map has {dimensions} dimensions, and the projection {shapes}")
        return LatentProjection.from_arrays(weights, basis, centre)
    first, second = stored
    axes = (int(first), None if second is None else int(second))
    if not all(axis is None or 0 <= axis < dimensions for axis in axes):
        raise ValueError(f"the map has {dimensions} dimensions, and the axes are {axes}")
    return axes


def _found(stored: Mapping[str, Any]) -> RowFilter:
    column, test, value = (stored[part] for part in ("column", "test", "value"))
    if test not in get_args(Test) or not isinstance(column, str | None):
        raise ValueError(f"unknown condition {test!r}")
    expected = float | int if test in NUMBER_TESTS else str
    if test == "missing":
        value = None
    elif not isinstance(value, expected) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no value for the condition {test!r}")
    return RowFilter(column, cast("Test", test), value)
