"""The kind of run that places new rows on the map of a fitted run."""

from __future__ import annotations

from typing import ClassVar

from lvmcore.data.dataset import Dataset
from lvmcore.errors import DataError
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.fitting import training_rows
from lvmcore.jobs.job_kind import JobContext, JobKind, Outcome
from lvmcore.models import model_class
from lvmcore.persistence import write_atomically
from lvmcore.prediction.placement import Placement, place_rows
from lvmcore.runs.job import Job, JobSpec, Kind, Stage
from lvmcore.runs.store import Store

__all__ = ["Projection", "application_spec", "finished_fit", "fitted_rows", "projection_of"]


def projection_of(job: Job, rows: Dataset) -> JobSpec:
    """The description of a run that places rows on the map of a fitted run.

    Args:
        job: the fitted run.
        rows: rows with its features (``matching_dataset``); to be stored by the caller.
    """
    return application_spec(job, rows, "project", f"{rows.name} on the map of {job.name}")


def application_spec(job: Job, rows: Dataset, kind: Kind, name: str) -> JobSpec:
    """The description of a run that applies the model of a fitted run to rows.

    Args:
        job: the fitted run.
        rows: rows with its features (``matching_dataset``).
        kind: kind of the run.
        name: its display name.
    """
    return JobSpec(
        dataset=rows.digest,
        dataset_name=rows.name,
        model=job.spec.model,
        parameters=job.spec.parameters,
        name=name,
        kind=kind,
        run=job.id,
        target=job.spec.target,
    )


def fitted_rows(store: Store, spec: JobSpec) -> Dataset:
    """The rows to which a run is fitted.

    Raises:
        DataError: its dataset was deleted.
    """
    return training_rows(store.datasets.get(spec.dataset), model_class(spec.model, "map"))[0]


class Projection(JobKind):
    """The rows of a dataset placed on the map of a fitted run.

    ``embedding.parquet`` holds the frame of the placement, ``metrics.json`` its metrics.
    """

    first_stage: ClassVar[Stage] = "placing"
    stop_message = "Stopped before all rows were placed."
    placement: Placement

    def prepare(self) -> None:
        """Find the fitted run."""
        self.store, self.fit = finished_fit(self.context)

    def work(self) -> None:
        """Place the rows."""
        spec = self.context.spec
        model, rows = self.store.load_model(spec.run, "map"), self.context.get_dataset()
        with self.context.row_progress() as tell:
            fitted = fitted_rows(self.store, self.fit.spec)
            self.placement = place_rows(model, rows, fitted, tell)

    def write_results(self) -> None:
        """Write the placement and its metrics."""
        path = self.context.folder.files.embedding
        write_atomically(path, to_parquet_bytes(self.placement.frame))
        self.context.write_metrics(self.placement.metrics)

    def outcome(self) -> Outcome:
        """Notes on the placement."""
        return Outcome(notes=self.placement.notes)


def finished_fit(context: JobContext) -> tuple[Store, Job]:
    """The store, and the fitted run whose model a run uses.

    Raises:
        DataError: the fitted run was deleted, or has not ended.
    """
    store, fit = context.fitted_run()
    if not fit.finished:
        raise DataError(f"The run {fit.name} is {fit.status}: expected one that has ended.")
    return store, fit
