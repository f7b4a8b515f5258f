"""Selections as text that can be edited; ``query_parser`` reads it. Pure.

The grammar, in which words are not case-sensitive::

    query     = all { "or" all }
    all       = one { "and" one }
    one       = "not" one | "(" query ")" | "region" number | column test
    test      = ("=" | "!=" | ">" | ">=" | "<" | "<=") value
              | [ "not" ] "between" value "and" value
              | [ "not" ] "in" "(" value { "," value } ")"
              | [ "not" ] "contains" value
              | "is" [ "not" ] "missing"

A column is a word, or any text in quotes or backticks; ``row`` is the row name. A value is a
number, a date such as 2024-05-31, a word, or a text in quotes; ``missing`` among the values of "in"
is a missing cell.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import datetime

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
    regions_of,
)

__all__ = ["RESERVED_WORDS", "SYMBOLS", "column_name", "query_text"]

#: Words of the grammar; a column or a text of that name is written in quotes.
RESERVED_WORDS = frozenset(
    ("and", "or", "not", "between", "in", "contains", "is", "missing", "region", "row")
)
SYMBOLS: dict[str, Test] = {
    "=": "equal to", ">=": "at least", "<=": "at most", ">": "more than", "<": "less than",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")
_OF_TEST = {test: symbol for symbol, test in SYMBOLS.items()}


def query_text(selection: Selection | None, regions: Sequence[Region] | None = None) -> str:
    """The query of a selection; empty for None.

    Args:
        selection: the selection.
        regions: the regions that the query names by their number, from 1; by default those of
            the selection.
    """
    if selection is None:
        return ""
    return _written(selection, list(regions_of(selection) if regions is None else regions))


def _written(selection: Selection, regions: list[Region]) -> str:
    match selection:
        case Region():
            return f"region {regions.index(selection) + 1}"
        case Combination(operator, conditions):
            return f" {operator} ".join(_operand(one, regions) for one in conditions)
        case Not(RowFilter() | Between() | OneOf() as condition):
            return _condition(condition, negated=True)
        case Not(condition):
            return f"not {_operand(condition, regions)}"
    return _condition(selection, negated=False)


def _operand(selection: Selection, regions: list[Region]) -> str:
    text = _written(selection, regions)
    return f"({text})" if isinstance(selection, Combination) else text


def _condition(condition: RowFilter | Between | OneOf, *, negated: bool) -> str:
    column = "row" if condition.column is None else column_name(condition.column)
    word = f"{column} not" if negated else column
    match condition:
        case Between(_, low, high):
            return f"{word} between {_value(low)} and {_value(high)}"
        case OneOf(_, values):
            return f"{word} in ({', '.join(map(_value, values))})"
        case RowFilter(_, "missing"):
            return f"{column} is {'not ' if negated else ''}missing"
        case RowFilter(_, "contains"):
            return f"{word} contains {_value(condition.value)}"
        case RowFilter(_, "is" | "equal to"):
            return f"{column} {'!=' if negated else '='} {_value(condition.value)}"
    text = f"{column} {_OF_TEST[condition.test]} {_value(condition.value)}"
    return f"not {text}" if negated else text


def column_name(name: str) -> str:
    """A column as the query has it: in quotes unless it is a word."""
    plain = _WORD.fullmatch(name) and name.casefold() not in RESERVED_WORDS
    return name if plain else _value(name)


def _value(value: str | Bound | None) -> str:
    match value:
        case None:
            return "missing"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case datetime():
            return str(value.date() if value.time() == datetime.min.time() else value)
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else repr(float(value))
