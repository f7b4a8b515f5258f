"""Exports of a run: model, embedding, training curves, pictures, report and Python code."""

from __future__ import annotations

from functools import partial
from typing import get_args

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.analysis.map.map_axes import Axes, View, is_line
from app.components.download_buttons import gpytorch_download, table_downloads
from app.formatting import markdown
from app.report.download import report_download_button
from app.services import fitted_maps, prediction, progress, server
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError
from lvmcore.export.map_picture import PictureFormat
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job
from lvmcore.runs.python_snippet import snippet

__all__ = ["export_menu"]

_BINARY = "application/octet-stream"
_CURVES = "One value per row: run, step, seconds, term of the bound, value."
_ROWS = "Row id, label, latent means and sds."
_PRINT = "The view chosen above, in light colours, for print."
_REPEATS = "Fits the same model to the same data, and prints both bounds."
_MIME = {"png": "image/png", "svg": "image/svg+xml"}


def export_menu(job: Job) -> None:
    """Draw the menu of exports of a run."""
    with st.popover("Export", key=_key(job, "export"), width="content"):
        with st.container(horizontal=True):
            if job.has_model:
                if not job.spec.target:
                    report_download_button(job, key=_key(job, "report"))
                path = server.store().job_folder(job.id).files.model
                _download(
                    job,
                    "Model file",
                    path.read_bytes,
                    "model.safetensors",
                    _BINARY,
                    "The fitted model; lvmcore.load reads it in Python.",
                )
            gpytorch_download(job, key=_key(job, "gpytorch.zip"))
            curves = partial(progress.curves_csv, [job.id])
            _download(job, "Curves as CSV", curves, "curves.csv", "text/csv", _CURVES)
        if job.has_model and job.spec.target:
            _predictions(job)
        elif job.has_model:
            _embedding(job)
            _picture(job)
        else:
            st.caption("The run has no fitted model, so it has no map to export.")
        _program(job)


def _predictions(job: Job) -> None:
    with st.container(horizontal=True):
        table_downloads(
            "Predictions",
            "predictions",
            csv=partial(prediction.predictions_csv, job.id),
            parquet=partial(prediction.predictions_parquet, job.id),
            about="Every row: whether it is held out, its true value, and its prediction.",
            key=lambda ending: _key(job, f"predictions.{ending}"),
        )


def _embedding(job: Job) -> None:
    with st.container(horizontal=True):
        table_downloads(
            "Embedding",
            "embedding",
            csv=partial(fitted_maps.embedding_csv, job.id),
            parquet=partial(fitted_maps.embedding_parquet, job.id),
            about=_ROWS,
            key=lambda ending: _key(job, f"embedding.{ending}"),
            h5ad=partial(fitted_maps.embedding_h5ad, job.id),
        )


def _picture(job: Job) -> None:
    """The map for print: two dimensions, with or without the predictive sd."""
    st.markdown("**Map for print**")
    try:
        model = fitted_maps.model(job.id)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    view = _view(job, model.embedding_.mean.shape[1], leading_dimensions(model.variance_shares()))
    sd_background = False
    if not is_line(view) and model.capabilities.uncertainty and model.capabilities.decoding:
        sd_background = st.toggle(
            "Predictive sd in the background",
            key=_key(job, "behind"),
            help="Draws the predictive sd of every point of the map in the background.",
        )
    with st.container(horizontal=True):
        for form in get_args(PictureFormat):
            draw = partial(fitted_maps.map_file, job.id, view, form, sd_behind=sd_background)
            _download(job, f"Map as {form.upper()}", draw, f"map.{form}", _MIME[form], _PRINT)


def _view(job: Job, dimensions: int, default: Axes) -> View:
    if dimensions == 1:
        return 0, None
    best = fitted_maps.best_view(job.id)
    if best is not None and st.toggle(
        "Best 2-D view",
        key=_key(job, "best view"),
        help="The two principal axes of all dimensions, in units of the change of the columns.",
    ):
        return best
    left, right = st.columns(2)
    return (
        _dimension(job, left, "Horizontal", dimensions, default[0]),
        _dimension(job, right, "Vertical", dimensions, default[1] or 0),
    )


def _dimension(job: Job, column: DeltaGenerator, title: str, dimensions: int, default: int) -> int:
    return column.selectbox(
        title,
        range(dimensions),
        index=default,
        format_func=lambda q: f"dimension {q + 1}",
        key=_key(job, title),
        help="The latent dimension on this axis of the picture.",
    )


def _program(job: Job) -> None:
    try:
        program = snippet(job, server.store().home)
    except LatentboardError as error:
        st.caption(markdown(error))
        return
    with st.expander("Python that repeats the run"):
        st.code(program, language="python")
        _download(job, "Python as .py", program.encode(), "run.py", "text/x-python", _REPEATS)


def _download(job: Job, title: str, content: object, name: str, mime: str, about: str) -> None:
    st.download_button(
        title,
        content,  # type: ignore[arg-type]
        file_name=name,
        mime=mime,
        on_click="ignore",
        help=about,
        key=_key(job, name),
    )


def _key(job: Job, name: str) -> str:
    return widget_key("runs", job.id, name)
