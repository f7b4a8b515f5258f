"""Undo and redo of the view, the link to it, and the views saved with the run."""

from __future__ import annotations

from functools import partial
from html import escape

import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_view import BEST, MapOptions, MapView
from app.analysis.map.view_text import (
    OpenedView,
    left_out_sentence,
    open_view_json,
    view_json,
    view_text,
)
from app.components.map.map_options import coloured_column, map_options
from app.components.map.measured_colours import BY_DISAGREEMENT, BY_RESIDUAL
from app.components.map.shown_view import redo_view, show_view, undo_view
from app.components.undo_buttons import undo_buttons
from app.formatting import markdown
from app.services import fitted_maps
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from lvmcore.errors import LatentboardError
from lvmcore.runs.saved_items import LONGEST_ITEM_NAME

__all__ = ["left_out_note", "view_controls"]

#: Width and height of the picture of a saved view, in pixels.
_PICTURE = (56, 42)


def view_controls(fitted_map: FittedMap) -> None:
    """Draw the buttons of undo and redo, and the popover of the link and the saved views."""
    run = fitted_map.run
    undo_buttons(
        partial(map_widget_key, fitted_map),
        partial(undo_view, fitted_map) if session.views.can_undo(run) else None,
        partial(redo_view, fitted_map) if session.views.can_redo(run) else None,
        "Shows the previous view: axes, colours, background, appearance, selection, tab.",
    )
    box = st.popover(
        "Views",
        help="A link to this view, and the views that are saved with the run.",
        key=map_widget_key(fitted_map, "views"),
        on_change="rerun",
        width="content",
    )
    with box:
        view = session.views[run]
        if box.open and view is not None:
            options = map_options(fitted_map)
            _link(run, view, options)
            _saved_views(fitted_map, options)
            _save_form(fitted_map, view, options)


def left_out_note(fitted_map: FittedMap) -> None:
    """Say what the link of the page, or the saved view, was opened without."""
    sentence = session.left_out[fitted_map.run]
    if sentence:
        st.caption(f":orange[{sentence}]")


def _link(run: str, view: MapView, options: MapOptions) -> None:
    """The link to the view, with a button that copies it."""
    text, without = view_text(view, options)
    st.markdown("Copy link")
    st.code(session.link(run, text), language=None)
    if without == ("selection",):
        st.caption("The selection is too long for a link. A saved view keeps it.")
    elif without:
        st.caption("The view is too long for a link, which has its axes. A saved view keeps it.")


def _saved_views(fitted_map: FittedMap, options: MapOptions) -> None:
    """The saved views, to open or to delete each."""
    for position, saved in enumerate(fitted_maps.saved_views(fitted_map.run)):
        opened = open_view_json(saved.content, options)
        missing = left_out_sentence(opened)
        key = f"saved view {position} {saved.name}"
        with st.container(horizontal=True, vertical_alignment="center"):
            st.html(_picture(fitted_map, opened.view), width="content")
            st.button(
                markdown(saved.name),
                on_click=_open,
                args=(fitted_map, opened),
                help=missing or "Opens this view; Undo goes back to the present one.",
                width="stretch",
                key=map_widget_key(fitted_map, f"open {key}"),
            )
            st.button(
                "Delete",
                on_click=_delete,
                args=(fitted_map, saved.name),
                type="tertiary",
                help="Deletes the saved view; the map is not affected.",
                key=map_widget_key(fitted_map, f"delete {key}"),
            )


def _picture(fitted_map: FittedMap, view: MapView) -> str:
    """A small picture of the rows on the axes of a view, in its colours, as HTML."""
    dataset = fitted_map.dataset
    plain = view.colour in ("", BY_DISAGREEMENT, BY_RESIDUAL)
    address = fitted_maps.thumbnail(
        fitted_map.run,
        None if view.axes == BEST else view.axes or (0, None),
        None if plain else coloured_column(dataset, view.colour),
        view.zoom,
        dark=session.is_dark,
    )
    width, height = _PICTURE
    return (
        f'<img src="{escape(address)}" alt="" class="thumbnail" width="{width}" height="{height}">'
    )


def _save_form(fitted_map: FittedMap, view: MapView, options: MapOptions) -> None:
    """The name of the present view, and the button that saves it."""
    key = map_widget_key(fitted_map, "view name")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "Name of this view",
            max_chars=LONGEST_ITEM_NAME,
            help="A saved view of the same name is replaced.",
            key=key,
        )
        st.button(
            "Save view",
            type="primary",
            on_click=_save,
            args=(fitted_map, view, options, key),
            help="Saves the view in the folder of the run.",
            key=map_widget_key(fitted_map, "save view"),
        )
    problem = widget_value(map_widget_key(fitted_map, "view problem"))
    if problem:
        st.error(markdown(problem))


def _open(fitted_map: FittedMap, opened: OpenedView) -> None:
    show_view(fitted_map, opened.view)
    session.left_out[fitted_map.run] = left_out_sentence(opened)


def _save(fitted_map: FittedMap, view: MapView, options: MapOptions, key: str) -> None:
    content = view_json(view, options)
    save = partial(fitted_maps.save_view, fitted_map.run, widget_value(key) or "", content)
    if _attempted(fitted_map, save):
        set_widget_value(key, "")


def _delete(fitted_map: FittedMap, name: str) -> None:
    _attempted(fitted_map, partial(fitted_maps.delete_view, fitted_map.run, name))


def _attempted(fitted_map: FittedMap, change: partial[None]) -> bool:
    """Change the saved views; whether it succeeded. The popover shows the error."""
    problem = None
    try:
        change()
    except LatentboardError as error:
        problem = str(error)
    set_widget_value(map_widget_key(fitted_map, "view problem"), problem)
    return problem is None
