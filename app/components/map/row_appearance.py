"""Size and shape of the rows on the map, by columns of the table or by the posterior sd."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_axes import View, covariances, is_line
from app.analysis.map.map_view import MapOptions
from app.components.map.held_out_layer import held_out_toggle
from app.figures.row_traces import RowShapes
from app.formatting import count, distinct_titles, number, shortened
from app.state.widgets import map_widget_key
from lvmcore.export.categories import MISSING, category_style
from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "BY_SD",
    "Appearance",
    "AppearanceChoices",
    "appearance_controls",
    "posterior_sd",
    "row_appearance",
    "row_shapes",
    "row_sizes",
]


#: Markers of the categories in their order; the last one stands for all further ones.
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "cross", "star")
_MISSING_SYMBOL = "x"
#: Diameters in pixels of the smallest and of the largest value.
SMALLEST, LARGEST = 4.0, 14.0
_NONE = ""
#: Size option of the posterior sd; not offered where a column has this name.
BY_SD = "posterior sd"


@dataclass(frozen=True)
class Appearance:
    """How rows look, apart from their colours.

    Attributes:
        size: diameter of the marker of each row in pixels, [N]; None for one size.
        shape: marker of each row; None for one shape.
        notes: sentences on their meaning.
    """

    size: FloatArray | None = None
    shape: RowShapes | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AppearanceChoices:
    """Values of the controls of the appearance.

    Attributes:
        size: column of the row sizes, or ``BY_SD``; None for one size.
        shape: column of the row shapes; None for one shape.
        group_labels: whether the names of the categories are on the map.
        pictures: whether pictures mark the rows.
        inducing: whether inducing inputs are drawn.
        held_out: whether held-out rows are drawn.
        details: a container for the colours and for details of the background.
    """

    size: str | None
    shape: str | None
    group_labels: bool
    pictures: bool
    inducing: bool
    held_out: bool
    details: DeltaGenerator


def appearance_controls(fitted_map: FittedMap, options: MapOptions) -> AppearanceChoices:
    """Draw the controls of the appearance in a popover.

    Args:
        fitted_map: the run.
        options: what the map can show.
    """
    with st.popover(
        "Appearance",
        help="Size, shape and colours of the rows, labels of groups, held-out rows, background.",
        key=map_widget_key(fitted_map, "appearance"),
        width="stretch",
    ):
        size = _column(fitted_map, "Size by", options.sizes, "Larger markers for larger numbers.")
        shape = _column(fitted_map, "Shape by", options.shapes, "A marker for each category.")
        group_labels = st.toggle(
            "Labels of groups",
            help="Names of the categories of the colours, where they do not overlap.",
            key=map_widget_key(fitted_map, "group labels"),
        )
        pictures = inducing = False
        if options.pictures:
            pictures = st.toggle(
                "Pictures as marks",
                help="Pictures of the rows, where they do not overlap; a zoom shows more of them.",
                key=map_widget_key(fitted_map, "pictures"),
            )
        if options.inducing:
            inducing = st.toggle(
                "Inducing inputs",
                help="The latent points on which the sparse Gaussian process is conditioned.",
                key=map_widget_key(fitted_map, "inducing"),
            )
        held_out = held_out_toggle(fitted_map)
        details = st.container()
    return AppearanceChoices(size, shape, group_labels, pictures, inducing, held_out, details)


def _column(fitted_map: FittedMap, title: str, names: Collection[str], about: str) -> str | None:
    options = [_NONE, *names]
    titles = distinct_titles(["nothing", *(shortened(name, 60) for name in names)])
    chosen = st.selectbox(
        title,
        range(len(options)),
        format_func=titles.__getitem__,
        help=about,
        key=map_widget_key(fitted_map, title),
    )
    return options[chosen] or None


def row_appearance(
    fitted_map: FittedMap, view: View, size: str | None, shape: str | None
) -> Appearance:
    """Sizes and shapes of all rows.

    Args:
        fitted_map: the run.
        view: the axes of the map.
        size: a numeric column, or ``BY_SD``.
        shape: a label or another column.
    """
    dataset = fitted_map.dataset
    notes: list[str] = []
    sizes = shapes = None
    if size == BY_SD and size not in dataset.frame:
        sd = posterior_sd(fitted_map.model.embedding_.variance, view)
        sizes = row_sizes(sd)
        notes.append(_size_note("posterior sd on the map", sd))
    elif size is not None and size in dataset.frame:
        cells = dataset.frame[size].to_numpy(dtype=np.float64, na_value=np.nan)
        sizes = row_sizes(cells)
        notes.append(_size_note(size, cells))
    if shape is not None and (shape in dataset.label_columns or shape in dataset.frame):
        labels = dataset.label_columns.get(shape)
        column = dataset.frame[shape] if labels is None else pd.Series(labels, dtype=object)
        shapes = row_shapes(column, shape)
    return Appearance(sizes, shapes, tuple(notes))


def posterior_sd(variance: FloatArray, view: View) -> FloatArray:
    """Posterior sd of rows on the map, (det S)^(1/4) of their covariances S there, [N].

    In latent units; it is the radius of the circle with the area of the ellipse of one sd.

    Args:
        variance: latent variances, [N, Q].
        view: the axes of the map; on a map of one dimension, its sd.
    """
    S = covariances(variance, view)
    if is_line(view):
        found: FloatArray = np.sqrt(S[:, 0, 0])
    else:
        found = np.linalg.det(S).clip(0) ** 0.25
    return found


def row_sizes(values: FloatArray) -> FloatArray:
    """Diameters of rows, [N]: their squares are linear in the value.

    A row without a value gets the smallest diameter.
    """
    known = np.isfinite(values)
    found = np.full(len(values), SMALLEST)
    if known.any():
        low, high = values[known].min(), values[known].max()
        share = (values[known] - low) / (high - low) if high > low else np.zeros(known.sum())
        found[known] = np.sqrt(SMALLEST**2 + share * (LARGEST**2 - SMALLEST**2))
    return found


def _size_note(name: str, values: FloatArray) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return f"Size: no row has a value of {shortened(name)}."
    note = (
        f"Size: {shortened(name)}, smallest at {number(float(known.min()), 3)}, largest at "
        f"{number(float(known.max()), 3)}"
    )
    missing = len(values) - len(known)
    return (
        f"{note}; {count(missing, 'row')} without a value have the smallest marker."
        if missing
        else f"{note}."
    )


def row_shapes(column: pd.Series, title: str) -> RowShapes:
    """A marker for each of the most frequent categories, one for all others, one for missing."""
    found = category_style(column, title)
    counts = np.bincount(found.codes[found.codes >= 0], minlength=len(found.names))
    most = (
        len(SYMBOLS) if len(found.names) + bool(found.others) <= len(SYMBOLS) else len(SYMBOLS) - 1
    )
    own = sorted(np.argsort(-counts, kind="stable")[:most].tolist())
    symbol = np.full(len(column), SYMBOLS[-1], dtype=object)
    legend = []
    for position, code in enumerate(own):
        symbol[found.codes == code] = SYMBOLS[position]
        legend.append((found.names[code], SYMBOLS[position]))
    others = len(found.names) - len(own) + found.others
    if others:
        legend.append((f"other ({others} more)", SYMBOLS[-1]))
    if (found.codes == MISSING).any():
        symbol[found.codes == MISSING] = _MISSING_SYMBOL
        legend.append(("(missing)", _MISSING_SYMBOL))
    return RowShapes(title, symbol, tuple(legend))
