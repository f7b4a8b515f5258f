"""Execution of a run in its folder, for the worker and the command line."""

from __future__ import annotations

import dataclasses
import importlib
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from lvmcore.data.dataset import Dataset
from lvmcore.distributed.shards import ShardLostError
from lvmcore.errors import CancelledError, DataError, LatentboardError
from lvmcore.jobs.fitting import FitMonitor, StoppedError, describe_error
from lvmcore.jobs.job_kind import JobContext, JobKind
from lvmcore.models import AnyModel
from lvmcore.results import FitStep
from lvmcore.runs.job import JobSpec, now
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job_state import JobState, Reason
from lvmcore.runs.model_of_job import check_spec
from lvmcore.runs.run_files import private_opener
from lvmcore.runs.store import Store

__all__ = ["run_job"]

#: Module and class of each kind of run, imported on use: a fit does not wait for the other kinds.
_KINDS = {
    "fit": ("lvmcore.jobs.fit_map", "MapFit"),
    "fit to a target": ("lvmcore.jobs.fit_target", "TargetFit"),
    "score": ("lvmcore.jobs.fit_map", "MapScore"),
    "project": ("lvmcore.jobs.project", "Projection"),
    "impute": ("lvmcore.jobs.impute", "Imputation"),
    "predict": ("lvmcore.jobs.predict", "TargetPrediction"),
    "learning curve": ("lvmcore.jobs.learning_curve", "LearningCurveFits"),
}
#: The kinds of run whose dataset is a sample of files that stay in place.
_KINDS_OF_FILES = {
    "project": ("lvmcore.jobs.file_blocks.kinds", "FileProjection"),
    "impute": ("lvmcore.jobs.file_blocks.kinds", "FileImputation"),
    "predict": ("lvmcore.jobs.file_blocks.kinds", "FilePrediction"),
}
_INTERRUPTED = (
    "The fit was stopped from outside, with the dashboard or by the machine. What was fitted until "
    "then was kept."
)
_NO_METRICS = "The figures about the fit could not be measured: worker.log has the details."


def run_job(
    folder: JobFolder,
    get_dataset: Callable[[], Dataset],
    should_stop: Callable[[], Reason | None],
    *,
    on_step: Callable[[FitStep], None] | None = None,
    store: Store | None = None,
    fitted: AnyModel | None = None,
) -> JobState:
    """Execute the run described by ``spec.json`` in its folder, and write its results there.

    The results are written first, then the state, then, after a fit, its metrics, so that the
    result is available before the metrics. The caller holds the folder's lock.

    Args:
        folder: a run that has not started.
        get_dataset: returns the dataset; its errors are reported like those of the fit.
        should_stop: called at every step; a reason stops the run, and the fit so far is kept.
        on_step: called with every step of a fit.
        store: store of the fitted run whose model the run uses; None for a fit.
        fitted: a fitted model that is kept in place of a fit; None for a run that fits its own.

    Returns:
        The final state of the run, as in ``status.json``.

    Raises:
        ShardLostError: a shard of the fit was lost; the run can go on from its last checkpoint.
    """
    state = dataclasses.replace(folder.state(), status="running", stage="preparing", started=now())
    monitor = FitMonitor(folder, should_stop, on_step)
    job: JobKind | None = None
    try:
        spec = folder.spec()
        kind = _kind_of(spec, store)
        state = dataclasses.replace(state, stage=kind.first_stage)
        folder.write_state(state)
        job = kind(JobContext(folder, spec, get_dataset, monitor, store, fitted))
        with closing(monitor):
            job.prepare()
            job.work()
        job.write_results()
        outcome = job.outcome()
    except (StoppedError, CancelledError) as stop:
        asked = stop.reason if isinstance(stop, StoppedError) else monitor.stopped or should_stop()
        message = (job or JobKind).stop_message
        return _write_state(
            folder, _incomplete_state(state, job, asked or "interrupted", message=message)
        )
    except ShardLostError:
        raise  # the caller, who holds the lock, puts the run back in the queue
    except Exception as error:
        message, name = _describe(folder, error)
        return _write_state(
            folder, _incomplete_state(state, job, "failed", message=message, error=name)
        )
    state = state.ending(
        monitor.stopped or "done",
        **vars(outcome),
        message=_INTERRUPTED if monitor.stopped == "interrupted" else None,
    )
    if state.status == "interrupted" or not job.measured_last:
        return _write_state(folder, state)
    return _measure(job, state)


def _kind_of(spec: JobSpec, store: Store | None) -> type[JobKind]:
    name = "fit to a target" if spec.kind == "fit" and spec.target else spec.kind
    module, member = _KINDS[name]
    if store is not None and name in _KINDS_OF_FILES:
        with suppress(DataError):  # the run itself says that its dataset is gone
            if store.datasets.stays_in_place(spec.dataset):
                module, member = _KINDS_OF_FILES[name]
    found: type[JobKind] = getattr(importlib.import_module(module), member)
    return found


def _incomplete_state(state: JobState, job: JobKind | None, status: Any, **parts: Any) -> JobState:
    """The final state of a run without a result."""
    return state.ending(status, notes=() if job is None else job.kept_notes, **parts)


def _describe(folder: JobFolder, error: Exception) -> tuple[str, str]:
    """A message for an error of a run, and its kind; an unexpected one is logged.

    Settings are checked when a run is submitted. They cause an unexpected error where another
    version allowed them, or where the description was written by hand.
    """
    message, name = describe_error(error)
    if name == "Unexpected":
        _log_error(folder, error)
        try:
            check_spec(folder.spec())
        except LatentboardError as cause:
            return describe_error(cause)
    return message, name


def _measure(job: JobKind, state: JobState) -> JobState:
    """Compute the metrics of a finished run; an error leaves it finished, with a note."""
    folder = job.context.folder
    _write_state(folder, dataclasses.replace(state, stage="measuring"))
    try:
        job.context.write_metrics(job.measure())
    except Exception as error:
        _log_error(folder, error)
        state = dataclasses.replace(state, notes=(*state.notes, _NO_METRICS))
    return _write_state(folder, state)


def _write_state(folder: JobFolder, state: JobState) -> JobState:
    """Write a state; on a full disk, ``JobFolder.settle`` reports that instead."""
    written = folder.state()
    state = dataclasses.replace(
        state,
        attempt=written.attempt,
        earlier=written.earlier,
        computation=state.computation or written.computation,
    )
    try:
        folder.write_state(state)
        folder.clear_up()
    except OSError as error:
        _log_error(folder, error)
    return state


def _log_error(folder: JobFolder, error: BaseException) -> None:
    """Append an error with its traceback to the log of the run."""
    with (
        suppress(OSError),
        open(folder.files.log, "a", encoding="utf-8", opener=private_opener) as log,
    ):
        traceback.print_exception(error, file=log)
