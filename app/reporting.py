"""The report of a run, gathered and handed out."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st

from app import chart, figures, report, services
from app.axes import Axes, positions
from app.colouring import categories, part_of
from app.report_subject import Column, Setting, Subject
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.relevance import leading_dimensions, shares
from lvmcore.runs import Job, snippet

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel

__all__ = ["gather", "offer"]

#: Rows with an ellipse at most.
_MOST_ELLIPSES = 300


def offer(job: Job, *, key: str) -> None:
    """Draw the button that takes a run's report away; the file is made when it is pressed.

    Args:
        job: a run with a fitted model.
        key: of the button.
    """
    st.download_button(
        "Report",
        partial(_made, job.id),
        file_name="report.html",
        mime="text/html",
        on_click="ignore",
        help="One HTML file that opens offline: map, curves, figures, settings and data summary.",
        key=key,
    )


def _made(run: str) -> bytes:
    return report.make(gather(services.store().get(run)))


def gather(job: Job) -> Subject:
    """What a report says of a run.

    Raises:
        DataError: the run has no model, or its data are gone.
    """
    model, dataset = services.model(job.id), services.fitted_dataset(job.id)
    whole = services.stored_dataset(job.spec.dataset)
    axes = leading_dimensions(model.relevance_)
    steps = services.progress(job.id).of_start(services.kept_start(job.id)).steps
    try:
        program: str | None = snippet(job)
    except LatentboardError:
        program = None
    return Subject(
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
        rows=_rows(model, dataset, axes),
        sees_labels=model.capabilities.labels != "none",
        relevance=shares(model.relevance_) if model.relevance_ else {},
        steps=steps,
        metrics=services.figures(job),
        program=program,
        digest=services.model_digest(job.id, digits=64),
    )


def _settings(model: LatentVariableModel) -> tuple[Setting, ...]:
    values = model.get_params(deep=False)
    return tuple(
        Setting(
            parameter.name,
            parameter.label,
            values[parameter.name],
            default=bool(np.array_equal(values[parameter.name], parameter.default)),
        )
        for parameter in type(model).parameters()
    )


def _columns(dataset: Dataset) -> tuple[Column, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without a cell has no mean
        means, sds = np.nanmean(dataset.X, axis=0), np.nanstd(dataset.X, axis=0)
    missing = np.isnan(dataset.X).sum(axis=0)
    return tuple(
        Column(name, float(mean), float(sd), int(gaps))
        for name, mean, sd, gaps in zip(dataset.learned_names, means, sds, missing, strict=True)
    )


def _rows(model: LatentVariableModel, dataset: Dataset, axes: Axes) -> figures.Rows:
    """The rows on the map, coloured by the first label, as many as a report may hold."""
    chosen = figures.evenly(len(dataset), report.MOST_ROWS)
    label = next(iter(dataset.label_columns.items()), None)
    look = None
    if label is not None:
        look = categories(pd.Series(label[1], dtype=object), label[0])
    sd = None
    first, second = axes
    if model.capabilities.uncertainty and second is not None:
        sd = np.sqrt(model.embedding_.variance[chosen][:, [first, second]])
        bare = np.ones(len(chosen), dtype=bool)
        bare[figures.evenly(len(chosen), _MOST_ELLIPSES)] = False
        sd[bare] = np.nan
    return figures.Rows(
        points=positions(model.embedding_.mean, axes)[chosen],
        number=chosen,
        hover=chart.hover(dataset, look, chosen),
        colouring=part_of(look, chosen),
        sd=sd,
    )
