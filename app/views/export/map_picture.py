"""The map of a run in files: interactive, and as a picture for print."""

from __future__ import annotations

from functools import partial
from typing import get_args

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.analysis.map.map_axes import Axes, View, is_line
from app.components.download_buttons import file_download
from app.formatting import markdown
from app.report.map_download import map_download_button
from app.services import fitted_maps, run_exports
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError
from lvmcore.export.map_picture import PictureFormat
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job

__all__ = ["map_picture"]

_PRINT = "The view chosen above, in light colours, for print."
_MIME = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}


def map_picture(job: Job) -> None:
    """Draw the choice of two dimensions and of a background, and the downloads of the map.

    Args:
        job: a run with a map.
    """
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
        map_download_button(job.id, view, key=_key(job, "map.html"))
        for form in get_args(PictureFormat):
            draw = partial(run_exports.map_file, job.id, view, form, sd_behind=sd_background)
            file_download(
                f"Map as {form.upper()}",
                draw,
                f"map.{form}",
                mime=_MIME[form],
                about=_PRINT,
                key=_key(job, f"map.{form}"),
            )


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


def _key(job: Job, name: str) -> str:
    return widget_key("export", job.id, name)
