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
    return "its cells are ranges, kept as text" if len(cells) and ranges == len(cells) else ""


def ranges_as_dates(values: Any) -> str:
    """A cell that may have been a range before a spreadsheet made it a date; "" without one.

    Args:
        values: The strings of a text column, null where a cell is missing.
    """
    cells = pc.unique(pa.array(values, pa.string(), from_pandas=True)).drop_null()
    cells = cells.slice(0, _SAMPLE)
    ranges = pc.match_substring_regex(cells, pattern=_RANGE)
    days = pc.filter(cells, pc.match_substring_regex(cells, pattern=_DAY))
    mixed = len(days) > 0 and (pc.sum(ranges).as_py() or 0) + len(days) == len(cells) > len(days)
    return str(days[0].as_py()) if mixed else ""
