"""Storage on this machine: folder and size, deletion of datasets, and the bin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from app.analysis.tables.run_history import readable_size
from app.formatting import count, distinct_titles, listed, markdown, shortened
from app.services import runs as runs_service
from app.services import server
from app.state.session import session
from app.state.widgets import widget_key
from app.views.runs.bin_panel import bin_panel
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job
from lvmcore.runs.bin import KEPT_DAYS
from lvmcore.runs.disk_usage import DiskUsage

__all__ = ["storage_panel"]


def storage_panel(jobs: Sequence[Job]) -> None:
    """Draw the folder and size of the store, and the deletion of a dataset.

    Args:
        jobs: all runs.
    """
    store = server.store()
    usage, names = store.size(), store.datasets.names()
    deletions = store.bin.deletions()
    if not names and not jobs and not deletions:
        return
    st.divider()
    st.header("On this machine")
    st.markdown(
        f"{readable_size(usage.total)} in {count(len(names), 'dataset')} and "
        f"{count(len(jobs), 'run')}, stored in"
    )
    st.code(str(store.home), language=None)
    if names:
        _deletion_of_datasets(jobs, usage, names)
    if deletions:
        bin_panel(deletions)


def _deletion_of_datasets(jobs: Sequence[Job], usage: DiskUsage, names: Mapping[str, str]) -> None:
    """The choice of a dataset, with the button that deletes it."""
    runs: dict[str, list[Job]] = {digest: [] for digest in names}
    for job in jobs:
        runs.setdefault(job.spec.dataset, []).append(job)
    sizes = {digest: usage.datasets.get(digest, 0) for digest in names}
    for job in server.store().list(kind=None):  # scoring runs included
        if job.spec.dataset in sizes:
            sizes[job.spec.dataset] += usage.runs.get(job.id, 0)
    digests = sorted(names, key=lambda d: (names[d].casefold(), d))
    texts = distinct_titles(
        f"{shortened(names[d])} · {count(len(runs[d]), 'run')} · {readable_size(sizes[d])}"
        for d in digests
    )
    titles = dict(zip(digests, texts, strict=True))
    choice, button = st.columns([2, 1], vertical_alignment="bottom")
    digest = choice.selectbox(
        "Dataset",
        digests,
        format_func=lambda d: titles.get(d, ""),
        key=widget_key("runs", "dataset"),
        help="The dataset to delete, with the size of its data and runs.",
    )
    if digest is not None:
        with button:
            _delete_button(digest, names[digest], runs[digest])


def _delete_button(digest: str, name: str, jobs: Sequence[Job]) -> None:
    key = widget_key("runs", "delete", digest)
    title = "Delete this dataset and its runs"
    with st.popover(title, key=key, width="content"), st.container(width=340):
        deleted = f"The dataset {shortened(name)}"
        if jobs:
            deleted += f" and its {count(len(jobs), 'run')} ({listed([job.name for job in jobs])})"
        st.markdown(
            f"{markdown(deleted)} will be deleted. The bin keeps them for {KEPT_DAYS} days."
        )
        if st.button(
            "Delete dataset and runs",
            type="primary",
            key=f"{key}:yes",
            help="Moves them to the bin, from where they can be restored.",
        ):
            _delete_now(digest, [job.id for job in jobs])


def _delete_now(digest: str, runs: Sequence[str]) -> None:
    try:
        session.deletions = (runs_service.delete_dataset(digest),)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    session.selected_runs = tuple(run for run in session.selected_runs if run not in runs)
    if session.run_id in runs:
        session.run_id = None
    st.rerun()
