"""Dates and times of day among strings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

__all__ = ["ParsedDates", "read_dates"]

_YEAR_FIRST = re.compile(
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}([ T]+\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?)?"
    r"(Z|[+-]\d{2}:?\d{2})?"
)
#: A year and a month: 1920-01, 1920/01, and 1920M01 or 1920-M01 of statistical offices.
_YEAR_MONTH = re.compile(r"([12]\d{3})(-|/|-?M)(\d{2})")
_ZONED = re.compile(r":\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})$")
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(\s+\d{1,2}:\d{2}(?::\d{2})?)?")
_TIME = re.compile(r"\d{1,2}([:.])\d{2}(\1\d{2}([.,]\d+)?)?(\s*[AaPp][Mm])?")
_MONTH_NAME = re.compile(r"(?=.*[A-Za-z]{3})(?=.*\d)[A-Za-z0-9 ,./-]{6,20}")
_MONTH_NAME_FORMATS = (
    "%d %b %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%b %d %Y",
    "%d %B %Y",
    "%B %d, %Y",
    "%B %d %Y",
)
_MONTH_YEAR_FORMATS = (
    "%b %Y",
    "%b-%Y",
    "%b/%Y",
    "%b, %Y",
    "%Y %b",
    "%Y-%b",
    "%B %Y",
    "%B-%Y",
    "%B, %Y",
    "%Y %B",
)
_SAMPLE = 20
#: Strings that are parsed at a time.
_BLOCK = 1 << 15


@dataclass(frozen=True)
class ParsedDates:
    """The dates of a column of strings.

    Attributes:
        values: datetime64, or None if the strings stay strings.
        reason: How they were read, as a clause.
    """

    values: pd.Series | None
    reason: str


def read_dates(cells: pd.Series) -> ParsedDates | None:
    """Parse strings as dates.

    Args:
        cells: Strings, missing ones as NaN.

    Returns:
        The dates; None if the strings are not dates. Dates with ambiguous day and month (no
        number above 12 in either) and times of day stay strings.
    """
    known = cells.dropna()
    if known.empty:
        return None
    peek = known.iloc[:_SAMPLE].tolist()
    if all(_YEAR_FIRST.fullmatch(cell) for cell in peek):
        return _parse_year_first(cells, known)
    if all(_YEAR_MONTH.fullmatch(cell) for cell in peek):
        return _parse_year_months(cells, known)
    if all(_is_time(cell) for cell in peek):
        # "18.00.00" matches a date too, but no date has the day or month zero.
        whole = all(_is_time(cell) for cell in pd.unique(known))
        if whole and any(":" in cell or re.search(r"\b00\.", cell) for cell in peek):
            return ParsedDates(None, "its cells are times of day, kept as text")
    if all(_YEAR_LAST.fullmatch(cell) for cell in peek):
        return _parse_year_last(cells, known)
    if all(_MONTH_NAME.fullmatch(cell) for cell in peek):
        return _parse_month_names(cells, known)
    return None


def _is_time(cell: str) -> bool:
    return _TIME.fullmatch(cell) is not None and (":" in cell or cell.count(".") >= 2)


def _parse_all(
    cells: pd.Series, known: pd.Series, form: str, utc: bool = False
) -> pd.Series | None:
    """The dates if every non-missing cell has this form, else None."""
    codes, texts = pd.factorize(known)
    parts = []
    for block in _blocks(texts):  # a whole column at once would take hundreds of bytes a cell
        try:
            values = pd.Series(pd.to_datetime(block, format=form, errors="coerce", utc=utc))
        except (ValueError, OverflowError):
            return None
        if values.isna().any():
            return None
        if values.dt.tz is not None:
            values = values.dt.tz_localize(None)
        parts.append(values.to_numpy())
    dates = np.concatenate(parts)[codes]  # in the finest unit of the parts
    return pd.Series(dates, index=known.index).reindex(cells.index)


def _blocks(texts: pd.Index) -> Iterator[pd.Index]:
    """Parts of a column of strings."""
    for start in range(0, len(texts), _BLOCK):
        yield texts[start : start + _BLOCK]


def _parse_year_first(cells: pd.Series, known: pd.Series) -> ParsedDates | None:
    mark = known.iloc[0][4]
    form = "ISO8601" if mark == "-" else _time_format(f"%Y{mark}%m{mark}%d", known.iloc[0])
    zoned = any(_ZONED.search(cell) for cell in known.iloc[:_SAMPLE])
    values = _parse_all(cells, known, form, utc=zoned)
    if values is None:
        return None
    return ParsedDates(
        values, "its cells are dates, year first" + (", in UTC here" if zoned else "")
    )


def _time_format(form: str, cell: str) -> str:
    colons = cell.count(":")
    return form + ("" if colons == 0 else " %H:%M" if colons == 1 else " %H:%M:%S")


def _parse_year_last(cells: pd.Series, known: pd.Series) -> ParsedDates | None:
    start = _YEAR_LAST.match(known.iloc[0])
    if start is None:
        return None
    first = second = 0
    for block in _blocks(pd.Index(known.unique())):
        parts = block.str.extract(_YEAR_LAST)
        if parts[0].isna().any():
            return None
        first = max(first, int(parts[0].astype(int).max()))
        second = max(second, int(parts[2].astype(int).max()))
    mark, year = start[2], "%Y" if len(start[4]) == 4 else "%y"
    if first <= 12 and second <= 12:
        text = "its cells are dates, kept as text: day and month are ambiguous"
        return ParsedDates(None, text)
    order, words = (
        (("%d", "%m"), "day before month") if first > 12 else (("%m", "%d"), "month before day")
    )
    form = _time_format(f"{order[0]}{mark}{order[1]}{mark}{year}", known.iloc[0])
    values = _parse_all(cells, known, form)
    if values is None:
        return None
    return ParsedDates(values, f"its cells are dates, {words}")


def _parse_year_months(cells: pd.Series, known: pd.Series) -> ParsedDates | None:
    start = _YEAR_MONTH.match(known.iloc[0])
    if start is None or _are_seasons(known):
        return None
    values = _parse_all(cells, known, f"%Y{start[2]}%m")
    return None if values is None else ParsedDates(values, "its cells are dates, year and month")


def _are_seasons(known: pd.Series) -> bool:
    """Whether all of several cells are a year and the next one, such as 2001-02 and 2002-03."""
    texts = pd.Series(known.unique())
    if len(texts) < 2:
        return False
    parts = texts.str.extract(_YEAR_MONTH)
    if parts[0].isna().any():
        return False
    return bool(((parts[0].astype(int) + 1) % 100 == parts[2].astype(int)).all())


def _parse_month_names(cells: pd.Series, known: pd.Series) -> ParsedDates | None:
    for form in _MONTH_NAME_FORMATS:
        if _parse_all(known.iloc[:1], known.iloc[:1], form) is None:
            continue
        values = _parse_all(cells, known, form)
        if values is not None:
            return ParsedDates(values, "its cells are dates with the month as a word")
    for form in _MONTH_YEAR_FORMATS:
        if _parse_all(known.iloc[:1], known.iloc[:1], form) is None:
            continue
        values = _parse_all(cells, known, form)
        if values is not None:
            return ParsedDates(values, "its cells are dates, month as a word and year")
    return None
