"""The verdict on a fit whose steps ran out: what more would bring, and one click for them."""

from __future__ import annotations

import streamlit as st

from app import navigation, services, state
from app.words import count, duration, markdown, number
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job
from lvmcore.runs.verdict import MoreSteps

__all__ = ["show", "verdict"]


def show(job: Job, bound: str) -> None:
    """Say how a fit that was still rising stands, and offer to let it go on.

    Args:
        job: one that ended so.
        bound: a sentence on the bound that it reached.
    """
    more = services.more_steps(job.id)
    if more is None:
        st.warning(f"{bound}The bound was still rising when the steps ran out.")
        return
    st.warning(bound + markdown(verdict(more)))
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            f"{count(more.steps, 'more step')}",
            key=state.widget("fit", job.id, "more"),
            on_click=_go_on,
            args=(job.id, more.total),
            help="Starts a run of its own with so many more steps; this one stays as it is.",
            width="content",
        )
        if pressed:  # this is a part of the page: the whole of it shows the other run from now on
            st.rerun()
        st.caption(_how(job, more), width="stretch")
    for other in services.longer(job.id)[:1]:
        steps = other.spec.parameters.get("max_iter")
        navigation.link(
            f"Open its longer fit: {steps} steps, {other.status}",
            "fit",
            key="longer",
            run=other.id,
            primary=False,
        )


def verdict(more: MoreSteps) -> str:
    """What the curve of a fit says of more steps, in two sentences."""
    asked = (
        f"The bound was still rising when its {count(more.total - more.steps, 'step')} ran out: "
        f"{more.steps} more?"
    )
    takes = f"take about {duration(more.seconds)}"
    if more.gain is None:
        return f"{asked} They would {takes}; what they would bring cannot be told from its curve."
    least, most = (number(value, 2) for value in more.gain)
    rise = f"{least} to {most} nats" if least != most else f"{most} nats"
    return f"{asked} They would {takes} and raise the bound by some {rise}, by how it slowed down."


def _how(job: Job, more: MoreSteps) -> str:
    if more.anew:
        return (
            "The state that it would go on from is no longer there, so it begins anew, and ends "
            "the same."
        )
    return (
        f"Goes on after step {job.branch_step}, where the fit began to settle, and ends as one "
        f"with {count(more.total, 'step')} from the beginning."
    )


def _go_on(run: str, steps: int) -> None:
    try:
        longer = services.go_on(run, steps)
    except LatentboardError as error:
        state.set_problem(str(error))
    else:
        state.set_problem(None)
        state.open_run(longer)
