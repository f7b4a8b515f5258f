"""Size and shape of the rows on the map, by columns of the table: how they are chosen and read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.figures.rows import Shapes
from app.opened import Opened
from app.selections import is_number
from app.words import count, number, shortened, told_apart
from lvmcore.data import Dataset
from lvmcore.runs.looks import MISSING, categories

__all__ = ["Appearance", "appearance", "chooser", "shapes_of", "sizes_of"]

FloatArray = NDArray[np.float64]

#: Markers of the categories in their order; the last one stands for all further ones.
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "cross", "star")
_MISSING_SYMBOL = "x"
#: Diameters in pixels of the smallest and of the largest value.
SMALLEST, LARGEST = 4.0, 14.0
_NONE = ""


@dataclass(frozen=True)
class Appearance:
    """How rows look, apart from their colours.

    Attributes:
        size: diameter of each row's marker in pixels, [N]; None for one size.
        shape: the marker of each row; None for one shape.
        said: how to read both, a sentence each.
    """

    size: FloatArray | None = None
    shape: Shapes | None = None
    said: tuple[str, ...] = ()


def chooser(opened: Opened, *, inducing: bool) -> tuple[str | None, str | None, bool]:
    """Ask for what is seldom asked for, folded away.

    Args:
        opened: the run.
        inducing: whether the map can show the model's inducing inputs, where it has some.

    Returns:
        Names of the columns that give rows their size and shape, None for one size and one shape;
        and whether inducing inputs are drawn.
    """
    labels = opened.dataset.label_columns
    types = {str(name): dtype for name, dtype in opened.dataset.frame.dtypes.items()}
    numbers = [name for name, dtype in types.items() if is_number(dtype)]
    taken = {*numbers, *labels}
    others = [name for name in types if name not in taken]
    with st.popover(
        "Appearance",
        help="Size and shape of the rows by columns of the table, and inducing inputs.",
        key=opened.key("appearance"),
        width="content",
    ):
        size = _column(opened, "Size by", numbers, "Larger markers for larger numbers.")
        shape = _column(opened, "Shape by", [*labels, *others], "A marker for each category.")
        drawn = False
        if inducing and opened.model.inducing_inputs_:
            drawn = st.toggle(
                "Inducing inputs",
                help="The places by which the model remembers what it has learned.",
                key=opened.key("inducing"),
            )
    return size, shape, drawn


def _column(opened: Opened, title: str, names: list[str], about: str) -> str | None:
    options = [_NONE, *names]
    titles = told_apart(["nothing", *(shortened(name, 60) for name in names)])
    chosen = st.selectbox(
        title,
        range(len(options)),
        format_func=titles.__getitem__,
        help=about,
        key=opened.key(title),
    )
    return options[chosen] or None


def appearance(dataset: Dataset, size: str | None, shape: str | None) -> Appearance:
    """Sizes and shapes of all rows.

    Args:
        dataset: the rows.
        size: a column of numbers.
        shape: a label or another column.
    """
    said: list[str] = []
    sizes = shapes = None
    if size is not None and size in dataset.frame:
        cells = dataset.frame[size].to_numpy(dtype=np.float64, na_value=np.nan)
        sizes = sizes_of(cells)
        said.append(_reading(size, cells))
    if shape is not None and (shape in dataset.label_columns or shape in dataset.frame):
        labels = dataset.label_columns.get(shape)
        column = dataset.frame[shape] if labels is None else pd.Series(labels, dtype=object)
        shapes = shapes_of(column, shape)
    return Appearance(sizes, shapes, tuple(said))


def sizes_of(values: FloatArray) -> FloatArray:
    """Diameters whose squares grow evenly from the smallest value to the largest, [N].

    A row without a value gets the smallest.
    """
    known = np.isfinite(values)
    found = np.full(len(values), SMALLEST)
    if known.any():
        low, high = values[known].min(), values[known].max()
        share = (values[known] - low) / (high - low) if high > low else np.zeros(known.sum())
        found[known] = np.sqrt(SMALLEST**2 + share * (LARGEST**2 - SMALLEST**2))
    return found


def _reading(name: str, values: FloatArray) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return f"Size: no row has a value of {shortened(name)}."
    said = (
        f"Size: {shortened(name)}, smallest at {number(float(known.min()), 3)}, largest at "
        f"{number(float(known.max()), 3)}"
    )
    absent = len(values) - len(known)
    return (
        f"{said}; {count(absent, 'row')} without a value as small as can be."
        if absent
        else f"{said}."
    )


def shapes_of(column: pd.Series, title: str) -> Shapes:
    """A marker for each of the most frequent categories, one for all others, one for missing."""
    found = categories(column, title)
    counts = np.bincount(found.codes[found.codes >= 0], minlength=len(found.names))
    most = (
        len(SYMBOLS) if len(found.names) + bool(found.others) <= len(SYMBOLS) else len(SYMBOLS) - 1
    )
    own = sorted(np.argsort(-counts, kind="stable")[:most].tolist())
    symbol = np.full(len(column), SYMBOLS[-1], dtype=object)
    legend = []
    for place, code in enumerate(own):
        symbol[found.codes == code] = SYMBOLS[place]
        legend.append((found.names[code], SYMBOLS[place]))
    others = len(found.names) - len(own) + found.others
    if others:
        legend.append((f"other ({others} more)", SYMBOLS[-1]))
    if (found.codes == MISSING).any():
        symbol[found.codes == MISSING] = _MISSING_SYMBOL
        legend.append(("(missing)", _MISSING_SYMBOL))
    return Shapes(title, symbol, tuple(legend))
