"""A run that fits a model to a target column: fitted, written down, measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pandas as pd

from lvmcore.data.dataset import Dataset
from lvmcore.evaluation.target_quality import target_metrics
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.fitting import FitMonitor, FitResult, StoppedError, fit_with_checkpoints
from lvmcore.metrics.metric import Metric
from lvmcore.persistence import write_atomically
from lvmcore.prediction.target_predictions import hidden_frame, prediction_table
from lvmcore.prediction.target_rows import SupervisedRows, split_for_target
from lvmcore.runs.job_folder import JobFolder, JobState
from lvmcore.runs.model_of_job import make_model

__all__ = ["fit_target", "frame_of"]


def fit_target(
    folder: JobFolder, state: JobState, get_dataset: Callable[[], Dataset], watch: FitMonitor
) -> FitResult:
    """Fit the model of a run to its target, without the rows that are held out.

    What it makes: ``predictions.parquet``, a line for each row of ``TargetRows`` (see
    ``predictions.predicted``) with its id, its number in the table from 1 and whether it was held
    out; ``hidden.parquet``, the means of the units of all hidden layers for the same rows, where
    the model has any; and the figures on the rows held out.

    Args:
        folder: of the run.
        state: in which it is.
        get_dataset: gives the dataset.
        watch: the callback of the fit.

    Raises:
        ConfigError, DataError: the run cannot be done; the message names column or setting.
        StoppedError: it was asked to stop before the fit began.
    """
    spec = folder.spec()
    model = make_model(spec, "target")
    whole = get_dataset()
    rows = split_for_target(whole, model.task, spec)
    reason = watch.should_stop()
    if reason is not None:
        raise StoppedError(reason)
    held = int(rows.held_out.sum())
    notes = (
        *rows.dataset.notes[len(whole.notes) :],
        f"Fitted to {len(rows.y) - held:,} rows and measured on {held:,}: {rows.how}.",
    )
    state = dataclasses.replace(state, stage="fitting", notes=notes)
    folder.write_state(state)
    learned = ~rows.held_out
    unseen = rows.X[rows.held_out], rows.y[rows.held_out]
    fit_with_checkpoints(folder, model, rows.X[learned], rows.y[learned], watch, unseen)
    made: list[pd.DataFrame] = []

    def keep() -> None:
        if watch.stopped == "interrupted":  # the machine is going away: there is no time
            return
        made.append(frame_of(rows, prediction_table(model, rows.X, rows.y)))
        hidden = hidden_frame(model, rows.X)
        if hidden is not None:
            write_atomically(folder.files.hidden, to_parquet_bytes(frame_of(rows, hidden)))
        write_atomically(folder.files.predictions, to_parquet_bytes(made[0]))

    def measure() -> dict[str, Metric]:
        (frame,) = made
        found = target_metrics(frame[frame["held_out"]], rows.how)
        if np.isfinite(model.elbo_):
            found["elbo"] = Metric(
                "bound (ELBO)",
                float(model.elbo_),
                "Total nats of the rows of the fit"
                + (", the target standardised." if model.task == "number" else "."),
            )
        return found

    return FitResult(model, state, keep, measure)


def frame_of(rows: SupervisedRows, found: pd.DataFrame) -> pd.DataFrame:
    """A table about the rows of a fit, with what names each row before it."""
    known = {
        "row_id": rows.dataset.row_ids.tolist(),
        "row": rows.dataset.rows + 1,
        "held_out": rows.held_out,
    }
    return pd.concat([pd.DataFrame(known), found.reset_index(drop=True)], axis=1)
