"""How numbers are written: the decimal mark, the thousands separator, what counts as a number."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lvmcore.errors import ConfigError

__all__ = ["NumberFormat", "detect_number_format", "looks_numeric"]

_SPACES = "\u0020\u00a0\u202f\u2009"
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_GROUPED = re.compile(
    r"[+-]?\d{1,3}([,.'’\u0020\u00a0\u202f\u2009])\d{3}(?:\1\d{3})*(?:([.,])\d+)?"
)
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
#: The decimal mark that goes with a thousands separator which could be one itself.
_OTHER = {",": ".", ".": ","}
_INFINITE = r"[+-]?(?:inf|infinity)"


@dataclass(frozen=True)
class NumberFormat:
    """The marks inside numbers.

    Attributes:
        decimal: "." or ",".
        thousands: The character between groups of three digits, or None.
    """

    decimal: str = "."
    thousands: str | None = None

    @cached_property
    def pattern(self) -> str:
        """A regular expression (RE2 and Python) that matches exactly the numbers."""
        mark = re.escape(self.decimal)
        whole = r"\d+"
        if self.thousands is not None:
            separator = f"[{_SPACES}]" if self.thousands == " " else re.escape(self.thousands)
            whole = rf"(?:\d{{1,3}}(?:{separator}\d{{3}})+|\d+)"
        number = rf"[+-]?(?:{whole}(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?"
        return rf"^(?:{number}|(?i:{_INFINITE}))$"

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def matches(self, cell: str) -> bool:
        """Whether a cell (without spaces around it) is a number in this format."""
        return self._compiled.fullmatch(cell) is not None

    def to_plain(self, cells: Any) -> Any:
        """Rewrite an Arrow string array of numbers so that Arrow can read them as floats."""
        plain = cells
        if self.thousands is not None:
            separator = f"[{_SPACES}]" if self.thousands == " " else re.escape(self.thousands)
            plain = pc.replace_substring_regex(plain, pattern=separator, replacement="")
        if self.decimal != ".":
            plain = pc.replace_substring(plain, pattern=self.decimal, replacement=".")
        return pc.cast(plain, pa.float64())


def looks_numeric(cell: str) -> bool:
    """Whether a cell is a number in any usual way of writing one."""
    return (
        _PLAIN.fullmatch(cell) is not None
        or _COMMA.fullmatch(cell) is not None
        or _GROUPED.fullmatch(cell) is not None
    )


def detect_number_format(
    cells: Iterable[str],
    delimiter: str | None,
    decimal: str | None = None,
    thousands: str | None = None,
) -> NumberFormat:
    """Find the decimal mark and the thousands separator from the cells that are no plain number.

    A comma is the decimal mark when some cell can be read in no other way ("0,7578", "2,6",
    "1.234,5"); it separates thousands when every comma stands before exactly three digits and
    some cell proves it ("1,234,567", "1,234.5", or a plain "0.5" elsewhere). What is left
    ("6,718" and nothing else) is read as thousands in a file delimited by commas and as a decimal
    comma in one delimited by semicolons, where programs write it so.

    Args:
        cells: Cells without spaces around them; text among them does no harm.
        delimiter: The delimiter of the table.
        decimal: The decimal mark where the caller knows it.
        thousands: The thousands separator where the caller knows it; "" for none.

    Raises:
        ConfigError: The decimal mark asked for is neither a point nor a comma, or the thousands
            separator is not one, or both are the same.
    """
    _check(decimal, thousands)
    if decimal is None and thousands in _OTHER:
        decimal = _OTHER[thousands]
    separators: dict[str, int] = {}
    comma_only = comma_never = points = 0
    for cell in cells:
        if "." in cell and _PLAIN.fullmatch(cell):
            points += 1
            continue
        grouped = _GROUPED.fullmatch(cell)
        if grouped is not None:
            first, last = grouped.group(1), grouped.group(2)
            separators[first] = separators.get(first, 0) + 1
            several = cell.count(first) > 1
            comma_only += (first == "." and (several or last == ",")) or (
                last == "," and first != ","
            )
            comma_only += first == "," and not several and cell.lstrip("+-").startswith("0")
            comma_never += first == "," and (several or last == ".")
        elif _COMMA.fullmatch(cell):
            comma_only += 1
    if decimal is None:
        ambiguous = separators.get(",", 0) > 0 and not comma_never and not points
        is_comma = comma_only > comma_never and comma_only >= points
        decimal = "," if is_comma or (ambiguous and delimiter == ";") else "."
    if thousands is not None:
        return NumberFormat(decimal, thousands or None)
    return NumberFormat(decimal, _thousands(separators, decimal))


def _check(decimal: str | None, thousands: str | None) -> None:
    if decimal not in {None, ".", ","}:
        raise ConfigError(f"The decimal mark is {decimal!r}. Expected '.' or ','.")
    if thousands not in {None, "", ".", ",", " ", "'", "’"}:
        raise ConfigError(
            f"The thousands separator is {thousands!r}. Expected ',' '.' \"'\" '’' or a space, or "
            "nothing at all for none."
        )
    if thousands and thousands == decimal:
        raise ConfigError(
            f"The decimal mark and the thousands separator are both {decimal!r}. Expected two "
            "different ones."
        )


def _thousands(separators: dict[str, int], decimal: str) -> str | None:
    found = {" " if mark in _SPACES else mark: count for mark, count in separators.items()}
    found.pop(decimal, None)
    if not found:
        return None
    return max(found, key=lambda mark: found[mark])
