"""Rows of a map in a notebook: positions, sd, and the colours of labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.export.categories import MISSING, OTHER, category_style
from lvmcore.numerics.array_types import FloatArray

__all__ = ["NotebookColours", "NotebookRows", "row_colours"]

#: Most distinct numbers that are categories.
MOST_CATEGORIES = 16
ONE_COLOUR, GREY = ("#0072B2", "circle"), ("#8A9099", "circle")
#: Steps of the colour scale of numbers.
STEPS = 256


@dataclass(frozen=True)
class NotebookColours:
    """The look of each row.

    Attributes:
        codes: position of each row's look, [N].
        looks: colour and marker of each look, on a light page.
        dark: the same on a dark page.
        legend: name and position of each category; nothing for numbers and without labels.
        values: the number of each row on a scale, [N]; None for categories.
    """

    codes: NDArray[np.uint16]
    looks: list[tuple[str, str]]
    dark: list[tuple[str, str]]
    legend: list[tuple[str, int]]
    values: FloatArray | None = None


@dataclass(frozen=True)
class NotebookRows:
    """What the map draws.

    Attributes:
        points: positions, [N, 2].
        sd: sd of the posterior along both dimensions, [N, 2]; 0 where the model has none.
        titles: titles of the horizontal and of the vertical axis.
        colours: the look of each row.
        names: a name of each row; empty for their positions.
    """

    points: FloatArray
    sd: FloatArray
    titles: tuple[str, str]
    colours: NotebookColours
    names: list[str]


def row_colours(column: pd.Series | None, n: int) -> NotebookColours:
    """Looks of rows by a column: categories, or a scale of numbers; missing cells are grey.

    Args:
        column: one cell per row, [N]; None for one colour.
        n: number of rows.
    """
    if column is None:
        return NotebookColours(np.zeros(n, np.uint16), [ONE_COLOUR], [ONE_COLOUR], [])
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if numeric and column.nunique() > MOST_CATEGORIES:
        return _scale(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return _categories(column)


def _categories(column: pd.Series) -> NotebookColours:
    style = category_style(column, "labels")
    count = len(style.names)
    codes = np.where(style.codes == OTHER, count, style.codes)
    codes = np.where(style.codes == MISSING, count + 1, codes).astype(np.uint16)
    names = [*style.names, f"{style.others} others", "missing"]
    used = set(codes.tolist())
    return NotebookColours(
        codes,
        [*style.looks(), GREY, GREY],
        [*style.looks(dark=True), GREY, GREY],
        [(name, code) for code, name in enumerate(names) if code in used],
    )


def _scale(values: FloatArray) -> NotebookColours:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    known = np.isfinite(values)
    low, high = float(values[known].min()), float(values[known].max())
    place = np.zeros(len(values))
    place[known] = (values[known] - low) / (high - low)
    codes = np.where(known, np.round((STEPS - 1) * place), STEPS).astype(np.uint16)
    shades = colormaps["viridis"](np.linspace(0, 1, STEPS))
    looks = [*((to_hex(shade), "circle") for shade in shades), GREY]
    return NotebookColours(codes, looks, looks, [], values)
