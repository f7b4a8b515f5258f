"""The kind of run that fits a model to a target column."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import ClassVar

import numpy as np
import pandas as pd

from lvmcore.base.predictor import Predictor
from lvmcore.devices import computed_on
from lvmcore.evaluation.target_comparison import compare_target
from lvmcore.evaluation.target_quality import target_metrics
from lvmcore.evaluation.target_scores import target_comparison_to_json
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.file_rows import refuse_files
from lvmcore.jobs.fitting import StoppedError, fit_from_checkpoint
from lvmcore.jobs.job_kind import JobKind, Outcome, fit_outcome
from lvmcore.metrics.metric import Metric
from lvmcore.persistence import write_atomically
from lvmcore.prediction.target_predictions import hidden_frame, prediction_table
from lvmcore.prediction.target_rows import SupervisedRows, split_for_target
from lvmcore.runs.atomic_files import write_json
from lvmcore.runs.model_of_job import make_model

__all__ = ["TargetFit", "with_row_columns"]

#: Time for the baselines: this, or as long as the fit took.
BASELINE_SECONDS = 10.0


class TargetFit(JobKind):
    """A fit to a target, with held-out rows.

    It writes ``model.safetensors``; ``predictions.parquet``, the predictions of ``SupervisedRows``
    (see ``prediction_table``) with each row's id, its number in the table from 1 and whether it was
    held out; ``hidden.parquet``, the means of the units of all hidden layers for the same rows, if
    the model has any; then ``metrics.json``, the metrics of the held-out rows, and
    ``comparison.json``, the scores of the model and of baselines on these rows.
    """

    measured_last: ClassVar[bool] = True
    notes: tuple[str, ...] = ()
    model: Predictor
    rows: SupervisedRows
    predictions: pd.DataFrame
    seconds: float

    def prepare(self) -> None:
        """Select the rows of the fit and the held-out rows."""
        self.model = make_model(self.context.spec, "target")
        whole = self.context.get_dataset()
        refuse_files(whole, f"A fit of {self.model.title} to a target")
        self.rows = rows = split_for_target(whole, self.model.task, self.context.spec)
        self.context.check_stop()
        held = int(rows.held_out.sum())
        self.notes = (
            *rows.dataset.notes[len(whole.notes) :],
            f"Fitted to {len(rows.y) - held:,} rows and measured on {held:,}: {rows.how}.",
        )
        self.context.enter("fitting", self.notes)

    def work(self) -> None:
        """Fit the model, from a checkpoint if there is one; track the held-out density.

        A model that is given is taken as it is.
        """
        rows, learned = self.rows, ~self.rows.held_out
        began = time.monotonic()
        if isinstance(self.context.fitted, Predictor):
            self.model, self.seconds = self.context.fitted, 0.0
            return
        model, monitor = self.model, self.context.monitor
        fit_from_checkpoint(
            self.context.folder,
            model,
            monitor,
            lambda checkpoint: model._fit_from(
                rows.X[learned],
                rows.y[learned],
                callback=monitor,
                checkpoint=checkpoint,
                held_out=(rows.X[rows.held_out], rows.y[rows.held_out]),
            ),
        )
        self.seconds = time.monotonic() - began

    def write_results(self) -> None:
        """Write the model and the predictions."""
        files = self.context.folder.files
        self.model.save(files.model)
        if self.context.monitor.stopped == "interrupted":  # the process must end: no time
            return
        rows = self.rows
        self.predictions = with_row_columns(rows, prediction_table(self.model, rows.X, rows.y))
        hidden = hidden_frame(self.model, rows.X)
        if hidden is not None:
            write_atomically(files.hidden, to_parquet_bytes(with_row_columns(rows, hidden)))
        write_atomically(files.predictions, to_parquet_bytes(self.predictions))

    def outcome(self) -> Outcome:
        """The bound, its convergence, and the notes of the fit."""
        own = self.model.notes_in_units(self.rows.date_units)
        return fit_outcome(self.model, (*self.notes, *own), self.context.monitor)

    def measure(self) -> dict[str, Metric]:
        """The metrics of the held-out rows, and the bound; then the baselines."""
        frame, model = self.predictions, self.model
        found = target_metrics(frame[frame["held_out"]], self.rows.how)
        if np.isfinite(model.elbo_):
            found["elbo"] = Metric(
                "bound (ELBO)",
                float(model.elbo_),
                "Total nats of the rows of the fit"
                + (", the target standardised." if model.task == "number" else ".")
                + computed_on(model.computation_),
            )
        self.context.write_metrics(found)  # the page shows them while the baselines are fitted
        given = self.context.fitted is not None  # which may have seen the held-out rows
        if given and not self.rows.dataset.held_out.any():
            return found
        with suppress(StoppedError):
            self._compare()
        return found

    def _compare(self) -> None:
        """Write the comparison with baselines, unless the run has to stop."""
        compared = compare_target(
            self.predictions,
            self.rows,
            seconds=max(BASELINE_SECONDS, self.seconds),
            check_stop=self._check_stop,
        )
        if compared is not None:
            path = self.context.folder.files.comparison
            write_json(path, target_comparison_to_json(compared))

    def _check_stop(self) -> None:
        """Raise if the run has to stop for another reason than the one that ended the fit."""
        monitor = self.context.monitor
        reason = monitor.should_stop()
        if reason is not None and reason != monitor.stopped:
            raise StoppedError(reason)


def with_row_columns(rows: SupervisedRows, found: pd.DataFrame) -> pd.DataFrame:
    """A table of the rows of a fit, preceded by the columns that identify each row.

    Args:
        rows: the rows.
        found: the table, one line per row.

    Returns:
        ``row_id``; ``row``, its number in the table from 1; ``held_out``; the columns of ``found``.
    """
    known = {
        "row_id": rows.dataset.row_ids.tolist(),
        "row": rows.dataset.rows + 1,
        "held_out": rows.held_out,
    }
    return pd.concat([pd.DataFrame(known), found.reset_index(drop=True)], axis=1)
