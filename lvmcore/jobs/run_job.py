"""Run one fit in a run's folder: the one path that the worker and the command line share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing

import pandas as pd

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.errors import CancelledError
from lvmcore.export.tables import to_parquet_bytes
from lvmcore.jobs.fitting import (
    FitMonitor,
    FitResult,
    Reason,
    StoppedError,
    describe_error,
    fit_with_checkpoints,
    log_error,
    training_rows,
    write_outcome,
)
from lvmcore.metrics.metric import Metric
from lvmcore.persistence import write_atomically
from lvmcore.prediction.map_table import embedding_frame
from lvmcore.results import FitStep
from lvmcore.runs.atomic_files import as_plain_json, write_json
from lvmcore.runs.job import now
from lvmcore.runs.job_folder import JobFolder, JobState
from lvmcore.runs.model_of_job import make_model

_NOTHING_KEPT = "Stopped before there was anything to keep."
_CUT_SHORT = (
    "The fit was stopped from outside, with the dashboard or by the machine. What was fitted until "
    "then was kept."
)


def run_job(
    folder: JobFolder,
    get_dataset: Callable[[], Dataset],
    should_stop: Callable[[], Reason | None],
    *,
    on_step: Callable[[FitStep], None] | None = None,
) -> JobState:
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
    watch = FitMonitor(folder, should_stop, on_step)
    try:
        folder.write_state(state)
        with closing(watch):
            fitted = _fit(folder, state, get_dataset, watch)
        state = fitted.state
        if fitted.score is not None:
            return fitted.score()
        fitted.model.save(folder.files.model)
        fitted.keep()
    except (StoppedError, CancelledError) as stop:
        reason = stop.reason if isinstance(stop, StoppedError) else watch.stopped
        return write_outcome(folder, state.ending(reason or "interrupted", message=_NOTHING_KEPT))
    except Exception as error:
        message, kind = describe_error(error)
        if kind == "Unexpected":
            log_error(folder, error)
        return write_outcome(folder, state.ending("failed", message=message, error=kind))
    state = state.ending(
        watch.stopped or "done",
        elbo=as_plain_json(float(fitted.model.elbo_)),
        converged=bool(fitted.model.converged_) and watch.stopped is None,
        notes=(*state.notes, *fitted.model.notes_),
        message=_CUT_SHORT if watch.stopped == "interrupted" else None,
    )
    if state.status == "interrupted":
        return write_outcome(folder, state)
    return _measure(folder, state, fitted.measure)


def _fit(
    folder: JobFolder, state: JobState, get_dataset: Callable[[], Dataset], watch: FitMonitor
) -> FitResult:
    if folder.spec().target:
        from lvmcore.jobs.fit_target import fit_target  # which stands on this module

        return fit_target(folder, state, get_dataset, watch)
    return _fit_map(folder, state, get_dataset, watch)


def _fit_map(
    folder: JobFolder, state: JobState, get_dataset: Callable[[], Dataset], watch: FitMonitor
) -> FitResult:
    spec = folder.spec()
    model = make_model(spec, "map")
    whole = get_dataset()
    dataset, notes = training_rows(whole, type(model))
    held_out = whole.subset(whole.held_out) if whole.held_out.any() else None
    if spec.kind == "score":
        from lvmcore.evaluation.scoring import (
            scoring_split,  # a fit need not wait for what it imports
        )

        dataset, held_out = scoring_split(dataset, type(model))
    reason = watch.should_stop()
    if reason is not None:
        raise StoppedError(reason)
    state = dataclasses.replace(state, stage="fitting", notes=notes)
    folder.write_state(state)
    X = pd.DataFrame(dataset.X, columns=list(dataset.transformed_names))
    y = None if model.capabilities.labels == "none" else dataset.y
    fit_with_checkpoints(folder, model, X, y, watch)

    def keep() -> None:
        content = to_parquet_bytes(embedding_frame(model, dataset))
        write_atomically(folder.files.embedding, content)

    def score() -> JobState:
        assert held_out is not None
        return _score(folder, state, model, dataset, held_out, watch)

    return FitResult(
        model,
        state,
        keep,
        lambda: _figures(folder, model, dataset, held_out),
        score if spec.kind == "score" else None,
    )


def _score(
    folder: JobFolder,
    state: JobState,
    model: LatentVariableModel,
    dataset: Dataset,
    held_out: Dataset,
    watch: FitMonitor,
) -> JobState:
    """Measure a model on rows that it has not seen; one that was stopped early is not scored."""
    from lvmcore.evaluation.scoring import score_on_new_rows

    if watch.stopped is not None:
        raise StoppedError(watch.stopped)
    folder.write_state(dataclasses.replace(state, stage="measuring"))
    metrics = score_on_new_rows(model, dataset, held_out)
    stored = {key: dataclasses.asdict(metric) for key, metric in metrics.items()}
    write_json(folder.files.metrics, stored)
    notes = (*state.notes, *model.notes_)
    return write_outcome(
        folder, state.ending("done", converged=bool(model.converged_), notes=notes)
    )


def _figures(
    folder: JobFolder, model: LatentVariableModel, dataset: Dataset, held_out: Dataset | None
) -> dict[str, Metric]:
    """The figures about a map, the agreement of its starts among them."""
    # A fit need not wait for what they import.
    from lvmcore.evaluation.map_quality import map_metrics
    from lvmcore.evaluation.start_agreement import start_agreement

    metrics = map_metrics(model, dataset, held_out)
    starts = start_agreement(model, dataset)
    if starts is not None:
        metrics |= starts.metrics
        if starts.rows is not None:
            write_atomically(folder.files.agreement, to_parquet_bytes(starts.rows))
    return metrics


def _measure(
    folder: JobFolder, state: JobState, measure: Callable[[], dict[str, Metric]]
) -> JobState:
    write_outcome(folder, dataclasses.replace(state, stage="measuring"))
    try:
        stored = {key: dataclasses.asdict(metric) for key, metric in measure().items()}
        write_json(folder.files.metrics, stored)
    except Exception as error:
        log_error(folder, error)
        note = "The figures about the fit could not be measured: worker.log has the details."
        state = dataclasses.replace(state, notes=(*state.notes, note))
    return write_outcome(folder, state)
