"""What a page about a run says when there is no run, or one without a model."""

from __future__ import annotations

import streamlit as st

from app import navigation, services, state
from app.words import markdown
from lvmcore.runs import Job

__all__ = ["fit_the_sample", "gone", "waiting"]


def gone() -> None:
    """Say that the run in the address is not there, where there is one."""
    if state.run_id() is not None:
        st.warning("The run in the address is not there. It may have been deleted.")


def fit_the_sample(page: str) -> None:
    """One way to get a run: a fit of the first sample.

    Args:
        page: what its widgets belong to.
    """
    if st.button(
        "Fit the sample",
        type="primary",
        key=state.widget(page, "sample"),
        help="Fits the recommended model to the bundled sample wine, and shows it forming.",
    ):
        state.open_run(services.fit_sample(), follow=True)
        navigation.go("fit")


def waiting(job: Job, later: str) -> None:
    """A run without a model: not yet, or never.

    Args:
        job: the run.
        later: what will be here when the fit has ended, a sentence.
    """
    if job.finished:
        st.info(markdown(job.message or f"This run is {job.status} and left no model."))
    else:
        st.info(f"This run is still being fitted. {later}")
    navigation.link("Go to the fit", "fit", key="fit")
