"""Columns of another table that look as if they were in other units than those of the fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lvmcore.data.dataset import Dataset

__all__ = ["Suspicion", "Typical", "other_units"]

FloatArray = NDArray[np.float64]

#: Half the distance of the quartiles of a Gaussian, in sd.
_QUARTILE = 0.6745
#: With fewer rows only a factor of a power of ten is looked for, by the median alone.
_FEW = 5
_NAMED = 8
_DATA = "the data that the model was fitted to"


@dataclass(frozen=True)
class _Change:
    """x ↦ factor · x + shift, and what a column that needs it looks."""

    factor: float
    shift: float
    looks: str
    prior: float  # how far off the columns must be before this is thought of


def _size(factor: float, prior: float) -> tuple[_Change, _Change]:
    """The two changes of values that are ``factor`` times too small, or too large."""
    return (
        _Change(factor, 0.0, f"{factor:g} times smaller than in {_DATA}", prior),
        _Change(1 / factor, 0.0, f"{factor:g} times larger than in {_DATA}", prior),
    )


_POWERS = tuple(change for power in range(1, 7) for change in _size(10.0**power, 2.0))
_CHANGES = (
    *_POWERS,
    # Inches, feet, miles, pounds, ounces, minutes or hours, grey levels.
    *(
        change
        for factor in (2.54, 25.4, 3.2808, 1.6093, 2.2046, 28.35, 60.0, 3600.0, 255.0)
        for change in _size(factor, 4.0)
    ),
    _Change(1.0, -273.15, f"273.15 higher (kelvin for °C) than in {_DATA}", 3.0),
    _Change(1.0, 273.15, f"273.15 lower (°C for kelvin) than in {_DATA}", 3.0),
    _Change(5 / 9, -160 / 9, f"to be in °F, and {_DATA} in °C", 6.0),
    _Change(9 / 5, 32.0, f"to be in °C, and {_DATA} in °F", 6.0),
)


@dataclass(frozen=True)
class Typical:
    """Where the columns of a fit lie, and how far they spread.

    Attributes:
        centre: Median of each column, in the table's own units; NaN where a change of units makes
            no sense or cannot be told (0/1 features, constant columns), [D].
        spread: From the quartiles, scaled to be the sd of a Gaussian; positive, [D].
    """

    centre: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, dataset: Dataset) -> "Typical":
        """Measure the columns of a dataset."""
        cells = dataset.in_units(dataset.X)
        centre, spread = np.full((2, cells.shape[1]), np.nan)
        for d in range(cells.shape[1]):
            values = cells[~np.isnan(cells[:, d]), d]
            if np.isin(values, (0.0, 1.0)).all():
                continue
            middle, width = _middle_and_width(values)
            if width > 0:
                centre[d], spread[d] = middle, width
        return cls(centre, spread)


@dataclass(frozen=True)
class Suspicion:
    """Columns that look as if they were in other units.

    Attributes:
        columns: Their names in the table.
        text: What they look like, as a question.
    """

    columns: tuple[str, ...]
    text: str


def other_units(cells: FloatArray, names: Sequence[str], typical: Typical) -> tuple[Suspicion, ...]:
    """Find columns that a change of units would bring near to those of the fit.

    With median m and spread s of the fit and m', s' here, columns differ by |m' − m| / s +
    |log(s'/s)|. A change of units is thought of where it takes away nearly all of a large
    difference. It is only said, never made: other rows may well be larger.

    Args:
        cells: The rows in the table's own units, NaN where missing, [N, D].
        names: What their columns are called there, [D].
        typical: The columns of the fit.

    Returns:
        One suspicion for each change of units, with all columns that it would explain.
    """
    found: dict[_Change, list[str]] = {}
    for d, name in enumerate(names):
        values = cells[~np.isnan(cells[:, d]), d]
        if not len(values) or np.isnan(typical.centre[d]):
            continue
        change = _explanation(values, float(typical.centre[d]), float(typical.spread[d]))
        if change is not None:
            found.setdefault(change, []).append(name)
    return tuple(_suspicion(change, columns) for change, columns in found.items())


def _explanation(values: FloatArray, centre: float, spread: float) -> _Change | None:
    """The change of units that makes a column like that of the fit; None without one."""
    middle, width = _middle_and_width(values)
    few = len(values) < _FEW or width == 0

    def difference(change: _Change) -> float:
        away = abs(change.factor * middle + change.shift - centre) / spread
        return away if few else away + abs(float(np.log(change.factor * width / spread)))

    as_it_is = difference(_Change(1.0, 0.0, "", 0.0))
    best = min(_POWERS if few else _CHANGES, key=difference)
    left = difference(best)
    allowed = 2.0 if few else min(1.0, 0.25 + 3 / float(np.sqrt(len(values))))
    large = 8.0 if few else best.prior
    return best if as_it_is > large and left < allowed and left < as_it_is / 4 else None


def _middle_and_width(values: FloatArray) -> tuple[float, float]:
    """Median, and an sd from the quartiles; from all values where the quartiles are the same."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    width = float(high - low) / (2 * _QUARTILE)
    return float(middle), width if width > 0 else float(values.std())


def _suspicion(change: _Change, columns: list[str]) -> Suspicion:
    more = f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else ""
    shown = ", ".join(map(repr, columns[:_NAMED])) + more
    looks = "looks" if len(columns) == 1 else "look"
    return Suspicion(tuple(columns), f"{shown} {looks} {change.looks}: other units?")
