"""Number formats: the decimal mark and the thousands separator, and their detection."""

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
#: The decimal mark of a thousands separator that could be a decimal mark itself.
_OTHER_MARK = {",": ".", ".": ","}
_INFINITE = r"[+-]?(?:inf|infinity)"


@dataclass(frozen=True)
class NumberFormat:
    """Decimal mark and thousands separator.

    Attributes:
        decimal: "." or ",".
        thousands: The character between groups of three digits, or None.
    """

    decimal: str = "."
    thousands: str | None = None

    @cached_property
    def pattern(self) -> str:
        """Regular expression (RE2 and Python) of the numbers in this format."""
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
        """Whether a stripped cell is a number in this format."""
        return self._compiled.fullmatch(cell) is not None

    def to_plain(self, cells: Any) -> Any:
        """Convert an Arrow string array of numbers in this format to floats."""
        plain = cells
        if self.thousands is not None:
            separator = f"[{_SPACES}]" if self.thousands == " " else re.escape(self.thousands)
            plain = pc.replace_substring_regex(plain, pattern=separator, replacement="")
        if self.decimal != ".":
            plain = pc.replace_substring(plain, pattern=self.decimal, replacement=".")
        return pc.cast(plain, pa.float64())


def looks_numeric(cell: str) -> bool:
    """Whether a cell is a number in any usual format."""
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
    """Detect the decimal mark and the thousands separator.

    A comma is the decimal mark if some cell allows no other reading ("0,7578", "2,6",
    "1.234,5"); it separates thousands if every comma precedes exactly three digits and some cell
    is evidence ("1,234,567", "1,234.5", or a plain "0.5" elsewhere). The ambiguous rest ("6,718"
    only) is read as thousands in a file delimited by commas, and as a decimal comma in one
    delimited by semicolons, as programs of such locales write it.

    Args:
        cells: Stripped cells; text among them is ignored.
        delimiter: The delimiter of the table.
        decimal: The decimal mark, or None to detect it.
        thousands: The thousands separator, "" for none, or None to detect it.

    Raises:
        ConfigError: The given decimal mark or thousands separator is not one, or both are equal.
    """
    _check_separators(decimal, thousands)
    if decimal is None and thousands in _OTHER_MARK:
        decimal = _OTHER_MARK[thousands]
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
    return NumberFormat(decimal, _thousands_separator(separators, decimal))


def _check_separators(decimal: str | None, thousands: str | None) -> None:
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


def _thousands_separator(separators: dict[str, int], decimal: str) -> str | None:
    found = {" " if mark in _SPACES else mark: count for mark, count in separators.items()}
    found.pop(decimal, None)
    if not found:
        return None
    return max(found, key=lambda mark: found[mark])
