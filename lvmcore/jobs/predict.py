"""The kind of run that predicts the target of new rows with the model of a fitted run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.predictor import Predictor
from lvmcore.data.new_tables.column_matching import normalised_name
from lvmcore.errors import DataError
from lvmcore.evaluation.target_quality import target_metrics
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.job_kind import JobKind, Outcome
from lvmcore.jobs.project import application_spec, finished_fit
from lvmcore.metrics.metric import Metric
from lvmcore.persistence import write_atomically
from lvmcore.prediction.target_predictions import Tell, prediction_table
from lvmcore.prediction.target_rows import observed_target
from lvmcore.runs.job import Job, JobSpec, Stage

if TYPE_CHECKING:
    from lvmcore.data.dataset import Dataset

__all__ = ["RowPredictions", "TargetPrediction", "predict_rows", "prediction_of"]


@dataclasses.dataclass(frozen=True)
class RowPredictions:
    """Predictions of the target of new rows.

    Attributes:
        frame: one line per row: ``row_id`` and the columns of ``prediction_table``.
        metrics: metrics if the rows have the target; else empty.
        notes: sentences about what was left out.
    """

    frame: pd.DataFrame
    metrics: dict[str, Metric]
    notes: tuple[str, ...]


def prediction_of(job: Job, rows: Dataset) -> JobSpec:
    """The description of a run that predicts the target of rows with the model of a fitted run.

    Args:
        job: the fitted run.
        rows: rows with its features (``matching_dataset``); to be stored by the caller.
    """
    return application_spec(job, rows, "predict", f"{job.spec.target} of {rows.name} by {job.name}")


def predict_rows(
    model: Predictor, rows: Dataset, target: str, tell: Tell | None = None
) -> RowPredictions:
    """Predict the target of rows, with metrics if they have the target.

    Args:
        model: a fitted model.
        rows: rows with its features; a row with a missing cell has no prediction.
        target: name of the target column.
        tell: called after every few thousand rows; True stops.

    Raises:
        CancelledError: ``tell`` returned True.
        DataError: the rows do not fit the model, or all have missing cells.
    """
    X = pd.DataFrame(rows.X, columns=list(rows.transformed_names))
    truth, notes = _observed_target(rows, model, target)
    frame = prediction_table(model, X, truth, tell=tell)
    frame.insert(0, "row_id", rows.row_ids.tolist())
    incomplete = int(np.isnan(rows.X).any(axis=1).sum())
    if incomplete:
        n = "1 row has" if incomplete == 1 else f"{incomplete:,} rows have"
        notes.append(f"{n} no prediction, for a missing cell.")
    on = f"the rows of {rows.name!r} with a target, be they rows of the fit or not"
    metrics = {} if truth is None else target_metrics(frame, on)
    return RowPredictions(frame, metrics, tuple(notes))


def _observed_target(
    rows: Dataset, model: Predictor, target: str
) -> tuple[NDArray[Any] | None, list[str]]:
    """The target of the rows, None if they have none, and notes on it."""
    alike = [
        str(name)
        for name in rows.frame.columns
        if normalised_name(str(name)) == normalised_name(target)
    ]
    if target not in alike and len(alike) != 1:
        return None, []
    try:
        truth = observed_target(rows, model.task, target if target in alike else alike[0])
    except DataError as error:
        return None, [f"Not compared with the truth. {error}"]
    return (None, []) if pd.isna(truth).all() else (truth, [])


class TargetPrediction(JobKind):
    """Predictions of the target of new rows by the model of a fitted run.

    ``predictions.parquet`` holds the frame, ``metrics.json`` the metrics, if there are any.
    """

    first_stage: ClassVar[Stage] = "predicting"
    stop_message = "Stopped before all rows were predicted."
    found: RowPredictions

    def prepare(self) -> None:
        """Find the fitted run."""
        self.store, _ = finished_fit(self.context)

    def work(self) -> None:
        """Predict the rows."""
        spec = self.context.spec
        model, rows = self.store.load_model(spec.run, "target"), self.context.get_dataset()
        with self.context.row_progress() as tell:
            self.found = predict_rows(model, rows, spec.target, tell)

    def write_results(self) -> None:
        """Write the predictions and their metrics."""
        path = self.context.folder.files.predictions
        write_atomically(path, to_parquet_bytes(self.found.frame))
        self.context.write_metrics(self.found.metrics)

    def outcome(self) -> Outcome:
        """Notes on the predictions."""
        return Outcome(notes=self.found.notes)
