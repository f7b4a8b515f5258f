"""The colour scheme of the page: where it changes, the page is drawn again in its colours."""

from __future__ import annotations

from importlib.resources import files

import streamlit as st

from app.state.session import session

__all__ = ["colour_scheme"]

_watch = st.components.v2.component(
    "latentboard.colour_scheme",
    js=files("app").joinpath("static", "colour_scheme.js").read_text("utf-8"),
)


def colour_scheme() -> None:
    """Have the page drawn again when the system changes between light and dark."""
    _watch(data={"dark": session.is_dark}, key="colour scheme", on_scheme_change=lambda: None)
