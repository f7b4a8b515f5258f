"""A run on the Fit page: its progress, charts and outcome."""

from __future__ import annotations

import streamlit as st

from app import navigation
from app.components.derived_run import is_stopping, stop_error_panel, stop_runs
from app.formatting import duration, markdown, number, size
from app.services import progress, runs, scores, server
from app.services.progress import Progress
from app.state.session import session
from app.state.widgets import widget_key
from app.views.fit.more_steps import more_steps_panel
from app.views.fit.run_charts import run_charts
from lvmcore.errors import LatentboardError
from lvmcore.jobs.machine_limits import available_memory
from lvmcore.results import PACE_STEPS
from lvmcore.runs import Job

__all__ = ["live_run_panel"]

_EVERY_SECONDS = 0.5

#: Advice after a run that failed, by its error.
ADVICE = {
    "ConfigError": "Change the setting below and fit again.",
    "DataError": "Check on the Data page which rows, columns and labels are used.",
    "MemoryError": "Use fewer rows, columns or inducing points, and fit again.",
    "NumericalError": "Fit again with another seed, or fewer latent dimensions.",
}


def live_run_panel(job: Job) -> None:
    """Draw a run, and poll it until it finishes.

    Args:
        job: the run.
    """
    every = None if job.finished else _EVERY_SECONDS
    st.fragment(_panel, run_every=every)(job.id, job.status)


def _panel(run: str, drawn: str) -> None:
    job = runs.job(run)
    if job is None:
        st.warning("This run does not exist any more. It may have been deleted in another window.")
        return
    if job.status != drawn:  # reruns the whole page and stops polling
        st.rerun()
    run_progress = progress.progress(run)
    _status_line(job, run_progress)
    if job.status != "queued" or run_progress.steps:  # a resumed run keeps its curves in the queue
        run_charts(job, run_progress)
    for note in job.notes if job.has_model else ():
        st.caption(markdown(note))


def _status_line(job: Job, run_progress: Progress) -> None:
    """Name, progress and primary action of a run, in one line."""
    problem = widget_key("fit", job.id, "cancel problem")
    words, action = st.columns([5, 1], vertical_alignment="center")
    with words:
        st.markdown(
            f"**{markdown(job.name)}** &nbsp; {markdown(_progress_text(job, run_progress))}"
        )
        if not job.finished:
            st.progress(_share(run_progress))
    with action:
        if not job.finished:
            st.button(
                "Cancel",
                key=widget_key("fit", job.id, "cancel"),
                on_click=stop_runs,
                args=([job.id], problem),
                disabled=is_stopping(job),
                width="stretch",
                help="Stops the fit at its next step and keeps the model fitted so far.",
            )
        elif job.has_model and job.spec.target:
            navigation.link("See the predictions", "predict", key="explore", stretch=True)
        elif job.has_model:
            navigation.link("Explore the map", "latent", key="explore", stretch=True)
    if job.finished:
        _outcome(job)
    else:
        stop_error_panel(problem)


def _resume(run: str) -> None:
    try:
        runs.resume(run)
    except LatentboardError as error:
        session.start_error = str(error)
    else:
        session.start_error = None


def _progress_text(job: Job, run_progress: Progress) -> str:
    """Step, elapsed and remaining time of a run, or its position in the queue."""
    if job.status == "queued":
        return _queue_text(job)
    if job.finished:
        return f"{job.status} in {duration(job.seconds)}{_place(job)}"
    if is_stopping(job):
        return "stopping after this step"
    if not run_progress.steps:
        return f"{'fitting' if job.stage == 'fitting' else 'preparing'} · {duration(job.seconds)}"
    step = run_progress.steps[-1]
    left = step.seconds_left(run_progress.steps[-PACE_STEPS:][0])
    restart = f"restart {step.start} of {step.starts} · " if step.starts > 1 else ""
    return (
        f"{restart}step {step.iteration} of at most {step.total} · {duration(step.seconds)} · "
        f"at most {duration(left)} left{_place(job)}"
    )


def _place(job: Job) -> str:
    """Device and precision of a run, to be appended; "" where they are not known."""
    return "" if job.computation is None else f" · {job.computation.place}"


def _queue_text(job: Job) -> str:
    """What a queued run waits for."""
    position = job.queue_place or 1
    if position > 1:
        return f"queued: position {position}"
    trouble = server.launcher().trouble
    if trouble:
        return f"queued: {trouble}"
    if server.cluster() is not None:
        return "queued: it starts when a node of the cluster has room"
    if not any(other.status == "running" for other in server.store().list(None)):
        return "queued: the worker is starting"
    if job.memory is not None and job.memory > available_memory():
        return f"queued: it starts when {size(job.memory)} of memory are free"
    return "queued: it starts when an earlier run finishes"


def _share(run_progress: Progress) -> float:
    if not run_progress.steps:
        return 0.0
    return min(1.0, run_progress.steps[-1].iteration / max(1, run_progress.steps[-1].total))


def _outcome(job: Job) -> None:
    """How a run ended, and what to do."""
    if job.status in ("failed", "interrupted") or not job.has_model:
        text = job.message or "It stopped before it had a model."
        other = "Resume it, or fit again below." if job.resumable else "Fit again below."
        advice = ADVICE.get(job.error or "", other)
        draw = st.error if job.status == "failed" else st.warning
        draw(f"{markdown(text)} {advice}")
    if job.has_model:
        _result(job)
    if job.resumable:
        _resume_button(job)


def _resume_button(job: Job) -> None:
    """The button that resumes a stopped run, with its starting point."""
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            "Resume",
            key=widget_key("fit", job.id, "resume"),
            on_click=_resume,
            args=(job.id,),
            width=120,
            help="Puts the run back in the queue.",
        )
        if pressed:  # shows an error of resuming outside the fragment
            st.rerun()
        if job.checkpoint_step is None:
            text = "Starts from the first step: it stopped before its first checkpoint."
        else:
            text = (
                f"Continues after step {job.checkpoint_step}, its last checkpoint, with the same "
                "result as without the interruption."
            )
        st.caption(text, width="stretch")


def _result(job: Job) -> None:
    """The bound and convergence of a run with a model."""
    scores.start_label_score(job)
    bound = "" if job.elbo is None else f"Bound (ELBO) {number(job.elbo, 6)} nats. "
    if job.status == "cancelled":
        result = "model" if job.spec.target else "map"
        st.info(f"{bound}Stopped on request. The {result} of the last step can be explored.")
    elif job.still_rising:
        more_steps_panel(job, bound)
    elif job.status == "done":
        st.success(f"{bound}The fit has converged." if bound else "Fitted.")
