"""The bin: what was deleted, and how it comes back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st

from app.analysis.tables.run_history import readable_size
from app.formatting import count, distinct_titles, listed, markdown, shortened, when
from app.services import runs as runs_service
from app.services import server
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError
from lvmcore.runs.bin import KEPT_DAYS, Deletion

__all__ = ["bin_panel", "undo_notice"]


def undo_notice() -> None:
    """Draw what the session has just deleted, with a button that undoes it."""
    if not session.deletions:
        return
    found = {one.id: one for one in server.store().bin.deletions()}
    last = [found[id] for id in session.deletions if id in found]
    if not last:
        session.deletions = ()
        return
    text, button = st.columns([4, 1], vertical_alignment="center")
    named = listed([shortened(one.name) for one in last])
    text.info(f"Deleted: {markdown(named)}.", icon=":material/delete:")
    if button.button(
        "Undo",
        icon=":material/undo:",
        shortcut="Ctrl+Z",
        key=widget_key("runs", "undo"),
        width="stretch",
        help="Restores what was deleted last.",
    ):
        _restore([one.id for one in last])


def bin_panel(deletions: Sequence[Deletion]) -> None:
    """Draw the bin: a deletion to restore, and the button that empties it.

    Args:
        deletions: the deletions, newest first.
    """
    size = readable_size(sum(one.size for one in deletions))
    st.markdown(
        f"**Bin**: {count(len(deletions), 'deletion')}, {size}. What was deleted is kept for "
        f"{KEPT_DAYS} days."
    )
    choice, restore, empty = st.columns([4, 1, 1], vertical_alignment="bottom")
    ids = [one.id for one in deletions]
    titles = dict(zip(ids, distinct_titles(map(_title, deletions)), strict=True))
    chosen = choice.selectbox(
        "Deleted",
        ids,
        format_func=lambda id: titles.get(id, ""),
        key=widget_key("runs", "bin"),
        help="The deleted run or dataset to restore, with its size and age.",
    )
    if restore.button(
        "Restore",
        key=widget_key("runs", "restore"),
        width="stretch",
        help="Restores the chosen run or dataset, with all that was deleted with it.",
    ):
        _restore([chosen])
    with (
        empty.popover("Empty", key=widget_key("runs", "empty"), width="stretch"),
        st.container(width=340),
    ):
        st.markdown(f"{size} will be deleted permanently. This cannot be undone.")
        if st.button(
            "Empty the bin",
            type="primary",
            key=widget_key("runs", "empty", "yes"),
            help="Deletes the content of the bin permanently.",
        ):
            runs_service.empty_bin()
            st.rerun()


def _title(deletion: Deletion) -> str:
    age = when((datetime.now(UTC) - deletion.time).total_seconds())
    runs = (
        f" with {count(len(deletion.runs), 'run')}"
        if deletion.kind == "dataset" and deletion.runs
        else ""
    )
    size = readable_size(deletion.size)
    return f"{deletion.kind.capitalize()} {shortened(deletion.name)}{runs} · {size} · {age}"


def _restore(deletions: Sequence[str]) -> None:
    try:
        runs_service.restore(deletions)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    session.deletions = tuple(one for one in session.deletions if one not in deletions)
    st.rerun()
