"""Which matrix of an AnnData file is the table: the only thing about one that can be chosen."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app import state
from app.state import Reading, Upload
from lvmcore.data import Table

__all__ = ["form", "holds_matrices"]

_ABOUT = (
    "The matrix of the file that is the table. Detected: of X, layers/counts and raw/X the first "
    "that holds whole counts, else the first of them."
)


def holds_matrices(table: Table) -> bool:
    """Whether a table is of an AnnData file."""
    return table.detected.format.startswith("h5ad")


def form(
    upload: Upload, table: Table, current: Reading, take: Callable[[Upload, Reading], None]
) -> None:
    """Ask which matrix of a file to read.

    Args:
        upload: the file.
        table: as it is read now.
        current: how it is read now.
        take: told of the matrix that was chosen.
    """
    titles = table.detected.sheets
    with (
        st.form(state.widget("data", "reading", upload.digest), border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        # By position, −1 for what is detected: an option that is None would be one to be cleared.
        place = st.selectbox(
            "Matrix",
            range(-1, len(titles)),
            index=titles.index(current.sheet) + 1 if current.sheet in titles else 0,
            format_func=lambda i: "detected" if i < 0 else titles[i],
            help=_ABOUT,
            width=260,
        )
        if st.form_submit_button(
            "Read again", help="Reads the same file, the matrix that is chosen here."
        ):
            take(upload, Reading(sheet=None if place < 0 else titles[place]))
            st.rerun()
