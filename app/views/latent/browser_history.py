"""The back and forward buttons of the browser, which show the view of the address they lead to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.resources import files

import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.view_text import left_out_sentence, open_view_text
from app.components.map.map_options import map_options
from app.components.map.shown_view import show_view
from app.state.session import session
from app.state.widgets import map_widget_key, widget_value

__all__ = ["browser_history", "show_address"]

_watch = st.components.v2.component(
    "latentboard.browser_history",
    js=files("app").joinpath("static", "browser_history.js").read_text("utf-8"),
)


def browser_history(fitted_map: FittedMap) -> None:
    """Have the view follow the buttons of the browser, once the present view is recorded."""
    run = fitted_map.run
    key = map_widget_key(fitted_map, "browser history")
    _watch(
        data={"run": run, "view": session.map_view[run] or ""},
        key=key,
        on_step_change=partial(_on_step, fitted_map, key),
    )


def _on_step(fitted_map: FittedMap, key: str) -> None:
    state = widget_value(key)
    message = None if state is None else state.get("step")
    if isinstance(message, Mapping) and isinstance(message.get("view"), str):
        show_address(fitted_map, message["view"])


def show_address(fitted_map: FittedMap, text: str) -> None:
    """Show the view of an address, for callbacks; it can be undone.

    Args:
        fitted_map: the run.
        text: of the view; "" is that of a new map.
    """
    opened = open_view_text(text, map_options(fitted_map))
    show_view(fitted_map, opened.view)
    session.left_out[fitted_map.run] = left_out_sentence(opened)
