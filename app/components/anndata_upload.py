"""Choice of the matrix of an AnnData file."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app.state.choices import FileSource, ReadingChoices
from app.state.widgets import widget_key
from lvmcore.data import Table

__all__ = ["holds_matrices", "matrix_form"]

_ABOUT = (
    "The matrix of the file to read. Detected: the first of X, layers/counts and raw/X that holds "
    "whole counts, else the first of them."
)


def holds_matrices(table: Table) -> bool:
    """Whether a table was read from an AnnData file."""
    return table.detected.format.startswith("h5ad")


def matrix_form(
    upload: FileSource,
    table: Table,
    current: ReadingChoices,
    on_submit: Callable[[FileSource, ReadingChoices], None],
) -> None:
    """Draw a form with the choice of a matrix.

    Args:
        upload: the file.
        table: the table as it is read now.
        current: the current reading choices.
        on_submit: called with the chosen matrix.
    """
    titles = table.detected.sheets
    with (
        st.form(widget_key("data", "reading", upload.digest), border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        # By position, −1 for the detected one: Streamlit treats the option None as no choice.
        position = st.selectbox(
            "Matrix",
            range(-1, len(titles)),
            index=titles.index(current.sheet) + 1 if current.sheet in titles else 0,
            format_func=lambda i: "detected" if i < 0 else titles[i],
            help=_ABOUT,
            width=260,
        )
        if st.form_submit_button("Read again", help="Reads the chosen matrix of the same file."):
            on_submit(upload, ReadingChoices(sheet=None if position < 0 else titles[position]))
            st.rerun()
