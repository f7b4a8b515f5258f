"""Keys of widgets, and their values in the session state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

if TYPE_CHECKING:
    from app.analysis.map.fitted_map import FittedMap

__all__ = [
    "map_widget_key",
    "set_default_value",
    "set_first_value",
    "set_widget_value",
    "widget_key",
    "widget_value",
    "widget_values",
]


def widget_key(page: str, *parts: object) -> str:
    """Key of a widget: the page, then the identifiers of its subject, then its own name."""
    return ":".join((page, *map(str, parts)))


def map_widget_key(fitted_map: FittedMap, name: str) -> str:
    """Key of a widget of a run's map."""
    return widget_key(fitted_map.page, fitted_map.run, name)


def widget_value(key: str) -> Any:
    """Value of a widget, or selection event of a chart; None before it is first shown."""
    return st.session_state.get(key)


def widget_values(prefix: str) -> dict[str, Any]:
    """Values of the widgets whose keys begin so, by key; those of hidden ones that are kept too."""
    found = st.session_state.items()
    return {str(key): value for key, value in found if str(key).startswith(prefix)}


def set_default_value(key: str, value: object) -> None:
    """Set the value of a widget that has none yet; a field that was emptied stays empty.

    In place of the widget's own default, so that callbacks may set its value.
    """
    if key not in st.session_state:
        st.session_state[key] = value


def set_first_value(key: str, value: object) -> None:
    """Set the value of a widget that is shown for the first time, in place of its own default."""
    if st.session_state.get(key) is None:
        st.session_state[key] = value


def set_widget_value(key: str, value: object) -> None:
    """Set the value of a widget, in a callback or before the widget is shown."""
    st.session_state[key] = value
