"""How rows are coloured by a column: as categories, or as numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.runs.looks import MISSING, OTHER, Categories, categories

__all__ = ["MISSING", "OTHER", "Categories", "Colouring", "Numbers", "categories", "colouring"]

#: A column of whole numbers with no more different values than this is drawn as categories.
FEW_NUMBERS = 10


@dataclass(frozen=True)
class Numbers:
    """Rows by number.

    Attributes:
        title: name of the column.
        values: NaN where missing, [N].
    """

    title: str
    values: NDArray[np.float64]


Colouring = Categories | Numbers | None


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
