"""Common parts of fits: training rows, callback, checkpoints, and descriptions of errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lvmcore.base.latent_variable_model import Capabilities, LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.devices import Computation, release_memory
from lvmcore.errors import DataError, LatentboardError
from lvmcore.models import AnyModel
from lvmcore.numerics.block_sizes import smaller_blocks
from lvmcore.results import FitStep
from lvmcore.runs.atomic_files import DISK_FULL, is_disk_full
from lvmcore.runs.event_log import EventLog, truncate_events
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job_state import Reason
from lvmcore.training.checkpoint import Checkpoint

_OUT_OF_MEMORY = (
    "There was not enough memory for this fit. Try fewer rows, columns or inducing points, or a "
    "machine with more memory."
)
_GPU_OUT_OF_MEMORY = (
    "The memory of the GPU was not enough for this fit, in smaller blocks either. Choose the "
    "device cpu, single precision, or fewer rows, columns or inducing points."
)
_REPEATED = (
    "The memory was not enough at first, so the fit was repeated from its last checkpoint in "
    "blocks of a quarter of the size."
)


class StoppedError(Exception):
    """The run was stopped before it had a result.

    Attributes:
        reason: the reason of the stop.
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class FitMonitor:
    """Callback of a fit: records each step, and stops the fit on request.

    Attributes:
        folder: folder of the run, which holds the event log.
        should_stop: called at every step; a reason stops the fit.
        on_step: called with every step.
        stopped: reason of the stop; None without one.
        log: event log, open from the first step.
        computation: returns what the model under way computes on.
    """

    folder: JobFolder
    should_stop: Callable[[], Reason | None]
    on_step: Callable[[FitStep], None] | None
    stopped: Reason | None = None
    log: EventLog | None = None
    computation: Callable[[], Computation | None] = lambda: None

    def __call__(self, step: FitStep) -> bool:
        """Record a step; True stops the fit."""
        if self.log is None:
            self.log = self._open_log(step.iteration)
            self._record_computation()
        self.log.add(step)
        if self.on_step is not None:
            self.on_step(step)
        if self.stopped is None:
            self.stopped = self.should_stop()
            if self.stopped is not None:
                state = self.folder.state()
                self.folder.write_state(dataclasses.replace(state, stage="stopping"))
        return self.stopped is not None

    def _open_log(self, iteration: int) -> EventLog:
        """Open the log, without events of an earlier attempt at this step and later."""
        if truncate_events(self.folder.files.events, iteration - 1):
            state = self.folder.state()
            fresh = dataclasses.replace(state, attempt=state.attempt + 1, earlier=0.0)
            self.folder.write_state(fresh)
        return EventLog(self.folder.files.events)

    def _record_computation(self) -> None:
        found = self.computation()
        if found is not None:
            state = self.folder.state()
            self.folder.write_state(dataclasses.replace(state, computation=found))

    def restart(self) -> None:
        """Begin a further attempt: its first step deletes the events from that step on."""
        self.close()
        self.log = None

    def close(self) -> None:
        """Record the last step, and close the log."""
        if self.log is not None:
            self.log.close()


@contextmanager
def fit_checkpoint(folder: JobFolder, *, bound: bool) -> Iterator[Checkpoint]:
    """The checkpoint of a fit, which it continues from and writes; counts its earlier seconds.

    Args:
        folder: folder of the run.
        bound: whether the model has a bound, so that the fit can be continued with more steps.
    """
    branches = bound and folder.spec().kind == "fit"
    checkpoint = Checkpoint(folder.files.checkpoint, branches=folder.path if branches else None)
    yield checkpoint
    if checkpoint.saved:
        written = folder.state()
        folder.write_state(dataclasses.replace(written, earlier=written.earlier + checkpoint.saved))


def training_rows(
    dataset: Dataset, model: type[LatentVariableModel]
) -> tuple[Dataset, tuple[str, ...]]:
    """The rows of a dataset to which a model is fitted, and notes on those left out.

    The dataset's held-out rows are always left out.

    Raises:
        DataError: the model needs labels and there are none, or fewer than two rows are left.
    """
    can: Capabilities = model.capabilities
    if can.labels == "required" and dataset.labels is None:
        raise DataError(
            f"{model.title} learns from labels, and none were chosen: choose a label column, or a "
            "model that needs no labels."
        )
    kept = dataset
    if dataset.held_out.any():
        n = int(dataset.held_out.sum())
        rows = "1 row" if n == 1 else f"{n:,} rows"
        kept = dataset.subset(~dataset.held_out, f"{rows} held out, to measure the fit with.")
    kept = kept.nonempty_rows() if can.missing_cells else kept.complete_rows()
    if can.labels == "required" and kept.more_labels and not can.several_labels:
        first, *others = kept.label_columns
        note = f"{model.title} learns from one label column: {first!r} is used, and not "
        kept = dataclasses.replace(
            kept.select_label(first),
            notes=(*kept.notes, f"{note}{', '.join(repr(name) for name in others)}."),
        )
    if can.labels == "required" and kept.labels is not None and not can.missing_labels:
        labelled = ~np.asarray(pd.isna(kept.labels))
        if not labelled.all():
            kept = kept.subset(labelled, f"{(~labelled).sum():,} rows left out: no label.")
    if len(kept) < 2:
        advice = (
            "A map needs several rows."
            if len(kept) == int((~dataset.held_out).sum())
            else "Leave out the columns with many missing cells, or fill them first."
        )
        raise DataError(
            f"{len(kept)} of {len(dataset)} rows can be used by {model.title}: expected at least "
            f"2. {advice}"
        )
    return kept, kept.notes[len(dataset.notes) :]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory of the machine or of a GPU was not enough."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "allocate memory" in text)
    )


def fit_from_checkpoint(
    folder: JobFolder, model: AnyModel, monitor: FitMonitor, fit: Callable[[Checkpoint], object]
) -> None:
    """Fit the model of a run; once more in smaller blocks where the memory was not enough.

    Args:
        folder: folder of the run.
        model: the model.
        monitor: callback of the fit.
        fit: fits the model from a checkpoint, and writes it.
    """
    monitor.computation = lambda: model.computation_
    bound = model.capabilities.bound
    try:
        with fit_checkpoint(folder, bound=bound) as checkpoint:
            fit(checkpoint)
        return
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    # After the handler: the error holds the arrays of the fit.
    release_memory()
    monitor.restart()
    with smaller_blocks(), fit_checkpoint(folder, bound=bound) as checkpoint:
        fit(checkpoint)
    model._note(_REPEATED)


def describe_error(error: BaseException) -> tuple[str, str]:
    """A message for an error, and its kind; "Unexpected" for an error in the code."""
    if isinstance(error, LatentboardError):
        return str(error), type(error).__name__
    if is_out_of_memory(error):
        on_gpu = any(name in str(error) for name in ("CUDA", "HIP"))
        return _GPU_OUT_OF_MEMORY if on_gpu else _OUT_OF_MEMORY, "MemoryError"
    if is_disk_full(error):
        return DISK_FULL, "DiskFull"
    return (
        f"The fit ended with an unexpected error ({type(error).__name__}). The run's worker.log "
        "has the details.",
        "Unexpected",
    )
