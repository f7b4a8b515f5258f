"""The view that the page of a map shows: in its widgets, in the address, and in its history."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_view import (
    BEST,
    DECODED_MEAN,
    NO_BACKGROUND,
    OF_ONE_COLUMN,
    MapOptions,
    MapView,
    Ranges,
    ShownAxes,
    available_view,
    has_contours,
)
from app.analysis.map.reconstruction import MapPoint
from app.analysis.map.view_text import left_out_sentence, open_view_text, view_text
from app.components.map.canvas import zoomed_ranges
from app.components.map.map_options import OF_LABEL_COLUMNS, map_options
from app.components.map.side_panel import TABS, open_tab
from app.components.map.view_choice import BEST_OPTION
from app.services import placement
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value

__all__ = [
    "AT_POINT",
    "contours_name",
    "fixed_key",
    "label_key",
    "open_view",
    "record_view",
    "redo_view",
    "scene_id",
    "show_view",
    "shown_zoom",
    "undo_view",
]

#: Option that fixes the other dimensions at the clicked point.
AT_POINT = "the point"
#: Significant digits of the width of a zoomed range, which its ends are rounded to.
_ZOOM_DIGITS = 4


def open_view(fitted_map: FittedMap, options: MapOptions) -> None:
    """Set the widgets of a page that was just opened; those of an open page are left alone.

    They show the view in the address, where it is a step back to an earlier one; else what the page
    showed last in this session; else the view in the address of a link.
    """
    run = fitted_map.run
    if widget_value(map_widget_key(fitted_map, "colour")) is not None:
        return
    view = session.views[run]
    if view is None or session.map_view.in_address(run):
        opened = open_view_text(session.map_view[run] or "", options)
        session.left_out[run] = left_out_sentence(opened)
        view = opened.view
    _apply(fitted_map, view, options, zoom=True)
    session.map_view[run] = view_text(view, options)[0] or None


def record_view(fitted_map: FittedMap, options: MapOptions) -> None:
    """Record what the drawn controls say, as a step of the history and in the address.

    The address of a step back is left as it is: the browser asks for its view next.
    """
    run, before = fitted_map.run, session.views[fitted_map.run]
    view = _shown(fitted_map, options)
    session.views[run] = view
    if before is not None and not view.same_choices(before):
        session.left_out[run] = None
    if view != before or session.map_view.in_address(run) is None:
        session.map_view[run] = view_text(view, options)[0] or None


def show_view(fitted_map: FittedMap, view: MapView) -> None:
    """Show another view and record it, for callbacks; it can be undone."""
    run, options = fitted_map.run, map_options(fitted_map)
    view, _ = available_view(view, options)
    _apply(fitted_map, view, options, zoom=True)
    session.views[run] = view
    session.map_view[run] = view_text(view, options)[0] or None


def undo_view(fitted_map: FittedMap) -> None:
    """Show the previous view, for callbacks."""
    _show_step(fitted_map, session.views[fitted_map.run], session.views.undo(fitted_map.run))


def redo_view(fitted_map: FittedMap) -> None:
    """Show the view that was undone last, for callbacks."""
    _show_step(fitted_map, session.views[fitted_map.run], session.views.redo(fitted_map.run))


def _show_step(fitted_map: FittedMap, before: MapView | None, view: MapView | None) -> None:
    """Show a view of the history; the zoom of the same axes is left as it is."""
    if before is not None and view is not None:
        options = map_options(fitted_map)
        _apply(fitted_map, view, options, zoom=view.axes != before.axes)
        session.left_out[fitted_map.run] = None


# ---- widgets ---------------------------------------------------------------------------------


def label_key(fitted_map: FittedMap, background: str) -> str:
    """Key of the choice of a class, or of a label column, of a background."""
    whole = background in OF_LABEL_COLUMNS
    return map_widget_key(fitted_map, "column of classes" if whole else "class")


def contours_name(background: str) -> str:
    """Name in the key of the switch of the contour lines of a background."""
    return "contours of the mean" if has_contours(background) else "contours"


def fixed_key(fitted_map: FittedMap, axes: ShownAxes) -> str:
    """Key of the choice of the dimensions, or directions, that the map does not show."""
    return map_widget_key(fitted_map, "held beside the view" if axes == BEST else "held")


def _apply(fitted_map: FittedMap, view: MapView, options: MapOptions, *, zoom: bool) -> None:
    """Set the widgets that will be drawn, the selection and the point to those of a view."""
    view, _ = available_view(view, options)
    run = fitted_map.run
    for name, value in _widget_values(view, options).items():
        set_widget_value(map_widget_key(fitted_map, name), value)
    if options.backgrounds[view.background] > 1 and view.background in options.drawn:
        set_widget_value(label_key(fitted_map, view.background), view.label)
    if view.at_point:
        set_widget_value(fixed_key(fitted_map, view.axes), AT_POINT)
    elif widget_value(fixed_key(fitted_map, view.axes)) == AT_POINT:
        first = "the mean" if view.axes == BEST else "0"
        set_widget_value(fixed_key(fitted_map, view.axes), first)
    open_tab(fitted_map, next(tab for tab in TABS if tab == view.tab))
    session.selection[run] = view.selection
    _set_point(fitted_map, view)
    if zoom:
        session.zoom[run] = (view.axes, view.zoom, session.zoom[run][2] + 1)


def _widget_values(view: MapView, options: MapOptions) -> dict[str, Any]:
    """Values of the widgets that a view draws, by the names of their keys."""
    values: dict[str, Any] = {"colour": view.colour, "behind": view.background}
    if view.axes == BEST:
        values["x"] = BEST_OPTION
    elif view.axes is not None:
        values["x"], values["y"] = view.axes
    if view.background == OF_ONE_COLUMN and OF_ONE_COLUMN in options.drawn:
        values["column"] = -1 if view.column is None else view.column
        values["noise"] = view.noise
    if view.background == DECODED_MEAN and DECODED_MEAN in options.drawn:
        values["mean column"] = view.column or 0
    if view.background != NO_BACKGROUND and view.background in options.drawn:
        values[contours_name(view.background)] = view.contours
    if view.axes is not None:
        values["ellipses"] = view.ellipses
    for name, column, names in (
        ("Size by", view.size, options.sizes),
        ("Shape by", view.shape, options.shapes),
    ):
        values[name] = 0 if column is None else 1 + list(names).index(column)
    values["group labels"] = view.group_labels
    if options.pictures:
        values["pictures"] = view.pictures
    if options.inducing:
        values["inducing"] = view.inducing
    if options.held_out:
        values["held-out True"] = view.held_out
    return values


def _shown(fitted_map: FittedMap, options: MapOptions) -> MapView:
    """The view that the drawn widgets, the selection and the point say."""

    def value(name: str, default: Any) -> Any:
        found = widget_value(map_widget_key(fitted_map, name))
        return default if found is None else found

    new, run = options.new, fitted_map.run
    axes = new.axes
    if axes is not None:
        across = value("x", BEST_OPTION)
        axes = BEST if across == BEST_OPTION else (across, value("y", None))
    background = value("behind", new.background)
    column = value("mean column" if background == DECODED_MEAN else "column", -1)
    row, place = _row_and_place(fitted_map, session.point[run])
    view = MapView(
        axes=axes,
        colour=value("colour", new.colour),
        background=background,
        column=None if column == -1 else column,
        noise=value("noise", False),
        contours=value(contours_name(background), False),
        label=widget_value(label_key(fitted_map, background)) or 0,
        at_point=widget_value(fixed_key(fitted_map, axes)) == AT_POINT,
        ellipses=value("ellipses", new.ellipses),
        size=_column_at(options.sizes, value("Size by", 0)),
        shape=_column_at(options.shapes, value("Shape by", 0)),
        group_labels=value("group labels", new.group_labels),
        pictures=value("pictures", new.pictures),
        inducing=value("inducing", new.inducing),
        held_out=value("held-out True", new.held_out),
        tab=value("panel", new.tab),
        row=row,
        place=place,
        zoom=_rounded(shown_zoom(fitted_map, axes)),
        selection=session.selection[run],
    )
    return available_view(view, options)[0]


def _column_at(names: Collection[str], position: int) -> str | None:
    """The name of an option of a size or shape, whose first option is none."""
    return None if position == 0 else list(names)[position - 1]


# ---- the point -------------------------------------------------------------------------------


def _row_and_place(
    fitted_map: FittedMap, point: MapPoint | None
) -> tuple[int | None, tuple[float, ...] | None]:
    """A point as the position of its row, held-out rows after those of the fit, or as latent."""
    if point is None:
        return None, None
    if point.held_out is not None:
        return len(fitted_map.mean) + point.held_out, None
    return (point.row, None) if point.row is not None else (None, point.latent)


def _set_point(fitted_map: FittedMap, view: MapView) -> None:
    """Set the clicked point to that of a view."""
    run = fitted_map.run
    if _row_and_place(fitted_map, session.point[run]) == (view.row, view.place):
        return  # it may hold from where it was moved
    point = None if view.place is None else MapPoint(view.place)
    if view.row is not None:
        held, number = placement.held_out_rows(run), view.row - len(fitted_map.mean)
        if number < 0:
            point = MapPoint(tuple(fitted_map.mean[view.row].tolist()), view.row)
        elif held is not None:
            point = MapPoint(held.latent(number), held_out=number)
    session.point[run] = point


# ---- the zoom --------------------------------------------------------------------------------


def scene_id(run: str, axes: ShownAxes) -> str:
    """Identity of the scene of a run's map: that of its axes, and of the zoom it was set to."""
    return f"{run} {axes} {session.zoom[run][2]}"


def shown_zoom(fitted_map: FittedMap, axes: ShownAxes) -> Ranges | None:
    """The ranges of the zoomed map; None for the whole map."""
    set_for, ranges, _ = session.zoom[fitted_map.run]
    key = map_widget_key(fitted_map, "map")
    initial = ranges if set_for == axes else None
    return zoomed_ranges(key, scene_id(fitted_map.run, axes), initial)


def _rounded(ranges: Ranges | None) -> Ranges | None:
    """Ranges rounded to a small share of their widths, for short texts."""
    if ranges is None:
        return None
    (left, right), (low, high) = ranges
    return _rounded_range(left, right), _rounded_range(low, high)


def _rounded_range(low: float, high: float) -> tuple[float, float]:
    digits = _ZOOM_DIGITS - math.floor(math.log10(high - low))
    return round(low, digits), round(high, digits)
