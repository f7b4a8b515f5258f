"""The charts of a run on the Fit page: bound, terms, held-out rows, map and kernel weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import streamlit as st

from app.components.class_colours import choose_class_style
from app.figures import live_charts, snapshot_charts
from app.services import fitted_maps, model_cards
from app.services.progress import Progress
from app.state.session import session
from app.state.widgets import widget_key, widget_value
from lvmcore.runs import Job

if TYPE_CHECKING:
    from lvmcore.results import FitStep, Snapshot

__all__ = ["run_charts"]

#: Heights of the charts in pixels: with the line above them they fit in a window of 800 pixels.
_BOUND_HEIGHT, _TERMS_HEIGHT = 228, 252
_MAP_HEIGHT, _WEIGHTS_HEIGHT = 292, 188
_SINGLE_HEIGHT = 480
_NO_CURVE = "This method has no curve. Its map appears here when the fit has finished."


def run_charts(job: Job, run_progress: Progress) -> None:
    """Draw the bound and its terms, beside them the map and the kernel weights.

    Args:
        job: the run.
        run_progress: its steps so far.
    """
    if run_progress.steps and run_progress.steps[-1].total == 1:
        st.caption("Computed in a single step, so there is no curve.")
        return
    start = _shown_restart(job, run_progress)
    run_progress = run_progress.of_start(start)
    if not _reports_steps(job) and not live_charts.steps_shown(run_progress.steps, None):
        if not job.finished:
            st.caption(_NO_CURVE)
        return
    charts = st.container()
    steps = live_charts.steps_shown(run_progress.steps, _window(job, run_progress))
    if not steps:
        if not job.finished:
            st.caption("The curves appear after the first step.")
        return
    with charts:
        if steps[-1].starts > 1 and job.has_model:
            st.caption(f"Restart {start} of {steps[-1].starts}, which was kept.")
        key, dark = widget_key("fit", job.id), session.is_dark
        if math.isnan(steps[-1].objective):
            _single_term(job, run_progress, steps, key, dark)
        else:
            _bound_and_map(job, run_progress, steps, key, dark)


def _bound_and_map(
    job: Job, run_progress: Progress, steps: list[FitStep], key: str, dark: bool
) -> None:
    """The bound above its terms; the map above its weights, or the held-out rows of a target."""
    left, right = st.columns(2, gap="medium")
    with left, st.container(gap="xsmall"):
        st.markdown("**Bound**")
        st.echarts_chart(
            live_charts.bound_chart(steps, dark=dark),
            height=_BOUND_HEIGHT,
            key=f"{key}:bound",
            alt="The bound at each step of the fit",
        )
        st.markdown("**Its terms**")
        st.echarts_chart(
            live_charts.terms_chart(steps, dark=dark),
            height=_TERMS_HEIGHT,
            key=f"{key}:terms",
            alt="The terms of the bound at each step",
        )
    with right, st.container(gap="xsmall"):
        if job.spec.target:
            _held_out(steps, key, dark)
        elif run_progress.snapshot is not None:
            _map(job, run_progress.snapshot, key, dark, _MAP_HEIGHT)
            st.markdown("**Kernel weights of the dimensions**")
            st.echarts_chart(
                snapshot_charts.kernel_weight_chart(run_progress.snapshot, dark=dark),
                height=_WEIGHTS_HEIGHT,
                key=f"{key}:kernel weights",
                alt="Share of the kernel weights of each latent dimension",
            )


def _held_out(steps: list[FitStep], key: str, dark: bool) -> None:
    """Negative log density of held-out rows during the fit."""
    if not any(math.isfinite(step.held_out) for step in steps):
        return
    st.markdown("**Held-out rows**")
    st.echarts_chart(
        live_charts.held_out_chart(steps, dark=dark),
        height=_MAP_HEIGHT,
        key=f"{key}:held out",
        alt="Mean negative log density of held-out rows at each step",
    )
    st.markdown(
        "Mean negative log density of the target of held-out rows, by a few draws: **lower is "
        "better**. An increasing curve is a sign of overfitting."
    )
    st.caption(
        "These are the held-out rows, which the fit does not use for stopping; or the validation "
        "rows for early stopping, if its settings give a share."
    )


def _shown_restart(job: Job, run_progress: Progress) -> int:
    """The restart to show: the one that was kept, or else the current one."""
    last = run_progress.steps[-1].start if run_progress.steps else 1
    return fitted_maps.selected_start(job.id) if job.has_model and last > 1 else last


def _reports_steps(job: Job) -> bool:
    return all(card.tells_steps for card in model_cards.cards() if card.key == job.spec.model)


def _draws(job: Job) -> bool:
    of_targets = (card for card in model_cards.target_cards() if card.key == job.spec.model)
    return any(card.draws for card in model_cards.cards() if card.key == job.spec.model) or any(
        card.model.capabilities.chains for card in of_targets
    )


def _single_term(
    job: Job, run_progress: Progress, steps: list[FitStep], key: str, dark: bool
) -> None:
    """The objective of a method without a bound or the likelihood of draws, and the map."""
    title = "Log likelihood of the draws" if _draws(job) else "Objective of the fit"
    left, right = st.columns(2, gap="medium")
    with left, st.container(gap="xsmall"):
        st.markdown(f"**{title}**")
        st.echarts_chart(
            live_charts.term_chart(steps, dark=dark),
            height=_SINGLE_HEIGHT,
            key=f"{key}:divergence",
            alt=f"{title} at each step",
        )
    if run_progress.snapshot is not None and not job.spec.target:
        with right, st.container(gap="xsmall"):
            _map(job, run_progress.snapshot, key, dark, _SINGLE_HEIGHT)


def _map(job: Job, snapshot: Snapshot, key: str, dark: bool, height: int) -> None:
    st.markdown("**Map**" if job.finished else "**Map so far**")
    classes = choose_class_style(job.id, key=f"{key}:label")
    st.echarts_chart(
        snapshot_charts.map_chart(snapshot, classes, dark=dark),
        height=height,
        key=f"{key}:map",
        alt="Latent means of the rows on the two most relevant dimensions",
    )


def _window(job: Job, run_progress: Progress) -> tuple[int, int] | None:
    """The range of steps to show. A zoom inside the chart would end at its next update."""
    if not run_progress.steps:
        return None
    last = run_progress.steps[-1]
    first = 1 if last.starts == 1 else run_progress.steps[0].iteration
    most = first + last.total // last.starts - 1
    key = widget_key("fit", job.id, "window", *([last.start] if last.starts > 1 else []))
    value = (first, most)
    if job.finished and first < last.iteration < most:  # it converged: the range ends there
        most = last.iteration
        low, high = widget_value(key) or value
        value = (min(low, most - 1), min(high, most))
        key = f"{key}:ended"
    low, high = st.slider(
        "Steps shown",
        min_value=first,
        max_value=most,
        value=value,
        key=key,
        help="Range of the curves.",
        persist_state="session",
    )
    return low, high
