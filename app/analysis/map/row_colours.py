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

__all__ = [
    "MISSING",
    "OTHER",
    "CategoryStyle",
    "Colouring",
    "NumericColours",
    "category_style",
    "further_rows",
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
    """

    title: str
    values: NDArray[np.float64]
    limits: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        """Values at the ends of the colour scale; None if no row has a value."""
        known = self.values[np.isfinite(self.values)]
        if self.limits is not None or not len(known):
            return self.limits
        return float(known.min()), float(known.max())


Colouring = CategoryStyle | NumericColours | None


def group_of_rows(colouring: Colouring, chosen: NDArray[np.intp]) -> Colouring:
    """The colouring of some of the rows; each keeps its colour."""
    if isinstance(colouring, CategoryStyle):
        return replace(colouring, codes=colouring.codes[chosen])
    if isinstance(colouring, NumericColours):
        return replace(colouring, values=colouring.values[chosen], limits=colouring.ends)
    return None


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
        joined = np.concatenate([colouring.values, values])
        return replace(colouring, values=joined, limits=colouring.ends)
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
