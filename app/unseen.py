"""A second file on the Predict page: its rows checked, predicted, and handed out."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app import checking, downloads, intake, making, services, state
from app.predictions import Fit
from app.words import count, markdown, number
from lvmcore.errors import LatentboardError
from lvmcore.results import FitStep
from lvmcore.runs import Job

__all__ = ["show"]

_SHOWN = 200


def show(fit: Fit) -> None:
    """Draw the way to predict the rows of a second file, and what came of it.

    Args:
        fit: the run.
    """
    st.header("Predict another file")
    key = fit.key("upload")
    st.file_uploader(
        intake.FORMATS,
        type=intake.TYPES,
        key=key,
        on_change=checking.uploaded,
        args=(fit.job.id, key),
        help="A table with the columns of the fit, in any of these formats.",
    )
    given, asked = state.new_table(), _asked(fit)
    read = partial(checking.read, fit.job.id)
    if asked is not None:
        making.show(asked, _MAKING)
        if asked.status == "done":
            _done(fit, asked)
    elif given is None:
        st.caption(
            "It needs the columns that the model was fitted to, by name and in any order; others "
            "are not used. Where it has the target, the predictions are measured on it."
        )
    elif given.problem is not None:
        st.error(markdown(given.problem))
        if intake.has_choices(given.upload, None):
            with st.expander("Read it in another way", expanded=True):
                intake.form(given.upload, None, current=given.reading, take=read)
    else:
        checking.show(_use(fit), given, read)


def _use(fit: Fit) -> checking.Use:
    return checking.Use(
        page="predict",
        run=fit.job.id,
        model=fit.model.title,
        labels=(),
        compares=False,
        does="Predict",
        means="Predicts every row that has the columns of the fit.",
        start=services.start_predicting,
    )


def _asked(fit: Fit) -> Job | None:
    """What predicts another file by this model, or has done so; None where there is nothing."""
    asked = state.placing(fit.job.id)
    found = services.job(asked)
    if asked is not None and found is None:
        st.warning("The predictions in the address are not there. They may have been deleted.")
    if found is None or found.spec.run != fit.job.id:
        state.set_placing(fit.job.id, None)
        return None
    state.set_placing(fit.job.id, found.id)
    return found


def _done(fit: Fit, job: Job) -> None:
    """The predictions: the first of them, figures where the file has the target, the file."""
    try:
        frame = services.predicted(job.id)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    there = services.count_predicted(frame)
    st.markdown(f"**{markdown(job.spec.dataset_name)}: {count(there, 'row')} predicted**")
    for metric in job.metrics.values():
        st.markdown(
            f"{markdown(metric.label)}: **{number(metric.value)}**. {markdown(metric.protocol)}"
        )
    st.dataframe(
        frame.head(_SHOWN),
        hide_index=True,
        height=260,
        placeholder="–",
        key=fit.key("predicted rows", job.id),
        alt="Predictions of the second file",
    )
    if len(frame) > _SHOWN:
        st.caption(f"The first {_SHOWN} of {count(len(frame), 'row')}; the file has all.")
    about = (
        "Row id, mean, sd, and the ends of the 90 % interval."
        if fit.number
        else "Row id, predicted class, and the probability of each."
    )
    with st.container(horizontal=True):
        downloads.offer(
            "Predictions",
            f"{fit.target} predicted",
            csv=partial(services.predictions_csv, job.id),
            parquet=partial(services.predictions_parquet, job.id),
            about=about,
            key=lambda ending: fit.key("other", job.id, ending),
        )
        st.button(
            "Predict another file",
            key=fit.key(job.id, "again"),
            on_click=_again,
            args=(fit.job.id,),
            help="Lets go of these predictions here; the run that made them stays.",
        )
    for note in job.notes:
        st.caption(markdown(note))


def _again(run: str) -> None:
    state.set_new_table(None)
    state.set_placing(run, None)


# ---- under way -------------------------------------------------------------------------------


def _back(job: Job) -> None:
    if state.new_table() is not None:
        st.button(
            "Back to the columns",
            key=state.widget("predict", job.id, "back"),
            on_click=state.set_placing,
            args=(job.spec.run, None),
            help="Shows again how the table's columns match those of the fit.",
        )


def _stand(job: Job, step: FitStep | None) -> str:
    if job.status == "queued":
        return "Queued: the rows are predicted as soon as it is their turn."
    if step is None:
        return "Predicting the rows."
    return f"{count(step.iteration, 'row')} of {step.total} predicted."


_MAKING = making.Making(
    page="predict",
    doing="Predicting the rows",
    stand=_stand,
    mark=lambda job: job.status,
    otherwise=_back,
)
