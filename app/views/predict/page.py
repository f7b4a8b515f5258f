"""Predict: predictions of a target, their scores and calibration, and predictions of new rows."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from app import navigation
from app.analysis.tables.prediction_curves import has_components, series_column
from app.components.download_buttons import gpytorch_download, table_downloads
from app.components.learning_curves import learning_curves_panel
from app.components.page_opening import PageOpening, open_run
from app.formatting import count, duration, markdown, number, shortened
from app.services import prediction
from app.views.predict.baseline_scores import baseline_scores_panel, baseline_verdict
from app.views.predict.column_prediction import column_prediction_panel
from app.views.predict.hidden_layers import hidden_layer_map
from app.views.predict.kernel_components import components_panel, forecast_panel
from app.views.predict.new_predictions import new_predictions_panel
from app.views.predict.prediction_charts import (
    PredictionRun,
    calibration_panel,
    predicted_against_true,
)
from app.views.predict.prediction_surface import input_relevance_panel, prediction_slice_panel
from lvmcore.errors import LatentboardError
from lvmcore.metrics.metric import Metric
from lvmcore.runs import Job
from lvmcore.runs.convergence import convergence_verdict

if TYPE_CHECKING:
    import pandas as pd

_FORECAST, _COMPONENTS, _BASELINES = "Forecast", "Components", "Baselines"
_RELEVANCE, _CALIBRATION, _CURVE, _SLICE = "Relevance", "Calibration", "Curve", "Slice"
_LEARNING = "Learning curve"
_NEED_PREDICTIONS = (_BASELINES, _CALIBRATION)
_CARDS = ("nlpp", "rmse", "mae", "r2", "coverage_90")
_CLASS_CARDS = ("accuracy", "macro_f1", "log_loss", "auc", "calibration_error")


_OPENING = PageOpening(
    page="predict",
    introduction=(
        "After a fit to a target this page shows the predictions of held-out rows against the true "
        "values, whether a simpler model predicts them better, whether intervals or probabilities "
        "are calibrated, which columns are relevant, and the hidden layers of the model. It also "
        "predicts the rows of another file. Choose the target on the Fit page."
    ),
    pending="The predictions appear here when the fit has finished.",
    first_step=partial(navigation.link, "Choose a column to predict", "fit", key="fit"),
    predicts=True,
)


def page() -> None:
    """Draw the page."""
    job = open_run(_OPENING)
    if job is not None:
        _explore(job)


def _explore(job: Job) -> None:
    try:
        fit = PredictionRun(job, prediction.predictor(job.id), prediction.training_rows(job.id))
    except LatentboardError as error:
        st.error(markdown(error))
        return
    st.markdown(_facts(fit))
    try:
        frame = prediction.predictions(job.id)
    except LatentboardError:
        _missing_predictions(job)
        _details(fit, None)
    else:
        _verdict(job)
        _scores(job)
        left, right = st.columns(2, gap="medium")
        with left:
            predicted_against_true(fit, frame)
        with right:
            _details(fit, frame)
        _export(fit)
        hidden_layer_map(fit, frame)
    st.divider()
    new_predictions_panel(fit)
    for note in job.notes:
        st.caption(markdown(note))


def _verdict(job: Job) -> None:
    """The best method on the held-out rows; a damaged file is reported in the tab."""
    with suppress(LatentboardError):
        baseline_verdict(prediction.comparison(job.id))


def _details(fit: PredictionRun, frame: pd.DataFrame | None) -> None:
    """What there is on the model in tabs; without a frame what needs no predictions of the rows."""
    names = [name for name in _tab_names(fit) if frame is not None or name not in _NEED_PREDICTIONS]
    tabs = dict(zip(names, st.tabs(names), strict=True))
    for name, panel in _PANELS.items():
        if name in tabs:
            with tabs[name]:
                panel(fit)
    if frame is not None:
        with tabs[_BASELINES]:
            baseline_scores_panel(fit)
        with tabs[_CALIBRATION]:
            calibration_panel(fit, frame)


def _learning_curve(fit: PredictionRun) -> None:
    """The scores of fits to fewer rows."""
    learning_curves_panel(
        [(fit.model.title, fit.job)], page="predict", key=partial(fit.key, "learning curve")
    )


_PANELS = {
    _FORECAST: forecast_panel,
    _COMPONENTS: components_panel,
    _RELEVANCE: input_relevance_panel,
    _CURVE: column_prediction_panel,
    _SLICE: prediction_slice_panel,
    _LEARNING: _learning_curve,
}


def _tab_names(fit: PredictionRun) -> list[str]:
    """Names of the tabs: of one column a forecast; of several their relevance and slices."""
    names = [_COMPONENTS] if has_components(fit.model) else []
    if series_column(fit.model, fit.rows) is not None:
        return [_FORECAST, *names, _BASELINES, _CALIBRATION, _LEARNING]
    return [_BASELINES, *names, _RELEVANCE, _CALIBRATION, _CURVE, _SLICE, _LEARNING]


def _missing_predictions(job: Job) -> None:
    """A fitted model without predictions of its rows: they are being computed, or were not."""
    if not job.finished:
        st.info("The model is fitted. The predictions of its rows are being computed.")
        return
    ended = "failed" if job.status == "failed" else f"was {job.status}"
    advice = "Resume it on the Fit page. " if job.resumable else ""
    st.warning(
        f"The fit {ended} before its rows were predicted, so it has no scores. "
        f"{markdown(job.message) + ' ' if job.message else ''}{advice}Other rows can be predicted "
        "below."
    )


def _facts(fit: PredictionRun) -> str:
    """The run, its rows and its bound, in a line."""
    job, held = fit.job, int(fit.rows.held_out.sum())
    parts = [
        f"**{markdown(fit.model.title)}** predicts **{markdown(shortened(fit.target, 60))}** of "
        f"{markdown(job.spec.dataset_name)}",
        f"{count(len(fit.rows.y) - held, 'row')} fitted, {count(held, 'row')} held out",
    ]
    if job.elbo is not None:
        parts.append(f"bound (ELBO) {number(job.elbo)} nats")
    if job.status in ("cancelled", "interrupted"):
        parts.append(f":orange[{job.status}]")
    elif job.still_rising:
        parts.append(f":gray[{convergence_verdict(job)}]")
    parts.append(duration(job.seconds))
    return " · ".join(parts)


def _scores(job: Job) -> None:
    """Scores on the held-out rows."""
    found = _metrics(job)
    if not found:
        st.caption("The scores are being measured." if job.stage == "measuring" else "No scores.")
        return
    for column, metric in zip(st.columns(len(found)), found, strict=True):
        column.metric(
            metric.label, number(metric.value, 3), border=True, help=markdown(metric.protocol)
        )


def _metrics(job: Job) -> list[Metric]:
    """The metrics of the held-out rows, in the order of the cards."""
    keys = _CARDS if "rmse" in job.metrics else _CLASS_CARDS
    return [job.metrics[key] for key in keys if key in job.metrics]


def _export(fit: PredictionRun) -> None:
    """The predictions of all rows as a file."""
    with st.container(horizontal=True, vertical_alignment="center"):
        table_downloads(
            "Predictions",
            "predictions",
            csv=partial(prediction.predictions_csv, fit.job.id),
            parquet=partial(prediction.predictions_parquet, fit.job.id),
            about="Every row: whether it is held out, its true value, and its prediction.",
            key=lambda ending: fit.key("predictions", ending),
        )
        gpytorch_download(fit.job, key=fit.key("gpytorch"))
        if fit.job.still_rising:
            navigation.link("More steps", "fit", key="more-steps", primary=False)
    with st.expander("Protocols"):
        for metric in _metrics(fit.job):
            st.markdown(f"{markdown(metric.label)}: {markdown(metric.protocol)}")


if __name__ == "__main__":  # as the navigation runs it
    page()
