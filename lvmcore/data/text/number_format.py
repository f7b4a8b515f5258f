"""Number formats: the decimal mark and the thousands separator of each column.

All decisions between formats are made here: `decide_numbers` looks at the marks of all columns.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lvmcore.data.text.number_marks import MARKS, OTHER_MARK, SPACES, ColumnMarks
from lvmcore.errors import ConfigError

__all__ = [
    "TEXT",
    "ColumnNumbers",
    "NumberFormat",
    "RequestedMarks",
    "TableNumbers",
    "decide_numbers",
]

#: The choice of a column whose cells stay text.
TEXT = ""
_INFINITE = r"[+-]?(?:inf|infinity)"
#: Votes of a column for its decimal mark: beyond doubt, usual, and one that may be of versions.
_STRONG, _USUAL, _VERSION = 4, 2, 1
#: Fewest votes that decide how "1.234" is read in other columns.
_ENOUGH = 4


@dataclass(frozen=True)
class NumberFormat:
    """Decimal mark and thousands separator.

    Attributes:
        decimal: "." or ",".
        thousands: The character between groups of three digits, or None.
    """

    decimal: str = "."
    thousands: str | None = None

    @property
    def _separator(self) -> str:
        """Regular expression of the thousands separator; spaces and apostrophes have variants."""
        variants = {" ": f"[{SPACES}]", "'": "['’]", "’": "['’]"}
        return variants.get(self.thousands or "", re.escape(self.thousands or ""))

    @cached_property
    def pattern(self) -> str:
        """Regular expression (RE2 and Python) of the numbers in this format."""
        mark = re.escape(self.decimal)
        whole = r"\d+"
        if self.thousands is not None:
            whole = rf"(?:\d{{1,3}}(?:{self._separator}\d{{3}})+|\d+)"
        number = rf"[+-]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?"
        return rf"^(?:{number}|(?i:{_INFINITE}))$"

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def matches(self, cell: str) -> bool:
        """Whether a stripped cell is a number in this format."""
        return self._compiled.fullmatch(cell) is not None

    def to_plain(self, cells: Any) -> Any:
        """Convert an Arrow string array of numbers in this format to floats."""
        plain = cells
        if self.thousands is not None:
            plain = pc.replace_substring_regex(plain, pattern=self._separator, replacement="")
        if self.decimal != ".":
            plain = pc.replace_substring(plain, pattern=self.decimal, replacement=".")
        return pc.cast(plain, pa.float64())

    def plain_text(self, cell: str) -> str:
        """A number in this format with the decimal mark "." and without groups."""
        plain = cell if self.thousands is None else re.sub(self._separator, "", cell)
        return plain.replace(self.decimal, ".")


@dataclass(frozen=True)
class RequestedMarks:
    """The marks that the caller set.

    Attributes:
        decimal: The decimal mark of all columns, or None to detect it.
        thousands: The thousands separator, "" for none, or None to detect it.

    Raises:
        ConfigError: The decimal mark or the thousands separator is not one, or both are equal.
    """

    decimal: str | None = None
    thousands: str | None = None

    def __post_init__(self) -> None:
        if self.decimal not in {None, *MARKS}:
            raise ConfigError(f"The decimal mark is {self.decimal!r}. Expected '.' or ','.")
        if self.thousands not in {None, "", ".", ",", " ", "'", "’"}:
            raise ConfigError(
                f"The thousands separator is {self.thousands!r}. Expected ',' '.' \"'\" '’' or a "
                "space, or nothing at all for none."
            )
        if self.thousands and self.thousands == self.decimal:
            raise ConfigError(
                f"The decimal mark and the thousands separator are both {self.decimal!r}. Expected "
                "two different ones."
            )

    @property
    def is_set(self) -> bool:
        """Whether the caller set one of the marks."""
        return self.decimal is not None or self.thousands is not None

    @property
    def implied_decimal(self) -> str | None:
        """The decimal mark, as set or as the other one of the separator's."""
        return self.decimal or OTHER_MARK.get(self.thousands or "")


@dataclass(frozen=True)
class ColumnNumbers:
    """The format of a column's numbers.

    Attributes:
        format: The format; None where the cells stay text.
        other: Where two readings are possible, the other one, as its decimal mark, or `TEXT`.
        example: A cell that allows both; "" where there is one reading.
        chosen: Whether the caller chose the reading.
    """

    format: NumberFormat | None
    other: str = TEXT
    example: str = ""
    chosen: bool = False

    @property
    def taken(self) -> str:
        """The reading: the decimal mark, or `TEXT`."""
        return TEXT if self.format is None else self.format.decimal

    def value(self, reading: str, marks: ColumnMarks) -> str:
        """The example in one of the two readings.

        Args:
            reading: The decimal mark of the reading, or `TEXT`.
            marks: The marks of the column.
        """
        if reading == TEXT:
            return repr(self.example)
        number = float(NumberFormat(reading, marks.separator(reading)).plain_text(self.example))
        return f"{number:.15g}"


@dataclass(frozen=True)
class TableNumbers:
    """The formats of the numbers of a table: of most columns, and of each."""

    usual: NumberFormat
    columns: tuple[ColumnNumbers, ...]


def decide_numbers(
    columns: Sequence[ColumnMarks],
    delimiter: str | None,
    asked: RequestedMarks,
    chosen: Mapping[int, str] | None = None,
) -> TableNumbers:
    """Decide the number format of each column.

    The decimal mark of the table is that of the columns with a cell that allows no other one
    ("0,7578", "2,6", "1.234,5", "1,234,567"); columns that are numbers beyond doubt ("-0,5") have
    more votes, and those that may be versions ("1.10") fewer. Without such a column, "6,718" is
    read as thousands, and as a decimal comma in a file delimited by semicolons, as programs of such
    locales write it.

    A column with another mark than the table is read with its own one if that is beyond doubt, and
    is text otherwise. A column such as "1.234" follows the table; it allows two readings where too
    little else shows the decimal mark.

    Args:
        columns: The marks of each column.
        delimiter: The delimiter of the table.
        asked: The marks that the caller set.
        chosen: The decimal mark that the caller chose for a column, or `TEXT`, by its position.
    """
    votes = _votes(columns)
    decimal = asked.implied_decimal or _table_decimal(columns, votes, delimiter)
    enough = _USUAL if (delimiter, decimal) == (",", ".") else _ENOUGH
    settled = asked.is_set or votes[decimal] >= enough
    usual = NumberFormat(decimal, _table_separator(columns, decimal, asked))
    chosen = chosen or {}
    return TableNumbers(
        usual,
        tuple(
            _column_numbers(marks, usual, asked, settled, chosen.get(position))
            for position, marks in enumerate(columns)
        ),
    )


def _votes(columns: Sequence[ColumnMarks]) -> Counter[str]:
    """Votes of the columns for each decimal mark; numbers stored as such have none."""
    votes: Counter[str] = Counter()
    for marks in columns:
        decimal = marks.decimal
        if decimal is not None and marks.is_numeric and not marks.typed:
            usual = _VERSION if marks.version else _USUAL
            votes[decimal] += _STRONG if decimal in marks.strong else usual
    return votes


def _table_decimal(
    columns: Sequence[ColumnMarks], votes: Counter[str], delimiter: str | None
) -> str:
    if votes[","] != votes["."]:
        return "," if votes[","] > votes["."] else "."
    if votes:
        return "." if delimiter == "," else ","
    commas = any("," in marks.ambiguous and marks.is_numeric for marks in columns)
    return "," if commas and delimiter == ";" else "."


def _table_separator(
    columns: Sequence[ColumnMarks], decimal: str, asked: RequestedMarks
) -> str | None:
    """The separator of groups in most columns with the decimal mark of the table."""
    if asked.thousands is not None:
        return asked.thousands or None
    found = Counter(
        separator
        for marks in columns
        if marks.is_numeric
        and marks.decimal in {None, decimal}
        and (separator := marks.separator(decimal)) is not None
    )
    return found.most_common(1)[0][0] if found else None


def _column_numbers(
    marks: ColumnMarks,
    usual: NumberFormat,
    asked: RequestedMarks,
    settled: bool,
    choice: str | None,
) -> ColumnNumbers:
    """The format of one column, and its other reading where there is one."""
    doubt = _doubt(marks, usual.decimal, asked, settled)
    taken = choice if choice is not None else _default(marks, usual.decimal, asked, settled)
    numbers = None if taken == TEXT else _format(marks, taken, usual, asked)
    if doubt is None or (choice is not None and choice not in doubt[0]):
        return ColumnNumbers(numbers, chosen=choice is not None)
    readings, example = doubt
    other = next(reading for reading in readings if reading != taken)
    return ColumnNumbers(numbers, other, example, choice is not None)


def _doubt(
    marks: ColumnMarks, usual: str, asked: RequestedMarks, settled: bool
) -> tuple[tuple[str, str], str] | None:
    """The two readings that a column allows, and a cell that shows both; None for one reading."""
    decimal = marks.decimal
    if marks.typed or not marks.is_numeric:
        return None
    if decimal is None or not marks.counts:
        known = asked.is_set or (settled if decimal is None else decimal == usual)
        if marks.ambiguous and (not known or len(marks.ambiguous) > 1):
            return MARKS, next(iter(marks.ambiguous.values()))
        return None
    certain = decimal == usual or (asked.decimal is None and decimal in marks.strong)
    if marks.version or not certain:
        return (decimal, TEXT), marks.version or marks.decisive[decimal]
    return None


def _default(marks: ColumnMarks, usual: str, asked: RequestedMarks, settled: bool) -> str:
    """The reading of a column without a choice."""
    decimal = marks.decimal
    if decimal is None or decimal == usual or not marks.is_numeric:
        return usual
    if marks.typed:
        return decimal
    if not marks.counts:
        return usual if settled else decimal
    return decimal if asked.decimal is None and decimal in marks.strong else TEXT


def _format(
    marks: ColumnMarks, decimal: str, usual: NumberFormat, asked: RequestedMarks
) -> NumberFormat:
    """A decimal mark with the separator of groups of the column, else of the table."""
    if asked.thousands is not None and decimal == usual.decimal:
        return usual
    own = marks.separator(decimal) if marks.is_numeric else None
    if own is not None or decimal != usual.decimal or not marks.is_numeric:
        return NumberFormat(decimal, own)
    return usual
