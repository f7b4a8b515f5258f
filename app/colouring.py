"""How rows are coloured by a column: as categories, or as numbers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["MISSING", "OTHER", "Categories", "Colouring", "Numbers", "categories", "colouring"]

#: Codes of rows that have no category of their own.
MISSING, OTHER = -1, -2

#: The most categories with a look of their own: eight colours in two shapes.
MOST = 16
#: A column of whole numbers with no more different values than this is drawn as categories.
FEW_NUMBERS = 10


@dataclass(frozen=True)
class Categories:
    """Rows by category.

    Attributes:
        title: name of the column.
        names: of the categories that have a look of their own, in the order of their looks.
        codes: position in ``names`` of each row, else MISSING or OTHER, [N].
        others: how many further categories there are.
    """

    title: str
    names: tuple[str, ...]
    codes: NDArray[np.intp]
    others: int = 0


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


def categories(column: pd.Series, title: str) -> Categories:
    """Rows by category, in the order of names (numbers by size).

    Where there are too many categories, the most frequent ones keep a look of their own and the
    rest are one group.

    Args:
        column: one cell a row, [N].
        title: what to call it.
    """
    known = column.notna().to_numpy(dtype=bool)
    texts = np.array([_text(cell) for cell in column[known].tolist()], dtype=object)
    names, counts = np.unique(texts.astype(str), return_counts=True)
    shown = list(names)
    if len(names) > MOST:
        shown = list(names[np.argsort(-counts, kind="stable")[: MOST - 1]])
    shown.sort(key=_order)
    place = {str(name): code for code, name in enumerate(shown)}
    codes = np.full(len(column), MISSING, dtype=np.intp)
    codes[known] = [place.get(text, OTHER) for text in texts]
    return Categories(title, tuple(place), codes, len(names) - len(shown))


def _text(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _order(name: str) -> tuple[int, float, str]:
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name
