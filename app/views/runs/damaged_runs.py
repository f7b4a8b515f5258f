"""Runs whose files cannot be read: what is wrong with each, and their deletion."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.formatting import count, markdown, shortened
from app.services import runs as runs_service
from app.services import server
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError
from lvmcore.runs.bin import KEPT_DAYS

__all__ = ["damaged_runs_panel"]

_ID_DIGITS = 8
_MOST_SHOWN = 8
_HEIGHT = 320


def damaged_runs_panel() -> None:
    """Draw the damaged runs, if there are any."""
    store = server.store()
    damaged = store.damaged()
    if not damaged:
        return
    st.divider()
    st.header("Damaged runs")
    st.markdown(
        f"{count(len(damaged), 'run')} cannot be read. Other runs are not affected. A damaged run "
        "can be deleted; its data are kept."
    )
    frame = pd.DataFrame(
        {
            "Run": [run.id[:_ID_DIGITS] for run in damaged],
            "Damage": [  # the folder is the run's: the name of the file says enough
                shortened(run.reason.replace(f"{store.home / 'jobs' / run.id}{os.sep}", ""), 300)
                for run in damaged
            ],
        }
    )
    st.dataframe(
        frame,
        hide_index=True,
        height="content" if len(damaged) <= _MOST_SHOWN else _HEIGHT,
        column_config={"Run": st.column_config.TextColumn(width="small")},
        alt="Damaged runs",
    )
    ids = [run.id for run in damaged]
    choice, button = st.columns([2, 1], vertical_alignment="bottom")
    chosen = choice.multiselect(
        "Runs to delete",
        ids,
        format_func=lambda run: run[:_ID_DIGITS],
        placeholder="All damaged runs",
        key=widget_key("runs", "damaged"),
        help="The damaged runs to delete; all of them if none is chosen.",
    )
    with button:
        _delete_button(chosen or ids)


def _delete_button(ids: Sequence[str]) -> None:
    """Button that deletes damaged runs, with a confirmation."""
    title = f"Delete {count(len(ids), 'damaged run')}"
    key = widget_key("runs", "delete-damaged")
    with st.popover(title, key=key, width="content"), st.container(width=340):
        st.markdown(
            f"All files of these runs will be deleted. The bin keeps them for {KEPT_DAYS} days."
        )
        if st.button(
            "Delete",
            type="primary",
            key=f"{key}:yes",
            help="Moves them to the bin, from where they can be restored.",
        ):
            _delete_now(ids)


def _delete_now(ids: Sequence[str]) -> None:
    try:
        session.deletions = runs_service.delete_runs(ids)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    if session.run_id in ids:
        session.run_id = None
    st.rerun()
