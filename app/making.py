"""A run that uses the model of a fitted one, under way: how far it is, Cancel, and going on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from app import services, state
from app.words import markdown
from lvmcore.errors import LatentboardError
from lvmcore.results import FitStep
from lvmcore.runs import Job

__all__ = ["Making", "refused", "show", "stop", "stopping"]

_EVERY_SECONDS = 0.5
#: How long a click on Cancel waits for the end, which the page then says without another tick.
_CANCEL_SECONDS = 0.8


@dataclass(frozen=True)
class Making:
    """How a page speaks of such a run.

    Attributes:
        page: what its widgets belong to.
        doing: what is done, as the beginning of a sentence.
        stand: how far it is, from the run and its last step, None before the first.
        mark: what of the run changes the rest of the page.
        otherwise: draws what else can be done when it has ended early, beside going on.
    """

    page: str
    doing: str
    stand: Callable[[Job, FitStep | None], str]
    mark: Callable[[Job], Hashable]
    otherwise: Callable[[Job], None]


def show(job: Job, making: Making) -> None:
    """Draw where a run stands, until it is done; nothing when it is.

    Args:
        job: the run.
        making: how the page speaks of it.
    """
    every = None if job.finished else _EVERY_SECONDS
    st.fragment(_under_way, run_every=every)(job.id, making.mark(job), making)


def stopping(job: Job) -> bool:
    """Whether a run has been asked to stop, and will as soon as its step is done."""
    return job.stage == "stopping" or services.store().job_folder(job.id).cancel_requested()


def stop(runs: Sequence[str], problem: str, patience: float = _CANCEL_SECONDS) -> None:
    """Ask runs to stop, as the callback of Cancel.

    Args:
        runs: their ids.
        problem: key under which what keeps one of them from it is left for ``refused``.
        patience: seconds to wait for the end of each at most.
    """
    found = None
    for run in runs:
        try:
            services.cancel(run, patience=patience)
        except LatentboardError as error:
            found = str(error)
    state.set_value(problem, found)


def refused(problem: str) -> None:
    """Say what kept the last Cancel from being done, beside its button: see ``stop``."""
    found = state.value(problem)
    if found:
        st.error(markdown(found))


def _under_way(run: str, drawn: Hashable, making: Making) -> None:
    job = services.job(run)
    if job is None or making.mark(job) != drawn:
        st.rerun()
    if job.status == "done":
        return
    key = partial(state.widget, making.page, run)
    if job.finished:
        draw = st.error if job.status == "failed" else st.warning
        draw(markdown(job.message or f"{making.doing} was {job.status}."))
        with st.container(horizontal=True):
            if job.resumable and st.button(
                "Go on", key=key("resume"), help="Goes on from where it was stopped."
            ):
                _resume(run)
            making.otherwise(job)
        return
    words, action = st.columns([5, 1], vertical_alignment="center")
    steps = services.progress(run).steps
    step = steps[-1] if steps else None
    done = 0.0 if step is None else min(1.0, step.iteration / max(1, step.total))
    ending = stopping(job)
    with words:
        st.progress(done, text="Stopping." if ending else making.stand(job, step))
    with action:
        st.button(
            "Cancel",
            key=key("cancel"),
            on_click=stop,
            args=([run], key("cancel problem")),
            disabled=ending,
            width="stretch",
            help="Stops at its next step; it can go on later where a checkpoint was left.",
        )
    refused(key("cancel problem"))


def _resume(run: str) -> None:
    try:
        services.resume(run)
    except LatentboardError as error:
        st.error(markdown(error))
    else:
        st.rerun()
