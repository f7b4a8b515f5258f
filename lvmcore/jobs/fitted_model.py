"""A model that was fitted outside the store, as a run of it."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pandas as pd

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.data.date_scales import date_scale_texts
from lvmcore.data.new_tables.matching_dataset import binary_codes
from lvmcore.errors import ConfigError, DataError
from lvmcore.jobs.fitting import training_rows
from lvmcore.jobs.run_job import run_job
from lvmcore.models import AnyModel
from lvmcore.prediction.target_rows import date_scales_of_fit, split_for_target
from lvmcore.runs.job import JobSpec
from lvmcore.runs.store import Store

__all__ = ["add_fitted"]


def add_fitted(
    model: AnyModel,
    data: Dataset | pd.DataFrame,
    *,
    target: str = "",
    name: str = "",
    origin: str = "gpytorch",
    store: Store | None = None,
) -> str:
    """Keep a fitted model as a run of the store, which the dashboard opens.

    The files and the metrics are those of a fit. Scores of a target are of the rows that the
    dataset holds out; without any, of rows that the model may have been fitted to, and there is no
    comparison with baselines.

    Args:
        model: a fitted model, such as the result of ``lvmcore.from_gpytorch``.
        data: of the rows of the fit in the data's units: a dataset, or a table with the model's
            columns and the target; its other columns are kept for colours.
        target: the column that the model predicts; "" for a map.
        name: display name of the run.
        origin: the library in which the model was fitted.
        store: None for the store of the dashboard.

    Returns:
        Id of the run.

    Raises:
        ConfigError: the model predicts a target and there is none, or the reverse.
        DataError: the rows or columns are not those of the model.
        UnsupportedError: the model cannot be saved; the message says which part.
    """
    is_map = isinstance(model, LatentVariableModel)
    if is_map == bool(target):
        wanted = "a map, which has no target" if is_map else "a target: name its column"
        raise ConfigError(f"The model is of {wanted}.")
    dataset = data if isinstance(data, Dataset) else _dataset_of(model, data, name)
    store = Store() if store is None else store
    spec = JobSpec(
        dataset=dataset.digest,
        dataset_name=dataset.name,
        model=model.key,
        parameters=model.get_params(deep=False),
        name=name,
        target=target,
        codes=binary_codes(dataset),
        date_scales=date_scale_texts(date_scales_of_fit(dataset, target)),
        origin=origin,
    )
    _check_rows(model, dataset, spec)
    model._get_state()  # says now if it cannot be saved
    store.datasets.put(dataset)
    with store.own(spec) as folder:
        state = run_job(folder, lambda: dataset, lambda: None, fitted=model)
        kept = folder.files.model.is_file()
    if not kept:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise DataError(f"The model could not be kept. {state.message or ''}".strip())
    return folder.path.name


def _dataset_of(model: AnyModel, frame: pd.DataFrame, name: str) -> Dataset:
    """The columns of a model as features; all columns of the table in the frame.

    Raises:
        DataError: the table lacks one.
    """
    names = model._column_names()
    absent = [column for column in names if column not in frame]
    if absent:
        raise DataError(f"The table has no column {absent[0]!r}, which the model has.")
    cells = frame[names].to_numpy(dtype=float)
    dataset = Dataset.from_arrays(cells, feature_names=names, name=name or "table")
    return replace(dataset, frame=frame.reset_index(drop=True))


def _check_rows(model: AnyModel, dataset: Dataset, spec: JobSpec) -> None:
    """Check that a dataset has the rows and columns of a model.

    Raises:
        DataError: it has not.
    """
    if isinstance(model, LatentVariableModel):
        rows = training_rows(dataset, type(model))[0]
        if len(rows) != len(model.embedding_.mean):
            raise DataError(
                f"The map has {len(model.embedding_.mean):,} rows, and {len(rows):,} rows of the "
                "dataset are to be on it: give the rows of the fit, in their order."
            )
    else:
        rows = split_for_target(dataset, model.task, spec).dataset
    names, own = list(rows.transformed_names), model._column_names()
    if names != own:
        raise DataError(
            f"The model was fitted to the columns {own}, and the dataset has {names}: give the "
            "same, in the same order."
        )
