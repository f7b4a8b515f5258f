"""Selections of rows: regions of the map and conditions on columns, combined by AND, OR, NOT. Pure.

A selection is a description, not a list of rows. Its size does not depend on the number of rows,
and its members are computed over all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd

from app.analysis.map.map_axes import View, shown_dimensions
from app.analysis.map.regions import Polygon, Region
from app.formatting import number, shortened
from lvmcore.errors import DataError
from lvmcore.projection import BEST_VIEW, LatentProjection

__all__ = [
    "MOST_CONDITIONS",
    "MOST_NESTED",
    "TEXT_TESTS",
    "Between",
    "Bound",
    "Combination",
    "Not",
    "OneOf",
    "Operator",
    "RowFilter",
    "Selection",
    "Test",
    "describe_selection",
    "from_json",
    "is_number",
    "polygons_on",
    "regions_of",
    "to_json",
]

Test = Literal[
    "contains", "is", "at least", "at most", "more than", "less than", "equal to", "missing"
]
#: Conditions for a column of text.
TEXT_TESTS: tuple[Test, ...] = ("contains", "is", "missing")
#: Conditions of a selection at most, and levels of parentheses.
MOST_CONDITIONS, MOST_NESTED = 200, 30

#: An end of an interval: a number, or a date without a time zone (UTC).
Bound = float | datetime
Operator = Literal["and", "or"]


@dataclass(frozen=True)
class RowFilter:
    """The rows whose cell in a column satisfies a condition.

    Attributes:
        column: a column of the table; None for the row name.
        test: the condition; "contains" is not case-sensitive.
        value: text, number or date of the comparison; None for "missing".
    """

    column: str | None
    test: Test
    value: str | Bound | None = None


@dataclass(frozen=True)
class Between:
    """The rows whose number or date in a column lies in an interval, both ends included."""

    column: str
    low: Bound
    high: Bound


@dataclass(frozen=True)
class OneOf:
    """The rows whose cell in a column is one of several values.

    Attributes:
        column: a column of the table.
        values: texts, or numbers of a numeric column; None stands for a missing cell.
    """

    column: str
    values: tuple[str | float | None, ...]


@dataclass(frozen=True)
class Not:
    """The rows that are not in a selection; these include rows with a missing cell."""

    condition: Selection


@dataclass(frozen=True)
class Combination:
    """The rows that are in all of several selections, or in any of them.

    Attributes:
        operator: "and" or "or".
        conditions: two selections or more.
    """

    operator: Operator
    conditions: tuple[Selection, ...]


Selection = Region | RowFilter | Between | OneOf | Not | Combination


def regions_of(selection: Selection | None) -> tuple[Region, ...]:
    """The distinct regions of a selection, in order; a query names them by their number."""
    return tuple(dict.fromkeys(_regions(selection)))


def polygons_on(selection: Selection | None, axes: View) -> tuple[Polygon, ...]:
    """The polygons of a selection that were drawn on some axes."""
    drawn = (one for one in regions_of(selection) if one.axes == axes)
    return tuple(polygon for one in drawn for polygon in one.polygons)


def _regions(selection: Selection | None) -> Iterator[Region]:
    match selection:
        case Region():
            yield selection
        case Not(condition):
            yield from _regions(condition)
        case Combination(_, conditions):
            for condition in conditions:
                yield from _regions(condition)


def is_number(dtype: Any) -> bool:
    """Whether a column of this type has numeric conditions, not text conditions."""
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)


# ---- description ------------------------------------------------------------------------------


def describe_selection(selection: Selection) -> str:
    """Description of a selection (may hold user text)."""
    match selection:
        case Region(axes):
            return _describe_region(axes)
        case Not(condition):
            return f"without those {describe_selection(condition)}"
        case Combination(operator, conditions):
            return shortened(f", {operator} ".join(map(_describe_part, conditions)), 400)
        case Between(column, low, high):
            ends = f"between {_describe_value(low)} and {_describe_value(high)}"
            return f"whose {shortened(column)} is {ends}"
        case OneOf(column, values):
            shown = ", ".join(_describe_value(value) for value in values[:5])
            more = f" and {len(values) - 5} more" if len(values) > 5 else ""
            verb = "is" if len(values) == 1 else "is one of"
            return f"whose {shortened(column)} {verb} {shown}{more}"
    what = "whose name" if selection.column is None else f"whose {shortened(selection.column)}"
    if selection.test == "missing":
        return f"{what} is missing"
    if isinstance(selection.value, str):
        verb = "contains" if selection.test == "contains" else "is"
        return f"{what} {verb} {_describe_value(selection.value)}"
    return f"{what} is {selection.test} {_describe_value(selection.value)}"


def _describe_part(selection: Selection) -> str:
    text = describe_selection(selection)
    return f"({text})" if isinstance(selection, Combination) else text


def _describe_region(axes: View) -> str:
    if isinstance(axes, LatentProjection):
        return f"drawn on {BEST_VIEW}"
    shown = [str(dimension + 1) for dimension in shown_dimensions(axes)]
    noun = "dimension" if len(shown) == 1 else "dimensions"
    return f"drawn on {noun} {' and '.join(shown)}"


def _describe_value(value: str | Bound | None) -> str:
    match value:
        case None:
            return "missing"
        case str():
            return f"“{shortened(value)}”"
        case datetime():
            return str(value.date() if value.time() == datetime.min.time() else value)
    if math.isinf(value):
        return number(value)
    return f"{value:.10g}".replace("-", "−")


# ---- JSON -------------------------------------------------------------------------------------


def to_json(selection: Selection) -> dict[str, Any]:
    """A selection as a JSON object."""
    match selection:
        case Region(axes, polygons):
            drawn = asdict(axes) if isinstance(axes, LatentProjection) else list(axes)
            return {"axes": drawn, "polygons": [list(p) for p in polygons]}
        case Not(condition):
            return {"not": to_json(condition)}
        case Combination(operator, conditions):
            return {operator: [to_json(condition) for condition in conditions]}
        case Between(column, low, high):
            return {"column": column, "between": [_value_to_json(low), _value_to_json(high)]}
        case OneOf(column, values):
            return {"column": column, "one of": list(values)}
    value = _value_to_json(selection.value)
    return {"column": selection.column, "test": selection.test, "value": value}


def _value_to_json(value: str | Bound | None) -> Any:
    return {"date": value.isoformat()} if isinstance(value, datetime) else value


def from_json(stored: Mapping[str, Any], dimensions: int) -> Selection:
    """A selection from ``to_json``, of this version or an earlier one.

    Args:
        stored: the JSON object.
        dimensions: number of latent dimensions of the map.

    Raises:
        DataError: the object describes no selection of such a map.
    """
    try:
        selection = _read(stored, dimensions, MOST_NESTED)
        if sum(1 for _ in _conditions(selection)) > MOST_CONDITIONS:
            raise ValueError(f"it has more than {MOST_CONDITIONS} conditions")
        return selection
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"A saved selection is invalid: {error}.") from error


def _conditions(selection: Selection) -> Iterator[Selection]:
    match selection:
        case Not(condition):
            yield from _conditions(condition)
        case Combination(_, conditions):
            for condition in conditions:
                yield from _conditions(condition)
        case _:
            yield selection


def _read(stored: Mapping[str, Any], dimensions: int, depth: int) -> Selection:
    if depth == 0:
        raise ValueError(f"conditions are nested in more than {MOST_NESTED} levels")
    if "not" in stored:
        return Not(_read(stored["not"], dimensions, depth - 1))
    for operator in get_args(Operator):
        if operator in stored:
            parts = tuple(_read(one, dimensions, depth - 1) for one in stored[operator])
            if len(parts) < 2:
                raise ValueError(f"{operator!r} needs two conditions")
            return Combination(operator, parts)
    if "polygons" in stored:
        return _drawn(stored, dimensions)
    return _found(stored) if "test" in stored else _range_or_values(stored)


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
    if test == "missing":
        return RowFilter(column, test)
    if test in TEXT_TESTS:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is no value for the condition {test!r}")
        return RowFilter(column, cast("Test", test), value)
    return RowFilter(column, cast("Test", test), _bound(value))


def _range_or_values(stored: Mapping[str, Any]) -> Between | OneOf:
    column = stored["column"]
    if not isinstance(column, str):
        raise ValueError(f"{column!r} is no column")
    if "between" in stored:
        low, high = map(_bound, stored["between"])
        return Between(column, low, high)
    values = tuple(
        value if value is None or isinstance(value, str) else _number(value)
        for value in _sequence(stored["one of"])
    )
    if not values:
        raise ValueError("a condition has no values")
    return OneOf(column, values)


def _sequence(stored: Any) -> Sequence[Any]:
    if not isinstance(stored, list | tuple):
        raise ValueError(f"{stored!r} is no list")
    return stored


def _bound(stored: Any) -> Bound:
    if isinstance(stored, Mapping):
        moment = datetime.fromisoformat(stored["date"])
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return _number(stored)


def _number(stored: Any) -> float:
    if isinstance(stored, bool) or not isinstance(stored, float | int) or math.isnan(stored):
        raise ValueError(f"{stored!r} is no number")
    return float(stored)
