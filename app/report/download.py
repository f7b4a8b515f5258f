"""Download of the report of a run."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st

from app.analysis.map import subsampling
from app.analysis.map.map_axes import Axes, positions
from app.analysis.map.row_colours import Colouring, group_of_rows
from app.components.map import row_texts
from app.figures import row_traces
from app.report import document
from app.report.subject import ColumnRow, ReportSubject, SettingRow
from app.services import fitted_maps, generation, progress, run_colours, scores, server
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job
from lvmcore.runs.python_snippet import snippet

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

__all__ = ["report_download_button", "report_subject"]

#: Most rows with a posterior ellipse.
_MOST_ELLIPSES = 300


def report_download_button(job: Job, *, key: str) -> None:
    """Draw the button that downloads the report of a run, made when the button is pressed.

    Args:
        job: a run with a fitted model.
        key: widget key of the button.
    """
    st.download_button(
        "Report",
        partial(_report_bytes, job.id),
        file_name="report.html",
        mime="text/html",
        on_click="ignore",
        help="One HTML file that opens offline: map, training curves, scores, settings and a "
        "summary of the data.",
        key=key,
    )


def _report_bytes(run: str) -> bytes:
    return document.report_html(report_subject(server.store().get(run)))


def report_subject(job: Job) -> ReportSubject:
    """The content of the report of a run.

    Raises:
        DataError: the run has no model, or its data were deleted.
    """
    model, dataset = fitted_maps.model(job.id), fitted_maps.fitted_dataset(job.id)
    whole = fitted_maps.stored_dataset(job.spec.dataset)
    axes = leading_dimensions(model.variance_shares())
    steps = progress.progress(job.id).of_start(fitted_maps.selected_start(job.id)).steps
    try:
        program: str | None = snippet(job)
    except LatentboardError:
        program = None
    return ReportSubject(
        job=job,
        model=(model.title, model.paper),
        settings=_settings(model),
        shape=(len(whole), len(dataset), dataset.X.shape[1]),
        labels={
            name: dict(
                Counter("(missing)" if pd.isna(cell) else str(cell) for cell in column.tolist())
            )
            for name, column in dataset.label_columns.items()
        },
        columns=_columns(dataset),
        left_out=tuple(dict.fromkeys((*whole.notes, *job.notes))),
        axes=axes,
        rows=_rows(model, dataset, axes, run_colours.class_style(job.id)),
        sees_labels=model.capabilities.labels != "none",
        relevance=model.variance_shares() if model.relevance_ else {},
        steps=steps,
        metrics=scores.score_values(job),
        program=program,
        digest=generation.model_digest(job.id, digits=64),
    )


def _settings(model: LatentVariableModel) -> tuple[SettingRow, ...]:
    values = model.get_params(deep=False)
    return tuple(
        SettingRow(
            parameter.name,
            parameter.label,
            values[parameter.name],
            default=bool(np.array_equal(values[parameter.name], parameter.default)),
        )
        for parameter in type(model).parameters()
    )


def _columns(dataset: Dataset) -> tuple[ColumnRow, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without a cell has no mean
        means, sds = np.nanmean(dataset.X, axis=0), np.nanstd(dataset.X, axis=0)
    missing = np.isnan(dataset.X).sum(axis=0)
    names = dataset.transformed_names
    return tuple(
        ColumnRow(name, float(mean), float(sd), int(cells))
        for name, mean, sd, cells in zip(names, means, sds, missing, strict=True)
    )


def _rows(
    model: LatentVariableModel, dataset: Dataset, axes: Axes, colouring: Colouring
) -> row_traces.MapRows:
    """Rows on the map, coloured by the first label column; at most ``document.MOST_ROWS``."""
    chosen = subsampling.evenly_spaced(len(dataset), document.MOST_ROWS)
    sd = None
    first, second = axes
    if model.capabilities.uncertainty and second is not None:
        sd = np.sqrt(model.embedding_.variance[chosen][:, [first, second]])
        without_ellipse = np.ones(len(chosen), dtype=bool)
        without_ellipse[subsampling.evenly_spaced(len(chosen), _MOST_ELLIPSES)] = False
        sd[without_ellipse] = np.nan
    return row_traces.MapRows(
        points=positions(model.embedding_.mean, axes)[chosen],
        number=chosen,
        hover=row_texts.hover(dataset, colouring, chosen),
        colouring=group_of_rows(colouring, chosen),
        sd=sd,
    )
