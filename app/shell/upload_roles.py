"""The role of the fields of uploads, for screen readers."""

from __future__ import annotations

from importlib.resources import files

import streamlit as st

__all__ = ["upload_roles"]

_watch = st.components.v2.component(
    "latentboard.upload_roles",
    js=files("app").joinpath("static", "upload_roles.js").read_text("utf-8"),
)


def upload_roles() -> None:
    """Have the fields of uploads, wherever the page draws them, be groups."""
    _watch(key="upload roles")
