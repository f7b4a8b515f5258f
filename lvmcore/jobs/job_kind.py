"""What a kind of run does: the interface that ``run_job`` works through, and what it is given."""

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
from lvmcore.errors import DataError
from lvmcore.jobs.fitting import FitMonitor, StoppedError
from lvmcore.metrics.metric import Metric
from lvmcore.results import FitStep
from lvmcore.runs.atomic_files import write_json
from lvmcore.runs.event_log import EventLog
from lvmcore.runs.job import Job, JobSpec, Stage
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.store import Store

__all__ = ["JobContext", "JobKind", "Outcome"]


@dataclass(frozen=True)
class JobContext:
    """What a run works with.

    Attributes:
        folder: its folder, whose lock is held.
        spec: what it is asked for.
        get_dataset: gives its dataset.
        monitor: the callback of its fit, which knows whether it should stop.
        store: where the fitted run is whose model it uses; None for a run that fits its own.
        began: when it began, by the monotonic clock.
    """

    folder: JobFolder
    spec: JobSpec
    get_dataset: Callable[[], Dataset]
    monitor: FitMonitor
    store: Store | None = None
    began: float = dataclasses.field(default_factory=time.monotonic)

    def enter(self, stage: Stage, notes: tuple[str, ...] | None = None) -> None:
        """Write down what the run is doing now, and its notes so far."""
        state = self.folder.state()
        notes = state.notes if notes is None else notes
        self.folder.write_state(dataclasses.replace(state, stage=stage, notes=notes))

    def check_stop(self) -> None:
        """End the run here if it was asked to stop.

        Raises:
            StoppedError: it was.
        """
        reason = self.monitor.should_stop()
        if reason is not None:
            raise StoppedError(reason)

    def fitted_run(self) -> tuple[Store, Job]:
        """The store, and the fitted run in it whose model the run uses.

        Raises:
            DataError: it is gone, or there is no store to look for it.
        """
        if self.store is None:
            raise DataError("The run uses the model of another one, and no store is given.")
        return self.store, self.store.get(self.spec.run)

    def write_metrics(self, metrics: dict[str, Metric]) -> None:
        """Write the figures about the result."""
        stored = {key: dataclasses.asdict(metric) for key, metric in metrics.items()}
        write_json(self.folder.files.metrics, stored)

    @contextmanager
    def row_progress(self) -> Iterator[Callable[[int, int], bool]]:
        """A callback for work by rows: told how many are done of how many; True stops it."""
        with closing(EventLog(self.folder.files.events)) as log:

            def tell(done: int, total: int) -> bool:
                log.add(FitStep(done, total, time.monotonic() - self.began, math.nan))
                return self.monitor.should_stop() is not None

            yield tell


@dataclass(frozen=True)
class Outcome:
    """What the state of a run that has ended says of its result.

    Attributes:
        notes: plain sentences about it.
        elbo: the bound that was reached, total nats; None where there is none.
        converged: whether the fit converged; None where nothing was fitted.
    """

    notes: tuple[str, ...] = ()
    elbo: float | None = None
    converged: bool | None = None


class JobKind(ABC):
    """One kind of run, from its description to its files.

    ``run_job`` calls ``prepare``, ``work`` and ``write_results`` in this order, writes the state
    that ``outcome`` describes, and then, where ``measured_last``, ``measure``. It alone owns the
    state, errors, a full disk, and what is left of a run that was stopped.

    Attributes:
        first_stage: what the run is doing at its beginning.
        measured_last: whether the figures are measured once the run has ended, so that nobody
            waits for them.
        stop_message: what is said of a run that was stopped before its result was there.
        kept_notes: notes that hold even where the run fails.

    Args:
        context: what the run works with.
    """

    first_stage: ClassVar[Stage] = "preparing"
    measured_last: ClassVar[bool] = False
    stop_message: str = "Stopped before there was anything to keep."
    kept_notes: tuple[str, ...] = ()

    def __init__(self, context: JobContext) -> None:
        self.context = context

    @abstractmethod
    def prepare(self) -> None:
        """Make what the work needs, from the description of the run and its dataset.

        Raises:
            LatentboardError: the run cannot be done; the message names column or setting.
            StoppedError: it was asked to stop.
        """

    @abstractmethod
    def work(self) -> None:
        """Compute the result.

        Raises:
            CancelledError, StoppedError: it was asked to stop, and nothing is kept.
        """

    @abstractmethod
    def write_results(self) -> None:
        """Write the files of the result, the model first.

        Raises:
            OSError: the disk is full.
        """

    @abstractmethod
    def outcome(self) -> Outcome:
        """What the last state says of the result."""

    def measure(self) -> dict[str, Metric]:
        """The figures about the result, where they are ``measured_last``."""
        return {}
