"""Learning curves of fits: the form that starts them, their progress, and the figure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import streamlit as st

from app.components.derived_run import DerivedRun, derived_run_panel
from app.figures.learning_curve import learning_curve_figure
from app.formatting import count, markdown
from app.services import scores, server
from app.state.session import session
from lvmcore.errors import ConfigError, LatentboardError
from lvmcore.evaluation.learning_curves import (
    SECONDS,
    LearningCurve,
    check_design,
    proposed_sizes,
)
from lvmcore.results import FitStep
from lvmcore.runs import Job, JobSpec

__all__ = ["has_learning_curve", "learning_curve_chart", "learning_curves_panel"]

Key = Callable[..., str]

_REPEATS, _MOST_REPEATS = 3, 20
_HEIGHT = 340
_ABOUT = (
    "How good the model is when it learns from fewer rows, and whether more rows would help. Each "
    "fit has a random sample of the rows that are not held out, those of a smaller fit among those "
    "of a larger one, with the settings of this fit."
)


def has_learning_curve(spec: JobSpec) -> bool:
    """Whether a fit predicts labels or a target of new rows, so that it can have a learning curve.

    Args:
        spec: the fit.
    """
    try:
        scores.learning_curve_spec(spec, (5, 6), 1)
    except LatentboardError:
        return False
    return True


def learning_curves_panel(fits: Sequence[tuple[str, Job]], *, page: str, key: Key) -> None:
    """Draw the learning curves of fits in one figure, and the form for those without one.

    Args:
        fits: title and run of each fit, which ``has_learning_curve``.
        page: page of the widget keys.
        key: makes widget keys from their parts.
    """
    found = {title: scores.learning_curve_job(job.spec) for title, job in fits}
    missing = [(title, job) for title, job in fits if found[title] is None]
    if missing:
        _form(missing, key)
    known = {title: job for title, job in found.items() if job is not None}
    for title, job in known.items():
        derived_run_panel(job, _view(page, title if len(fits) > 1 else ""))
    try:
        curves = {title: scores.learning_curve(job.id) for title, job in known.items()}
    except LatentboardError as error:
        st.error(markdown(error))
        return
    learning_curve_chart(curves, key=key)
    if known and not missing and all(job.finished for job in known.values()):
        with st.popover("Other sizes", help="Starts learning curves of other numbers of rows."):
            _form(fits, lambda *parts: key("again", *parts))


def learning_curve_chart(curves: Mapping[str, LearningCurve], *, key: Key, first: str = "") -> None:
    """Draw learning curves in one figure, with the choice of the score.

    Args:
        curves: the curves by the name of the model.
        key: makes widget keys from their parts.
        first: key of the score that is drawn before a choice; "" for the first.
    """
    begun = {title: curve for title, curve in curves.items() if curve.points}
    if not begun:
        return
    labels = {**(next(iter(begun.values())).labels or {}), SECONDS: "seconds of a fit"}
    chosen = st.segmented_control(
        "Score",
        list(labels),
        default=first or next(iter(labels)),
        format_func=labels.__getitem__,
        required=True,
        key=key("score"),
        label_visibility="collapsed",
        help="The score of held-out rows on the vertical axis.",
    )
    st.plotly_chart(
        learning_curve_figure(begun, chosen, labels[chosen], dark=session.is_dark, height=_HEIGHT),
        theme=None,
        key=key("curves"),
        alt=f"{labels[chosen]} of held-out rows over the number of rows of the fit",
    )
    fits = sum(len(curve.points) for curve in begun.values())
    errors = [point.error for curve in begun.values() for point in curve.points if point.error]
    st.caption(
        f"Lines are means over the repeats, bands one sd to each side. {count(fits, 'fit')}. "
        f"{markdown(next(iter(begun.values())).protocol)}"
    )
    if errors:
        st.caption(f"{len(errors)} fits were not possible, such as: {markdown(errors[0])}")


def _form(fits: Sequence[tuple[str, Job]], key: Key) -> None:
    """The sizes and repeats of learning curves, and the button that starts them."""
    st.markdown(_ABOUT)
    left, middle, right = st.columns([3, 1, 1], vertical_alignment="bottom")
    try:
        rows = min(scores.rows_to_learn_from(job.id, 1) for _, job in fits)
        proposed = ", ".join(map(str, proposed_sizes(rows)))
    except LatentboardError as error:
        st.caption(markdown(error))
        return
    text = left.text_input(
        f"Rows of the fits, at most {rows}",
        proposed,
        key=key("sizes"),
        help="Increasing numbers of rows, separated by commas.",
    )
    repeats = middle.number_input(
        "Repeats",
        1,
        _MOST_REPEATS,
        _REPEATS,
        key=key("repeats"),
        help="Fits for each number of rows, each with other rows and another seed.",
    )
    pressed = right.button(
        "Start",
        type="primary",
        key=key("start"),
        disabled=not server.store().writable,
        width="stretch",
        help="Fits the model to each number of rows; it can be stopped and resumed.",
    )
    if not pressed:
        return
    try:
        sizes = _sizes(text)
        check_design(sizes, int(repeats))
        for _, job in fits:
            scores.start_learning_curve(scores.learning_curve_spec(job.spec, sizes, int(repeats)))
    except LatentboardError as error:
        st.error(markdown(error))
    else:
        st.rerun()


def _sizes(text: str) -> tuple[int, ...]:
    """Numbers of rows from a text.

    Raises:
        ConfigError: a part is no whole number.
    """
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigError(
            f"{text!r} cannot be read: expected whole numbers separated by commas, such as "
            "20, 50, 100."
        ) from None


def _view(page: str, title: str) -> DerivedRun:
    """How the progress of a learning curve is presented."""
    named = f"{title}: " if title else ""

    def progress_text(job: Job, step: FitStep | None) -> str:
        if job.status == "queued":
            return f"{named}waiting for other fits."
        fits = len(job.spec.sizes) * job.spec.repeats
        done = 0 if step is None else step.iteration
        return f"{named}{done} of {count(fits, 'fit')} done."

    def state(job: Job) -> Hashable:
        return job.status, len(scores.learning_curve(job.id).points)

    return DerivedRun(
        page=page,
        activity="The learning curve",
        progress_text=progress_text,
        state=state,
        alternatives=lambda _: None,
    )
