"""Models to choose from, and runs: started, followed, stopped, scored, deleted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from app import comparing
from app.cards import MapCard, ModelCard, TargetCard, card_of, recommend, target_card_of
from app.comparing import Measured
from app.services import (
    fillings,
    generated,
    maps,
    placings,
    predictions,
    repeats,
    replays,
    rows,
    server,
)
from app.services.tables import sample_dataset, shape
from app.state import Aim
from lvmcore.data import Dataset
from lvmcore.errors import LatentboardError
from lvmcore.runs import Estimate, Job, JobSpec, Metric, Store, curves_frame, to_csv_bytes
from lvmcore.runs.verdict import MoreSteps, more_steps_of

if TYPE_CHECKING:
    from lvmcore.results import FitStep, Snapshot

__all__ = [
    "Progress",
    "add_method",
    "all_cards",
    "cancel",
    "cards",
    "curves_csv",
    "delete_dataset",
    "delete_runs",
    "devices",
    "estimate",
    "fit_sample",
    "go_on",
    "job",
    "longer",
    "measured",
    "more_steps",
    "progress",
    "resume",
    "spec_of",
    "start_fit",
    "start_score",
    "target_cards",
]

_LOOK_AGAIN_SECONDS = 0.02


@st.cache_resource(show_spinner="Loading the models")
def cards() -> tuple[MapCard, ...]:
    """A card for each model of a map, in the order of menus (loads torch)."""
    from lvmcore.models import MODELS

    return tuple(card_of(model) for model in MODELS.values())


@st.cache_resource(show_spinner="Loading the models")
def target_cards() -> tuple[TargetCard, ...]:
    """A card for each model of a target, in the order of menus (loads torch)."""
    from lvmcore.models import PREDICTORS

    return tuple(target_card_of(model) for model in PREDICTORS.values())


def all_cards() -> dict[str, ModelCard]:
    """The cards of all models by key (loads torch)."""
    return {card.key: card for card in (*cards(), *target_cards())}


@st.cache_resource(show_spinner=False)
def devices() -> tuple[str, ...]:
    """Devices that this machine offers (loads torch)."""
    import torch

    return ("auto", "cpu", "cuda") if torch.cuda.is_available() else ("auto", "cpu")


def job(run: str | None) -> Job | None:
    """A run as it stands; None where there is no such run."""
    if run is None:
        return None
    try:
        return server.store().get(run)
    except LatentboardError:
        return None


def start_fit(
    dataset: Dataset, key: str, parameters: Mapping[str, Any], aim: Aim | None = None
) -> str:
    """Put a fit in the queue: of a map, or of a model to a target.

    Returns:
        The run's id.

    Raises:
        ConfigError: a setting is not allowed, or the queue is full.
        DataError: the dataset or the run cannot be kept.
    """
    spec = spec_of(dataset, key, parameters, aim=aim)
    server.store().put_dataset(dataset)
    _, cost = server.estimator().known(spec)
    run = server.store().submit(spec, memory=None if cost is None else cost.memory)
    server.launcher()
    return run


def spec_of(
    dataset: Dataset,
    key: str,
    parameters: Mapping[str, Any],
    sweep: str = "",
    aim: Aim | None = None,
) -> JobSpec:
    """What a fit is, as the queue takes it.

    Raises:
        ConfigError: a setting is not allowed.
    """
    from lvmcore.parameters import check_settings
    from lvmcore.runs.models import estimator_class

    model = estimator_class(key)
    what = dataset.name if aim is None else f"{aim.target} of {dataset.name}"
    return JobSpec(
        dataset=dataset.digest,
        dataset_name=dataset.name,
        model=key,
        parameters=check_settings(model, parameters),
        name=f"{model.title} on {what}",
        sweep=sweep,
        target="" if aim is None else aim.target,
        groups="" if aim is None else aim.groups,
        time="" if aim is None else aim.time,
    )


def estimate(
    dataset: Dataset, key: str, parameters: Mapping[str, Any], aim: Aim | None = None
) -> tuple[bool, Estimate | None]:
    """What a fit would cost: measured in a process of its own when it is asked for first.

    Returns:
        Whether the answer is known yet; the estimate, None where none can be made.
    """
    if "max_iter" not in parameters:  # in closed form, or of unknown length
        return True, None
    try:
        spec = spec_of(dataset, key, parameters, aim=aim)
    except LatentboardError:
        return True, None
    found = server.estimator()
    known, cost = found.known(spec)
    if not known:
        found.ask(spec, dataset)
    return known, cost


def add_method(dataset: Dataset, key: str) -> str:
    """A run of a model with the settings that suit the dataset: the one there is, or a new one.

    Returns:
        The run's id.

    Raises:
        DataError: the dataset cannot be kept.
    """
    card = next(card for card in cards() if card.key == key)
    parameters = card.suggest(shape(dataset))
    found = server.store().find(JobSpec(dataset.digest, dataset.name, key, parameters))
    return start_fit(dataset, key, parameters) if found is None else found.id


def measured(job: Job) -> Measured:
    """How well a run's map does, as far as it is known."""
    from lvmcore.models import MODELS

    score = server.store().find(_score_spec(job), failed=True)
    return comparing.measured(job, score, MODELS[job.spec.model].capabilities)


def figures(job: Job) -> list[Metric]:
    """Every figure about a run's map: its own, then those of its scoring on held-out rows."""
    score = server.store().find(_score_spec(job))
    more = {} if score is None else score.metrics
    return [*job.metrics.values(), *(more[key] for key in more if key not in job.metrics)]


def start_score(job: Job) -> str:
    """Score a run's model and settings on held-out rows, unless that was done or is under way.

    Returns:
        The id of the scoring run.
    """
    found = server.store().find(_score_spec(job))
    if found is not None:
        return found.id
    run = server.store().submit(_score_spec(job))
    server.launcher()
    return run


def _score_spec(job: Job) -> JobSpec:
    spec = job.spec
    return JobSpec(
        dataset=spec.dataset,
        dataset_name=spec.dataset_name,
        model=spec.model,
        parameters=spec.parameters,
        name=f"Score of {spec.name}",
        kind="score",
    )


def cancel(run: str, *, patience: float) -> None:
    """Ask a run to stop, and wait for its end for so many seconds at most.

    Raises:
        DataError: there is no such run.
    """
    server.store().cancel(run)
    deadline = time.monotonic() + patience
    while not server.store().get(run).finished and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_SECONDS)


def resume(run: str) -> None:
    """Put a run that was stopped back in the queue.

    Raises:
        ConfigError: it cannot be resumed.
        DataError: there is no such run, or the disk is full.
    """
    server.store().resume(run)
    server.launcher()


def more_steps(run: str) -> MoreSteps | None:
    """What a run may be given whose bound was still rising when its steps ran out; else None.

    Raises:
        DataError: there is no such run.
    """
    job = server.store().get(run)
    return _more_steps(server.home(), run, job.attempt, job.branch_step)


@st.cache_data(show_spinner=False, max_entries=64)
def _more_steps(home: str | None, run: str, attempt: int, branch: int | None) -> MoreSteps | None:
    del attempt, branch  # parts of the cache's key
    store = server.store_at(home)
    return more_steps_of(store, store.get(run))


def go_on(run: str, steps: int) -> str:
    """Let a run that ended still rising go on to so many steps in all, as a run of its own.

    Returns:
        The id of that run: a new one, or the one that does so already.

    Raises:
        ConfigError: it cannot go on, or the queue is full.
        DataError: there is no such run, or the disk is full.
    """
    for job in longer(run):
        useful = job.status in ("queued", "running", "done")
        if useful and job.spec.parameters.get("max_iter") == steps:
            return job.id
    found = server.store().go_on(run, steps, memory=server.store().get(run).memory)
    server.launcher()
    return found


def longer(run: str) -> list[Job]:
    """The runs that go on from a run with more steps, newest first."""
    return [job for job in server.store().list() if job.spec.continues == run]


def fit_sample() -> str:
    """Put a fit of the first sample in the queue, with the model and settings that suit it.

    Returns:
        The run's id.
    """
    dataset = sample_dataset()
    found = shape(dataset)
    best = recommend(cards(), found).key
    card = next(card for card in cards() if card.key == best)
    return start_fit(dataset, best, card.suggest(found))


@dataclass
class Progress:
    """The steps of a run as far as they have been read; safe to share between sessions.

    Attributes:
        steps: in order, without their snapshots.
        snapshot: the last one; None before the first.
        by_start: the last one of each start of the fit, from 1.
    """

    steps: list[FitStep] = field(default_factory=list)
    snapshot: Snapshot | None = None
    by_start: dict[int, Snapshot] = field(default_factory=dict)
    _read: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of_start(self, start: int) -> Progress:
        """The steps and the map of one start of the fit, from 1."""
        steps = [step for step in self.steps if step.start == start]
        return Progress(steps, self.by_start.get(start))

    def update(self, store: Store, run: str) -> None:
        """Read the events that were written since the last time."""
        with self._guard:
            for event in store.events(run, after=self._read):
                self._read = event.n
                step = event.step
                if step.snapshot is not None:
                    self.snapshot = self.by_start[step.start] = step.snapshot
                self.steps.append(replace(step, snapshot=None))


def progress(run: str) -> Progress:
    """The steps of a run, up to date."""
    found = _progress(server.home(), run, maps.attempt(run))
    found.update(server.store(), run)
    return found


@st.cache_resource(show_spinner=False, max_entries=16)
def _progress(home: str | None, run: str, attempt: int) -> Progress:
    del home, run, attempt  # the cache's key
    return Progress()


def curves_csv(runs: Iterable[str]) -> bytes:
    """The curves of some runs as CSV, one number a row: see ``lvmcore.runs.curves_frame``.

    Raises:
        DataError: there is no such run.
    """
    return to_csv_bytes(curves_frame(server.store(), runs))


def delete_runs(runs: Iterable[str]) -> None:
    """Delete runs, and what the server remembers of any.

    Raises:
        ConfigError: one is under way, and is left as it is with those after it.
    """
    try:
        for run in runs:
            server.store().delete(run)
    finally:
        _forget()


def delete_dataset(digest: str) -> None:
    """Delete a dataset with its runs, and what the server remembers of any.

    Raises:
        ConfigError: one of the runs is under way; nothing is deleted then.
    """
    try:
        server.store().delete_dataset(digest)
    finally:
        _forget()


def _forget() -> None:
    _progress.clear()
    maps.forget()
    placings.forget()
    predictions.forget()
    fillings.forget()
    generated.forget()
    rows.forget()
    replays.forget()
    repeats.forget()
