"""How rows are coloured by a column: as categories, or as numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.runs.looks import MISSING, OTHER, Categories, categories

__all__ = [
    "MISSING",
    "OTHER",
    "Categories",
    "Colouring",
    "Numbers",
    "categories",
    "colouring",
    "part_of",
]

#: A column of whole numbers with no more different values than this is drawn as categories.
FEW_NUMBERS = 10


@dataclass(frozen=True)
class Numbers:
    """Rows by number.

    Attributes:
        title: name of the column.
        values: NaN where missing, [N].
        limits: values of the ramp's ends; None takes the least and the greatest.
    """

    title: str
    values: NDArray[np.float64]
    limits: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        """Values of the ramp's ends; None where no row has a value."""
        known = self.values[np.isfinite(self.values)]
        if self.limits is not None or not len(known):
            return self.limits
        return float(known.min()), float(known.max())


Colouring = Categories | Numbers | None


def part_of(look: Colouring, chosen: NDArray[np.intp]) -> Colouring:
    """The colouring of some of the rows: each keeps the colour that it has among all."""
    if isinstance(look, Categories):
        return replace(look, codes=look.codes[chosen])
    if isinstance(look, Numbers):
        return replace(look, values=look.values[chosen], limits=look.ends)
    return None


def colouring(column: pd.Series, title: str) -> Categories | Numbers:
    """How to colour rows by a column.

    Numbers get a ramp, unless they are few whole numbers, which are as good as categories. Dates
    count as days since the first. Everything else is categories.

    Args:
        column: one cell a row, [N].
        title: what to call it.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        first = column.min()
        days = (column - first) / pd.Timedelta(days=1)
        return Numbers(f"{title}, days since {first:%Y-%m-%d}", days.to_numpy(dtype=np.float64))
    if pd.api.types.is_bool_dtype(column.dtype) or not pd.api.types.is_numeric_dtype(column.dtype):
        return categories(column, title)
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    known = np.unique(values[np.isfinite(values)])
    if len(known) <= FEW_NUMBERS and bool((known == np.round(known)).all()):
        return categories(column, title)
    return Numbers(title, values)
