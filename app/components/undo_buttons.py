"""Buttons of undo and redo, with their keys, and the heading that they stand beside."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

__all__ = ["heading_line", "undo_buttons"]


def heading_line(draw: Callable[[str], object], text: str) -> DeltaGenerator:
    """Draw a heading, and return its line for the buttons at its end.

    Args:
        draw: draws a heading, such as ``st.title``.
        text: the heading.
    """
    line = st.container(horizontal=True, vertical_alignment="center")
    with line:
        draw(text)
    return line


def undo_buttons(
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
