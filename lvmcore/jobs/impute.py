"""The kind of run that imputes the missing cells of a table and evaluates the imputation."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.data.transforms import one_hot_columns
from lvmcore.errors import DataError, UnsupportedError
from lvmcore.evaluation.hidden_cells import (
    SEED,
    HiddenCells,
    hidden_frame,
    hide_cells,
    imputation_metrics,
    predict_hidden,
)
from lvmcore.evaluation.imputation_comparison import compare_imputation
from lvmcore.evaluation.imputation_scores import comparison_to_json
from lvmcore.export.filled_table import ImputedFeature
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.fitting import StoppedError, training_rows
from lvmcore.jobs.job_kind import JobKind, Outcome
from lvmcore.metrics.metric import Metric
from lvmcore.persistence import write_atomically
from lvmcore.prediction.label_columns import label_cells
from lvmcore.prediction.placement import features_of
from lvmcore.runs.atomic_files import write_json
from lvmcore.runs.job import Job, JobSpec
from lvmcore.runs.model_of_job import make_model
from lvmcore.training.checkpoint import Checkpoint

__all__ = [
    "CHECK_LEVEL",
    "Imputation",
    "ImputedColumn",
    "completed_table",
    "imputation_of",
    "imputed_columns",
    "imputed_features",
    "refuse_complete_models",
]

#: Share of the observed cells that the check hides.
SHARE = 0.1
#: Time for the forests of the comparison: this, or as long as the fit took.
BASELINE_SECONDS = 10.0
#: Level of the intervals that ``check.parquet`` holds.
CHECK_LEVEL = 0.9


def imputation_of(job: Job) -> JobSpec:
    """The description of a run that imputes a fitted run's table and evaluates the imputation.

    Args:
        job: the fitted run.
    """
    spec = job.spec
    return JobSpec(
        dataset=spec.dataset,
        dataset_name=spec.dataset_name,
        model=spec.model,
        parameters=spec.parameters,
        name=f"Missing cells by {job.name}",
        kind="impute",
        run=job.id,
    )


class Imputation(JobKind):
    """Imputation of the missing cells of a fitted run's dataset, and its check.

    ``completed.parquet`` holds the completed table (``completed_table``), computed with the fitted
    model. The check hides a tenth of the observed cells, fits the model again without them, and
    compares their imputed values with the observed ones: ``metrics.json``, ``check.parquet`` with
    the hidden cells (``hidden_frame``), and ``comparison.json`` with the errors of other methods on
    these cells. The completed table is kept if the check fails.
    """

    stop_message = "Stopped before the table was filled."
    dataset: Dataset
    metrics: dict[str, Metric]

    def prepare(self) -> None:
        """Write the completed table."""
        store, fit = self.context.fitted_run()
        if not fit.has_model:
            raise DataError(f"The run {fit.name} is {fit.status}: expected one that has a model.")
        model = store.load_model(self.context.spec.run, "map")
        self.dataset = self.context.get_dataset()
        refuse_complete_models(model)
        rows = self.dataset.nonempty_rows()
        path = self.context.folder.files.completed
        write_atomically(path, to_parquet_bytes(completed_table(model, rows)))
        self.stop_message = "Stopped before the check was done: the filled table was kept."
        gaps = int(np.isnan(rows.X).sum())
        cells = "1 missing cell was" if gaps == 1 else f"{gaps:,} missing cells were"
        left_out = rows.notes[len(self.dataset.notes) :]
        self.kept_notes = (*left_out, f"{cells} filled by {fit.name}.")
        self.context.enter("fitting", self.kept_notes)
        self.context.check_stop()

    def work(self) -> None:
        """Hide a tenth of the observed cells, fit without them, and compare."""
        context = self.context
        model = make_model(context.spec, "map")
        whole, _ = training_rows(self.dataset, type(model))
        hidden = hide_cells(whole.X, SHARE, groups=one_hot_columns(whole).values())
        left = dataclasses.replace(whole, X=np.where(hidden, np.nan, whole.X))
        fitted, _ = training_rows(left, type(model))
        frame = pd.DataFrame(fitted.X, columns=list(fitted.transformed_names))
        y = None if model.capabilities.labels == "none" else fitted.y
        checkpoint = Checkpoint(context.folder.files.checkpoint)
        began = time.monotonic()
        model._fit_from(frame, y, callback=context.monitor, checkpoint=checkpoint)
        if context.monitor.stopped is not None:
            raise StoppedError(context.monitor.stopped)
        context.enter("measuring")
        kept = [whole.feature_names.index(name) for name in fitted.feature_names]
        X = whole.X[:, kept]
        cells = predict_hidden(model, fitted, X, hidden[:, kept])
        check = hidden_frame(cells, fitted, X, CHECK_LEVEL)
        write_atomically(context.folder.files.check, to_parquet_bytes(check))
        self.metrics = _check_metrics(cells, int(hidden.sum()))
        if len(cells.truth):
            seconds = max(BASELINE_SECONDS, time.monotonic() - began)
            found = compare_imputation(
                cells, fitted, seconds=seconds, check_stop=context.check_stop
            )
            write_json(context.folder.files.comparison, comparison_to_json(found))

    def write_results(self) -> None:
        """Write the metrics of the check."""
        self.context.write_metrics(self.metrics)

    def outcome(self) -> Outcome:
        """Notes on the imputed cells and the rows left out."""
        return Outcome(notes=self.kept_notes)


def refuse_complete_models(model: LatentVariableModel) -> None:
    """Check that a model supports missing cells.

    Raises:
        UnsupportedError: it does not.
    """
    if not model.capabilities.missing_cells:
        raise UnsupportedError(
            f"{model.title} cannot fill missing cells: it needs every cell. Fit a model that takes "
            "missing cells, such as the Bayesian GPLVM."
        )


@dataclass(frozen=True)
class ImputedColumn:
    """Column names of a feature in a completed table.

    Attributes:
        feature: name of the feature.
        value: column of its values.
        sd: column of their standard deviations; "" if no cell was missing.
        imputed: column that flags imputed cells; "" if no cell was missing.
    """

    feature: str
    value: str
    sd: str = ""
    imputed: str = ""


def imputed_columns(dataset: Dataset) -> tuple[ImputedColumn, ...]:
    """The columns of a completed table after ``row_id`` and ``label``, by feature.

    Args:
        dataset: the table before imputation.
    """
    taken = {"row_id", *label_cells(dataset)}
    columns = []
    gaps = np.asarray(np.isnan(dataset.X).any(axis=0))
    for name, some in zip(dataset.feature_names, gaps.tolist(), strict=True):
        wanted = (name, f"{name} sd", f"{name} imputed") if some else (name,)
        columns.append(ImputedColumn(name, *(_unique_name(one, taken) for one in wanted)))
    return tuple(columns)


def completed_table(model: LatentVariableModel, dataset: Dataset) -> pd.DataFrame:
    """A table with its missing cells imputed.

    Args:
        model: a fitted model that supports missing cells.
        dataset: rows with its features.

    Returns:
        ``row_id``; ``label`` if the rows have labels; each feature in its own units, its observed
        cells unchanged; and for each feature with missing cells ``<name> sd``, the standard
        deviation of the imputed value (0 for an observed cell), and ``<name> imputed``. In a
        feature learned as log(1 + x) the imputed value is a median, and its sd half the width of
        the interval of ±1 sd.
    """
    filled = model.impute(features_of(model, dataset))
    gaps, sd = np.isnan(dataset.X), np.sqrt(filled.variance)
    values = dataset.original_units(filled.mean)
    width = 0.5 * (
        dataset.original_units(filled.mean + sd) - dataset.original_units(filled.mean - sd)
    )
    columns: dict[str, Any] = {"row_id": dataset.row_ids.tolist()}
    columns |= label_cells(dataset)
    for d, names in enumerate(imputed_columns(dataset)):
        columns[names.value] = _original_values(dataset, d, values[:, d])
        if names.imputed:
            spread = (width if dataset.log1p[d] else sd)[:, d]
            columns[names.sd] = np.where(gaps[:, d], spread, 0.0)
            columns[names.imputed] = gaps[:, d]
    return pd.DataFrame(columns)


def imputed_features(dataset: Dataset, completed: pd.DataFrame) -> dict[str, ImputedFeature]:
    """The features with imputed cells of a completed table, for ``fill_table``.

    Args:
        dataset: the rows that were imputed.
        completed: their ``completed_table``.

    Raises:
        DataError: the completed table is not that of the dataset.
    """
    found = {}
    for names in imputed_columns(dataset):
        if not names.imputed:
            continue
        try:
            values, sd = (completed[name].to_numpy(np.float64) for name in (names.value, names.sd))
            imputed = completed[names.imputed].to_numpy(np.bool_)
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"The completed table is damaged: it lacks {names.feature!r} or a part of it."
            ) from error
        found[names.feature] = ImputedFeature(values, sd, imputed)
    return found


def _original_values(dataset: Dataset, d: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values of a feature; for one learned as log(1 + x), observed cells from the table."""
    name = dataset.feature_names[d]
    if not dataset.log1p[d] or name not in dataset.frame:
        return values
    own = pd.to_numeric(dataset.frame[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    with np.errstate(all="ignore"):
        same = np.log1p(own) == dataset.X[:, d]
    return np.where(same, own, values)


def _unique_name(name: str, taken: set[str]) -> str:
    """``name``, or ``name (n)`` if it is taken; it is added to ``taken``."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name} ({number})", number + 1
    taken.add(found)
    return found


def _check_metrics(cells: HiddenCells, hidden: int) -> dict[str, Metric]:
    how = (
        f"A tenth of the known cells ({hidden:,}, seed {SEED}) were hidden, the model "
        "was fitted anew without them with the settings of the run, and it filled them in from "
        "the other cells of their rows, labels unused."
    )
    unit = "in standard deviations of the cells that were left"
    error = (
        "Root mean square over the hidden numbers and counts of what was filled in less the "
        f"truth, {unit}."
    )
    means = "The same for the mean and the sd of the cells that were left in each column"
    plain = np.zeros_like(cells.mean)
    by_means = dataclasses.replace(cells, mean=plain, variance=plain + 1)
    baseline = {
        "impute_rmse": Metric("error of filled cells (RMSE)", _rmse(by_means), f"{means}, {unit}."),
        **{
            key: dataclasses.replace(metric, protocol=f"{means}.")
            for key, metric in imputation_metrics(by_means, how).items()
        },
    }
    return {
        "impute_rmse": Metric("error of filled cells (RMSE)", _rmse(cells), f"{error} {how}"),
        **imputation_metrics(cells, how),
        **{
            f"{key}_means": dataclasses.replace(metric, label=f"{metric.label}, column means")
            for key, metric in baseline.items()
        },
    }


def _rmse(cells: HiddenCells) -> float | None:
    """Root mean square of the errors of numbers and counts; None where there is none."""
    chosen = cells.has_interval
    if not chosen.any():
        return None
    return float(np.sqrt(np.square(cells.mean - cells.truth)[chosen].mean()))
