"""Lines through the latent space on the Generate page: paths between two places, and sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import downloads, figures, services, state
from app.aside import MOST_LISTED
from app.axes import Axes
from app.generating import Along, along_frame, changing, middle
from app.opened import Opened
from app.words import count, markdown, number, shortened, told_apart
from lvmcore.errors import LatentboardError
from lvmcore.runs import to_csv_bytes, to_parquet_bytes

__all__ = ["SPOT", "Drawn", "path", "sweep"]

#: Columns drawn unasked, and at most; images of a strip.
SHOWN, MOST_SHOWN, IMAGES = 6, 24, 9
#: Classes that can be chosen as an end, at most.
MOST_CLASSES = 50
_POINTS = 33
_DATA, _STRAIGHT = "along the data", "straight"
_LENGTH = "length of the way, sd of the columns"

#: The option of an end that stands for the place kept on the map.
SPOT = "spot"

Place = tuple[float, ...]


@dataclass(frozen=True)
class Drawn:
    """What a section draws on the map.

    Attributes:
        path: the curve, all coordinates, [P, Q]; None for none.
        marks: letters and the places they stand at, all coordinates.
    """

    path: NDArray[np.float64] | None = None
    marks: tuple[tuple[str, Place], ...] = ()


# ---- a path ----------------------------------------------------------------------------------


def path(opened: Opened) -> Drawn:
    """A path between two places: its controls and the rows along it."""
    first, second, kind = st.columns([1.4, 1.4, 1.1], gap="medium", vertical_alignment="top")
    classes = _classes(opened)
    start = _end(opened, "A", first, classes)
    end = _end(opened, "B", second, classes)
    with kind:
        way = st.segmented_control(
            "Way",
            [_DATA, _STRAIGHT],
            default=_DATA,
            required=True,
            key=opened.key("way"),
            help="Along the data: the way on which the columns change least, kept to ground that "
            "the model knows. Straight: the line on the map.",
        )
    if start is None or end is None:
        return Drawn(marks=_marks(start, end))
    if start == end:
        st.info(
            "A and B are the same place, so there is no way between them. Choose another end, or "
            "hold the cursor somewhere on the map and press **Set B here**."
        )
        return Drawn(marks=_marks(start, None))
    try:
        found, rows = services.path(opened.run, start, end, straight=way == _STRAIGHT)
        other, _ = services.path(opened.run, start, end, straight=way != _STRAIGHT)
    except LatentboardError as error:
        st.error(markdown(error))
        return Drawn(marks=_marks(start, end))
    st.markdown(_lengths(float(found.distance[-1]), float(other.distance[-1]), way == _STRAIGHT))
    _show(opened, rows, _LENGTH, "path")
    return Drawn(found.points, _marks(start, end))


def _marks(start: Place | None, end: Place | None) -> tuple[tuple[str, Place], ...]:
    return tuple((t, at) for t, at in (("A", start), ("B", end)) if at is not None)


def _lengths(own: float, other: float, straight: bool) -> str:
    along, line = (other, own) if straight else (own, other)
    said = (
        f"From A to B the columns change by **{number(along, 3)} sd** along the data and by "
        f"**{number(line, 3)} sd** straight (all columns together, root of the sum of squares)."
    )
    if along > 1.02 * line:
        said += " The way along the data is longer: it goes around ground that no row has told of."
    return said


def _end(
    opened: Opened,
    letter: str,
    column: st.delta_generator.DeltaGenerator,
    classes: dict[str, tuple[str, Place]],
) -> Place | None:
    """Choose an end of a path."""
    options = _options(opened, letter, classes)
    names = list(options)
    key = opened.key(f"end {letter}")
    if state.value(key) not in options:
        state.set_value(key, names[min(len(names) - 1, "AB".index(letter))])
    with column:
        chosen = st.selectbox(
            f"{letter}, where it {'begins' if letter == 'A' else 'ends'}",
            names,
            format_func=lambda name: options[name][0],
            key=key,
            help="A class, the selection of the Latent page, a row, or a place kept with the "
            "buttons below the map.",
        )
        if chosen == "row":
            return _row(opened, letter)
        return options[chosen][1]


def _classes(opened: Opened) -> dict[str, tuple[str, Place]]:
    """The middle of each class: its title and its place."""
    keys, titles, places = list[str](), list[str](), list[Place]()
    for column, (label, labels) in enumerate(opened.dataset.label_columns.items()):
        codes, classes = pd.factorize(labels, sort=True)
        for code, name in enumerate(classes[: MOST_CLASSES - len(titles)]):
            keys.append(f"class {column} {name}")
            titles.append(f"middle of {shortened(label, 20)} {shortened(name, 24)}")
            places.append(_at(opened.mean, middle(opened.mean, codes == code)))
    return dict(zip(keys, zip(told_apart(titles), places, strict=True), strict=True))


def _options(
    opened: Opened, letter: str, classes: dict[str, tuple[str, Place]]
) -> dict[str, tuple[str, Place | None]]:
    """What an end can be: its title and its place; None where that is asked next."""
    mean = opened.mean
    named: dict[str, tuple[str, Place | None]] = {**classes}
    chosen = opened.selected()
    if chosen is not None and chosen.any():
        title = f"middle of the selection, {count(int(chosen.sum()), 'row')}"
        named["selection"] = (title, _at(mean, middle(mean, chosen)))
    relevant = int(np.argmax(mean.var(axis=0)))
    order = np.argsort(mean[:, relevant])
    for end, row in (("lowest", int(order[0])), ("highest", int(order[-1]))):
        title = f"the row with the {end} latent dimension {relevant + 1}"
        named[end] = (title, _at(mean, row))
    named["row"] = ("a row, by its name", None)
    kept = state.spots(opened.run).get(letter)
    if kept is not None:
        named[SPOT] = ("the place kept on the map", kept)
    return named


def _at(mean: NDArray[np.float64], row: int) -> Place:
    return tuple(mean[row].tolist())


def _row(opened: Opened, letter: str) -> Place | None:
    ids, key = opened.dataset.row_ids, opened.key(f"row {letter}")
    about = f"Name of the row at {letter}."
    if len(ids) <= MOST_LISTED:
        titles = told_apart(shortened(name, 60) for name in ids)
        row = st.selectbox(
            f"Row at {letter}",
            range(len(ids)),
            index=None,
            format_func=titles.__getitem__,
            key=key,
            help=about,
        )
        return None if row is None else _at(opened.mean, row)
    name = st.text_input(f"Row at {letter}", key=key, help=about)
    found = np.flatnonzero(ids == name)
    if name and not len(found):
        st.caption(markdown(f"There is no row named {shortened(name)}."))
    return _at(opened.mean, int(found[0])) if len(found) else None


# ---- a sweep ---------------------------------------------------------------------------------


def sweep(opened: Opened, axes: Axes, at: Place) -> Drawn:
    """One latent dimension swept: its controls and the rows along it.

    Args:
        opened: the run.
        axes: the dimensions on the map.
        at: where the other dimensions are held, when at the cursor.
    """
    left, right, _ = st.columns([1, 1.4, 1.6], gap="medium")
    dimension = left.selectbox(
        "Dimension",
        list(range(opened.dimensions)),
        index=axes[0],
        format_func=lambda q: str(q + 1),
        key=opened.key("swept"),
        help="The latent dimension that changes, over the range of the rows.",
    )
    with right:
        held = st.segmented_control(
            "Other dimensions at",
            ["0", "the cursor"],
            default="0",
            required=True,
            key=opened.key("swept at"),
            help="0 is the prior mean; the cursor is where it is held on the map.",
        )
    place = at if held == "the cursor" else (0.0,) * opened.dimensions
    found = services.swept(opened.run, dimension, place, _POINTS)
    _show(opened, found, f"latent dimension {dimension + 1}", "sweep")
    return Drawn(found.latent)


# ---- the rows along a line -------------------------------------------------------------------


def _show(opened: Opened, found: Along, title: str, stem: str) -> None:
    """Rows along a line: as a strip of images or as curves, and as a file."""
    dataset, dark = opened.dataset, state.dark()
    if dataset.image_shape is not None:
        figure: object = figures.strip_figure(
            found,
            dataset.image_shape,
            services.cell_range(opened.run),
            title,
            most=IMAGES,
            dark=dark,
        )
        said = f"{IMAGES} images along it, their place on it above, and the width of each pixel's "
        said += "interval of ± 2 sd below."
    else:
        columns = _columns(opened, found, stem)
        figure = figures.curves_figure(found, columns, dataset.feature_names, title, dark=dark)
        said = "Bands: ± 2 sd of a new observation, noise included, in each column's own unit."
    st.plotly_chart(
        figure,
        theme=None,
        key=opened.key(f"{stem} figure"),
        config={"displayModeBar": False},
        alt=f"Decoded rows along the {stem}",
    )
    st.caption(said)
    frame = partial(along_frame, found, dataset, title)
    with st.container(horizontal=True):
        downloads.offer(
            f"Rows of the {stem}",
            stem,
            csv=lambda: to_csv_bytes(frame()),
            parquet=lambda: to_parquet_bytes(frame()),
            about="Where each place is, its latent coordinates, and every column with the ends of "
            "its interval.",
            key=lambda ending: opened.key(f"{stem} {ending}"),
        )


def _columns(opened: Opened, found: Along, stem: str) -> list[int]:
    names = opened.dataset.feature_names
    titles = told_apart(shortened(name, 60) for name in names)
    chosen = st.multiselect(
        "Columns",
        list(range(len(names))),
        format_func=titles.__getitem__,
        max_selections=MOST_SHOWN,
        placeholder=f"The {min(SHOWN, len(names))} that change most",
        key=opened.key(f"{stem} columns"),
        help="Which columns to draw; none chosen draws those that change most.",
    )
    return chosen or changing(found, SHOWN)
