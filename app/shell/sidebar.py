"""The sidebar below the navigation: current data, open run with its status, earlier runs."""

from __future__ import annotations

import streamlit as st

from app.analysis.tables.row_counts import rows_in_words
from app.components import current_dataset
from app.formatting import count, distinct_titles, shortened, when
from app.services import runs, server
from app.state.session import session
from app.state.widgets import set_widget_value, widget_key, widget_value
from lvmcore.runs import Job
from lvmcore.runs.job import now

__all__ = ["sidebar"]

#: Most runs in the selector.
MOST_RUNS = 50
_EVERY_SECONDS = 2.0

STATUS_COLOURS = {
    "queued": "gray",
    "running": "blue",  # the accent colour is too dark for text on a dark page
    "done": "green",
    "cancelled": "gray",
    "failed": "red",
    "interrupted": "orange",
}


def sidebar(*, polling: bool) -> None:
    """Draw the sidebar.

    Args:
        polling: whether to poll a running fit; False on a page that polls itself.
    """
    _data_panel()
    job = runs.job(session.run_id)
    every = _EVERY_SECONDS if polling and job is not None and not job.finished else None
    st.fragment(_run_panel, run_every=every)(None if job is None else job.status)
    _earlier_runs()


def _data_panel() -> None:
    st.caption("Data")
    try:
        dataset = current_dataset.dataset()
    except current_dataset.PROBLEMS:
        st.text("cannot be read")
        return
    st.text(shortened(dataset.name, 28))
    st.caption(f"{rows_in_words(dataset)}, {count(dataset.X.shape[1], 'feature')}")


def _run_panel(drawn: str | None) -> None:
    job = runs.job(session.run_id)
    st.caption("Run")
    if job is None:
        st.text("none yet")
        return
    if drawn is not None and job.status != drawn:
        st.rerun()
    st.text(shortened(job.name, 56))
    status: str = job.status
    if job.status == "queued" and job.queue_place:
        status = f"queued, position {job.queue_place}"
    st.badge(status, color=STATUS_COLOURS[job.status])  # type: ignore[arg-type]


def _earlier_runs() -> None:
    jobs = {job.id: job for job in server.store().list()[:MOST_RUNS]}
    if not jobs:
        return
    titles = dict(zip(jobs, distinct_titles(map(_title, jobs.values())), strict=True))
    key = widget_key("foot", "earlier")
    st.selectbox(
        "Earlier runs",
        list(jobs),
        index=None,
        placeholder=f"Open one of {len(jobs)}",
        format_func=lambda run: titles.get(run, ""),
        key=key,
        on_change=_open_run,
        args=(key,),
        help="Opens an earlier run with its data.",
    )


def _title(job: Job) -> str:
    age = when((now() - job.submitted).total_seconds())
    return f"{shortened(job.name, 40)} · {job.status} · {age}"


def _open_run(key: str) -> None:
    run = widget_value(key)
    if run is not None:
        session.open_run_with_dataset(run)
        set_widget_value(key, None)
