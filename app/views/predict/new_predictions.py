"""Predictions of the rows of another file: upload, check, and download."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app.components import table_upload
from app.components.derived_run import DerivedRun, derived_run_panel, files_note
from app.components.download_buttons import table_downloads
from app.components.new_table_checks import (
    NewTableUse,
    handle_new_upload,
    new_table_panel,
    read_new_table,
)
from app.formatting import count, markdown, number, shortened
from app.services import prediction, runs
from app.state.session import session
from app.state.widgets import widget_key
from app.views.predict.prediction_charts import PredictionRun
from lvmcore.errors import LatentboardError
from lvmcore.results import FitStep
from lvmcore.runs import Job

__all__ = ["new_predictions_panel"]

_SHOWN = 200


def new_predictions_panel(fit: PredictionRun) -> None:
    """Draw the upload of another file, and the predictions of its rows.

    Args:
        fit: the run.
    """
    st.header("Predict another file")
    key = fit.key("upload")
    st.file_uploader(
        table_upload.FORMATS,
        type=table_upload.TYPES,
        key=key,
        on_change=handle_new_upload,
        args=(fit.job.id, key),
        help="A table with the columns of the fit, in any of these formats.",
    )
    table_upload.choose_files("predict", partial(read_new_table, fit.job.id))
    given, job = session.new_table, _prediction_job(fit)
    read = partial(read_new_table, fit.job.id)
    if job is not None:
        derived_run_panel(job, _PREDICTION)
        if job.status == "done":
            files_note(job)
            _predictions(fit, job)
    elif given is None:
        st.caption(
            "The file needs the columns of the fit, by name and in any order; other columns are "
            "not used. If it has the target, the predictions are scored."
        )
    elif given.problem is not None:
        st.error(markdown(given.problem))
        if table_upload.has_reading_choices(given.upload, None):
            with st.expander("Change how it is read", expanded=True):
                table_upload.reading_form(given.upload, None, current=given.reading, on_submit=read)
    else:
        new_table_panel(_use(fit), given, read)


def _use(fit: PredictionRun) -> NewTableUse:
    return NewTableUse(
        page="predict",
        run=fit.job.id,
        model=fit.model.title,
        labels=(),
        compares_labels=False,
        action="Predict",
        action_help="Predicts every row that has the columns of the fit.",
        start=prediction.start_prediction,
    )


def _prediction_job(fit: PredictionRun) -> Job | None:
    """The job that predicts another file by this model; None without one."""
    asked = session.placement[fit.job.id]
    found = runs.job(asked)
    if asked is not None and found is None:
        st.warning("The predictions in the address do not exist. They may have been deleted.")
    if found is None or found.spec.run != fit.job.id:
        session.placement[fit.job.id] = None
        return None
    session.placement[fit.job.id] = found.id
    return found


def _predictions(fit: PredictionRun, job: Job) -> None:
    """The first predictions, their scores if the file has the target, and the downloads."""
    try:
        frame = prediction.predictions(job.id)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    predicted = prediction.count_predicted(frame)
    st.markdown(f"**{markdown(job.spec.dataset_name)}: {count(predicted, 'row')} predicted**")
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
        alt="Predictions of the other file",
    )
    if len(frame) > _SHOWN:
        st.caption(f"The first {_SHOWN} of {count(len(frame), 'row')}; the file has all.")
    about = (
        "Row id, mean, sd, and the ends of the 90 % interval."
        if fit.number
        else "Row id, predicted class, and the probability of each."
    )
    with st.container(horizontal=True):
        table_downloads(
            "Predictions",
            f"{shortened(fit.target)} predicted",
            csv=partial(prediction.predictions_csv, job.id),
            parquet=partial(prediction.predictions_parquet, job.id),
            about=about,
            key=lambda ending: fit.key("other", job.id, ending),
        )
        st.button(
            "Predict another file",
            key=fit.key(job.id, "again"),
            on_click=_close,
            args=(fit.job.id,),
            help="Closes these predictions; the run that made them is kept.",
        )
    for note in job.notes:
        st.caption(markdown(note))


def _close(run: str) -> None:
    session.new_table = None
    session.placement[run] = None


def _back_button(job: Job) -> None:
    if session.new_table is not None:
        st.button(
            "Back to the columns",
            key=widget_key("predict", job.id, "back"),
            on_click=session.placement.set,
            args=(job.spec.run, None),
            help="Shows how the columns of the table match those of the fit.",
        )


def _progress_text(job: Job, step: FitStep | None) -> str:
    if job.status == "queued":
        return "Queued."
    if step is None:
        return "Predicting the rows."
    return f"{count(step.iteration, 'row')} of {step.total} predicted."


_PREDICTION = DerivedRun(
    page="predict",
    activity="Predicting the rows",
    progress_text=_progress_text,
    state=lambda job: job.status,
    alternatives=_back_button,
)
