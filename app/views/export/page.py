"""Export: every file of the open run in one place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from app import navigation
from app.components.download_buttons import (
    animation_downloads,
    file_download,
    gpytorch_download,
    table_downloads,
)
from app.components.empty_states import fit_sample_button, missing_run_warning
from app.formatting import markdown
from app.report.download import report_download_button
from app.services import fit_replay, fitted_maps, prediction, progress, run_exports, runs, server
from app.state.session import session
from app.state.widgets import widget_key
from app.views.export.map_picture import map_picture
from lvmcore.errors import LatentboardError
from lvmcore.export.fit_animation import NO_ANIMATION
from lvmcore.runs import Job
from lvmcore.runs.python_snippet import snippet

_ROWS = "Row id, label, latent means and sds."
_PREDICTIONS = "Every row: whether it is held out, its true value, and its prediction."
_MODEL = "The fitted model; lvmcore.load reads it in Python."
_CURVES = "One value per row: run, step, seconds, term of the bound, value."
_LOG = "Scalars and points of the projector: unpack, then tensorboard --logdir FOLDER."
_ANIMATION = "The map at the recorded steps of the fit, one after the other."
_REPEATS = "Fits the same model to the same data, and prints both bounds."
_NOTEBOOK = "The same program as a Jupyter notebook, with a figure of the map."
_BUNDLE = "Data, model, map and curves of the run, for another Latentboard."


def page() -> None:
    """Draw the page."""
    st.title(navigation.TITLES["export"])
    job = runs.job(session.run_id)
    if job is None:
        missing_run_warning()
        st.markdown(
            "This page has the files of a run: the embedding or the predictions, the map for "
            "print, the model, a report, a program that repeats the fit, and a bundle for a "
            "colleague."
        )
        fit_sample_button("export")
        return
    st.markdown(f"Files of **{markdown(job.name)}**")
    if not job.has_model:
        st.info("The run has no fitted model yet. What it has so far is below.")
        navigation.link("Go to the fit", "fit", key="fit")
    left, right = st.columns(2, gap="large")
    with left:
        if job.has_model:
            _rows(job)
            if not job.spec.target:
                st.header("Map")
                map_picture(job)
        _curves(job)
    with right:
        if job.has_model:
            _model(job)
            _bundle(job)
        _program(job)


def _rows(job: Job) -> None:
    """The predictions of a run with a target, or the embedding."""
    title, about, h5ad = "Embedding", _ROWS, partial(fitted_maps.embedding_h5ad, job.id)
    csv: Callable[[str], bytes] = fitted_maps.embedding_csv
    parquet: Callable[[str], bytes] = fitted_maps.embedding_parquet
    if job.spec.target:
        title, about = "Predictions", _PREDICTIONS
        csv, parquet = prediction.predictions_csv, prediction.predictions_parquet
    stem = title.lower()
    st.header(title)
    with st.container(horizontal=True):
        table_downloads(
            title,
            stem,
            csv=partial(csv, job.id),
            parquet=partial(parquet, job.id),
            about=about,
            key=lambda ending: _key(job, f"{stem}.{ending}"),
            h5ad=None if job.spec.target else h5ad,
        )


def _curves(job: Job) -> None:
    st.header("Training")
    with st.container(horizontal=True):
        file_download(
            "Curves as CSV",
            partial(progress.curves_csv, [job.id]),
            "curves.csv",
            mime="text/csv",
            about=_CURVES,
            key=_key(job, "curves.csv"),
        )
        if job.has_model:
            file_download(
                "TensorBoard log",
                partial(run_exports.tensorboard_log, job.id),
                "tensorboard.zip",
                mime="application/zip",
                about=_LOG,
                key=_key(job, "tensorboard.zip"),
            )
    if not job.has_model or job.spec.target:
        return
    if fit_replay.fit_replay(job.id) is None:
        st.caption(NO_ANIMATION)
        return
    animation_downloads(
        "Fit",
        "fit",
        partial(run_exports.fit_animation, job.id),
        about=_ANIMATION,
        key=lambda ending: _key(job, f"fit.{ending}"),
    )


def _model(job: Job) -> None:
    st.header("Model and report")
    with st.container(horizontal=True):
        if not job.spec.target:
            report_download_button(job, key=_key(job, "report"))
        file_download(
            "Model file",
            server.store().job_folder(job.id).files.model.read_bytes,
            "model.safetensors",
            mime="application/octet-stream",
            about=_MODEL,
            key=_key(job, "model.safetensors"),
        )
        gpytorch_download(job, key=_key(job, "gpytorch.zip"))


def _bundle(job: Job) -> None:
    st.header("For another Latentboard")
    if server.store().datasets.stays_in_place(job.spec.dataset):
        st.caption("The rows of this run are in registered files, so there is no bundle.")
        return
    file_download(
        "Bundle as ZIP",
        partial(run_exports.bundle, job.id),
        "run.zip",
        mime="application/zip",
        about=_BUNDLE,
        key=_key(job, "run.zip"),
    )
    st.caption("The Runs page of the other dashboard opens it: data, map, curves and scores.")


def _program(job: Job) -> None:
    st.header("Repeat the fit")
    try:
        program = snippet(job, server.store().home)
    except LatentboardError as error:
        st.caption(markdown(error))
        return
    with st.container(horizontal=True):
        file_download(
            "Python as .py",
            program.encode,
            "run.py",
            mime="text/x-python",
            about=_REPEATS,
            key=_key(job, "run.py"),
        )
        file_download(
            "Notebook as .ipynb",
            partial(run_exports.notebook, job.id),
            "run.ipynb",
            mime="application/x-ipynb+json",
            about=_NOTEBOOK,
            key=_key(job, "run.ipynb"),
        )
    with st.expander("The program"):
        st.code(program, language="python")


def _key(job: Job, name: str) -> str:
    return widget_key("export", job.id, name)


if __name__ == "__main__":  # as the navigation runs it
    page()
