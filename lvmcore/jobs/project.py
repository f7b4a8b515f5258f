"""The run that places new rows on the map of a fitted one."""

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

__all__ = ["Projection", "finished_fit", "fitted_rows", "projection_of", "select_rows"]


def projection_of(job: Job, rows: Dataset) -> JobSpec:
    """What places rows on the map of a fitted run.

    Args:
        job: the fitted run.
        rows: made as its features (``dataset_like``); to be put in the store.
    """
    return select_rows(job, rows, "project", f"{rows.name} on the map of {job.name}")


def select_rows(job: Job, rows: Dataset, kind: Kind, name: str) -> JobSpec:
    """What does something of a kind to rows with the model of a fitted run.

    Args:
        job: the fitted run.
        rows: made as its features (``dataset_like``).
        kind: what is done.
        name: what that is called, for people.
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
    """The rows that a run is fitted to.

    Raises:
        DataError: its dataset is gone.
    """
    return training_rows(store.datasets.get(spec.dataset), model_class(spec.model, "map"))[0]


class Projection(JobKind):
    """The rows of a dataset placed on the map of a fitted run.

    ``embedding.parquet`` holds the frame of the placement, ``metrics.json`` its figures.
    """

    first_stage: ClassVar[Stage] = "placing"
    stop_message = "Stopped before all rows were placed."
    placement: Placement

    def prepare(self) -> None:
        """Look for the fitted run."""
        self.store, self.fit = finished_fit(self.context)

    def work(self) -> None:
        """Place the rows."""
        spec = self.context.spec
        model, rows = self.store.load_model(spec.run, "map"), self.context.get_dataset()
        with self.context.row_progress() as tell:
            fitted = fitted_rows(self.store, self.fit.spec)
            self.placement = place_rows(model, rows, fitted, tell)

    def write_results(self) -> None:
        """Write the placement and its figures."""
        path = self.context.folder.files.embedding
        write_atomically(path, to_parquet_bytes(self.placement.frame))
        self.context.write_metrics(self.placement.metrics)

    def outcome(self) -> Outcome:
        """What is to be said of the placement."""
        return Outcome(notes=self.placement.notes)


def finished_fit(context: JobContext) -> tuple[Store, Job]:
    """The store, and the fitted run in it whose model a run uses.

    Raises:
        DataError: it is gone, or has not ended.
    """
    store, fit = context.fitted_run()
    if not fit.finished:
        raise DataError(f"The run {fit.name} is {fit.status}: expected one that has ended.")
    return store, fit
