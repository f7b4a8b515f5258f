"""Ranges such as 5-9 among strings, and dates that a spreadsheet may have made of them."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["range_hint", "ranges_as_dates"]

_SAMPLE = 1000
_BOUND = r"[+-]?\d+(?:[.,]\d+)?"
_RANGE = rf"^(?:{_BOUND}\s*(?:[-–—]|to|bis|à)\s*{_BOUND}|[<>≤≥]=?\s*{_BOUND}|{_BOUND}\s*\+)$"
#: What spreadsheets show for 5-9, as a day of the year: 05-Sep, Sep-05, 5. Sep, 5-sept.
_MONTH = r"(?:[A-Za-zÀ-ÿ]{3,4}\.?)"
_DATE = r"\d{4}-\d{2}-\d{2}(?:[ T]00:00(?::00)?)?"
_DAY = rf"^(?:\d{{1,2}}[-. ]+{_MONTH}|{_MONTH}[- ]\d{{1,2}}|{_DATE})$"


def range_hint(known: Any) -> str:
    """A clause on a column of ranges; "" for another column.

    Args:
        known: Stripped Arrow strings, null where a cell is missing.
    """
    cells = known.drop_null().slice(0, _SAMPLE)
    ranges = pc.sum(pc.match_substring_regex(cells, pattern=_RANGE)).as_py() or 0
    if ranges and ranges == len(cells):
        return "its cells are ranges, kept as text"
    return "its cells are ranges, and dates that may have been ranges" if _days(cells) else ""


def ranges_as_dates(values: Any) -> str:
    """A cell that may have been a range before a spreadsheet made it a date; "" without one.

    Args:
        values: The strings of a text column, null where a cell is missing.
    """
    cells = pa.array(values, pa.string(), from_pandas=True).drop_null().slice(0, _SAMPLE)
    days = _days(cells)
    return days[0] if days else ""


def _days(cells: Any) -> list[str]:
    """The dates among ranges; empty if there are other cells, or no ranges."""
    ranges = pc.sum(pc.match_substring_regex(cells, pattern=_RANGE)).as_py() or 0
    days: list[str] = pc.filter(cells, pc.match_substring_regex(cells, pattern=_DAY)).to_pylist()
    return days if ranges and ranges + len(days) == len(cells) else []
