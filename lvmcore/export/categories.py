"""Categorical styles of rows, for pages and files: groups, colours, marker shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.export.column_colours import DEFAULT_CATEGORIES, CategoryColours

if TYPE_CHECKING:
    from lvmcore.data import Dataset

__all__ = [
    "MISSING",
    "OTHER",
    "CategoryStyle",
    "category_style",
    "class_style",
    "rows_in_style",
]

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
        colours: their colours, and their order in legends.
    """

    title: str
    names: tuple[str, ...]
    codes: NDArray[np.intp]
    others: int = 0
    colours: CategoryColours = DEFAULT_CATEGORIES

    @property
    def in_order(self) -> list[int]:
        """Positions in ``names``, in the order of legends."""
        return self.colours.codes_in_order(self.names)

    @property
    def layers(self) -> list[int] | None:
        """Codes from the lowest layer to that on top, the first one of legends; None for none."""
        return [MISSING, OTHER, *self.in_order[::-1]] if self.colours.order else None

    def looks(self, *, dark: bool = False) -> list[tuple[str, str]]:
        """Colour and marker of each of ``names``.

        Args:
            dark: whether the page is dark.
        """
        return [self.colours.look(code, name, dark=dark) for code, name in enumerate(self.names)]


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


def class_style(
    dataset: Dataset, colours: CategoryColours = DEFAULT_CATEGORIES, label: str | None = None
) -> CategoryStyle | None:
    """The rows of a dataset by a label column; None without labels.

    Args:
        dataset: the rows.
        colours: colours of the classes.
        label: name of the label column; None for the first.
    """
    columns = dataset.label_columns
    if not columns:
        return None
    name = label or next(iter(columns))
    found = category_style(pd.Series(columns[name], dtype=object), name)
    return replace(found, colours=colours)


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
