"""Runs that go on with more steps: what is kept for them, what they equal, what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from lvmcore.data import Dataset
from lvmcore.errors import ConfigError
from lvmcore.jobs.run_job import run_job
from lvmcore.persistence import branch_path
from lvmcore.runs import Store
from lvmcore.runs.job_state import JobState
from tests.unit.lvmcore.runs.fitting import ran

SETTINGS: dict[str, Any] = {"n_components": 2, "n_inducing": 8, "max_iter": 60}
#: Steps that a fit with more steps shares with one of 60.
SHARED = {"bayesian_gplvm": 24, "ldgd": 36}
Work = Callable[..., JobState]


@pytest.fixture
def work(store: Store) -> Work:
    """Executes a queued run in this process, stopped after so many steps if asked to."""

    def do(
        name: str,
        stop_after: int | None = None,
        reason: Literal["cancelled", "interrupted"] = "interrupted",
    ) -> JobState:
        folder = store.job_folder(name)
        seen: list[int] = []
        with folder.lock():
            return run_job(
                folder,
                lambda: store.datasets.get(folder.spec().dataset),
                lambda: reason if seen[-1:] == [stop_after] else None,
                on_step=lambda step: seen.append(step.iteration),
            )

    return do


@pytest.mark.slow(quick=["bayesian_gplvm"])
@pytest.mark.parametrize("model", ["bayesian_gplvm", "ldgd"])
def test_a_run_with_more_steps_ends_like_one_that_had_them_at_once(
    store: Store, work: Work, toy: Dataset, model: str
) -> None:
    short = ran(store, toy, model, **SETTINGS)
    whole = ran(store, toy, model, **{**SETTINGS, "max_iter": 90})
    job = store.get(short)
    assert (job.still_rising, job.branch_step) == (True, SHARED[model])
    long = store.continue_fit(short, 90)
    spec = store.get(long).spec
    assert (spec.continues, spec.parameters["max_iter"]) == (short, 90)
    assert spec.dataset == job.spec.dataset
    work(long)
    one, two = store.get(whole), store.get(long)
    assert two.elbo == pytest.approx(one.elbo, abs=1e-8, rel=0)
    assert two.notes == one.notes
    np.testing.assert_array_equal(
        store.load_model(long).embedding_.mean, store.load_model(whole).embedding_.mean
    )
    steps = [event.step for event in store.events(long)]
    assert (steps[0].iteration, steps[-1].iteration, steps[-1].total) == (1, 90, 90)
    assert [step.seconds for step in steps] == sorted(step.seconds for step in steps)
    assert two.earlier > 0
    assert store.get(short) == job  # it stays as it was


@pytest.mark.slow
def test_a_run_that_goes_on_can_be_interrupted_and_resumed(
    store: Store, work: Work, toy: Dataset
) -> None:
    short = ran(store, toy, "bayesian_gplvm", **SETTINGS)
    whole = ran(store, toy, "bayesian_gplvm", **{**SETTINGS, "max_iter": 90})
    long = store.continue_fit(short, 90)
    work(long, 50)
    assert store.get(long).checkpoint_step == 50
    store.delete(short)
    store.resume(long)
    work(long)
    assert store.get(long).elbo == pytest.approx(store.get(whole).elbo, abs=1e-8, rel=0)
    iterations = [event.step.iteration for event in store.events(long)]
    assert iterations == sorted(set(iterations))
    again = store.continue_fit(long, 120)
    work(again)
    best = ran(store, toy, "bayesian_gplvm", **{**SETTINGS, "max_iter": 120})
    assert store.get(again).elbo == pytest.approx(store.get(best).elbo, abs=1e-8, rel=0)


@pytest.mark.slow
def test_without_the_state_of_the_shorter_run_it_begins_anew_and_ends_the_same(
    store: Store, work: Work, toy: Dataset
) -> None:
    short = ran(store, toy, "bayesian_gplvm", **SETTINGS)
    branch_path(store.job_folder(short).path, 1).unlink()
    assert store.get(short).branch_step is None
    assert store.get(short).still_rising
    long = store.continue_fit(short, 90)
    work(long)
    whole = ran(store, toy, "bayesian_gplvm", **{**SETTINGS, "max_iter": 90})
    assert store.get(long).elbo == pytest.approx(store.get(whole).elbo, abs=1e-8, rel=0)
    assert store.get(long).earlier == 0


@pytest.mark.slow
def test_the_state_is_kept_only_where_a_bound_was_still_rising(
    store: Store, toy: Dataset, rng: np.random.Generator
) -> None:
    def left(run: str) -> list[Path]:
        return store.job_folder(run).branches.paths()

    flat = Dataset.from_arrays(rng.standard_normal((40, 3)), name="noise")
    settings = {"n_components": 1, "n_inducing": 5, "max_iter": 2000, "learning_rate": 0.3}
    converged = ran(store, flat, "bayesian_gplvm", **settings)
    assert store.get(converged).converged
    assert left(converged) == []
    assert left(ran(store, toy, "ppca")) == []
    rising = ran(store, toy, "bayesian_gplvm", **SETTINGS)
    assert len(left(rising)) == 1
    several = ran(store, toy, "bayesian_gplvm", **{**SETTINGS, "n_restarts": 2})
    assert len(left(several)) == 2


def test_the_files_that_two_runs_share_are_counted_once(store: Store, toy: Dataset) -> None:
    short = ran(store, toy, "bayesian_gplvm", **SETTINGS)
    before = store.size().total
    size = branch_path(store.job_folder(short).path, 1).stat().st_size
    assert size > 1000
    long = store.continue_fit(short, 90)
    assert store.size().total - before < size
    assert store.job_folder(long).branches.paths()
    store.delete(short)
    assert branch_path(store.job_folder(long).path, 1).stat().st_size == size


@pytest.mark.slow(quick=["1000000000-max_iter"])
@pytest.mark.parametrize(
    ("steps", "said"), [(60, "no more than the 60"), (10**9, "max_iter"), (0, "no more than")]
)
def test_steps_that_are_no_more_or_too_many_are_refused(
    store: Store, toy: Dataset, steps: int, said: str
) -> None:
    run = ran(store, toy, "bayesian_gplvm", **SETTINGS)
    with pytest.raises(ConfigError, match=said):
        store.continue_fit(run, steps)
    assert len(store.list()) == 1


def test_only_a_fit_that_ended_still_rising_goes_on(store: Store, work: Work, toy: Dataset) -> None:
    done = ran(store, toy, "ppca")
    rising = ran(store, toy, "bayesian_gplvm", **SETTINGS)
    stopped = store.continue_fit(rising, 90)
    for run in (done, stopped):
        with pytest.raises(ConfigError, match="cannot be continued with more steps"):
            store.continue_fit(run, 500)
    work(stopped, 40)
    with pytest.raises(ConfigError, match="cannot be continued with more steps"):
        store.continue_fit(stopped, 500)


def test_a_cancelled_run_keeps_the_state_only_while_it_can_be_resumed(
    store: Store, work: Work, toy: Dataset
) -> None:
    short = ran(store, toy, "bayesian_gplvm", **SETTINGS)
    waiting, under_way = store.continue_fit(short, 90), store.continue_fit(short, 120)
    store.cancel(waiting)  # before its first step: nothing is there to resume
    assert not store.get(waiting).resumable
    assert store.job_folder(waiting).branches.paths() == []
    work(under_way, 80, "cancelled")
    assert store.get(under_way).resumable
    assert store.job_folder(under_way).branches.paths()
    store.resume(under_way)
    work(under_way)
    job = store.get(under_way)
    assert (job.status, job.still_rising, job.branch_step) == ("done", True, 48)
    assert store.get(short).branch_step == 24  # the shorter run's own state stays


@pytest.mark.parametrize(("error", "left"), [("DiskFull", 1), ("NumericalError", 0)])
def test_a_failed_run_keeps_the_state_only_while_it_can_be_resumed(
    store: Store, toy: Dataset, error: str, left: int
) -> None:
    short = ran(store, toy, "bayesian_gplvm", **SETTINGS)
    long = store.continue_fit(short, 90)
    folder = store.job_folder(long)
    with folder.lock():
        folder.write_state(folder.state().ending("failed", message="It stopped.", error=error))
        folder.clear_up()
    assert store.get(long).resumable == bool(left)
    assert len(folder.branches.paths()) == left
