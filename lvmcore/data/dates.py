"""Dates and times of day among strings."""

import re
from dataclasses import dataclass

import pandas as pd

__all__ = ["Dates", "read_dates"]

_YEAR_FIRST = re.compile(
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}([ T]+\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?)?"
    r"(Z|[+-]\d{2}:?\d{2})?"
)
_ZONED = re.compile(r":\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})$")
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(\s+\d{1,2}:\d{2}(?::\d{2})?)?")
_TIME = re.compile(r"\d{1,2}([:.])\d{2}(\1\d{2}([.,]\d+)?)?(\s*[AaPp][Mm])?")
_NAMED = re.compile(r"(?=.*[A-Za-z]{3})(?=.*\d)[A-Za-z0-9 ,./-]{6,20}")
_NAMED_FORMATS = (
    "%d %b %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%b %d %Y",
    "%d %B %Y",
    "%B %d, %Y",
    "%B %d %Y",
)
_PEEK = 20


@dataclass(frozen=True)
class Dates:
    """What a column of strings holds when it holds dates.

    Attributes:
        values: datetime64, or None where the strings are to stay strings.
        why: A plain sentence on how they were read.
    """

    values: pd.Series | None
    why: str


def read_dates(cells: pd.Series) -> Dates | None:
    """Read strings as dates, if that is what they are.

    Args:
        cells: Strings, missing ones as NaN.

    Returns:
        The dates; None when the strings are no dates. Dates whose day and month cannot be told
        apart (no number above 12 in either place) and times of day stay strings.
    """
    known = cells.dropna()
    if known.empty:
        return None
    peek = known.iloc[:_PEEK].tolist()
    if all(_YEAR_FIRST.fullmatch(cell) for cell in peek):
        return _year_first(cells, known)
    if all(_is_time(cell) for cell in peek):
        # "18.00.00" reads as a date too, but no date has a day or a month zero.
        whole = all(_is_time(cell) for cell in pd.unique(known))
        if whole and any(":" in cell or re.search(r"\b00\.", cell) for cell in peek):
            return Dates(None, "its cells are times of day, kept as text")
    if all(_YEAR_LAST.fullmatch(cell) for cell in peek):
        return _year_last(cells, known)
    if all(_NAMED.fullmatch(cell) for cell in peek):
        return _with_month_names(cells, known)
    return None


def _is_time(cell: str) -> bool:
    return _TIME.fullmatch(cell) is not None and (":" in cell or cell.count(".") >= 2)


def _parsed(cells: pd.Series, known: pd.Series, form: str, utc: bool = False) -> pd.Series | None:
    """The dates when every known cell is one in this form."""
    try:
        values = pd.to_datetime(known, format=form, errors="coerce", utc=utc)
    except (ValueError, OverflowError):
        return None
    if values.isna().any():
        return None
    if values.dt.tz is not None:
        values = values.dt.tz_localize(None)
    return values.reindex(cells.index)


def _year_first(cells: pd.Series, known: pd.Series) -> Dates | None:
    mark = known.iloc[0][4]
    form = "ISO8601" if mark == "-" else _with_time(f"%Y{mark}%m{mark}%d", known.iloc[0])
    zoned = any(_ZONED.search(cell) for cell in known.iloc[:_PEEK])
    values = _parsed(cells, known, form, utc=zoned)
    if values is None:
        return None
    return Dates(values, "its cells are dates, year first" + (", in UTC here" if zoned else ""))


def _with_time(form: str, cell: str) -> str:
    colons = cell.count(":")
    return form + ("" if colons == 0 else " %H:%M" if colons == 1 else " %H:%M:%S")


def _year_last(cells: pd.Series, known: pd.Series) -> Dates | None:
    parts = known.str.extract(_YEAR_LAST)
    if parts[0].isna().any():
        return None
    first, second = int(parts[0].astype(int).max()), int(parts[2].astype(int).max())
    mark, year = known.iloc[0][len(parts[0].iloc[0])], "%Y" if len(parts[3].iloc[0]) == 4 else "%y"
    if first <= 12 and second <= 12:
        text = "its cells are dates, kept as text: nothing tells day from month"
        return Dates(None, text)
    order, words = (
        (("%d", "%m"), "day before month") if first > 12 else (("%m", "%d"), "month before day")
    )
    form = _with_time(f"{order[0]}{mark}{order[1]}{mark}{year}", known.iloc[0])
    values = _parsed(cells, known, form)
    if values is None:
        return None
    return Dates(values, f"its cells are dates, {words}")


def _with_month_names(cells: pd.Series, known: pd.Series) -> Dates | None:
    for form in _NAMED_FORMATS:
        if _parsed(known.iloc[:1], known.iloc[:1], form) is None:
            continue
        values = _parsed(cells, known, form)
        if values is not None:
            return Dates(values, "its cells are dates with the month as a word")
    return None
