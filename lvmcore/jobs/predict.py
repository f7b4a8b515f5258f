"""The run that predicts the target of other rows with the model of a fitted one."""

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
from lvmcore.jobs.project import finished_fit, select_rows
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
    """What a model predicts of other rows.

    Attributes:
        frame: a line a row: ``row_id`` and what ``predictions.predicted`` gives.
        metrics: figures where the rows have the target too; else none.
        notes: what was left out, in plain sentences.
    """

    frame: pd.DataFrame
    metrics: dict[str, Metric]
    notes: tuple[str, ...]


def prediction_of(job: Job, rows: Dataset) -> JobSpec:
    """What predicts the target of rows with the model of a fitted run.

    Args:
        job: the fitted run.
        rows: made as its features (``dataset_like``); to be put in the store.
    """
    return select_rows(job, rows, "predict", f"{job.spec.target} of {rows.name} by {job.name}")


def predict_rows(
    model: Predictor, rows: Dataset, target: str, tell: Tell | None = None
) -> RowPredictions:
    """Predict the target of rows, and measure that where they have it.

    Args:
        model: a fitted model.
        rows: made as its features; those with a missing cell get no prediction.
        target: name of the column that the model predicts.
        tell: told of every few thousand rows; True stops.

    Raises:
        CancelledError: ``tell`` asked to stop.
        DataError: the rows do not fit the model, or none has every cell.
    """
    X = pd.DataFrame(rows.X, columns=list(rows.transformed_names))
    truth, notes = _truth(rows, model, target)
    frame = prediction_table(model, X, truth, tell=tell)
    frame.insert(0, "row_id", rows.row_ids.tolist())
    incomplete = int(np.isnan(rows.X).any(axis=1).sum())
    if incomplete:
        n = "1 row has" if incomplete == 1 else f"{incomplete:,} rows have"
        notes.append(f"{n} no prediction, for a missing cell.")
    on = f"the rows of {rows.name!r} with a target, be they rows of the fit or not"
    metrics = {} if truth is None else target_metrics(frame, on)
    return RowPredictions(frame, metrics, tuple(notes))


def _truth(rows: Dataset, model: Predictor, target: str) -> tuple[NDArray[Any] | None, list[str]]:
    """The target of the rows where they have it, and what is to be said of it."""
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
    """The target of other rows, predicted with the model of a fitted run.

    ``predictions.parquet`` holds the frame, ``metrics.json`` the figures, where there are any.
    """

    first_stage: ClassVar[Stage] = "predicting"
    stop_message = "Stopped before all rows were predicted."
    found: RowPredictions

    def prepare(self) -> None:
        """Look for the fitted run."""
        self.store, _ = finished_fit(self.context)

    def work(self) -> None:
        """Predict the rows."""
        spec = self.context.spec
        model, rows = self.store.load_model(spec.run, "target"), self.context.get_dataset()
        with self.context.row_progress() as tell:
            self.found = predict_rows(model, rows, spec.target, tell)

    def write_results(self) -> None:
        """Write the predictions and their figures."""
        path = self.context.folder.files.predictions
        write_atomically(path, to_parquet_bytes(self.found.frame))
        self.context.write_metrics(self.found.metrics)

    def outcome(self) -> Outcome:
        """What is to be said of the predictions."""
        return Outcome(notes=self.found.notes)
