"""Kinds of run that fit a map: the fit whose model is kept, and the score on held-out rows."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.column_likelihoods import likelihood_text
from lvmcore.data.dataset import Dataset
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.file_rows import FileRows, density_sample, read_file_rows, refuse_files
from lvmcore.jobs.fitting import StoppedError, fit_from_checkpoint, training_rows
from lvmcore.jobs.job_kind import JobKind, Outcome, fit_outcome
from lvmcore.likelihoods.catalogue import BY_COLUMN
from lvmcore.metrics.metric import Metric
from lvmcore.persistence import write_atomically
from lvmcore.prediction.map_table import embedding_frame
from lvmcore.runs.model_of_job import make_model

__all__ = ["MapFit", "MapScore"]


class MapFit(JobKind):
    """A fit of a map: ``model.safetensors``, ``embedding.parquet``, then ``metrics.json``.

    A fit to registered files has ``all_rows.parquet`` with the positions of all rows, and
    ``density.parquet`` with those of the density picture; the others are of the sample.
    A fit with several starts also has ``agreement.parquet``, the agreement of its starts by row;
    one with held-out rows ``held_out.parquet``, their positions on the map.
    """

    measured_last: ClassVar[bool] = True
    notes: tuple[str, ...] = ()
    model: LatentVariableModel
    dataset: Dataset
    held_out: Dataset | None
    all_rows: FileRows | None = None

    def prepare(self) -> None:
        """Select the rows of the fit."""
        self.model = make_model(self.context.spec, "map")
        whole = self.context.get_dataset()
        if whole.files is not None:
            self.all_rows = read_file_rows(self.context, whole, type(self.model))
        self.dataset, self.notes = training_rows(whole, type(self.model))
        self.held_out = whole.subset(whole.held_out) if whole.held_out.any() else None
        if self.all_rows is not None:
            found = self.all_rows
            self.notes = (*self.notes, *found.rows.notes, found.note(len(self.dataset)))
        self._split()
        if getattr(self.model, "column_likelihood", None) == BY_COLUMN:
            self.model.set_params(column_likelihood=likelihood_text(self.dataset))
        self.context.check_stop()
        self.context.enter("fitting", self.notes)

    def _split(self) -> None:
        """Hold out further rows, in a subclass."""

    def work(self) -> None:
        """Fit the model, from a checkpoint if there is one; or take the one that is given."""
        if isinstance(self.context.fitted, LatentVariableModel):
            self.model = self.context.fitted
            return
        if self.all_rows is None:
            X: Any = pd.DataFrame(self.dataset.X, columns=list(self.dataset.transformed_names))
            y: Any = self.dataset.y
        else:
            X, y = self.all_rows.rows.X, self.all_rows.rows.y()
        y = None if self.model.capabilities.labels == "none" else y
        model, monitor = self.model, self.context.monitor
        fit_from_checkpoint(
            self.context.folder,
            model,
            monitor,
            lambda checkpoint: model._fit_from(X, y, callback=monitor, checkpoint=checkpoint),
        )

    def write_results(self) -> None:
        """Write the model and the embedding."""
        files = self.context.folder.files
        found = self.all_rows
        whole = None if found is None else found.keep_sample(self.model, self.dataset)
        self.model.save(files.model)
        content = to_parquet_bytes(embedding_frame(self.model, self.dataset))
        write_atomically(files.embedding, content)
        if found is not None and whole is not None:
            write_atomically(files.density, to_parquet_bytes(density_sample(whole)))
            uncertain = self.model.capabilities.uncertainty
            found.write_map(whole, files.all_rows, uncertain=uncertain)
            found.close()

    def outcome(self) -> Outcome:
        """The bound, its convergence, and the notes of the fit."""
        notes = (*self.notes, *self.model.notes_)
        return fit_outcome(self.model, notes, self.context.monitor)

    def measure(self) -> dict[str, Metric]:
        """The metrics of the map, including the agreement of its starts."""
        # Imported here: a fit does not wait for their dependencies.
        from lvmcore.evaluation.held_out_rows import held_out_positions
        from lvmcore.evaluation.map_quality import map_metrics
        from lvmcore.evaluation.start_agreement import start_agreement

        if self.held_out is not None:
            placed = held_out_positions(self.model, self.dataset, self.held_out)
            if placed is not None:
                write_atomically(self.context.folder.files.held_out, to_parquet_bytes(placed))
        metrics = map_metrics(self.model, self.dataset, self.held_out)
        starts = None if self.all_rows else start_agreement(self.model, self.dataset)
        if starts is not None:
            metrics |= starts.metrics
            if starts.rows is not None:
                path = self.context.folder.files.agreement
                write_atomically(path, to_parquet_bytes(starts.rows))
        return metrics


class MapScore(MapFit):
    """A fit to 80 % of the rows, scored on the others; only its metrics are kept."""

    measured_last: ClassVar[bool] = False
    metrics: dict[str, Metric]

    def _split(self) -> None:
        from lvmcore.evaluation.scoring import (
            scoring_split,  # a fit does not wait for its dependencies
        )

        refuse_files(self.dataset, "A score on other rows")
        self.dataset, self.held_out = scoring_split(self.dataset, type(self.model))

    def work(self) -> None:
        """Fit the model and score it; a fit that was stopped early is not scored."""
        from lvmcore.evaluation.scoring import score_on_new_rows

        super().work()
        if self.context.monitor.stopped is not None:
            raise StoppedError(self.context.monitor.stopped)
        self.context.enter("measuring")
        assert self.held_out is not None
        self.metrics = score_on_new_rows(self.model, self.dataset, self.held_out)

    def write_results(self) -> None:
        """Write the metrics."""
        self.context.write_metrics(self.metrics)

    def outcome(self) -> Outcome:
        """The convergence and the notes of the fit."""
        notes = (*self.notes, *self.model.notes_)
        return Outcome(notes=notes, converged=bool(self.model.converged_))
