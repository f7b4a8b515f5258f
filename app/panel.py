"""A run on the Fit page: its curves while it is under way, and how it ended."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import streamlit as st

from app import by_label, live, navigation, rising, services, state
from app.making import refused, stop, stopping
from app.services import Progress
from app.words import duration, markdown, number, size
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job
from lvmcore.runs.capacity import available_memory

if TYPE_CHECKING:
    from lvmcore.results import FitStep, Snapshot

__all__ = ["show"]

_EVERY_SECONDS = 0.5
_HEIGHT = 268

_NO_STEPS = "This method tells of no steps while it runs. Its map is here when it is done."

#: What to do after a run that ended without a usable map.
ADVICE = {
    "ConfigError": "Change the setting below and fit again.",
    "DataError": "Look at the Data page: which rows, columns or labels are used?",
    "MemoryError": "Use fewer rows, columns or inducing points, and fit again.",
    "NumericalError": "Fit again with another seed, or fewer latent dimensions.",
}


def show(job: Job) -> None:
    """Draw a run, and follow it until it ends.

    Args:
        job: the run as it stands.
    """
    every = None if job.finished else _EVERY_SECONDS
    st.fragment(_panel, run_every=every)(job.id, job.status)


def _panel(run: str, drawn: str) -> None:
    job = services.job(run)
    if job is None:
        st.warning("This run is no longer there. It may have been deleted in another window.")
        return
    if job.status != drawn:  # so that the rest of the page says so too, and polling ends
        st.rerun()
    seen = services.progress(run)
    _head(job, seen)
    if job.status != "queued" or seen.steps:  # a resumed run keeps its curves while it waits
        _charts(job, seen)


def _head(job: Job, seen: Progress) -> None:
    """One row: what is running, how far it is, and the one thing to do about it."""
    problem = state.widget("fit", job.id, "cancel problem")
    words, action = st.columns([5, 1], vertical_alignment="center")
    with words:
        st.markdown(f"**{markdown(job.name)}** &nbsp; {markdown(_where(job, seen))}")
        if not job.finished:
            st.progress(_share(seen))
    with action:
        if not job.finished:
            st.button(
                "Cancel",
                key=state.widget("fit", job.id, "cancel"),
                on_click=stop,
                args=([job.id], problem),
                disabled=stopping(job),
                width="stretch",
                help="Stops the fit at its next step; what was fitted until then is kept.",
            )
        elif job.has_model and job.spec.target:
            navigation.link("See the predictions", "predict", key="explore", stretch=True)
        elif job.has_model:
            navigation.link("Explore the map", "latent", key="explore", stretch=True)
    if job.finished:
        _outcome(job)
    else:
        refused(problem)


def _resume(run: str) -> None:
    try:
        services.resume(run)
    except LatentboardError as error:
        state.set_problem(str(error))
    else:
        state.set_problem(None)


def _where(job: Job, seen: Progress) -> str:
    """Where a run stands: step, elapsed and remaining time, or its place in the queue."""
    if job.status == "queued":
        return _waiting(job)
    if job.finished:
        return f"{job.status} in {duration(job.seconds)}"
    if stopping(job):
        return "stopping after this step"
    if not seen.steps:
        return f"{'fitting' if job.stage == 'fitting' else 'preparing'} · {duration(job.seconds)}"
    step = seen.steps[-1]
    left = step.seconds / step.iteration * (step.total - step.iteration)
    start = f"start {step.start} of {step.starts} · " if step.starts > 1 else ""
    return (
        f"{start}step {step.iteration} of at most {step.total} · {duration(step.seconds)} · "
        f"at most {duration(left)} left"
    )


def _waiting(job: Job) -> str:
    """What a queued run waits for."""
    place = job.queue_place or 1
    if place > 1:
        return f"queued: place {place}"
    if not any(other.status == "running" for other in services.store().list(None)):
        return "queued: it is being started"
    if job.memory is not None and job.memory > available_memory():
        return f"queued: it starts when {size(job.memory)} of memory are free"
    return "queued: it starts as soon as a run before it ends"


def _share(seen: Progress) -> float:
    if not seen.steps:
        return 0.0
    return min(1.0, seen.steps[-1].iteration / max(1, seen.steps[-1].total))


def _outcome(job: Job) -> None:
    """How a run ended, what that means, and what to do."""
    if job.status in ("failed", "interrupted") or not job.has_model:
        text = job.message or "It stopped before there was anything to keep."
        other = "Resume it, or fit again below." if job.resumable else "Fit again below."
        advice = ADVICE.get(job.error or "", other)
        draw = st.error if job.status == "failed" else st.warning
        draw(f"{markdown(text)} {advice}")
    if job.has_model:
        _reached(job)
    if job.resumable:
        _offer_resume(job)


def _offer_resume(job: Job) -> None:
    """The button that lets a stopped run go on, and what it will do."""
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            "Resume",
            key=state.widget("fit", job.id, "resume"),
            on_click=_resume,
            args=(job.id,),
            width=120,
            help="Puts the run back in the queue.",
        )
        if pressed:  # so that what kept it from being resumed is said, outside this part
            st.rerun()
        if job.checkpoint_step is None:
            words = "Starts from the beginning: it stopped before its first checkpoint."
        else:
            words = (
                f"Goes on after step {job.checkpoint_step}, its last checkpoint, and ends as if it "
                "had not been stopped."
            )
        st.caption(words, width="stretch")


def _reached(job: Job) -> None:
    """What a run with a map has reached."""
    bound = "" if job.elbo is None else f"Bound (ELBO) {number(job.elbo, 6)} nats. "
    if job.status == "cancelled":
        kept = "The model" if job.spec.target else "The map"
        st.info(f"{bound}Stopped on request. {kept} as it stood then can be explored.")
    elif job.still_rising:
        rising.show(job, bound)
    elif job.status == "done":
        # Where rows that it sets aside end a fit, the bound may still have been rising.
        by_rows = job.spec.parameters.get("validation")
        how = "The fit" if by_rows else "It has stopped rising: the fit"
        st.success(f"{bound}{how} has converged." if bound else "Fitted.")
    for note in job.notes:
        st.caption(markdown(note))


def _charts(job: Job, seen: Progress) -> None:
    """The bound and its terms above, the map and the relevance forming below."""
    if seen.steps and seen.steps[-1].total == 1:
        st.caption("Computed in one go: there is no curve to follow.")
        return
    start = _start(job, seen)
    seen = seen.of_start(start)
    steps = live.steps_shown(seen.steps, _window(job, seen))
    if not steps:
        if not job.finished:
            st.caption(
                _NO_STEPS if not _tells_steps(job) else "The curves begin with the first step."
            )
        return
    if steps[-1].starts > 1 and job.has_model:
        st.caption(f"Shown is start {start} of {steps[-1].starts}, the one that was kept.")
    key, dark = state.widget("fit", job.id), state.dark()
    if math.isnan(steps[-1].objective):
        _without_bound(job, seen, steps, key, dark)
        return
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**Bound**")
        st.echarts_chart(
            live.bound_chart(steps, dark=dark),
            height=_HEIGHT,
            key=f"{key}:bound",
            alt="The bound at each step of the fit",
        )
    with right:
        st.markdown("**Its terms**")
        st.echarts_chart(
            live.terms_chart(steps, dark=dark),
            height=_HEIGHT,
            key=f"{key}:terms",
            alt="The parts that the bound is the sum of, at each step",
        )
    if job.spec.target:
        _held_out(steps, key, dark)
    elif seen.snapshot is not None:
        _snapshot(job, seen.snapshot, key, dark)


def _held_out(steps: list[FitStep], key: str, dark: bool) -> None:
    """How well rows that the fit does not see are predicted, as it goes on."""
    if not any(math.isfinite(step.held_out) for step in steps):
        return
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**Rows that the fit does not see**")
        st.echarts_chart(
            live.held_out_chart(steps, dark=dark),
            height=_HEIGHT,
            key=f"{key}:held out",
            alt="Mean negative log density of rows that the fit does not see, at each step",
        )
    with right, st.container(height=_HEIGHT + 44, border=False, vertical_alignment="center"):
        st.markdown(
            "How unlikely the model finds the target of rows it has not learned from, by a few "
            "draws: **lower is better**. A curve that turns up says that the fit has begun to "
            "learn its own rows by heart."
        )
        st.caption(
            "They are the rows held out, which the fit does not stop by; or those that it sets "
            "aside to stop by, where its settings give a share."
        )


def _start(job: Job, seen: Progress) -> int:
    """Which start's curves to show: the one that was kept, or else the one under way."""
    last = seen.steps[-1].start if seen.steps else 1
    return services.kept_start(job.id) if job.has_model and last > 1 else last


def _tells_steps(job: Job) -> bool:
    return all(card.tells_steps for card in services.cards() if card.key == job.spec.model)


def _draws(job: Job) -> bool:
    of_targets = (card for card in services.target_cards() if card.key == job.spec.model)
    return any(card.draws for card in services.cards() if card.key == job.spec.model) or any(
        card.model.capabilities.chains for card in of_targets
    )


def _without_bound(job: Job, seen: Progress, steps: list[FitStep], key: str, dark: bool) -> None:
    """A method without a bound: what it goes by, or draws; of a map, how it forms beside it."""
    shown = "How likely the draws make the data" if _draws(job) else "What the fit goes by"
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(f"**{shown}**")
        st.echarts_chart(
            live.term_chart(steps, dark=dark),
            height=_HEIGHT + 60,
            key=f"{key}:divergence",
            alt=f"{shown}, at each step",
        )
    if seen.snapshot is not None and not job.spec.target:
        with right:
            _forming(job, seen.snapshot, key, dark)


def _snapshot(job: Job, snapshot: Snapshot, key: str, dark: bool) -> None:
    left, right = st.columns(2, gap="medium")
    with left:
        _forming(job, snapshot, key, dark)
    with right:
        st.markdown("**Relevance of the dimensions**")
        st.echarts_chart(
            live.relevance_chart(snapshot, dark=dark),
            height=_HEIGHT + 60,
            key=f"{key}:relevance",
            alt="Share of relevance of each latent dimension",
        )


def _forming(job: Job, snapshot: Snapshot, key: str, dark: bool) -> None:
    st.markdown("**Map**" if job.finished else "**Map forming**")
    st.echarts_chart(
        live.map_chart(snapshot, by_label.classes(job.id, key=f"{key}:label"), dark=dark),
        height=_HEIGHT + 60,
        key=f"{key}:map",
        alt="Latent means of the rows on the two most relevant dimensions",
    )


def _window(job: Job, seen: Progress) -> tuple[int, int] | None:
    """The steps to show. Kept by the server: a zoom inside the chart ends with its next point."""
    if not seen.steps:
        return None
    last = seen.steps[-1]
    first = 1 if last.starts == 1 else seen.steps[0].iteration
    most = first + last.total // last.starts - 1
    low, high = st.slider(
        "Steps shown",
        min_value=first,
        max_value=most,
        value=(first, most),
        key=state.widget("fit", job.id, "window", *([last.start] if last.starts > 1 else [])),
        help="Narrow it to see a part of the curves closely.",
        persist_state="session",
    )
    return low, high
