"""The bundle of a run from another dashboard, opened here."""

from __future__ import annotations

import streamlit as st

from app.formatting import markdown
from app.services import run_exports
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError

__all__ = ["bundle_upload"]


def bundle_upload() -> None:
    """Draw the menu that opens a bundle."""
    with (
        st.popover("Open a bundle", key=widget_key("runs", "bundle"), width="content"),
        st.container(width=360),
    ):
        file = st.file_uploader(
            "Bundle of a run, ZIP",
            type=["zip"],
            key=widget_key("runs", "bundle", "file"),
            help="A file that the Export page of another Latentboard made: a run with its data.",
        )
        if st.button(
            "Open the run",
            type="primary",
            disabled=file is None,
            key=widget_key("runs", "bundle", "open"),
            help="Stores the data and the run, and selects it in the table.",
        ):
            assert file is not None
            _open(file.getvalue())


def _open(content: bytes) -> None:
    try:
        run = run_exports.open_bundle(content)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    session.open_run_with_dataset(run)
    session.selected_runs = (run,)
    st.rerun()
