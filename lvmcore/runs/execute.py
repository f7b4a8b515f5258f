"""Run one fit in a run's folder: the one path that the worker and the command line share."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from lvmcore.base import Capabilities, LatentVariableModel
from lvmcore.checkpoint import Checkpoint
from lvmcore.data import Dataset
from lvmcore.errors import CancelledError, DataError, LatentboardError
from lvmcore.persistence import write_atomically
from lvmcore.results import FitStep
from lvmcore.runs.artifacts import embedding_frame, to_parquet_bytes
from lvmcore.runs.events import EventLog, cut_events
from lvmcore.runs.files import DISK_FULL, is_disk_full, plain, write_json
from lvmcore.runs.folder import JobFolder, State
from lvmcore.runs.models import AnyModel, make_model
from lvmcore.runs.spec import Metric, now

__all__ = [
    "Fitted",
    "Reason",
    "StoppedError",
    "Watch",
    "describe_error",
    "end",
    "execute",
    "fit_with_checkpoints",
    "log_error",
    "rows_to_fit",
]

#: Why a fit should stop before its end.
Reason = Literal["cancelled", "interrupted"]

_NOTHING_KEPT = "Stopped before there was anything to keep."
_CUT_SHORT = (
    "The fit was stopped from outside, with the dashboard or by the machine. What was fitted until "
    "then was kept."
)
_OUT_OF_MEMORY = (
    "There was not enough memory for this fit. Try fewer rows, columns or inducing points, or a "
    "machine with more memory."
)


class StoppedError(Exception):
    """The run was asked to stop before what it makes was there."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class Watch:
    """The callback of a fit: writes each step down, and stops the fit when asked to.

    Attributes:
        folder: whose log of events is written.
        should_stop: asked at every step.
        on_step: told of every step.
        stopped: why the fit was stopped; None before.
        log: open from the first step on.
    """

    folder: JobFolder
    should_stop: Callable[[], Reason | None]
    on_step: Callable[[FitStep], None] | None
    stopped: Reason | None = None
    log: EventLog | None = None

    def __call__(self, step: FitStep) -> bool:
        """Write a step down; True stops the fit."""
        if self.log is None:
            self.log = self._begin(step.iteration)
        self.log.add(step)
        if self.on_step is not None:
            self.on_step(step)
        if self.stopped is None:
            self.stopped = self.should_stop()
            if self.stopped is not None:
                state = self.folder.state()
                self.folder.write_state(dataclasses.replace(state, stage="stopping"))
        return self.stopped is not None

    def _begin(self, iteration: int) -> EventLog:
        """The log, without what an earlier attempt wrote of this step and of later ones."""
        if cut_events(self.folder.events_path, iteration - 1):
            state = self.folder.state()
            fresh = dataclasses.replace(state, attempt=state.attempt + 1, earlier=0.0)
            self.folder.write_state(fresh)
        return EventLog(self.folder.events_path)

    def close(self) -> None:
        """Write the last step down."""
        if self.log is not None:
            self.log.close()


@dataclass(frozen=True)
class Fitted:
    """What a run has fitted, and what is left to be done with it.

    Attributes:
        model: the fitted model.
        state: of the run, so far.
        keep: writes what belongs to the model, once that is written.
        measure: the figures about it.
        score: for a run of kind "score", what it does in place of all that; else None.
    """

    model: AnyModel
    state: State
    keep: Callable[[], None]
    measure: Callable[[], dict[str, Metric]]
    score: Callable[[], State] | None = None


def execute(
    folder: JobFolder,
    get_dataset: Callable[[], Dataset],
    should_stop: Callable[[], Reason | None],
    *,
    on_step: Callable[[FitStep], None] | None = None,
) -> State:
    """Fit what the folder's spec.json asks for, and leave the artefacts of a run there.

    A run of kind "score" leaves figures only: the model is fitted to 80 % of the rows and measured
    on the others. In any other, the model is written first, then the state, then the figures about
    it, so that nobody waits for the figures. The caller holds the folder's lock.

    Args:
        folder: a run that has not begun.
        get_dataset: gives the dataset; what it raises is reported like an error of the fit.
        should_stop: asked at every step; a reason ends the fit, and what was fitted is kept.
        on_step: told of every step.

    Returns:
        The state in which the run ended; the same as its status.json.
    """
    state = dataclasses.replace(folder.state(), status="running", stage="preparing", started=now())
    watch = Watch(folder, should_stop, on_step)
    try:
        folder.write_state(state)
        with closing(watch):
            fitted = _fit(folder, state, get_dataset, watch)
        state = fitted.state
        if fitted.score is not None:
            return fitted.score()
        fitted.model.save(folder.model_path)
        fitted.keep()
    except (StoppedError, CancelledError) as stop:
        reason = stop.reason if isinstance(stop, StoppedError) else watch.stopped
        return end(folder, state.ending(reason or "interrupted", message=_NOTHING_KEPT))
    except Exception as error:
        message, kind = describe_error(error)
        if kind == "Unexpected":
            log_error(folder, error)
        return end(folder, state.ending("failed", message=message, error=kind))
    state = state.ending(
        watch.stopped or "done",
        elbo=plain(float(fitted.model.elbo_)),
        converged=bool(fitted.model.converged_) and watch.stopped is None,
        notes=(*state.notes, *fitted.model.notes_),
        message=_CUT_SHORT if watch.stopped == "interrupted" else None,
    )
    if state.status == "interrupted":
        return end(folder, state)
    return _measure(folder, state, fitted.measure)


def end(folder: JobFolder, state: State) -> State:
    """Write a state down; where the disk is full, ``JobFolder.settle`` says so instead."""
    written = folder.state()
    state = dataclasses.replace(state, attempt=written.attempt, earlier=written.earlier)
    try:
        folder.write_state(state)
        folder.clear_up()
    except OSError as error:
        log_error(folder, error)
    return state


def _fit(
    folder: JobFolder, state: State, get_dataset: Callable[[], Dataset], watch: Watch
) -> Fitted:
    if folder.spec().target:
        from lvmcore.runs.target_fit import fit_target  # which stands on this module

        return fit_target(folder, state, get_dataset, watch)
    return _fit_map(folder, state, get_dataset, watch)


def _fit_map(
    folder: JobFolder, state: State, get_dataset: Callable[[], Dataset], watch: Watch
) -> Fitted:
    spec = folder.spec()
    model = make_model(spec)
    whole = get_dataset()
    dataset, notes = rows_to_fit(whole, type(model))
    held_out = whole.subset(whole.held_out) if whole.held_out.any() else None
    if spec.kind == "score":
        from lvmcore.runs.score import split  # a fit need not wait for what it imports

        dataset, held_out = split(dataset, type(model))
    reason = watch.should_stop()
    if reason is not None:
        raise StoppedError(reason)
    state = dataclasses.replace(state, stage="fitting", notes=notes)
    folder.write_state(state)
    X = pd.DataFrame(dataset.X, columns=list(dataset.learned_names))
    y = None if model.capabilities.labels == "none" else dataset.y
    fit_with_checkpoints(folder, model, X, y, watch)

    def keep() -> None:
        content = to_parquet_bytes(embedding_frame(model, dataset))
        write_atomically(folder.embedding_path, content)

    def score() -> State:
        assert held_out is not None
        return _score(folder, state, model, dataset, held_out, watch)

    return Fitted(
        model,
        state,
        keep,
        lambda: _figures(folder, model, dataset, held_out),
        score if spec.kind == "score" else None,
    )


def fit_with_checkpoints(
    folder: JobFolder,
    model: AnyModel,
    X: pd.DataFrame,
    y: Any,
    watch: Watch,
    held_out: tuple[pd.DataFrame, Any] | None = None,
) -> None:
    """Fit a run's model, going on from the run's checkpoint and leaving others.

    A model of a target follows the density of the rows held out.
    """
    kept = folder.spec().kind == "fit" and model.capabilities.bound
    checkpoint = Checkpoint(folder.checkpoint_path, branches=folder.path if kept else None)
    followed: dict[str, Any] = {} if held_out is None else {"held_out": held_out}
    model._fit_from(X, y, callback=watch, checkpoint=checkpoint, **followed)
    if checkpoint.saved:
        written = folder.state()
        folder.write_state(dataclasses.replace(written, earlier=written.earlier + checkpoint.saved))


def _score(
    folder: JobFolder,
    state: State,
    model: LatentVariableModel,
    dataset: Dataset,
    held_out: Dataset,
    watch: Watch,
) -> State:
    """Measure a model on rows that it has not seen; one that was stopped early is not scored."""
    from lvmcore.runs.score import score

    if watch.stopped is not None:
        raise StoppedError(watch.stopped)
    folder.write_state(dataclasses.replace(state, stage="measuring"))
    metrics = score(model, dataset, held_out)
    stored = {key: dataclasses.asdict(metric) for key, metric in metrics.items()}
    write_json(folder.metrics_path, stored)
    notes = (*state.notes, *model.notes_)
    return end(folder, state.ending("done", converged=bool(model.converged_), notes=notes))


def _figures(
    folder: JobFolder, model: LatentVariableModel, dataset: Dataset, held_out: Dataset | None
) -> dict[str, Metric]:
    """The figures about a map, the agreement of its starts among them."""
    # A fit need not wait for what they import.
    from lvmcore.runs.agreement import agreement
    from lvmcore.runs.measure import measure

    metrics = measure(model, dataset, held_out)
    starts = agreement(model, dataset)
    if starts is not None:
        metrics |= starts.metrics
        if starts.rows is not None:
            write_atomically(folder.agreement_path, to_parquet_bytes(starts.rows))
    return metrics


def _measure(folder: JobFolder, state: State, measure: Callable[[], dict[str, Metric]]) -> State:
    end(folder, dataclasses.replace(state, stage="measuring"))
    try:
        stored = {key: dataclasses.asdict(metric) for key, metric in measure().items()}
        write_json(folder.metrics_path, stored)
    except Exception as error:
        log_error(folder, error)
        note = "The figures about the fit could not be measured: worker.log has the details."
        state = dataclasses.replace(state, notes=(*state.notes, note))
    return end(folder, state)


def rows_to_fit(
    dataset: Dataset, model: type[LatentVariableModel]
) -> tuple[Dataset, tuple[str, ...]]:
    """The rows of a dataset that a model is fitted to, and a sentence on those left out.

    Rows that the dataset holds out are left out whatever the model can use.

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
    kept = kept.rows_with_cells() if can.missing_cells else kept.complete_rows()
    if can.labels == "required" and kept.more_labels and not can.several_labels:
        first, *others = kept.label_columns
        note = f"{model.title} learns from one label column: {first!r} is used, and not "
        kept = dataclasses.replace(
            kept.of_label(first),
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


def describe_error(error: BaseException) -> tuple[str, str]:
    """A plain sentence on an error, and its kind; "Unexpected" where it is a fault of ours."""
    if isinstance(error, LatentboardError):
        return str(error), type(error).__name__
    text = str(error).lower()
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "allocate memory" in text)
    ):
        return _OUT_OF_MEMORY, "MemoryError"
    if is_disk_full(error):
        return DISK_FULL, "DiskFull"
    return (
        f"The fit ended with an unexpected error ({type(error).__name__}). The run's worker.log "
        "has the details.",
        "Unexpected",
    )


def log_error(folder: JobFolder, error: BaseException) -> None:
    """Write an error with its traceback into the run's log."""
    with suppress(OSError), folder.log_path.open("a", encoding="utf-8") as log:
        traceback.print_exception(error, file=log)
