"""Ctrl+Z in fields of text, which is the browser's own."""

from __future__ import annotations

from importlib.resources import files

import streamlit as st

__all__ = ["text_undo"]

_watch = st.components.v2.component(
    "latentboard.text_undo",
    js=files("app").joinpath("static", "text_undo.js").read_text("utf-8"),
)


def text_undo() -> None:
    """Leave Ctrl+Z to the field of text in which it is pressed, on every page."""
    _watch(key="text undo")
