"""The run that fits a model to a target column: fitted, written down, measured."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd

from lvmcore.base.predictor import Predictor
from lvmcore.evaluation.target_quality import target_metrics
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.fitting import fit_with_checkpoints
from lvmcore.jobs.job_kind import JobKind, Outcome
from lvmcore.metrics.metric import Metric
from lvmcore.persistence import write_atomically
from lvmcore.prediction.target_predictions import hidden_frame, prediction_table
from lvmcore.prediction.target_rows import SupervisedRows, split_for_target
from lvmcore.runs.atomic_files import as_plain_json
from lvmcore.runs.model_of_job import make_model

__all__ = ["TargetFit", "frame_of"]


class TargetFit(JobKind):
    """A fit to a target, without the rows that are held out.

    It writes ``model.safetensors``; ``predictions.parquet``, a line for each row of
    ``SupervisedRows`` (see ``prediction_table``) with its id, its number in the table from 1 and
    whether it was held out; ``hidden.parquet``, the means of the units of all hidden layers for the
    same rows, where the model has any; then the figures on the rows held out.
    """

    measured_last: ClassVar[bool] = True
    notes: tuple[str, ...] = ()
    model: Predictor
    rows: SupervisedRows
    predictions: pd.DataFrame

    def prepare(self) -> None:
        """Choose the rows of the fit, and those held out."""
        self.model = make_model(self.context.spec, "target")
        whole = self.context.get_dataset()
        self.rows = rows = split_for_target(whole, self.model.task, self.context.spec)
        self.context.check_stop()
        held = int(rows.held_out.sum())
        self.notes = (
            *rows.dataset.notes[len(whole.notes) :],
            f"Fitted to {len(rows.y) - held:,} rows and measured on {held:,}: {rows.how}.",
        )
        self.context.enter("fitting", self.notes)

    def work(self) -> None:
        """Fit the model, going on from a checkpoint; follow the density of the rows held out."""
        rows, learned = self.rows, ~self.rows.held_out
        unseen = rows.X[rows.held_out], rows.y[rows.held_out]
        fit_with_checkpoints(
            self.context.folder,
            self.model,
            rows.X[learned],
            rows.y[learned],
            self.context.monitor,
            unseen,
        )

    def write_results(self) -> None:
        """Write the model and the predictions."""
        files = self.context.folder.files
        self.model.save(files.model)
        if self.context.monitor.stopped == "interrupted":  # the machine is going away: no time
            return
        rows = self.rows
        self.predictions = frame_of(rows, prediction_table(self.model, rows.X, rows.y))
        hidden = hidden_frame(self.model, rows.X)
        if hidden is not None:
            write_atomically(files.hidden, to_parquet_bytes(frame_of(rows, hidden)))
        write_atomically(files.predictions, to_parquet_bytes(self.predictions))

    def outcome(self) -> Outcome:
        """The bound, and what is to be said of the fit."""
        return Outcome(
            notes=(*self.notes, *self.model.notes_),
            elbo=as_plain_json(float(self.model.elbo_)),
            converged=bool(self.model.converged_) and self.context.monitor.stopped is None,
        )

    def measure(self) -> dict[str, Metric]:
        """The figures on the rows held out."""
        frame, model = self.predictions, self.model
        found = target_metrics(frame[frame["held_out"]], self.rows.how)
        if np.isfinite(model.elbo_):
            found["elbo"] = Metric(
                "bound (ELBO)",
                float(model.elbo_),
                "Total nats of the rows of the fit"
                + (", the target standardised." if model.task == "number" else "."),
            )
        return found


def frame_of(rows: SupervisedRows, found: pd.DataFrame) -> pd.DataFrame:
    """A table about the rows of a fit, with what names each row before it."""
    known = {
        "row_id": rows.dataset.row_ids.tolist(),
        "row": rows.dataset.rows + 1,
        "held_out": rows.held_out,
    }
    return pd.concat([pd.DataFrame(known), found.reset_index(drop=True)], axis=1)
