"""The kinds of run that apply a fitted model to registered files.

The folder ``parts`` of the run has the results of all rows; its other files are those of the same
kind of run for a table in memory, of the sample of the rows.
"""

from __future__ import annotations

import dataclasses

from lvmcore.data.dataset import Dataset
from lvmcore.errors import DataError
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.file_blocks.job_parts import apply_in_parts, block_model
from lvmcore.jobs.impute import completed_table, refuse_complete_models
from lvmcore.jobs.job_kind import JobKind, Outcome
from lvmcore.jobs.predict import TargetPrediction, predict_rows
from lvmcore.jobs.project import Projection, fitted_rows
from lvmcore.persistence import write_atomically
from lvmcore.prediction.placement import place_rows
from lvmcore.prediction.target_rows import target_features

__all__ = ["FileImputation", "FilePrediction", "FileProjection"]


def _note(rows: int, sample: Dataset) -> str:
    """Note on what the results of a run of files are of."""
    return (
        f"All {rows:,} rows of the files are done: the results are the Parquet files in the folder "
        f"parts of the run. This page shows those of a sample of {len(sample):,} rows."
    )


class FileProjection(Projection):
    """The rows of files placed on the map of a fitted run."""

    def work(self) -> None:
        """Place all rows block by block, and those of the sample with their surprise."""
        context = self.context
        model, rows = self.store.load_model(context.spec.run, "map"), context.get_dataset()
        fitted = fitted_rows(self.store, self.fit.spec)
        path = self.store.job_folder(self.fit.id).files.model
        n = apply_in_parts(context, block_model("project", path, model, rows, fitted))
        found = place_rows(model, rows, fitted, lambda *_: context.stop_requested)
        self.placement = dataclasses.replace(found, notes=(_note(n, rows), *found.notes))


class FilePrediction(TargetPrediction):
    """The target of the rows of files by the model of a fitted run."""

    def work(self) -> None:
        """Predict all rows block by block, and measure those of the sample."""
        context = self.context
        _, fit = context.fitted_run()
        spec, rows = fit.spec, context.get_dataset()
        model = self.store.load_model(context.spec.run, "target")
        fitted = target_features(self.store.datasets.get(spec.dataset), spec.target, spec.groups)
        path = self.store.job_folder(fit.id).files.model
        blocks = block_model("predict", path, model, rows, fitted, target=spec.target)
        n = apply_in_parts(context, blocks)
        found = predict_rows(model, rows, spec.target, lambda *_: context.stop_requested)
        self.found = dataclasses.replace(found, notes=(_note(n, rows), *found.notes))


class FileImputation(JobKind):
    """The missing cells of the files of a fitted run, filled by its model.

    ``completed.parquet`` holds the completed table of the sample. There is no check, which needs
    all rows in memory.
    """

    stop_message = "Stopped before all rows were filled."

    def prepare(self) -> None:
        """Find the fitted run."""
        _, fit = self.context.fitted_run()
        if not fit.has_model:
            raise DataError(f"The run {fit.name} is {fit.status}: expected one that has a model.")

    def work(self) -> None:
        """Fill all rows block by block."""
        store, fit = self.context.fitted_run()
        model, rows = store.load_model(fit.id, "map"), self.context.get_dataset()
        refuse_complete_models(model)
        path = store.job_folder(fit.id).files.model
        n = apply_in_parts(self.context, block_model("impute", path, model, rows, rows))
        self.sample = rows.nonempty_rows()
        self.completed = completed_table(model, self.sample)
        self.rows = n

    def write_results(self) -> None:
        """Write the completed sample."""
        content = to_parquet_bytes(self.completed)
        write_atomically(self.context.folder.files.completed, content)
        self.context.write_metrics({})

    def outcome(self) -> Outcome:
        """Notes on the rows."""
        no_check = "The imputation is not checked: that needs all rows in memory."
        return Outcome(notes=(_note(self.rows, self.sample), no_check))
