"""Runs: start, cost estimate, cancel, resume, continuation and deletion."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.analysis.tables.model_cards import recommend
from app.formatting import shortened
from app.services import caching, server
from app.services.caching import cached
from app.services.model_cards import cards
from app.services.tables import sample_dataset, table_summary
from app.state.choices import TargetChoice
from lvmcore.data import Dataset
from lvmcore.data.column_likelihoods import check_dataset_likelihoods
from lvmcore.errors import LatentboardError
from lvmcore.jobs.cost_estimate import CostEstimate
from lvmcore.likelihoods.catalogue import GAUSSIAN
from lvmcore.prediction.target_rows import target_features
from lvmcore.runs import Job, JobSpec
from lvmcore.runs.continuation import Continuation, propose_continuation

_POLL_SECONDS = 0.02


def job(run: str | None) -> Job | None:
    """The current state of a run; None where it does not exist."""
    if run is None:
        return None
    try:
        return server.store().get(run)
    except (LatentboardError, OSError):
        return None


def damage(run: str) -> str | None:
    """Why a run cannot be read, in a sentence; None where it can, or does not exist."""
    reasons = {damaged.id: damaged.reason for damaged in server.store().damaged()}
    return reasons.get(run)


def start_fit(
    dataset: Dataset, key: str, parameters: Mapping[str, Any], target: TargetChoice | None = None
) -> str:
    """Submit a fit of a latent variable model, or of a model of a target.

    Args:
        dataset: the rows and columns of the fit.
        key: key of the model.
        parameters: settings of the model by name.
        target: the column to predict; None for a latent variable model.

    Returns:
        Id of the run.

    Raises:
        ConfigError: a setting is not allowed, or the queue is full.
        DataError: the dataset or the run cannot be stored, or the cells of a column do not suit
            its likelihood.
    """
    from lvmcore.runs.model_of_job import check_spec

    spec = fit_spec(dataset, key, parameters, target=target)
    of_fit = dataset if target is None else target_features(dataset, spec.target, spec.groups)
    check_spec(spec, of_fit.transformed_names)
    check_dataset_likelihoods(dataset, str(parameters.get("column_likelihood", GAUSSIAN)))
    server.store().datasets.put(dataset)
    _, cost = server.estimator().known(spec)
    run = server.store().submit(spec, memory=None if cost is None else cost.memory)
    server.launcher()
    return run


def fit_spec(
    dataset: Dataset,
    key: str,
    parameters: Mapping[str, Any],
    sweep: str = "",
    target: TargetChoice | None = None,
) -> JobSpec:
    """The job of a fit.

    Raises:
        ConfigError: the model is unknown.
    """
    from lvmcore.models import model_class

    model = model_class(key)
    subject = (
        dataset.name if target is None else f"{shortened(target.target, 60)} of {dataset.name}"
    )
    return JobSpec(
        dataset=dataset.digest,
        dataset_name=dataset.name,
        model=key,
        parameters=parameters,
        name=f"{model.title} on {subject}",
        sweep=sweep,
        target="" if target is None else target.target,
        groups="" if target is None else target.groups,
        time="" if target is None else target.time,
    )


def estimate_cost(
    dataset: Dataset, key: str, parameters: Mapping[str, Any], target: TargetChoice | None = None
) -> tuple[bool, CostEstimate | None]:
    """Estimated time and memory of a fit, measured in another process after the first call.

    Returns:
        Whether the estimate is ready; the estimate, None where it cannot be measured.
    """
    if "max_iter" not in parameters:  # in closed form, or of unknown length
        return True, None
    from lvmcore.runs.model_of_job import check_spec

    try:
        spec = fit_spec(dataset, key, parameters, target=target)
        check_spec(spec)
    except LatentboardError:
        return True, None
    estimator = server.estimator()
    ready, cost = estimator.known(spec)
    if not ready:
        estimator.ask(spec, dataset)
    return ready, cost


def find_or_start_fit(dataset: Dataset, key: str) -> str:
    """A run of a model with the recommended settings: an existing one, else a new one.

    Returns:
        Id of the run.

    Raises:
        DataError: the dataset cannot be stored.
    """
    card = next(card for card in cards() if card.key == key)
    parameters = card.suggest(table_summary(dataset))
    found = server.store().find(JobSpec(dataset.digest, dataset.name, key, parameters))
    return start_fit(dataset, key, parameters) if found is None else found.id


def cancel(run: str, *, patience: float) -> None:
    """Cancel a run and wait for its end.

    Args:
        run: id of the run.
        patience: longest wait, in seconds.

    Raises:
        DataError: the run does not exist.
    """
    server.store().cancel(run)
    deadline = time.monotonic() + patience
    while not server.store().get(run).finished and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def resume(run: str) -> None:
    """Submit a stopped run again, from its checkpoint.

    Raises:
        ConfigError: the run cannot be resumed.
        DataError: the run does not exist, or the disk is full.
    """
    server.store().resume(run)
    server.launcher()


def proposed_continuation(run: str) -> Continuation | None:
    """Proposed further steps of a run whose bound still rose at the last step; else None.

    Raises:
        DataError: the run does not exist.
    """
    return _proposed_continuation(run, server.store().get(run).branch_step)


@cached(max_entries=64)
def _proposed_continuation(run: str, branch_step: int | None) -> Continuation | None:
    del branch_step  # part of the key
    store = server.store()
    return propose_continuation(store, store.get(run))


def continue_run(run: str, steps: int) -> str:
    """Submit the continuation of a run to more steps, unless it exists.

    Args:
        run: id of the run.
        steps: total number of steps, with those of the run.

    Returns:
        Id of the continuation, a run of its own.

    Raises:
        ConfigError: the run cannot be continued, or the queue is full.
        DataError: the run does not exist, or the disk is full.
    """
    for job in continuations(run):
        useful = job.status in ("queued", "running", "done")
        if useful and job.spec.parameters.get("max_iter") == steps:
            return job.id
    found = server.store().continue_fit(run, steps, memory=server.store().get(run).memory)
    server.launcher()
    return found


def continuations(run: str) -> list[Job]:
    """The runs that continue a run with more steps, newest first."""
    return [job for job in server.store().list() if job.spec.continues == run]


def start_sample_fit() -> str:
    """Submit a fit of the default sample with the recommended model and settings.

    Returns:
        Id of the run.
    """
    dataset = sample_dataset()
    summary = table_summary(dataset)
    best = recommend(cards(), summary).key
    card = next(card for card in cards() if card.key == best)
    return start_fit(dataset, best, card.suggest(summary))


def delete_runs(runs: Iterable[str]) -> tuple[str, ...]:
    """Move runs to the bin, and delete the cached results of the store.

    Returns:
        The ids of the deletions, for ``restore``.

    Raises:
        ConfigError: a run has not ended; it and those after it are not deleted.
        DataError: the bin cannot be written.
    """
    try:
        return tuple(server.store().delete(run) for run in runs)
    finally:
        caching.clear()


def delete_dataset(digest: str) -> str:
    """Move a dataset with its runs to the bin, and delete the cached results of the store.

    Returns:
        The id of the deletion, for ``restore``.

    Raises:
        ConfigError: one of the runs has not ended; nothing is deleted.
        DataError: the bin cannot be written.
    """
    try:
        return server.store().datasets.delete(digest)
    finally:
        caching.clear()


def restore(deletions: Sequence[str]) -> None:
    """Undo deletions, the last one first, and delete the cached results of the store.

    Raises:
        DataError: one of them cannot be undone; it and those before it stay in the bin.
    """
    try:
        for deletion in reversed(deletions):
            server.store().bin.restore(deletion)
    finally:
        caching.clear()


def empty_bin() -> None:
    """Delete permanently what is in the bin."""
    server.store().bin.empty()
