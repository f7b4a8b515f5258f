"""The selection of a query, by a parser of its own; the grammar is in ``query_text``. Pure.

Nothing of the text is executed, and its length and depth are limited.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Literal, NoReturn

import pandas as pd

from app.analysis.filters.query_text import RESERVED_WORDS, SYMBOLS, column_name
from app.analysis.map.regions import Region
from app.analysis.map.selections import (
    MOST_CONDITIONS,
    MOST_NESTED,
    Between,
    Bound,
    Combination,
    Not,
    OneOf,
    Operator,
    RowFilter,
    Selection,
    is_number,
)
from app.formatting import shortened
from lvmcore.errors import ConfigError

__all__ = ["LONGEST_QUERY", "ColumnKind", "column_kinds", "parse_query"]

ColumnKind = Literal["number", "date", "text"]
#: Characters of a query at most.
LONGEST_QUERY = 5000

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<date>\d{4}-\d{2}-\d{2}(?:[T\ ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?)
  | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<column>`(?:[^`]|``)+`)
  | (?P<symbol>[<>!]=|==|[<>=(),])
)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def column_kinds(frame: pd.DataFrame) -> dict[str, ColumnKind]:
    """What the columns of a table can be compared with."""
    return {str(name): _kind(dtype) for name, dtype in frame.dtypes.items()}


def _kind(dtype: Any) -> ColumnKind:
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return "date"
    return "number" if is_number(dtype) else "text"


def parse_query(
    text: str, columns: Mapping[str, ColumnKind], regions: Sequence[Region] = ()
) -> Selection | None:
    """The selection of a query; None for a blank one.

    Args:
        text: the query.
        columns: the columns of the table and their kinds.
        regions: the regions that the query can name by their number, from 1.

    Raises:
        ConfigError: the text is no query of this table; the message has the place of the problem,
            as a number of characters from the start, and what was expected there.
    """
    if len(text) > LONGEST_QUERY:
        raise ConfigError(
            f"The query has {len(text):,} characters; expected at most {LONGEST_QUERY:,}."
        )
    tokens = _tokens(text)
    if len(tokens) == 1:
        return None
    return _Parser(tokens, columns, regions).query()


@dataclass(frozen=True)
class _Token:
    """A part of a query.

    Attributes:
        kind: date, number, word, text, column, symbol or end.
        raw: as written.
        value: without quotes; words and symbols in lower case.
        start: position in the query, from 0.
    """

    kind: str
    raw: str
    value: str
    start: int


def _tokens(text: str) -> list[_Token]:
    found, position = [], 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            if text[start] in "\"'`":
                _fail(start, f"expected a closing {text[start]}")
            _fail(start, f"{text[start]!r} has no meaning here")
        kind, raw = match.lastgroup, match[match.lastgroup]
        start = match.start(kind)
        found.append(_Token(kind, raw, _content(kind, raw, start), start))
        position = match.end()
    return [*found, _Token("end", "", "", end)]


def _content(kind: str, raw: str, start: int) -> str:
    if kind == "column":
        return raw[1:-1].replace("``", "`")
    if kind != "text":
        return raw.casefold()

    def unescaped(found: re.Match[str]) -> str:
        if not found[1]:
            return _ESCAPES.get(found[2], found[2])
        if 0xD800 <= int(found[1], 16) < 0xE000:
            _fail(start + found.start(), "a surrogate is no character")
        return chr(int(found[1], 16))

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", unescaped, raw[1:-1], flags=re.DOTALL)


def _fail(start: int, problem: str) -> NoReturn:
    raise ConfigError(f"Character {start + 1} of the query: {problem}.")


class _Parser:
    """A parser by recursive descent, one method a rule of the grammar."""

    def __init__(
        self, tokens: list[_Token], columns: Mapping[str, ColumnKind], regions: Sequence[Region]
    ) -> None:
        self._tokens = tokens
        self._columns = columns
        self._regions = regions
        self._position = 0
        self._depth = 0
        self._conditions = 0

    def query(self) -> Selection:
        found = self._combination("or")
        if self._next.kind != "end":
            self._expected("“and”, “or” or the end")
        return found

    # -- tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _take(self) -> _Token:
        token = self._next
        self._position += 1
        return token

    def _accept(self, *values: str) -> str | None:
        """Take the next token if it is one of some words or symbols."""
        token = self._next
        if token.kind in ("word", "symbol") and token.value in values:
            return self._take().value
        return None

    def _require(self, value: str) -> None:
        if self._accept(value) is None:
            self._expected(f"“{value}”")

    def _expected(self, what: str) -> NoReturn:
        token = self._next
        got = "the query ends" if token.kind == "end" else f"got “{shortened(token.raw)}”"
        _fail(token.start, f"expected {what}, {got}")

    # -- rules

    def _combination(self, operator: Operator) -> Selection:
        part = self._one if operator == "and" else lambda: self._combination("and")
        parts = [part()]
        while self._accept(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Combination(operator, tuple(parts))

    def _one(self) -> Selection:
        self._depth += 1
        if self._depth > MOST_NESTED:
            _fail(self._next.start, f"more than {MOST_NESTED} levels of “not” and parentheses")
        if self._accept("not"):
            found: Selection = Not(self._one())
        elif self._accept("("):
            found = self._combination("or")
            self._require(")")
        else:
            self._conditions += 1
            if self._conditions > MOST_CONDITIONS:
                _fail(self._next.start, f"more than {MOST_CONDITIONS} conditions")
            found = self._region() if self._accept("region") else self._condition()
        self._depth -= 1
        return found

    def _region(self) -> Region:
        token = self._next
        if token.kind != "number" or not token.raw.isdecimal():
            self._expected("the number of a region")
        if not 1 <= int(token.raw) <= len(self._regions):
            known = f"regions 1 to {len(self._regions)} are" if self._regions else "no region is"
            _fail(token.start, f"there is no region {shortened(token.raw, 12)}; {known} drawn")
        return self._regions[int(self._take().raw) - 1]

    def _condition(self) -> Selection:
        column = self._column()
        kind = "text" if column is None else self._columns[column]
        if self._accept("is"):
            negated = self._accept("not") is not None
            self._require("missing")
            found: Selection = RowFilter(column, "missing")
            return Not(found) if negated else found
        negated = self._accept("not") is not None
        found = self._test(column, kind, negated=negated)
        return Not(found) if negated else found

    def _test(self, column: str | None, kind: ColumnKind, *, negated: bool) -> Selection:
        if self._accept("contains"):
            return RowFilter(column, "contains", self._text())
        if column is not None and self._accept("in"):
            return OneOf(column, self._values(kind))
        if column is not None and kind != "text" and self._accept("between"):
            low = self._bound(kind)
            self._require("and")
            return Between(column, low, self._bound(kind))
        tests = "“=”, “contains”" + ("" if column is None else ", “in”")
        if kind != "text":
            tests += ", “between”, “>=”, “<=”, “>”, “<”"
        if negated:
            self._expected(tests.replace("“=”, ", "").partition(", “>=”")[0])
        if self._accept("!="):
            return Not(self._equal(column, kind))
        if self._accept("=", "=="):
            return self._equal(column, kind)
        symbol = self._accept(*SYMBOLS) if kind != "text" else None
        if symbol is None:
            self._expected(f"{tests} or “is missing”")
        return RowFilter(column, SYMBOLS[symbol], self._bound(kind))

    def _equal(self, column: str | None, kind: ColumnKind) -> RowFilter:
        if kind == "text" or self._next.kind == "text":
            return RowFilter(column, "is", self._text())
        return RowFilter(column, "equal to", self._bound(kind))

    def _column(self) -> str | None:
        token = self._next
        if token.kind == "word" and token.value == "row":
            self._take()
            return None
        if token.kind not in ("word", "text", "column") or (
            token.kind == "word" and token.value in RESERVED_WORDS
        ):
            self._expected("a column, “region”, “not” or “(”")
        name = token.raw if token.kind == "word" else token.value
        if name not in self._columns:
            self._fail_column(name, token.start)
        self._take()
        return name

    def _fail_column(self, name: str, start: int) -> NoReturn:
        by_lower = {known.casefold(): known for known in self._columns}
        close = get_close_matches(name[:200].casefold(), by_lower, n=1)
        hint = f"; did you mean {column_name(by_lower[close[0]])}" if close else ""
        _fail(start, f"there is no column “{shortened(name)}”{hint}")

    # -- values

    def _text(self) -> str:
        token = self._next
        reserved = token.kind == "word" and token.value in RESERVED_WORDS
        if token.kind not in ("text", "word", "number", "date") or reserved:
            self._expected("a text in quotes")
        self._take()
        return token.value if token.kind == "text" else token.raw

    def _bound(self, kind: ColumnKind) -> Bound:
        token = self._next
        found: Bound | None = None
        if token.kind in (kind, "text"):
            found = _number(token.value) if kind == "number" else _date(token.value)
        if found is None:
            self._expected("a number" if kind == "number" else "a date such as 2024-05-31")
        self._take()
        return found

    def _values(self, kind: ColumnKind) -> tuple[str | float | None, ...]:
        self._require("(")
        values: list[str | float | None] = [self._value(kind)]
        while self._accept(","):
            values.append(self._value(kind))
        self._require(")")
        return tuple(values)

    def _value(self, kind: ColumnKind) -> str | float | None:
        if self._accept("missing"):
            return None
        if kind == "number" and self._next.kind == "number":
            return float(self._take().value)
        return self._text()


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return None if math.isnan(found) else found


def _date(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return found if found.tzinfo is None else None
