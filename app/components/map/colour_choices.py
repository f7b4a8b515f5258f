"""Choice of the colours of a column: palette and categories, or colour scale of numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import get_args

import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.row_colours import CategoryStyle, Colouring, NumericColours
from app.formatting import markdown, shortened
from app.services import run_colours
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from lvmcore.errors import LatentboardError
from lvmcore.export.column_colours import (
    PALETTES,
    SCALES,
    CategoryColours,
    ColumnColours,
    NumberColours,
    Transform,
)

__all__ = ["colour_choices", "keep_order"]

_TRANSFORMS: tuple[Transform, ...] = get_args(Transform)
_PER_LINE = 2
_LONGEST_NAME = 14


def colour_choices(fitted_map: FittedMap, column: str, colouring: Colouring) -> None:
    """Draw the choice of the colours of a column, which are kept with the run.

    Args:
        fitted_map: the run.
        column: name of the column.
        colouring: its rows in the present colours.
    """
    if isinstance(colouring, CategoryStyle):
        _choose_palette(fitted_map, column, colouring)
    elif isinstance(colouring, NumericColours):
        _choose_scale(fitted_map, column, colouring.colours)
    problem = widget_value(_key(fitted_map, column, "problem"))
    if problem:
        st.error(markdown(problem))


def _key(fitted_map: FittedMap, column: str, name: str) -> str:
    return map_widget_key(fitted_map, f"colours {name} {column}")


def _choose_palette(fitted_map: FittedMap, column: str, style: CategoryStyle) -> None:
    """Palette, and a colour for each category."""
    palettes = list(PALETTES)
    key = _key(fitted_map, column, "palette")
    st.selectbox(
        "Palette",
        palettes,
        index=palettes.index(style.colours.palette),
        help="The colours of the categories in every figure and file of this run.",
        on_change=_change_palette,
        args=(fitted_map, column),
        key=key,
    )
    columns = st.columns(_PER_LINE)
    for code, (colour, _) in enumerate(style.looks(dark=False)):
        name = style.names[code]
        # The key holds the shown colour: another palette draws new controls.
        own = _key(fitted_map, column, f"{code} {colour}")
        columns[code % _PER_LINE].color_picker(
            markdown(shortened(name, _LONGEST_NAME)),
            colour,
            help="Its own colour, in place of that of the palette.",
            on_change=_change_category,
            args=(fitted_map, column, name, own),
            key=own,
        )
    if style.colours.own:
        st.button(
            "Colours of the palette",
            on_click=_change_palette,
            args=(fitted_map, column),
            help="Removes the colours of single categories.",
            key=_key(fitted_map, column, "reset"),
        )
    if style.colours.order:
        st.button(
            "Order of the names",
            on_click=keep_order,
            args=(fitted_map, column, ()),
            help="Lists the categories by name again, and none is drawn on top of the others.",
            key=_key(fitted_map, column, "order"),
        )


def _choose_scale(fitted_map: FittedMap, column: str, shown: NumberColours) -> None:
    """Colour scale, transform and ends."""
    args = (fitted_map, column)
    st.selectbox(
        "Colour scale",
        SCALES,
        index=SCALES.index(shown.shown_scale),
        help="The colours from the lowest to the highest number.",
        key=_key(fitted_map, column, "scale"),
        on_change=_change_scale,
        args=args,
    )
    transform = st.segmented_control(
        "Transform",
        _TRANSFORMS,
        default=shown.transform,
        required=True,
        help="Log needs positive numbers. Quantile: share of smaller numbers. Diverging: a number "
        "in the middle.",
        key=_key(fitted_map, column, "transform"),
        on_change=_change_scale,
        args=args,
    )
    if transform == "quantile":
        return
    low, high = st.columns(2)
    for place, title, name, value in (
        (low, "From", "low", shown.low),
        (high, "To", "high", shown.high),
    ):
        place.number_input(
            title,
            value=value,
            format="%g",
            placeholder="smallest" if name == "low" else "largest",
            help="The number at this end of the scale; numbers beyond it have its colour.",
            key=_key(fitted_map, column, name),
            on_change=_change_scale,
            args=args,
        )
    if transform == "diverging":
        st.number_input(
            "Middle",
            value=shown.centre,
            format="%g",
            help="The number in the middle of the scale.",
            key=_key(fitted_map, column, "centre"),
            on_change=_change_scale,
            args=args,
        )


def _change_palette(fitted_map: FittedMap, column: str) -> None:
    palette = widget_value(_key(fitted_map, column, "palette"))
    _keep(fitted_map, column, replace(_present(fitted_map, column), palette=palette, own=()))


def _change_category(fitted_map: FittedMap, column: str, name: str, key: str) -> None:
    present = _present(fitted_map, column)
    own = dict(present.own) | {name: widget_value(key)}
    _keep(fitted_map, column, replace(present, own=tuple(own.items())))


def keep_order(fitted_map: FittedMap, column: str, names: tuple[str, ...]) -> None:
    """Keep the order of the categories of a column with the run, for callbacks.

    Args:
        fitted_map: the run.
        column: name of the column.
        names: the categories, that on top first; empty for the order of the names.
    """
    _keep(fitted_map, column, replace(_present(fitted_map, column), order=names))


def _present(fitted_map: FittedMap, column: str) -> CategoryColours:
    """The colours of the categories of a column."""
    present = run_colours.column_colours(fitted_map.run).get(column)
    return present if isinstance(present, CategoryColours) else CategoryColours()


def _change_scale(fitted_map: FittedMap, column: str) -> None:
    def value(name: str) -> float | None:
        found = widget_value(_key(fitted_map, column, name))
        return float(found) if found is not None and math.isfinite(found) else None

    present = run_colours.column_colours(fitted_map.run).get(column)
    before = present.transform if isinstance(present, NumberColours) else "linear"
    transform = widget_value(_key(fitted_map, column, "transform"))
    scale = widget_value(_key(fitted_map, column, "scale"))
    if transform != before:  # each transform has its own scale until another is chosen
        default = NumberColours(transform=transform).shown_scale
        if scale == NumberColours(transform=before).shown_scale:
            scale = default
            set_widget_value(_key(fitted_map, column, "scale"), default)
    try:
        colours = NumberColours(
            scale if scale != NumberColours(transform=transform).shown_scale else None,
            transform,
            value("low"),
            value("high"),
            value("centre") or 0.0,
        )
    except LatentboardError as error:
        set_widget_value(_key(fitted_map, column, "problem"), str(error))
        return
    _keep(fitted_map, column, colours)


def _keep(fitted_map: FittedMap, column: str, colours: ColumnColours) -> None:
    problem = None
    try:
        run_colours.choose_colours(fitted_map.run, column, colours)
    except LatentboardError as error:
        problem = str(error)
    set_widget_value(_key(fitted_map, column, "problem"), problem)
