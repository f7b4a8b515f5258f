"""Models of a target: which columns can be one, what a fit predicts, its layers and its surface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.services import maps, server
from lvmcore.data import Dataset
from lvmcore.runs import to_csv_bytes, to_parquet_bytes
from lvmcore.runs.target import (
    TargetRows,
    target_columns,
    target_rows,
    unlearned_categories,
)
from lvmcore.runs.target_proposal import TargetShape, target_shape_of

if TYPE_CHECKING:
    import pandas as pd

    from app.exploring import Grid
    from app.surfaces import Slice
    from lvmcore.predictor import Predictor

__all__ = [
    "count_predicted",
    "forget",
    "hidden_units",
    "learned_rows",
    "predicted",
    "predictions_csv",
    "predictions_parquet",
    "predictor",
    "start_predicting",
    "surface",
    "target_shape",
    "targets",
    "unlearned",
    "whole_dataset",
]


def targets(dataset: Dataset) -> tuple[str, ...]:
    """The columns of a dataset that can be a target."""
    return _targets(dataset.digest, dataset)


@st.cache_data(show_spinner=False, max_entries=16)
def _targets(digest: str, _dataset: Dataset) -> tuple[str, ...]:
    del digest  # the cache's key
    return tuple(target_columns(_dataset))


def unlearned(dataset: Dataset) -> tuple[str, ...]:
    """The categories that could be features of a dataset and are not."""
    return _unlearned(dataset.digest, dataset)


@st.cache_data(show_spinner=False, max_entries=16)
def _unlearned(digest: str, _dataset: Dataset) -> tuple[str, ...]:
    del digest  # the cache's key
    return unlearned_categories(_dataset)


def target_shape(dataset: Dataset, name: str) -> TargetShape | None:
    """What matters of a column as a target; None where it can be none."""
    return _target_shape(dataset.digest, name, dataset)


@st.cache_data(show_spinner=False, max_entries=64)
def _target_shape(digest: str, name: str, _dataset: Dataset) -> TargetShape | None:
    del digest  # the cache's key
    return target_shape_of(_dataset, name) if name in _dataset.frame else None


def predictor(run: str) -> Predictor:
    """The fitted model of a run that predicts a target.

    Raises:
        DataError: it has none.
    """
    return _predictor(server.home(), run, maps.attempt(run))


@st.cache_resource(show_spinner="Loading the model", max_entries=16)
def _predictor(home: str | None, run: str, attempt: int) -> Predictor:
    del attempt  # the cache's key
    return server.store_at(home).load_predictor(run)


def whole_dataset(run: str) -> Dataset:
    """The dataset that a run was started on.

    Raises:
        DataError: it is gone.
    """
    return maps.stored_dataset(server.store().get(run).spec.dataset)


def learned_rows(run: str) -> TargetRows:
    """The rows that a run was fitted to and measured on.

    Raises:
        DataError: there is no such run, or its dataset is gone.
    """
    return _learned_rows(server.home(), run, maps.attempt(run))


@st.cache_resource(show_spinner=False, max_entries=8)
def _learned_rows(home: str | None, run: str, attempt: int) -> TargetRows:
    spec = server.store_at(home).get(run).spec
    return target_rows(maps.stored_dataset(spec.dataset), _predictor(home, run, attempt).task, spec)


def predicted(run: str) -> pd.DataFrame:
    """What a fit predicted of its rows, or a run of kind "predict" of others.

    Raises:
        DataError: it has predicted nothing, or the file cannot be read.
    """
    return maps.made_table(run, "predictions")


def hidden_units(run: str) -> pd.DataFrame | None:
    """Means of the units of the hidden layers at the rows of a fit; None without such layers.

    Raises:
        DataError: the file cannot be read.
    """
    if not server.store().job_folder(run).hidden_path.is_file():
        return None
    return maps.made_table(run, "hidden")


def predictions_csv(run: str) -> bytes:
    """The predictions of a run as CSV."""
    return to_csv_bytes(predicted(run))


def count_predicted(frame: pd.DataFrame) -> int:
    """How many rows of a table of predictions have one."""
    from lvmcore.runs.predictions import has_prediction

    return int(has_prediction(frame).sum())


def predictions_parquet(run: str) -> bytes:
    """The predictions of a run as Parquet."""
    return to_parquet_bytes(predicted(run))


def surface(run: str, asked: Slice) -> Grid:
    """A slice of what a fit predicts over two of its columns: see ``app.surfaces``.

    Raises:
        DataError: the run has no model, or its dataset is gone.
    """
    return _surface(server.home(), run, maps.attempt(run), asked)


@st.cache_resource(show_spinner="Predicting over the two columns", max_entries=64)
def _surface(home: str | None, run: str, attempt: int, asked: Slice) -> Grid:
    from app import surfaces

    model, rows = _predictor(home, run, attempt), _learned_rows(home, run, attempt)
    return surfaces.slice_of(model, rows, asked)


def start_predicting(run: str, rows: Dataset) -> str:
    """Predict the target of rows by a run's model, unless that was done or is under way.

    Returns:
        The id of what predicts it.

    Raises:
        ConfigError: the queue is full.
        DataError: there is no such run, or the rows cannot be kept.
    """
    from lvmcore.runs.predict import prediction_of

    store = server.store()
    fit = store.get(run)
    store.put_dataset(rows)
    return server.start_once(fit, prediction_of(fit, rows))


def forget() -> None:
    """Let go of what was kept of fits to a target."""
    for memory in (_predictor, _learned_rows, _surface):
        memory.clear()
