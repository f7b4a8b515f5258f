"""What can be taken away of one run: its model, map, curves, pictures, and a program."""

from __future__ import annotations

from functools import partial
from typing import get_args

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import downloads, reporting, services, state
from app.axes import Axes
from app.words import markdown
from lvmcore.errors import LatentboardError
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job, snippet
from lvmcore.runs.picture import PictureFormat

__all__ = ["menu"]

_BINARY = "application/octet-stream"
_CURVES = "One number a row: run, step, seconds, term of the bound, value."
_ROWS = "Row id, label, latent means and sds."
_PRINT = "The two dimensions chosen above, light, for a paper or a talk."
_REPEATS = "Fits the same model to the same data again, and prints both bounds."
_MIME = {"png": "image/png", "svg": "image/svg+xml"}


def menu(job: Job) -> None:
    """Draw the menu of exports of a run."""
    with st.popover("Export", key=_key(job, "export"), width="content"):
        with st.container(horizontal=True):
            if job.has_model:
                if not job.spec.target:
                    reporting.offer(job, key=_key(job, "report"))
                path = services.store().job_folder(job.id).model_path
                _file(
                    job,
                    "Model file",
                    path.read_bytes,
                    "model.safetensors",
                    _BINARY,
                    "The fitted model; lvmcore.load reads it in Python.",
                )
            curves = partial(services.curves_csv, [job.id])
            _file(job, "Curves as CSV", curves, "curves.csv", "text/csv", _CURVES)
        if job.has_model and job.spec.target:
            _predictions(job)
        elif job.has_model:
            _embedding(job)
            _picture(job)
        else:
            st.caption("The run has no fitted model, so there is no map to take away.")
        _program(job)


def _predictions(job: Job) -> None:
    with st.container(horizontal=True):
        downloads.offer(
            "Predictions",
            "predictions",
            csv=partial(services.predictions_csv, job.id),
            parquet=partial(services.predictions_parquet, job.id),
            about="Every row of the fit: held out or not, the truth, and what was predicted.",
            key=lambda ending: _key(job, f"predictions.{ending}"),
        )


def _embedding(job: Job) -> None:
    with st.container(horizontal=True):
        downloads.offer(
            "Embedding",
            "embedding",
            csv=partial(services.embedding_csv, job.id),
            parquet=partial(services.embedding_parquet, job.id),
            about=_ROWS,
            key=lambda ending: _key(job, f"embedding.{ending}"),
            h5ad=partial(services.embedding_h5ad, job.id),
        )


def _picture(job: Job) -> None:
    """The map for print: two dimensions, with or without the sd behind."""
    st.markdown("**Map for print**")
    try:
        model = services.model(job.id)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    axes = _axes(job, model.embedding_.mean.shape[1], leading_dimensions(model.relevance_))
    behind = False
    if axes[1] is not None and model.capabilities.uncertainty and model.capabilities.decoding:
        behind = st.toggle(
            "Predictive sd behind the rows",
            key=_key(job, "behind"),
            help="Draws how sure the model is of every place behind the rows.",
        )
    with st.container(horizontal=True):
        for form in get_args(PictureFormat):
            draw = partial(services.map_file, job.id, axes, form, sd_behind=behind)
            _file(job, f"Map as {form.upper()}", draw, f"map.{form}", _MIME[form], _PRINT)


def _axes(job: Job, dimensions: int, default: Axes) -> Axes:
    if dimensions == 1:
        return 0, None
    left, right = st.columns(2)
    return (
        _dimension(job, left, "Horizontal", dimensions, default[0]),
        _dimension(job, right, "Vertical", dimensions, default[1] or 0),
    )


def _dimension(job: Job, place: DeltaGenerator, title: str, dimensions: int, start: int) -> int:
    return place.selectbox(
        title,
        range(dimensions),
        index=start,
        format_func=lambda q: f"dimension {q + 1}",
        key=_key(job, title),
        help="The latent dimension on this axis of the picture.",
    )


def _program(job: Job) -> None:
    try:
        program = snippet(job, services.store().home)
    except LatentboardError as error:
        st.caption(markdown(error))
        return
    with st.expander("Python that repeats the run"):
        st.code(program, language="python")
        _file(job, "Python as .py", program.encode(), "run.py", "text/x-python", _REPEATS)


def _file(job: Job, title: str, content: object, name: str, mime: str, about: str) -> None:
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
    return state.widget("runs", job.id, name)
