"""Base class of the kinds of run, with their context and outcome."""

from __future__ import annotations

import dataclasses
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from lvmcore.data.dataset import Dataset
from lvmcore.devices import Computation
from lvmcore.errors import DataError
from lvmcore.jobs.fitting import FitMonitor, StoppedError
from lvmcore.metrics.metric import Metric
from lvmcore.models import AnyModel
from lvmcore.results import FitStep
from lvmcore.runs.atomic_files import as_plain_json, write_json
from lvmcore.runs.event_log import EventLog
from lvmcore.runs.job import Job, JobSpec, Stage
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.store import Store

__all__ = ["JobContext", "JobKind", "Outcome", "fit_outcome"]


@dataclass(frozen=True)
class JobContext:
    """Inputs of a run.

    Attributes:
        folder: its folder, whose lock is held.
        spec: its description.
        get_dataset: returns its dataset.
        monitor: the callback of its fit.
        store: store of the fitted run whose model it uses; None for a run that fits its own.
        fitted: the fitted model that a run of a fit keeps; None for one that fits its own.
        began: start time by the monotonic clock, seconds.
    """

    folder: JobFolder
    spec: JobSpec
    get_dataset: Callable[[], Dataset]
    monitor: FitMonitor
    store: Store | None = None
    fitted: AnyModel | None = None
    began: float = dataclasses.field(default_factory=time.monotonic)

    def enter(self, stage: Stage, notes: tuple[str, ...] | None = None) -> None:
        """Write the current stage, and the notes so far if they changed."""
        state = self.folder.state()
        notes = state.notes if notes is None else notes
        self.folder.write_state(dataclasses.replace(state, stage=stage, notes=notes))

    @property
    def stop_requested(self) -> bool:
        """Whether the run should stop."""
        return self.monitor.should_stop() is not None

    def check_stop(self) -> None:
        """Raise if the run should stop.

        Raises:
            StoppedError: a stop was requested.
        """
        reason = self.monitor.should_stop()
        if reason is not None:
            raise StoppedError(reason)

    def fitted_run(self) -> tuple[Store, Job]:
        """The store, and the fitted run whose model is used.

        Raises:
            DataError: the run was deleted, or there is no store.
        """
        if self.store is None:
            raise DataError("The run uses the model of another one, and no store is given.")
        return self.store, self.store.get(self.spec.run)

    def write_metrics(self, metrics: dict[str, Metric]) -> None:
        """Write the metrics of the result."""
        stored = {key: dataclasses.asdict(metric) for key, metric in metrics.items()}
        write_json(self.folder.files.metrics, stored)

    @contextmanager
    def row_progress(self, *, every: bool = False) -> Iterator[Callable[[int, int], bool]]:
        """A callback for row-wise work: called with the rows done and in all; True stops.

        Args:
            every: whether each call is an event; else calls in quick succession are one.
        """
        with closing(EventLog(self.folder.files.events)) as log:

            def tell(done: int, total: int) -> bool:
                seconds = time.monotonic() - self.began
                log.add(FitStep(done, total, seconds, math.nan, ends=every))
                return self.monitor.should_stop() is not None

            yield tell


@dataclass(frozen=True)
class Outcome:
    """Summary of a result, for the final state of its run.

    Attributes:
        notes: sentences about the result.
        elbo: final bound, total nats; None without a bound.
        converged: whether the fit converged; None without a fit.
        rise: rise of a mini-batch bound a step, as in ``Job``.
        computation: device, precision and threads of the fit.
    """

    notes: tuple[str, ...] = ()
    elbo: float | None = None
    converged: bool | None = None
    rise: tuple[float, float] | None = None
    computation: Computation | None = None


def fit_outcome(model: AnyModel, notes: tuple[str, ...], monitor: FitMonitor) -> Outcome:
    """The outcome of a fit whose model is kept.

    Args:
        model: the fitted model.
        notes: notes of the run and of the model.
        monitor: callback of the fit; a fit that it stopped has not converged.
    """
    return Outcome(
        notes=notes,
        elbo=as_plain_json(float(model.elbo_)),
        converged=bool(model.converged_) and monitor.stopped is None,
        rise=model.rise_,
        computation=model.computation_,
    )


class JobKind(ABC):
    """Base class of the kinds of run: the computation and its files.

    ``run_job`` calls ``prepare``, ``work`` and ``write_results`` in this order, writes the state
    with ``outcome``, and then calls ``measure`` if ``measured_last``. State, errors, a full disk
    and the cleanup of a stopped run are handled by ``run_job`` alone.

    Attributes:
        first_stage: stage at the start.
        measured_last: whether the metrics are computed after the result is available.
        stop_message: message of a run that was stopped before it had a result.
        kept_notes: notes that are kept if the run fails.

    Args:
        context: inputs of the run.
    """

    first_stage: ClassVar[Stage] = "preparing"
    measured_last: ClassVar[bool] = False
    stop_message: str = "Stopped before there was anything to keep."
    kept_notes: tuple[str, ...] = ()

    def __init__(self, context: JobContext) -> None:
        self.context = context

    @abstractmethod
    def prepare(self) -> None:
        """Prepare the model and the rows, from the description of the run and its dataset.

        Raises:
            LatentboardError: the run is not possible; the message names the column or setting.
            StoppedError: a stop was requested.
        """

    @abstractmethod
    def work(self) -> None:
        """Compute the result.

        Raises:
            CancelledError, StoppedError: a stop was requested, and nothing is kept.
        """

    @abstractmethod
    def write_results(self) -> None:
        """Write the files of the result, the model first.

        Raises:
            OSError: the disk is full.
        """

    @abstractmethod
    def outcome(self) -> Outcome:
        """The summary of the result for the final state."""

    def measure(self) -> dict[str, Metric]:
        """The metrics of the result, if ``measured_last``."""
        return {}
