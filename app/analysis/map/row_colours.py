"""Colours of rows by a column, as categories or as numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.export.categories import (
    MISSING,
    OTHER,
    CategoryStyle,
    category_style,
    rows_in_style,
)
from lvmcore.export.column_colours import (
    DEFAULT_NUMBERS,
    CategoryColours,
    ColumnColours,
    NumberColours,
)
from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "MISSING",
    "OTHER",
    "CategoryStyle",
    "Colouring",
    "GroupLabel",
    "NumericColours",
    "category_style",
    "coloured",
    "further_rows",
    "group_labels",
    "group_of_rows",
    "row_colours",
]

#: A column of integers with at most this many distinct values is drawn as categories.
FEW_NUMBERS = 10


@dataclass(frozen=True)
class NumericColours:
    """Rows coloured by a number.

    Attributes:
        title: name of the column.
        values: value of each row, NaN where missing, [N].
        limits: values at the ends of the colour scale; None for the range of the values.
        colours: the colour scale and its transform.
        reference: values by which the quantiles are; None for those of the rows.
    """

    title: str
    values: FloatArray
    limits: tuple[float, float] | None = None
    colours: NumberColours = DEFAULT_NUMBERS
    reference: FloatArray | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        """Values at the ends of the colour scale; None if no row has a value."""
        if self.limits is not None:
            return self.limits
        known = self.values[np.isfinite(self.values)]
        if self._transform == "log":
            known = known[known > 0]
        if not len(known):
            return None
        low, high = float(known.min()), float(known.max())
        if self._transform == "quantile":
            return low, high
        low = low if self.colours.low is None else self.colours.low
        high = high if self.colours.high is None else self.colours.high
        if self._transform == "diverging":
            centre = self.colours.centre
            reach = max(abs(high - centre), abs(low - centre))
            return centre - reach, centre + reach
        return low, max(low, high)

    @property
    def full_title(self) -> str:
        """The title with the transform, unless it is linear."""
        about = {
            "linear": "",
            "log": ", log scale",
            "quantile": ", by quantile",
            "diverging": f", middle {self.colours.centre:g}",
        }
        return f"{self.title}{about[self._transform]}"

    def shares(self) -> FloatArray:
        """Position of each row on the colour scale from 0 to 1, NaN where missing, [N].

        On a log scale a value of 0 or less is at the low end.
        """
        found = np.full(len(self.values), np.nan)
        known = np.isfinite(self.values)
        ends = self.ends
        if ends is None:
            return found
        if self._transform == "quantile":
            return self._quantiles(found, known)
        (low, high), values = ends, self.values[known]
        if self._transform == "log":
            values = np.log(np.maximum(values, low))
            low, high = np.log(low), np.log(high)
        found[known] = (values - low) / max(high - low, 1e-300)
        return found.clip(0.0, 1.0)

    def value_at(self, share: float) -> float:
        """The number at a position of the colour scale, from 0 to 1; NaN if no row has a value."""
        ends = self.ends
        if ends is None:
            return np.nan
        if self._transform == "quantile":
            return float(np.quantile(self._reference, share))
        if self._transform == "log":
            return float(ends[0] ** (1 - share) * ends[1] ** share)
        return ends[0] + share * (ends[1] - ends[0])

    def of_rows(self, chosen: NDArray[np.intp]) -> NumericColours:
        """Some of the rows; each keeps its colour."""
        reference = self._reference if self._transform == "quantile" else None
        return replace(self, values=self.values[chosen], limits=self.ends, reference=reference)

    @property
    def _transform(self) -> str:
        """The transform; a log scale without a positive value is linear."""
        if self.colours.transform != "log":
            return self.colours.transform
        low, high = self.limits or (self.colours.low, self.colours.high)
        ends = [end for end in (low, high) if end is not None]
        return "log" if all(end > 0 for end in ends) and (self.values > 0).any() else "linear"

    @property
    def _reference(self) -> FloatArray:
        """The known values by which the quantiles are, ascending."""
        return (
            np.sort(self.values[np.isfinite(self.values)])
            if self.reference is None
            else self.reference
        )

    def _quantiles(self, found: FloatArray, known: NDArray[np.bool_]) -> FloatArray:
        """The share of smaller values, equal ones counted half."""
        reference = self._reference
        sides = [np.searchsorted(reference, self.values[known], side) for side in ("left", "right")]
        found[known] = (sides[0] + sides[1]) / (2 * len(reference))
        return found


Colouring = CategoryStyle | NumericColours | None


def group_of_rows(colouring: Colouring, chosen: NDArray[np.intp]) -> Colouring:
    """The colouring of some of the rows; each keeps its colour."""
    if isinstance(colouring, CategoryStyle):
        return replace(colouring, codes=colouring.codes[chosen])
    return colouring.of_rows(chosen) if isinstance(colouring, NumericColours) else None


@dataclass(frozen=True)
class GroupLabel:
    """The name of a category on a map.

    Attributes:
        name: the category.
        code: its position among the categories.
        place: the position of the row nearest to the median of its rows, [2].
    """

    name: str
    code: int
    place: tuple[float, float]


def group_labels(colouring: Colouring, points: FloatArray) -> tuple[GroupLabel, ...]:
    """The names of the categories of rows with their places, the largest category first.

    Args:
        colouring: colours of the rows; numbers have no labels.
        points: positions of the rows on the map, [N, 2].
    """
    if not isinstance(colouring, CategoryStyle):
        return ()
    sizes = np.bincount(colouring.codes[colouring.codes >= 0], minlength=len(colouring.names))
    found = []
    for code in np.argsort(-sizes, kind="stable").tolist():
        rows = points[colouring.codes == code]
        if len(rows):
            nearest = np.square(rows - np.median(rows, axis=0)).sum(axis=1).argmin()
            x, y = rows[nearest].tolist()
            found.append(GroupLabel(colouring.names[code], code, (x, y)))
    return tuple(found)


def coloured(colouring: Colouring, colours: ColumnColours | None) -> Colouring:
    """The rows in chosen colours; colours of the other type, and None, change nothing."""
    if isinstance(colouring, CategoryStyle) and isinstance(colours, CategoryColours):
        return replace(colouring, colours=colours)
    if isinstance(colouring, NumericColours) and isinstance(colours, NumberColours):
        return replace(colouring, colours=colours)
    return colouring


def further_rows(colouring: Colouring, column: pd.Series, further: pd.Series) -> Colouring:
    """Rows with further ones after them, in the same colours.

    Args:
        colouring: colours of rows by a column, [m].
        column: the cells by which the colours were chosen, of these rows and maybe others.
        further: the cells of the further rows, [n].

    Returns:
        Colours of all rows, [m + n]. A category or a number that none of the first rows has gets
        the colour of the other categories, or of the nearer end of the scale.
    """
    if isinstance(colouring, CategoryStyle):
        more = rows_in_style(colouring, further)
        return replace(more, codes=np.concatenate([colouring.codes, more.codes]))
    if isinstance(colouring, NumericColours):
        if pd.api.types.is_datetime64_any_dtype(column.dtype):
            further = (further - column.min()) / pd.Timedelta(days=1)
        values = further.to_numpy(dtype=np.float64, na_value=np.nan)
        kept = colouring.of_rows(np.arange(len(colouring.values)))
        return replace(kept, values=np.concatenate([colouring.values, values]))
    return None


def row_colours(column: pd.Series, title: str) -> CategoryStyle | NumericColours:
    """Colours of rows by a column.

    Numbers get a colour scale, except integers of few distinct values, which are categories. Dates
    are numbers of days since the first date. All other columns are categories.

    Args:
        column: one cell per row, [N].
        title: name of the column.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        first = column.min()
        days = (column - first) / pd.Timedelta(days=1)
        return NumericColours(
            f"{title}, days since {first:%Y-%m-%d}", days.to_numpy(dtype=np.float64)
        )
    if pd.api.types.is_bool_dtype(column.dtype) or not pd.api.types.is_numeric_dtype(column.dtype):
        return category_style(column, title)
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    known = np.unique(values[np.isfinite(values)])
    if len(known) <= FEW_NUMBERS and bool((known == np.round(known)).all()):
        return category_style(column, title)
    return NumericColours(title, values)
