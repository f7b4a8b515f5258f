"""Detection of columns of a new table that are in other units than those of the fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lvmcore.data.dataset import Dataset
from lvmcore.numerics.array_types import FloatArray

__all__ = ["TypicalRange", "UnitWarning", "unit_warnings"]


#: Half the interquartile range of a Gaussian, in standard deviations.
_GAUSSIAN_QUARTILE = 0.6745
#: With fewer rows only powers of ten are tested, by the median alone.
_MIN_ROWS = 5
_MAX_SHOWN = 8
_FIT_DATA = "the data that the model was fitted to"


@dataclass(frozen=True)
class _UnitChange:
    """A change of units x ↦ factor · x + shift, and the description of a column that needs it."""

    factor: float
    shift: float
    looks: str
    prior: float  # minimal difference of the columns for this change


def _scale_changes(factor: float, prior: float) -> tuple[_UnitChange, _UnitChange]:
    """The changes of values that are ``factor`` times too small, or too large."""
    return (
        _UnitChange(factor, 0.0, f"{factor:g} times smaller than in {_FIT_DATA}", prior),
        _UnitChange(1 / factor, 0.0, f"{factor:g} times larger than in {_FIT_DATA}", prior),
    )


_POWERS = tuple(change for power in range(1, 7) for change in _scale_changes(10.0**power, 2.0))
_CHANGES = (
    *_POWERS,
    # Inches, feet, miles, pounds, ounces, minutes or hours, grey levels.
    *(
        change
        for factor in (2.54, 25.4, 3.2808, 1.6093, 2.2046, 28.35, 60.0, 3600.0, 255.0)
        for change in _scale_changes(factor, 4.0)
    ),
    _UnitChange(1.0, -273.15, f"273.15 higher (kelvin for °C) than in {_FIT_DATA}", 3.0),
    _UnitChange(1.0, 273.15, f"273.15 lower (°C for kelvin) than in {_FIT_DATA}", 3.0),
    _UnitChange(5 / 9, -160 / 9, f"to be in °F, and {_FIT_DATA} in °C", 6.0),
    _UnitChange(9 / 5, 32.0, f"to be in °C, and {_FIT_DATA} in °F", 6.0),
)


@dataclass(frozen=True)
class TypicalRange:
    """Location and scale of the columns of a fit.

    Attributes:
        centre: Median of each column, in the table's units; NaN where units are meaningless or
            cannot be detected (0/1 features, dates, constant columns), [D].
        spread: Standard deviation estimated from the quartiles; positive, [D].
    """

    centre: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, dataset: Dataset) -> "TypicalRange":
        """Measure the columns of a dataset."""
        cells = dataset.original_units(dataset.X)
        centre, spread = np.full((2, cells.shape[1]), np.nan)
        for d in range(cells.shape[1]):
            values = cells[~np.isnan(cells[:, d]), d]
            if dataset.feature_names[d] in dataset.date_scales or np.isin(values, (0.0, 1.0)).all():
                continue
            middle, width = _median_and_sd(values)
            if width > 0:
                centre[d], spread[d] = middle, width
        return cls(centre, spread)


@dataclass(frozen=True)
class UnitWarning:
    """Columns that are probably in other units.

    Attributes:
        columns: Their names in the table.
        text: The suspected change of units, as a question.
    """

    columns: tuple[str, ...]
    text: str


def unit_warnings(
    cells: FloatArray, names: Sequence[str], typical: TypicalRange
) -> tuple[UnitWarning, ...]:
    """Find columns that a change of units would bring close to those of the fit.

    With median m and spread s of the fit and m', s' of the new table, the difference of a column
    is |m' − m| / s + |log(s'/s)|. A warning is given if a change of units removes nearly all of a
    large difference. The values are never changed: other rows may well be larger.

    Args:
        cells: The rows in the table's units, NaN where missing, [N, D].
        names: Names of the columns in the table, [D].
        typical: Location and scale of the columns of the fit.

    Returns:
        One warning for each change of units, with all columns that it explains.
    """
    found: dict[_UnitChange, list[str]] = {}
    for d, name in enumerate(names):
        values = cells[~np.isnan(cells[:, d]), d]
        if not len(values) or np.isnan(typical.centre[d]):
            continue
        change = _find_change(values, float(typical.centre[d]), float(typical.spread[d]))
        if change is not None:
            found.setdefault(change, []).append(name)
    return tuple(_warning(change, columns) for change, columns in found.items())


def _find_change(values: FloatArray, centre: float, spread: float) -> _UnitChange | None:
    """The change of units that brings a column close to that of the fit; None without one."""
    middle, width = _median_and_sd(values)
    few = len(values) < _MIN_ROWS or width == 0

    def difference(change: _UnitChange) -> float:
        away = abs(change.factor * middle + change.shift - centre) / spread
        return away if few else away + abs(float(np.log(change.factor * width / spread)))

    as_it_is = difference(_UnitChange(1.0, 0.0, "", 0.0))
    best = min(_POWERS if few else _CHANGES, key=difference)
    left = difference(best)
    allowed = 2.0 if few else min(1.0, 0.25 + 3 / float(np.sqrt(len(values))))
    large = 8.0 if few else best.prior
    return best if as_it_is > large and left < allowed and left < as_it_is / 4 else None


def _median_and_sd(values: FloatArray) -> tuple[float, float]:
    """Median, and standard deviation from the quartiles (of all values if these are equal)."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    width = float(high - low) / (2 * _GAUSSIAN_QUARTILE)
    return float(middle), width if width > 0 else float(values.std())


def _warning(change: _UnitChange, columns: list[str]) -> UnitWarning:
    more = f" and {len(columns) - _MAX_SHOWN} more" if len(columns) > _MAX_SHOWN else ""
    shown = ", ".join(map(repr, columns[:_MAX_SHOWN])) + more
    looks = "looks" if len(columns) == 1 else "look"
    return UnitWarning(tuple(columns), f"{shown} {looks} {change.looks}: other units?")
