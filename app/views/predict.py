"""Predict: what a model of a target predicts, how good and how honest that is, and other rows."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app import absent, downloads, navigation, predictions, seeing, services, state, unseen
from app.predictions import Fit
from app.words import count, duration, markdown, number
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job

_CARDS = ("nlpp", "rmse", "mae", "r2", "coverage_90")
_CLASS_CARDS = ("accuracy", "macro_f1", "log_loss", "auc", "calibration_error")


def page() -> None:
    """Draw the page."""
    st.title(navigation.TITLES["predict"])
    job = services.job(state.run_id())
    if job is None:
        _empty()
    elif not job.spec.target:
        _has_a_map(job)
    elif not job.has_model:
        absent.waiting(job, "What it predicts is here when the fit has ended.")
    else:
        _of_run(job)


def _of_run(job: Job) -> None:
    try:
        fit = Fit(job, services.predictor(job.id), services.learned_rows(job.id))
    except LatentboardError as error:
        st.error(markdown(error))
        return
    st.markdown(_facts(fit))
    try:
        frame = services.predicted(job.id)
    except LatentboardError:
        _not_predicted(job)
    else:
        _figures(job)
        predictions.against_the_truth(fit, frame)
        _export(fit)
        st.divider()
        seeing.hidden_map(fit, frame)
    left, right = st.columns(2, gap="large")
    with left:
        seeing.relevance(fit)
    with right:
        seeing.surface(fit)
    st.divider()
    unseen.show(fit)
    for note in job.notes:
        st.caption(markdown(note))


def _not_predicted(job: Job) -> None:
    """A fitted model whose own rows are not predicted: not yet, or never."""
    if not job.finished:
        st.info("The model is fitted, and its rows are being predicted.")
        return
    ended = "failed" if job.status == "failed" else f"was {job.status}"
    way = "Resume it on the Fit page; other" if job.resumable else "Other"
    st.warning(
        f"The fit {ended} before its rows were predicted, so there is nothing to measure it by. "
        f"{markdown(job.message) + ' ' if job.message else ''}{way} rows can be predicted below."
    )


def _facts(fit: Fit) -> str:
    """The run in a line."""
    job, held = fit.job, int(fit.rows.held_out.sum())
    parts = [
        f"**{markdown(fit.model.title)}** predicts **{markdown(fit.target)}** of "
        f"{markdown(job.spec.dataset_name)}",
        f"{count(len(fit.rows.y) - held, 'row')} fitted, {count(held, 'row')} held out",
    ]
    if job.elbo is not None:
        parts.append(f"bound (ELBO) {number(job.elbo)} nats")
    if job.status in ("cancelled", "interrupted"):
        parts.append(f":orange[{job.status}]")
    elif job.still_rising:
        parts.append(":gray[still rising when the steps ran out]")
    parts.append(duration(job.seconds))
    return " · ".join(parts)


def _figures(job: Job) -> None:
    """The figures on the rows held out, each with how it was measured."""
    keys = _CARDS if "rmse" in job.metrics else _CLASS_CARDS
    found = [job.metrics[key] for key in keys if key in job.metrics]
    if not found:
        st.caption("The figures are being measured." if job.stage == "measuring" else "No figures.")
        return
    for place, metric in zip(st.columns(len(found)), found, strict=True):
        place.metric(
            metric.label, number(metric.value, 3), border=True, help=markdown(metric.protocol)
        )
    with st.expander("How they were measured"):
        for metric in found:
            st.markdown(f"{markdown(metric.label)}: {markdown(metric.protocol)}")


def _export(fit: Fit) -> None:
    """The predictions of all rows as a file."""
    with st.container(horizontal=True, vertical_alignment="center"):
        downloads.offer(
            "Predictions",
            "predictions",
            csv=partial(services.predictions_csv, fit.job.id),
            parquet=partial(services.predictions_parquet, fit.job.id),
            about="Every row of the fit: held out or not, the truth, and what was predicted.",
            key=lambda ending: fit.key("predictions", ending),
        )
        if fit.job.still_rising:
            navigation.link("More steps", "fit", key="more-steps", primary=False)


def _has_a_map(job: Job) -> None:
    """A run of a model of a map."""
    st.info(
        f"{markdown(job.name)} draws a map and predicts no column. To learn to predict one, choose "
        "it on the Fit page under Learn to predict."
    )
    with st.container(horizontal=True):
        navigation.link("Go to the fit", "fit", key="fit")
        navigation.link("Explore the map", "latent", key="map", primary=False)


def _empty() -> None:
    """No run: what will be here, and the way there."""
    absent.gone()
    st.markdown(
        "After a fit to a target this page shows what the model predicts of rows that it has not "
        "seen beside the truth, whether its intervals or probabilities are honest, which columns "
        "matter, and what its layers make of the rows. It predicts a second file, too. Choose the "
        "column on the Fit page, under Learn to predict."
    )
    navigation.link("Choose a column to predict", "fit", key="fit")


if __name__ == "__main__":  # as the navigation runs it
    page()
