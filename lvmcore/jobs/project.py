"""The run that places new rows on the map of a fitted one."""

from __future__ import annotations

import dataclasses
import math
import time
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from lvmcore.errors import CancelledError, DataError
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.fitting import Reason, describe_error, training_rows
from lvmcore.models import model_class
from lvmcore.persistence import write_atomically
from lvmcore.prediction.placement import Placement, place_rows
from lvmcore.results import FitStep
from lvmcore.runs.atomic_files import write_json
from lvmcore.runs.event_log import EventLog
from lvmcore.runs.job import Job, JobSpec, Kind, Stage, now
from lvmcore.runs.job_folder import JobFolder, JobState

if TYPE_CHECKING:
    from lvmcore.data.dataset import Dataset
    from lvmcore.runs.store import Store

__all__ = [
    "finished_fit",
    "fitted_rows",
    "follow_to_the_end",
    "project",
    "projection_of",
    "select_rows",
]

_NOTHING_KEPT = "Stopped before all rows were placed."


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


def project(folder: JobFolder, store: Store, should_stop: Callable[[], Reason | None]) -> JobState:
    """Place the rows that the folder's spec.json asks for, and leave what is known of them there.

    ``embedding.parquet`` holds the frame of the placement, ``metrics.json`` its figures. The caller
    holds the folder's lock.

    Args:
        folder: a run of kind "project" that has not begun.
        store: where its dataset and the fitted run are.
        should_stop: asked after every few rows; a reason ends the run, and nothing is kept.

    Returns:
        The state in which the run ended; the same as its status.json.
    """

    def make() -> tuple[str, ...]:
        placement = _place(folder, store, should_stop)
        write_atomically(folder.files.embedding, to_parquet_bytes(placement.frame))
        stored = {key: dataclasses.asdict(metric) for key, metric in placement.metrics.items()}
        write_json(folder.files.metrics, stored)
        return placement.notes

    return follow_to_the_end(folder, "placing", make, should_stop, _NOTHING_KEPT)


def follow_to_the_end(
    folder: JobFolder,
    stage: Stage,
    make: Callable[[], tuple[str, ...]],
    should_stop: Callable[[], Reason | None],
    nothing_kept: str,
) -> JobState:
    """See a run through that uses the model of a fitted one, whatever becomes of it.

    Args:
        folder: of the run, whose lock the caller holds.
        stage: what it does.
        make: does it, writes what comes of it, and gives the notes; ``CancelledError`` where it was
            asked to stop.
        should_stop: why it was.
        nothing_kept: what to say of one that stopped.

    Returns:
        The state in which it ended; the same as its status.json.
    """
    state = dataclasses.replace(folder.state(), status="running", stage=stage, started=now())
    try:
        folder.write_state(state)
        state = state.ending("done", notes=make())
    except CancelledError:
        state = state.ending(should_stop() or "interrupted", message=nothing_kept)
    except Exception as error:
        message, kind = describe_error(error)
        if kind == "Unexpected":
            _log(folder, error)
        state = state.ending("failed", message=message, error=kind)
    try:
        folder.write_state(state)
        folder.clear_up()
    except OSError as error:
        _log(folder, error)
    return state


def _place(folder: JobFolder, store: Store, should_stop: Callable[[], Reason | None]) -> Placement:
    spec, began = folder.spec(), time.monotonic()
    fit = finished_fit(store, spec)
    model, rows = store.load_model(spec.run), store.datasets.get(spec.dataset)
    with closing(EventLog(folder.files.events)) as log:

        def tell(done: int, total: int) -> bool:
            log.add(FitStep(done, total, time.monotonic() - began, math.nan))
            return should_stop() is not None

        return place_rows(model, rows, fitted_rows(store, fit.spec), tell)


def finished_fit(store: Store, spec: JobSpec) -> Job:
    """The fitted run whose model a run uses.

    Raises:
        DataError: it is gone, or has not ended.
    """
    fit = store.get(spec.run)
    if not fit.finished:
        raise DataError(f"The run {fit.name} is {fit.status}: expected one that has ended.")
    return fit


def _log(folder: JobFolder, error: BaseException) -> None:
    with suppress(OSError), folder.files.log.open("a", encoding="utf-8") as log:
        traceback.print_exception(error, file=log)
