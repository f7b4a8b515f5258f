"""Progress of a run that uses a fitted model, with Cancel and Resume."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from app.formatting import markdown
from app.services import progress, server
from app.services import runs as runs_service
from app.state.widgets import set_widget_value, widget_key, widget_value
from app.web.application import is_shared
from lvmcore.errors import LatentboardError
from lvmcore.results import FitStep
from lvmcore.runs import Job

__all__ = [
    "DerivedRun",
    "derived_run_panel",
    "files_note",
    "is_stopping",
    "stop_error_panel",
    "stop_runs",
]

_EVERY_SECONDS = 0.5
#: Seconds that a click on Cancel waits for the end, so that no further poll is needed.
_CANCEL_SECONDS = 0.8


@dataclass(frozen=True)
class DerivedRun:
    """How a page presents such a run.

    Attributes:
        page: page of the widget keys.
        activity: what the run does, as the subject of a sentence.
        progress_text: text of the progress bar, from the run and its last step (None before it).
        state: the part of the run's state on which the rest of the page depends.
        alternatives: draws the actions beside Resume for a run that has stopped early.
    """

    page: str
    activity: str
    progress_text: Callable[[Job, FitStep | None], str]
    state: Callable[[Job], Hashable]
    alternatives: Callable[[Job], None]


def derived_run_panel(job: Job, view: DerivedRun) -> None:
    """Draw the progress of a run; nothing once it is done.

    Args:
        job: the run.
        view: how the page presents it.
    """
    every = None if job.finished else _EVERY_SECONDS
    st.fragment(_progress_panel, run_every=every)(job.id, view.state(job), view)


def files_note(job: Job) -> None:
    """Draw where the results of all rows are, of a run whose files stay in place."""
    if not job.has_parts:
        return
    text = next((note for note in job.notes if note.startswith("All ")), "All rows are done.")
    st.info(markdown(text))
    if not is_shared():
        st.code(str(server.store().job_folder(job.id).files.parts), language=None)


def is_stopping(job: Job) -> bool:
    """Whether a run stops after its current step."""
    return job.stage == "stopping" or server.store().job_folder(job.id).cancel_requested()


def stop_runs(runs: Sequence[str], error_key: str, patience: float = _CANCEL_SECONDS) -> None:
    """Cancel runs, as the callback of a button.

    Args:
        runs: ids of the runs.
        error_key: session key of an error, for ``stop_error_panel``.
        patience: most seconds to wait for the end of each run.
    """
    error_text = None
    for run in runs:
        try:
            runs_service.cancel(run, patience=patience)
        except LatentboardError as error:
            error_text = str(error)
    set_widget_value(error_key, error_text)


def stop_error_panel(error_key: str) -> None:
    """Draw the error of the last ``stop_runs``, beside its button."""
    error_text = widget_value(error_key)
    if error_text:
        st.error(markdown(error_text))


def _progress_panel(run: str, drawn: Hashable, view: DerivedRun) -> None:
    job = runs_service.job(run)
    if job is None or view.state(job) != drawn:
        st.rerun()
    if job.status == "done":
        return
    key = partial(widget_key, view.page, run)
    if job.finished:
        draw = st.error if job.status == "failed" else st.warning
        draw(markdown(job.message or f"{view.activity} was {job.status}."))
        with st.container(horizontal=True):
            if job.resumable and st.button(
                "Resume", key=key("resume"), help="Continues after its last step."
            ):
                _resume(run)
            view.alternatives(job)
        return
    left, right = st.columns([5, 1], vertical_alignment="center")
    steps = progress.progress(run).steps
    step = steps[-1] if steps else None
    done = 0.0 if step is None else min(1.0, step.iteration / max(1, step.total))
    stopping = is_stopping(job)
    with left:
        st.progress(done, text="Stopping." if stopping else view.progress_text(job, step))
    with right:
        st.button(
            "Cancel",
            key=key("cancel"),
            on_click=stop_runs,
            args=([run], key("cancel problem")),
            disabled=stopping,
            width="stretch",
            help="Stops at the next step; the run can be resumed if it has a checkpoint.",
        )
    stop_error_panel(key("cancel problem"))


def _resume(run: str) -> None:
    try:
        runs_service.resume(run)
    except LatentboardError as error:
        st.error(markdown(error))
    else:
        st.rerun()
