"""Columns as the bars of a histogram or bar chart, with the bar of each row. Pure.

The bars of a numeric column are intervals [a, b) with round ends. A brush covers whole bars, and
``interval`` returns an interval, both ends included, that holds exactly their rows: so that what a
chart counts by bars is what the condition selects.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.analysis.map.selection_masks import cell_levels, date_cells
from app.analysis.map.selections import Between, Bound, OneOf, is_number
from lvmcore.data import Dataset
from lvmcore.numerics.array_types import FloatArray

__all__ = ["MOST_BARS", "MOST_LEVELS", "ColumnBins", "column_bins"]

#: Bars of a histogram at most, and of one without round ends; levels with a bar of their own.
MOST_BARS, BARS, MOST_LEVELS = 32, 24, 8
#: Products of larger numbers may overflow, and differences below the smallest cannot be rounded.
_LARGEST, _SMALLEST = 1e300, 1e-290
#: Below this the number halfway between two integers is exact.
_EXACT_HALVES = 2.0**51
_EPOCH = datetime(1970, 1, 1)  # dates are in UTC, without a time zone
#: Steps between the ends of bars of dates, in seconds, up to a day; then whole days.
_DATE_STEPS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0)


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """The bars of a column.

    Attributes:
        name: the column.
        codes: bar of each row, uint8 [N]; missing cells are the last bar, where there is one.
        counts: rows of each bar, [B].
        edges: ends of the bars of numbers, [B + 1] (without that of missing cells); seconds since
            1970 for dates; None for categories.
        dates: whether the numbers are dates.
        lowest: smallest number that belongs to each bar or a later one, [B].
        highest: largest number that belongs to each bar or an earlier one, [B].
        levels: categories with a bar of their own; the most frequent first.
        others: number of further categories, which share a bar.
        missing: whether the last bar is that of missing cells.
    """

    name: str
    codes: NDArray[np.uint8]
    counts: NDArray[np.intp]
    edges: FloatArray | None = None
    dates: bool = False
    lowest: FloatArray | None = None
    highest: FloatArray | None = None
    levels: tuple[str, ...] = ()
    others: int = 0
    missing: bool = False

    @property
    def bars(self) -> int:
        """Number of bars, without that of missing cells."""
        return len(self.counts) - self.missing

    def interval(self, first: int, last: int) -> Between | None:
        """The condition of some bars of a histogram, the last included; None where all are.

        Raises:
            IndexError: there are no such bars.
        """
        if self.lowest is None or self.highest is None or not 0 <= first <= last < self.bars:
            raise IndexError(f"{self.name!r} has no bars {first} to {last}")
        if first == 0 and last == self.bars - 1 and not self.missing:
            return None
        low, high = float(self.lowest[first]), float(self.highest[last])
        if self.dates:
            return Between(self.name, _date(low), _date(high))
        return Between(self.name, low, high)

    def toggled(self, chosen: OneOf | None, bar: int) -> OneOf | None:
        """The condition after a click on a bar of a category; None if no category is left.

        Raises:
            IndexError: the bar is that of no category.
        """
        is_missing = self.missing and bar == self.bars
        if not is_missing and not 0 <= bar < len(self.levels):
            raise IndexError(f"{self.name!r} has no category {bar}")
        value = None if is_missing else self.levels[bar]
        before = () if chosen is None else chosen.values
        kept = tuple(one for one in before if one != value)
        values = kept if value in before else (*before, value)
        return OneOf(self.name, values) if values else None

    def span(self, found: Between) -> tuple[float, float] | None:
        """Where an interval lies on the chart, in shares of its width; None for another type."""
        if self.edges is None:
            return None
        start, end = (_as_number(one, self.dates) for one in (found.low, found.high))
        if start is None or end is None:
            return None
        first, last = self.edges[0] / 2, self.edges[-1] / 2  # their difference may overflow
        low, high = (np.clip((one / 2 - first) / (last - first), 0.0, 1.0) for one in (start, end))
        return float(low), float(high)

    def bars_of(self, found: Between) -> tuple[int, int] | None:
        """First and last of the bars whose rows an interval holds exactly; None without such."""
        for first in range(self.bars):
            for last in range(first, self.bars):
                if self.interval(first, last) == found:
                    return first, last
        return None


def column_bins(dataset: Dataset, name: str) -> ColumnBins:
    """The bars of a column of a table; labels are categories also where they are numbers.

    Raises:
        KeyError: the table has no such column.
    """
    column = dataset.frame[name]
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        cells = date_cells(column)
        seconds = (cells - np.datetime64(_EPOCH)) / np.timedelta64(1, "s")
        return _histogram(name, np.asarray(seconds, dtype=np.float64), dates=True)
    if is_number(column.dtype) and name not in dataset.label_columns:
        return _histogram(name, column.to_numpy(dtype=np.float64, na_value=np.nan), dates=False)
    codes, levels = cell_levels(column)
    return _bar_chart(name, codes, levels)


def _bar_chart(name: str, codes: NDArray[np.intp], levels: list[str]) -> ColumnBins:
    """Bars of the most frequent levels, of all others together, and of missing cells."""
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    order = sorted(range(len(levels)), key=lambda level: (-counts[level], levels[level]))
    # A single further level has a bar of its own.
    most = MOST_LEVELS + 1 if len(order) == MOST_LEVELS + 1 else MOST_LEVELS
    bars = min(len(order), most + 1)
    bar_of_level = np.full(len(levels) + 1, most)
    bar_of_level[order[:most]] = np.arange(min(most, len(order)))
    bar_of_level[-1] = bars  # of missing cells, −1
    bar = bar_of_level[codes].astype(np.uint8)
    missing = bool((codes < 0).any())
    return ColumnBins(
        name,
        bar,
        np.bincount(bar, minlength=bars + missing),
        levels=tuple(levels[one] for one in order[:most]),
        others=max(0, len(order) - most),
        missing=missing,
    )


def _histogram(name: str, values: FloatArray, *, dates: bool) -> ColumnBins:
    """Bars of equal width with round ends; an integer of a small range has a bar of its own."""
    known = np.isfinite(values)
    finite = values[known]
    if not len(finite):
        finite = np.zeros(1)
    low, high = float(finite.min()), float(finite.max())
    whole = not dates and bool((finite == np.round(finite)).all())
    single = whole and high - low < BARS and max(-low, high) < _EXACT_HALVES
    edges = np.arange(low - 0.5, high + 1.0) if single else _round_edges(low, high, dates, whole)
    bars = len(edges) - 1
    bar = np.full(len(values), bars, dtype=np.uint8)
    bar[known] = np.clip(np.searchsorted(edges, values[known], side="right") - 1, 0, bars - 1)
    missing = not bool(known.all())
    if single:
        lowest = highest = edges[:-1] + 0.5
    else:
        lowest, highest = edges[:-1], _highest(edges, finite, dates)
    counts = np.bincount(bar, minlength=bars + missing)
    return ColumnBins(
        name, bar, counts, edges, dates, lowest, highest, missing=missing,
    )  # fmt: skip


def _round_edges(low: float, high: float, dates: bool, whole: bool) -> FloatArray:
    """Ends of at most ``MOST_BARS`` bars that hold [low, high]."""
    if high <= low:
        low, high = (low, low + max(1.0, abs(low))) if low < _LARGEST else (low / 2, low)
    if max(-low, high) > _LARGEST or high - low < _SMALLEST:
        return _equal_bars(low, high)
    fewest = MOST_BARS - 2  # rounding adds a bar at either end
    width = high / fewest - low / fewest
    step = _date_step(width) if dates else _round_step(width)
    if whole:
        step = max(1.0, step)
    edges = np.arange(np.floor(low / step), np.ceil(high / step) + 1.0) * step
    digits = 0 if dates or step >= 1 else int(np.ceil(-np.log10(step))) + 1
    edges = np.round(edges, digits)
    if len(edges) < 2 or not (np.diff(edges) > 0).all() or edges[0] > low or edges[-1] < high:
        return _equal_bars(low, high)  # numbers too close for round ends
    return np.asarray(edges)


def _equal_bars(low: float, high: float) -> FloatArray:
    """Ends of bars of equal width, without round numbers."""
    share = np.linspace(0.0, 1.0, BARS + 1)
    inner = np.clip(low * (1 - share) + high * share, low, high)
    return np.unique([low, *inner[1:-1], high])


def _round_step(step: float) -> float:
    """The next of 1, 2, 2.5, 5, 10 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(max(step, 1e-300)))
    steps = (1.0, 2.0, 2.5, 5.0, 10.0)
    return float(next((one * power for one in steps if one * power >= step * 0.999), step))


def _date_step(step: float) -> float:
    for one in _DATE_STEPS:
        if one >= step:
            return one
    return 86_400.0 * max(1.0, _round_step(step / 86_400.0))


def _highest(edges: FloatArray, values: FloatArray, dates: bool) -> FloatArray:
    """For each bar a number that is at least the largest of it and below the next bar's smallest.

    This is the bar's end where no row lies on it, else a number with few digits.
    """
    values = np.sort(values)
    past = np.searchsorted(values, edges[1:-1], side="left")  # rows below each inner end
    found = edges[1:].copy()
    for i, after in enumerate(past.tolist()):
        if after < len(values) and values[after] == edges[i + 1]:
            below = max(float(values[after - 1]), float(edges[i])) if after else float(edges[i])
            found[i] = _number_between(below, float(edges[i + 1]), dates)
    return found


def _number_between(below: float, above: float, dates: bool) -> float:
    """A number of few digits in [below, above)."""
    if dates:
        steps = (one for one in (86_400.0, 3600.0, 60.0, 1.0) if above - one >= below)
        return above - next(steps, above - below)
    if above - below < _SMALLEST:
        return below
    scale = int(np.floor(np.log10(1.0001 * (above - below))))
    for digits in range(-scale, -scale + 3):
        found = float(np.round(above - 10.0**-digits, digits))
        if below <= found < above:
            return found
    return below


def _date(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def _as_number(end: Bound, dates: bool) -> float | None:
    """An end of an interval as the edges have it; None for another type than the column's."""
    if isinstance(end, datetime):
        return (end - _EPOCH).total_seconds() if dates else None
    return None if dates else end
