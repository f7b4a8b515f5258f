"""Latent curves on the Generate page: paths between two points, and sweeps of a dimension."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.generation import (
    DecodedPath,
    central_position,
    most_changed_columns,
    path_table,
)
from app.analysis.map.map_axes import Axes
from app.analysis.map.row_colours import CategoryStyle, Colouring
from app.components.download_buttons import animation_downloads, table_downloads
from app.components.map.reconstruction_panel import MOST_LISTED
from app.figures.pictures import channel_note
from app.formatting import count, distinct_titles, markdown, number, shortened
from app.services import generation, row_analysis
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from app.views.generate.figures import curves_figure, strip_figure
from lvmcore.errors import LatentboardError
from lvmcore.export.tables import to_csv_bytes, to_parquet_bytes

__all__ = ["NAMED_POINT", "DrawnPath", "path_panel", "sweep_panel"]

#: Default and largest number of drawn columns; images of a strip.
SHOWN, MOST_SHOWN, IMAGES = 6, 24, 9
#: Most classes that can be an end.
MOST_CLASSES = 50
_POINTS = 33
_DATA, _STRAIGHT = "along the data", "straight"
_LENGTH = "path length, sd of the columns"

#: Option of an end that was set on the map.
NAMED_POINT = "spot"

LatentPoint = tuple[float, ...]


@dataclass(frozen=True)
class DrawnPath:
    """The curve and the letters of a section on the map.

    Attributes:
        path: latent points of the curve, [P, Q]; None for none.
        marks: letters and their latent points.
    """

    path: NDArray[np.float64] | None = None
    marks: tuple[tuple[str, LatentPoint], ...] = ()


def path_panel(fitted_map: FittedMap, axes: Axes, colouring: Colouring) -> DrawnPath:
    """Draw the controls of a path between two points, and the rows along it.

    Args:
        fitted_map: the run.
        axes: the dimensions on the map.
        colouring: colours of the rows.
    """
    first, second, third = st.columns([1.4, 1.4, 1.1], gap="medium", vertical_alignment="top")
    classes = _classes(fitted_map)
    start = _end(fitted_map, "A", first, classes)
    end = _end(fitted_map, "B", second, classes)
    with third:
        kind = st.segmented_control(
            "Kind of path",
            [_DATA, _STRAIGHT],
            default=_DATA,
            required=True,
            key=map_widget_key(fitted_map, "way"),
            help="Along the data: the path of least change of the columns, inside the region of "
            "the rows. Straight: the line on the map.",
        )
    if start is None or end is None:
        return DrawnPath(marks=_marks(start, end))
    if start == end:
        st.info(
            "A and B are the same point, so there is no path between them. Choose another end, or "
            "fix the cursor on the map and press **Set B here**."
        )
        return DrawnPath(marks=_marks(start, None))
    try:
        found, rows = generation.decoded_path(
            fitted_map.run, start, end, straight=kind == _STRAIGHT
        )
        other, _ = generation.decoded_path(fitted_map.run, start, end, straight=kind != _STRAIGHT)
    except LatentboardError as error:
        st.error(markdown(error))
        return DrawnPath(marks=_marks(start, end))
    st.markdown(_lengths(float(found.distance[-1]), float(other.distance[-1]), kind == _STRAIGHT))
    _curve_panel(fitted_map, rows, _LENGTH, "path", axes, colouring)
    return DrawnPath(found.points, _marks(start, end))


def _marks(
    start: LatentPoint | None, end: LatentPoint | None
) -> tuple[tuple[str, LatentPoint], ...]:
    return tuple((t, at) for t, at in (("A", start), ("B", end)) if at is not None)


def _lengths(own: float, other: float, straight: bool) -> str:
    along, line = (other, own) if straight else (own, other)
    text = (
        f"From A to B the columns change by **{number(along, 3)} sd** along the data and by "
        f"**{number(line, 3)} sd** straight (all columns together, root of the sum of squares)."
    )
    if along > 1.02 * line:
        text += " The path along the data is longer because it avoids regions without rows."
    return text


def _end(
    fitted_map: FittedMap,
    letter: str,
    column: st.delta_generator.DeltaGenerator,
    classes: dict[str, tuple[str, LatentPoint]],
) -> LatentPoint | None:
    """Choice of an end of a path."""
    options = _options(fitted_map, letter, classes)
    names = list(options)
    key = map_widget_key(fitted_map, f"end {letter}")
    if widget_value(key) not in options:
        set_widget_value(key, names[min(len(names) - 1, "AB".index(letter))])
    with column:
        chosen = st.selectbox(
            f"{'Start' if letter == 'A' else 'End'} ({letter})",
            names,
            format_func=lambda name: options[name][0],
            key=key,
            help="A class, the selection of the Latent page, a row, or a point set with the "
            "buttons below the map.",
        )
        if chosen == "row":
            return _row_choice(fitted_map, letter)
        return options[chosen][1]


def _classes(fitted_map: FittedMap) -> dict[str, tuple[str, LatentPoint]]:
    """Title and central row of each class."""
    keys, titles, places = list[str](), list[str](), list[LatentPoint]()
    for column, (label, labels) in enumerate(fitted_map.dataset.label_columns.items()):
        codes, classes = pd.factorize(labels, sort=True)
        for code, name in enumerate(classes[: MOST_CLASSES - len(titles)]):
            keys.append(f"class {column} {name}")
            titles.append(f"centre of {shortened(label, 20)} {shortened(name, 24)}")
            places.append(_at(fitted_map.mean, central_position(fitted_map.mean, codes == code)))
    return dict(zip(keys, zip(distinct_titles(titles), places, strict=True), strict=True))


def _options(
    fitted_map: FittedMap, letter: str, classes: dict[str, tuple[str, LatentPoint]]
) -> dict[str, tuple[str, LatentPoint | None]]:
    """Options of an end: title and point; None if a row is chosen next."""
    mean = fitted_map.mean
    options: dict[str, tuple[str, LatentPoint | None]] = {**classes}
    chosen = row_analysis.current_selection_mask(fitted_map)
    if chosen is not None and chosen.any():
        title = f"centre of the selection, {count(int(chosen.sum()), 'row')}"
        options["selection"] = (title, _at(mean, central_position(mean, chosen)))
    relevant = int(np.argmax(mean.var(axis=0)))
    order = np.argsort(mean[:, relevant])
    for end, row in (("lowest", int(order[0])), ("highest", int(order[-1]))):
        title = f"the row with the {end} latent dimension {relevant + 1}"
        options[end] = (title, _at(mean, row))
    options["row"] = ("a row, by its name", None)
    named_point = session.named_points[fitted_map.run].get(letter)
    if named_point is not None:
        options[NAMED_POINT] = ("the point set on the map", named_point)
    return options


def _at(mean: NDArray[np.float64], row: int) -> LatentPoint:
    return tuple(mean[row].tolist())


def _row_choice(fitted_map: FittedMap, letter: str) -> LatentPoint | None:
    ids, key = fitted_map.dataset.row_ids, map_widget_key(fitted_map, f"row {letter}")
    help_text = f"Name of the row at {letter}."
    if len(ids) <= MOST_LISTED:
        titles = distinct_titles(shortened(name, 60) for name in ids)
        row = st.selectbox(
            f"Row at {letter}",
            range(len(ids)),
            index=None,
            format_func=titles.__getitem__,
            key=key,
            help=help_text,
        )
        return None if row is None else _at(fitted_map.mean, row)
    name = st.text_input(f"Row at {letter}", key=key, help=help_text)
    found = np.flatnonzero(ids == name)
    if name and not len(found):
        st.caption(markdown(f"There is no row named {shortened(name)}."))
    return _at(fitted_map.mean, int(found[0])) if len(found) else None


def sweep_panel(
    fitted_map: FittedMap, axes: Axes, colouring: Colouring, at: LatentPoint
) -> DrawnPath:
    """Draw the controls of a sweep of one latent dimension, and the rows along it.

    Args:
        fitted_map: the run.
        axes: the dimensions on the map.
        colouring: colours of the rows.
        at: position of the cursor, which fixes the other dimensions if chosen.
    """
    left, right, _ = st.columns([1, 1.4, 1.6], gap="medium")
    dimension = left.selectbox(
        "Dimension",
        list(range(fitted_map.dimensions)),
        index=axes[0],
        format_func=lambda q: str(q + 1),
        key=map_widget_key(fitted_map, "swept"),
        help="The latent dimension that changes, over the range of the rows.",
    )
    with right:
        fixed_at = st.segmented_control(
            "Other dimensions at",
            ["0", "the cursor"],
            default="0",
            required=True,
            key=map_widget_key(fitted_map, "swept at"),
            help="0 is the prior mean; the cursor is its position on the map.",
        )
    fixed = at if fixed_at == "the cursor" else (0.0,) * fitted_map.dimensions
    found = generation.decoded_sweep(fitted_map.run, dimension, fixed, _POINTS)
    title = f"latent dimension {dimension + 1}"
    _curve_panel(fitted_map, found, title, "sweep", axes, colouring)
    return DrawnPath(found.latent)


def _curve_panel(
    fitted_map: FittedMap,
    found: DecodedPath,
    title: str,
    stem: str,
    axes: Axes,
    colouring: Colouring,
) -> None:
    """Draw rows along a curve, as a strip of images or as curves, with their downloads."""
    dataset, dark = fitted_map.dataset, session.is_dark
    columns = list[int]()
    if dataset.image_shape is not None:
        figure: object = strip_figure(
            found,
            dataset.image_shape,
            generation.cell_range(fitted_map.run),
            title,
            most=IMAGES,
            dark=dark,
        )
        caption = f"{IMAGES} images along the {stem}, with their position above, and the width of "
        caption += f"the ± 2 sd interval of each pixel below. {channel_note(dataset.image_shape)}"
    else:
        columns = _columns(fitted_map, found, stem)
        figure = curves_figure(found, columns, dataset.feature_names, title, dark=dark)
        caption = (
            "Bands: ± 2 predictive sd, noise included, in the unit of each column."
            if found.symmetric
            else "Bands: 95 % intervals, noise included; of a level of a category its probability."
        )
    st.plotly_chart(
        figure,
        theme=None,
        key=map_widget_key(fitted_map, f"{stem} figure"),
        config={"displayModeBar": False},
        alt=f"Decoded rows along the {stem}",
    )
    st.caption(caption)
    frame = partial(path_table, found, dataset, title)
    with st.container(horizontal=True):
        table_downloads(
            f"Rows of the {stem}",
            stem,
            csv=lambda: to_csv_bytes(frame()),
            parquet=lambda: to_parquet_bytes(frame()),
            about="Position along the curve, latent coordinates, and every column with the ends of "
            "its interval.",
            key=lambda ending: map_widget_key(fitted_map, f"{stem} {ending}"),
        )
    animation_downloads(
        stem.capitalize(),
        stem,
        partial(
            generation.path_animation,
            fitted_map.run,
            found,
            title=title,
            columns=columns,
            axes=axes,
            classes=colouring if isinstance(colouring, CategoryStyle) else None,
            ends=("A", "B") if stem == "path" else None,
        ),
        about="A point that moves along the curve on the map, beside the decoded row at the point.",
        key=lambda ending: map_widget_key(fitted_map, f"{stem} {ending}"),
    )


def _columns(fitted_map: FittedMap, found: DecodedPath, stem: str) -> list[int]:
    names = fitted_map.dataset.feature_names
    titles = distinct_titles(shortened(name, 60) for name in names)
    chosen = st.multiselect(
        "Columns",
        list(range(len(names))),
        format_func=titles.__getitem__,
        max_selections=MOST_SHOWN,
        placeholder=f"The {min(SHOWN, len(names))} that change most",
        key=map_widget_key(fitted_map, f"{stem} columns"),
        help="The columns to draw; by default those that change most.",
    )
    return chosen or most_changed_columns(found, SHOWN)
