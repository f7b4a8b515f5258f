"""What is kept on this machine: where, how much, and a way to throw a data set away."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import services, state
from app.history import size
from app.words import count, listed, markdown, shortened, told_apart
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

__all__ = ["show"]


def show(jobs: Sequence[Job]) -> None:
    """Draw the place and the size of the store, and the way to delete a data set.

    Args:
        jobs: all runs.
    """
    store = services.store()
    usage, names = store.size(), store.datasets()
    if not names and not jobs:
        return
    st.divider()
    st.header("On this machine")
    st.markdown(
        f"{size(usage.total)} in {count(len(names), 'data set')} and {count(len(jobs), 'run')}, "
        "kept in"
    )
    st.code(str(store.home), language=None)
    if not names:
        return
    runs: dict[str, list[Job]] = {digest: [] for digest in names}
    for job in jobs:
        runs.setdefault(job.spec.dataset, []).append(job)
    room = {digest: usage.datasets.get(digest, 0) for digest in names}
    for job in store.list(kind=None):  # what scores them takes room too
        if job.spec.dataset in room:
            room[job.spec.dataset] += usage.runs.get(job.id, 0)
    digests = sorted(names, key=lambda d: (names[d].casefold(), d))
    told = told_apart(
        f"{shortened(names[d])} · {count(len(runs[d]), 'run')} · {size(room[d])}" for d in digests
    )
    titles = dict(zip(digests, told, strict=True))
    choice, button = st.columns([2, 1], vertical_alignment="bottom")
    digest = choice.selectbox(
        "Data set",
        digests,
        format_func=lambda d: titles.get(d, ""),
        key=state.widget("runs", "dataset"),
        help="The data set to delete, with how much room it and its runs take.",
    )
    if digest is not None:
        with button:
            _delete(digest, names[digest], runs[digest])


def _delete(digest: str, name: str, jobs: Sequence[Job]) -> None:
    key = state.widget("runs", "delete", digest)
    title = "Delete this data set and its runs"
    with st.popover(title, key=key, width="content"), st.container(width=340):
        gone = f"The data set {shortened(name)}"
        if jobs:
            gone += f" and {count(len(jobs), 'run')} of it ({listed([job.name for job in jobs])})"
        st.markdown(f"{markdown(gone)} will be gone from this machine. This cannot be undone.")
        if st.button(
            "Delete all of it",
            type="primary",
            key=f"{key}:yes",
            help="Deletes at once; this cannot be undone.",
        ):
            _delete_now(digest, [job.id for job in jobs])


def _delete_now(digest: str, runs: Sequence[str]) -> None:
    try:
        services.delete_dataset(digest)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    state.choose_runs(tuple(run for run in state.chosen_runs() if run not in runs))
    if state.run_id() in runs:
        state.close_run()
    st.rerun()
