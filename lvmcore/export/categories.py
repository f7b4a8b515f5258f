"""Categorical styles of rows, for pages and files: groups, colours, marker shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "MISSING",
    "OKABE_ITO",
    "OTHER",
    "SHAPES",
    "CategoryStyle",
    "category_style",
    "rows_in_style",
]

#: Okabe and Ito's colours, distinct for all types of colour vision; black or white comes eighth.
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442")
#: Marker shapes, one for each cycle through the colours.
SHAPES = ("circle", "diamond", "square", "triangle-up")

#: Codes of rows without a category of their own: missing, or grouped as other.
MISSING, OTHER = -1, -2

#: Most categories with a style of their own: eight colours in two shapes.
MOST = 16
#: Number of categories, the most frequent, with a style of their own if there are more.
KEPT = 10


@dataclass(frozen=True)
class CategoryStyle:
    """Rows by category.

    Attributes:
        title: name of the column.
        names: categories with a style of their own, in the order of the styles.
        codes: position in ``names`` of each row, else MISSING or OTHER, [N].
        others: number of further categories.
    """

    title: str
    names: tuple[str, ...]
    codes: NDArray[np.intp]
    others: int = 0


def category_style(column: pd.Series, title: str) -> CategoryStyle:
    """Rows by category, in the order of names (numbers by size).

    With more than ``MOST`` categories, the ten most frequent ones have a style of their own and the
    others are one group.

    Args:
        column: one cell per row, [N].
        title: name of the column.
    """
    known = column.notna().to_numpy(dtype=bool)
    names, place_of_row, counts = _distinct_texts(column[known])
    shown = list(names)
    if len(names) > MOST:
        shown = list(names[np.argsort(-counts, kind="stable")[:KEPT]])
    shown.sort(key=_order)
    place = {str(name): code for code, name in enumerate(shown)}
    codes = np.full(len(column), MISSING, dtype=np.intp)
    codes[known] = np.array([place.get(name, OTHER) for name in names], dtype=np.intp)[place_of_row]
    return CategoryStyle(title, tuple(place), codes, len(names) - len(shown))


def rows_in_style(style: CategoryStyle, column: pd.Series) -> CategoryStyle:
    """Other rows by the categories of a style; a category that it does not name is OTHER.

    Args:
        style: a style of the same column, of some rows.
        column: one cell per further row, [n].
    """
    known = column.notna().to_numpy(dtype=bool)
    names, place_of_row, _ = _distinct_texts(column[known])
    place = {name: code for code, name in enumerate(style.names)}
    found = np.array([place.get(str(name), OTHER) for name in names], dtype=np.intp)
    codes = np.full(len(column), MISSING, dtype=np.intp)
    codes[known] = found[place_of_row]
    return replace(style, codes=codes, others=max(style.others, int((found == OTHER).sum())))


def _distinct_texts(
    cells: pd.Series,
) -> tuple[NDArray[np.str_], NDArray[np.intp], NDArray[np.intp]]:
    """The distinct texts of cells in alphabetical order, the index of each cell's, and counts."""
    if pd.api.types.infer_dtype(cells, skipna=False) == "string":
        texts = cells.to_numpy(dtype=object)
    else:  # equal cells may differ in their text, such as 1 and True
        texts = np.array([_text(cell) for cell in cells.tolist()], dtype=object)
    index, distinct = pd.factorize(texts)
    names = np.asarray(distinct).astype(str)
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(names), dtype=np.intp)
    rank[order] = np.arange(len(names))
    found = rank[index]
    return names[order], found, np.bincount(found, minlength=len(names))


def _text(cell: object) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _order(name: str) -> tuple[int, float, str]:
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name
