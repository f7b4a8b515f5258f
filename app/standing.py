"""How well the compared maps do: the table of the Compare page, and what is still measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from app import comparing, services, state
from app.words import count, markdown
from lvmcore.runs import Job

__all__ = ["offer", "show"]

_EVERY_SECONDS = 1.0

_key = partial(state.widget, "compare")


def show(jobs: Sequence[Job]) -> None:
    """Draw the table, and the means to complete it.

    Args:
        jobs: the runs whose maps are shown, in their order.
    """
    if not jobs:
        return
    st.header("How well they do")
    measured = {job.id: services.measured(job) for job in jobs}
    titles = comparing.names(jobs)
    rows = [(titles[job.id], measured[job.id]) for job in jobs]
    st.html(comparing.table(rows))
    st.caption(
        "The best of each column is set in bold. A dash has its reason, and a figure how it was "
        "measured: point at it, or open the list below. † Labels that a fit has seen are not "
        "scored: the model is fitted anew to 80 % of the rows and scored on the other 20 %."
    )
    offer(jobs, _key)
    with st.expander("How each figure was measured"):
        for name, one in rows:
            lines = [
                f"- {markdown(metric.label)}: {markdown(metric.protocol)}"
                for metric in one.figures.values()
            ]
            st.markdown("\n".join([f"**{markdown(name)}**", "", *lines]))


def offer(jobs: Sequence[Job], key: Callable[..., str]) -> None:
    """Offer to measure maps on held-out rows where that was not done, and follow it once asked for.

    Args:
        jobs: the runs of the maps.
        key: makes the page's keys of widgets from their parts.
    """
    measured = {job.id: services.measured(job) for job in jobs}
    unscored = [job for job in jobs if measured[job.id].unscored]
    what = "this map" if len(jobs) == 1 else count(len(unscored), "map")
    if unscored and st.button(
        f"Measure {what} on held-out rows",
        key=key("score"),
        help="Fits the model anew to 80 % of the rows and measures it on the others, intervals and "
        "probabilities included: about as long as the fit took.",
    ):
        for job in unscored:
            services.start_score(job)
        st.rerun()
    if any(one.under_way for one in measured.values()):
        st.fragment(_wait, run_every=_EVERY_SECONDS)([job.id for job in jobs], key("under way"))


def _wait(runs: Sequence[str], key: str) -> None:
    """Follow what is still being measured, and draw the page anew as soon as one is done."""
    jobs = [job for job in map(services.job, runs) if job is not None]
    under_way = sum(services.measured(job).under_way for job in jobs)
    seen = state.value(key)
    state.set_value(key, under_way)
    if under_way == 0 or (seen is not None and under_way < seen):
        st.rerun()
    st.caption(f"{count(under_way, 'map')} being measured.")
