"""The foot of the navigation: the current data and run, with its status, and the earlier runs."""

from __future__ import annotations

import streamlit as st

from app import services, state, working
from app.words import count, shortened, told_apart, when
from lvmcore.runs import Job
from lvmcore.runs.spec import now

__all__ = ["show"]

#: How many of the latest runs the selector offers.
MOST_RUNS = 50
_EVERY_SECONDS = 2.0

STATUS_COLOURS = {
    "queued": "gray",
    "running": "blue",  # the accent is too dark for a word on a dark page
    "done": "green",
    "cancelled": "gray",
    "failed": "red",
    "interrupted": "orange",
}


def show(*, polling: bool) -> None:
    """Draw the foot.

    Args:
        polling: whether to follow a run that is under way; False on a page that does so itself.
    """
    _data()
    job = services.job(state.run_id())
    every = _EVERY_SECONDS if polling and job is not None and not job.finished else None
    st.fragment(_run, run_every=every)(None if job is None else job.status)
    _earlier()


def _data() -> None:
    st.caption("Data")
    try:
        dataset = working.dataset()
    except working.PROBLEMS:
        st.text("none that can be read")
        return
    st.text(shortened(dataset.name, 28))
    st.caption(f"{count(len(dataset.X), 'row')}, {count(dataset.X.shape[1], 'feature')}")


def _run(drawn: str | None) -> None:
    job = services.job(state.run_id())
    st.caption("Run")
    if job is None:
        st.text("none yet")
        return
    if drawn is not None and job.status != drawn:
        st.rerun()
    st.text(shortened(job.name, 56))
    words: str = job.status
    if job.status == "queued" and job.queue_place:
        words = f"queued, place {job.queue_place}"
    st.badge(words, color=STATUS_COLOURS[job.status])  # type: ignore[arg-type]


def _earlier() -> None:
    jobs = {job.id: job for job in services.store().list()[:MOST_RUNS]}
    if not jobs:
        return
    titles = dict(zip(jobs, told_apart(map(_title, jobs.values())), strict=True))
    key = state.widget("foot", "earlier")
    st.selectbox(
        "Earlier runs",
        list(jobs),
        index=None,
        placeholder=f"Open one of {len(jobs)}",
        format_func=lambda run: titles.get(run, ""),
        key=key,
        on_change=_reopen,
        args=(key,),
        help="Opens a run that was made before, with its data.",
    )


def _title(job: Job) -> str:
    ago = when((now() - job.submitted).total_seconds())
    return f"{shortened(job.name, 40)} · {job.status} · {ago}"


def _reopen(key: str) -> None:
    run = state.value(key)
    if run is not None:
        state.open_run(run, follow=True)
        state.set_value(key, None)
