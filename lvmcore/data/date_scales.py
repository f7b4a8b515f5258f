"""Dates as numbers: a unit, and the first date of a column, from which its features count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.errors import DataError

if TYPE_CHECKING:
    from lvmcore.numerics.array_types import FloatArray

__all__ = ["DateScale", "DateUnit", "date_scale_texts", "date_scales_of_texts", "is_dates"]

DateUnit = Literal["year", "month", "day", "hour"]
_Micros = NDArray[np.datetime64]

#: NumPy's codes of the units.
_CODES: dict[str, str] = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
#: What NumPy counts the origin of each unit in.
_ORIGINS: dict[str, str] = {"year": "M8[Y]", "month": "M8[M]", "day": "M8[D]", "hour": "M8[us]"}
#: Microseconds of the units of fixed length.
_LENGTH: dict[str, int] = {"day": 86_400_000_000, "hour": 3_600_000_000}
#: The first and the last date; numbers beyond them are no date.
_ENDS = np.array(["0001-01-01", "9999-12-31"], dtype="M8[us]")


@dataclass(frozen=True)
class DateScale:
    """The unit and the origin of a column of dates as numbers.

    A number is the count of units since the origin by the calendar: of months 12·year + month, less
    that of the origin. A date between two units adds the share of its month or year that is over;
    days and hours are fixed lengths of time. Times with a zone are taken in UTC.

    Attributes:
        unit: "year", "month", "day" or "hour".
        origin: The first date of the column, in ISO 8601: "1920" of years, "1920-01" of months.
    """

    unit: DateUnit
    origin: str

    def __post_init__(self) -> None:
        try:
            if self.unit not in get_args(DateUnit):
                raise ValueError(self.unit)
            missing = np.isnat(self._start)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{self.unit!r} since {self.origin!r} is no scale of dates: expected one of "
                f"{', '.join(get_args(DateUnit))} since a date such as '1920-01'."
            ) from error
        if missing:
            raise DataError("A scale of dates needs an origin, and its date is missing.")

    @classmethod
    def of(cls, cells: pd.Series[Any]) -> DateScale:
        """The scale of a column, by its cells: the longest unit of which they are all the start.

        Args:
            cells: Dates (datetime64), of which at least one is not missing.

        Raises:
            DataError: All are missing.
        """
        known = _micros(cells)
        known = known[~np.isnat(known)]
        first = known.min() if known.size else np.datetime64("NaT", "us")
        units: tuple[DateUnit, ...] = ("year", "month", "day")
        for unit in units:
            if (known == known.astype(f"M8[{_CODES[unit]}]")).all():
                return cls(unit, str(first.astype(f"M8[{_CODES[unit]}]")))
        whole_seconds = first == first.astype("M8[s]")
        return cls("hour", str(first.astype("M8[s]") if whole_seconds else first))

    @property
    def plural(self) -> str:
        """The unit in the plural."""
        return f"{self.unit}s"

    @property
    def _start(self) -> Any:
        return np.array(self.origin, dtype=_ORIGINS[self.unit])[()]

    def note(self, column: str) -> str:
        """A sentence on the numbers of a column."""
        return f"Column {column!r} is the number of {self.plural} since {self.origin}."

    def numbers(self, cells: pd.Series[Any]) -> FloatArray:
        """Dates as numbers.

        Args:
            cells: Dates (datetime64) [N].

        Returns:
            Units since the origin, NaN where missing, [N].
        """
        dates = _micros(cells)
        found = np.full(len(dates), np.nan)
        known = ~np.isnat(dates)
        dates = dates[known]
        if self.unit in _LENGTH:
            away = (dates - self._start.astype("M8[us]")).astype(np.int64)
            found[known] = away / _LENGTH[self.unit]
            return found
        units = dates.astype(f"M8[{_CODES[self.unit]}]")
        begin, end = units.astype("M8[us]"), (units + 1).astype("M8[us]")
        share = (dates - begin).astype(np.int64) / (end - begin).astype(np.int64)
        found[known] = (units - self._start).astype(np.int64) + share
        return found

    def dates(self, numbers: FloatArray) -> _Micros:
        """Numbers as dates, the inverse of `numbers` to the microsecond where they are exact.

        Args:
            numbers: Units since the origin [N]; NaN where missing.

        Returns:
            datetime64 in microseconds [N], NaT where missing or outside the years 1 to 9999.
        """
        values = np.asarray(numbers, dtype=np.float64)
        low, high = self._ends()
        known = np.isfinite(values) & (values >= low) & (values <= high)
        found = np.full(values.shape, np.datetime64("NaT", "us"))
        if self.unit in _LENGTH:
            steps = np.round(values[known] * _LENGTH[self.unit]).astype(np.int64)
            found[known] = self._start.astype("M8[us]") + steps.astype("m8[us]")
            return found
        whole = np.floor(values[known])
        units = self._start + whole.astype(np.int64).astype(f"m8[{_CODES[self.unit]}]")
        begin, end = units.astype("M8[us]"), (units + 1).astype("M8[us]")
        length = (end - begin).astype(np.int64)
        rest = np.round((values[known] - whole) * length).astype(np.int64)
        found[known] = begin + rest.astype("m8[us]")
        return found

    def _ends(self) -> tuple[float, float]:
        """Numbers of the first and the last date."""
        low, high = self.numbers(pd.Series(_ENDS))
        return float(low), float(high)

    def rounded_dates(self, numbers: FloatArray) -> _Micros:
        """Numbers as the nearest date that a cell of the column may have; see `texts`."""
        values = np.asarray(numbers, dtype=np.float64)
        if self.unit != "hour":
            return self.dates(np.round(values))
        return self.dates(np.round(values * 60) / 60)

    def texts(self, numbers: FloatArray) -> list[str]:
        """Numbers as the nearest year, month, day or minute in ISO 8601; "" where missing.

        Args:
            numbers: Units since the origin [N].
        """
        form = {"year": "Y", "month": "M", "day": "D", "hour": "m"}[self.unit]
        dates = self.rounded_dates(numbers).astype(f"M8[{form}]")
        return ["" if np.isnat(date) else str(date) for date in dates]


def is_dates(cells: pd.Series[Any]) -> bool:
    """Whether the cells of a column are dates (datetime64) rather than texts or numbers."""
    return bool(pd.api.types.is_datetime64_any_dtype(cells.dtype))


def date_scale_texts(scales: Mapping[str, DateScale]) -> dict[str, tuple[str, str]]:
    """Scales as pairs of unit and origin, by column, for files."""
    return {name: (scale.unit, scale.origin) for name, scale in scales.items()}


def date_scales_of_texts(pairs: Mapping[str, Any]) -> dict[str, DateScale]:
    """Scales from their pairs of unit and origin.

    Raises:
        DataError: There is no such unit, or the origin is no date.
    """
    return {name: DateScale(unit, origin) for name, (unit, origin) in pairs.items()}


def _micros(cells: pd.Series[Any]) -> _Micros:
    """Dates in microseconds, in UTC where they have a zone, [N]."""
    if isinstance(cells.dtype, pd.DatetimeTZDtype):
        cells = cells.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(cells.to_numpy(dtype="M8[us]"))
