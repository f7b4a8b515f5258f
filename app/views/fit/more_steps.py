"""Continuation of a fit that has not converged: the expected gain of more steps, and a button."""

from __future__ import annotations

import streamlit as st

from app import navigation
from app.formatting import count, duration, markdown, number
from app.services import runs
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job
from lvmcore.runs.continuation import Continuation
from lvmcore.runs.convergence import Verdict, convergence_verdict

__all__ = ["continuation_text", "more_steps_panel"]


def more_steps_panel(job: Job, bound: str) -> None:
    """Draw the verdict on a fit that has not converged, with a button for more steps.

    Args:
        job: a finished run that has not converged.
        bound: a sentence on its bound.
    """
    more = runs.proposed_continuation(job.id)
    if more is None:
        st.warning(f"{bound}{_ending(convergence_verdict(job), 'the steps')}.")
        return
    st.warning(bound + markdown(continuation_text(more, convergence_verdict(job))))
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            f"{count(more.steps, 'more step')}",
            key=widget_key("fit", job.id, "more"),
            on_click=_continue,
            args=(job.id, more.total),
            help="Starts a new run with this many more steps; this run is not changed.",
            width="content",
        )
        if pressed:  # leaves the fragment: the whole page shows the new run
            st.rerun()
        st.caption(_starting_point(job, more), width="stretch")
    for other in runs.continuations(job.id)[:1]:
        steps = other.spec.parameters.get("max_iter")
        navigation.link(
            f"Open its longer fit: {steps} steps, {other.status}",
            "fit",
            key="longer",
            run=other.id,
            primary=False,
        )


def continuation_text(more: Continuation, verdict: Verdict) -> str:
    """How the fit ended, and the expected time and gain of more steps, in two sentences."""
    had = f"its {count(more.total - more.steps, 'step')}"
    question = f"{_ending(verdict, had)}: {more.steps} more?"
    takes = f"take about {duration(more.seconds)}"
    if more.gain is None:
        return f"{question} They would {takes}; their gain cannot be estimated."
    least, most = (number(value, 2) for value in more.gain)
    if more.gain[0] == 0:
        rise = f"{most} nats at most"
    else:
        rise = f"{least} to {most} nats" if least != most else f"{most} nats"
    return f"{question} They would {takes} and raise the bound by some {rise}."


def _ending(verdict: Verdict, steps: str) -> str:
    """The state of the bound after the last step, without a full stop."""
    if verdict == "noisy":
        return (
            f"After {steps} the bound differed too much from batch to batch to say whether it "
            "still rises"
        )
    return f"The bound was still rising after {steps}"


def _starting_point(job: Job, more: Continuation) -> str:
    if more.anew:
        return (
            "The state to continue from was deleted, so the fit starts from the first step, with "
            "the same result."
        )
    return (
        f"Continues after step {job.branch_step}, with the same result as a fit of "
        f"{count(more.total, 'step')}."
    )


def _continue(run: str, steps: int) -> None:
    try:
        longer = runs.continue_run(run, steps)
    except LatentboardError as error:
        session.start_error = str(error)
    else:
        session.start_error = None
        session.run_id = longer
