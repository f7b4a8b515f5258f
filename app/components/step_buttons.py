"""Buttons of undo and redo, with their keys."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

__all__ = ["step_buttons"]


def step_buttons(
    key: Callable[[str], str],
    undo: Callable[[], None] | None,
    redo: Callable[[], None] | None,
    about: str,
) -> None:
    """Draw the buttons of undo and redo; in a field of text the keys are the field's own.

    Args:
        key: gives the widget key of a button.
        undo: makes the previous choice the current one; None without one.
        redo: makes the choice that was undone last the current one; None without one.
        about: help text of undo, a sentence.
    """
    st.button(
        "Undo",
        on_click=undo,
        disabled=undo is None,
        help=about,
        shortcut="Ctrl+Z",
        type="tertiary",
        key=key("undo"),
    )
    st.button(
        "Redo",
        on_click=redo,
        disabled=redo is None,
        help="Repeats what was undone last.",
        shortcut="Ctrl+Shift+Z",
        type="tertiary",
        key=key("redo"),
    )
