"""Runs whose parts several nodes compute at once: the results of this machine, bit by bit."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from lvmcore.data import Dataset
from lvmcore.evaluation.learning_curves import LearningCurve
from lvmcore.jobs.executors.cluster import RayExecutor
from lvmcore.jobs.launcher import Launcher
from lvmcore.jobs.learning_curve import learning_curve_of
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import Job, JobSpec, Store
from lvmcore.runs.atomic_files import read_json
from tests.kill.harness import dataset
from tests.unit.lvmcore.jobs.executors.local_cluster import LocalCluster
from tests.unit.lvmcore.jobs.waiting import PATIENCE, finished, until, workers_of
from tests.unit.lvmcore.training.test_checkpoint import untimed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STARTS = {"n_components": 2, "n_inducing": 12, "n_restarts": 5, "start": "random"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster(nodes=3)
    yield made
    made.close()


@pytest.fixture
def launcher(store: Store, cluster: LocalCluster) -> Iterator[Launcher]:
    made = Launcher(store, spare=False, executor=RayExecutor(cluster.address, slots=1))
    yield made
    made.close()


def run_here(path: Path, data: Dataset, spec: JobSpec) -> tuple[Store, Job]:
    """The same run in this process."""
    store = Store(path)
    store.datasets.put(data)
    name = store.submit(spec)
    run_job(store.job_folder(name), lambda: data, lambda: None, store=store)
    return store, store.get(name)


def finished_by_others(store: Store, name: str, cluster: LocalCluster) -> Job:
    """The run, once it has ended; its own process has a third of the time once it has begun.

    So the other processes have their parts, however busy the machine is.
    """
    until(lambda: store.events(name) or store.get(name).stage == "finished", "the first step")
    deadline = time.monotonic() + PATIENCE
    while store.get(name).stage != "finished" and time.monotonic() < deadline:
        own = workers_of(cluster.pid)
        for signal_of in (psutil.Process.suspend, psutil.Process.resume):
            for process in own:
                with suppress(psutil.NoSuchProcess):
                    signal_of(process)
            time.sleep(0.4 if signal_of is psutil.Process.suspend else 0.2)
    return finished(store, name)


def parts_elsewhere(store: Store, name: str) -> int:
    """The number of parts of a run that other processes than its own have computed."""
    for line in store.job_folder(name).files.log.read_text("utf-8").splitlines():
        number, _, rest = line.partition(" of ")
        if "parts of the run were computed by other processes" in rest:
            return int(number)
    return 0


def same_starts(store: Store, job: Job, here: Store, other: Job) -> None:
    """Two fits from several starts are the same."""
    assert job.elbo == other.elbo
    assert job.notes == other.notes
    one, two = store.load_model(job.id), here.load_model(other.id)
    for part in ("starts", "bounds", "seeds", "means", "kept"):
        np.testing.assert_array_equal(getattr(one.restarts_, part), getattr(two.restarts_, part))
    np.testing.assert_array_equal(one.embedding_.mean, two.embedding_.mean)
    assert untimed(one.history_) == untimed(two.history_)
    agreement = [key for key in job.metrics if key in ("disagreement", "neighbours")]
    assert len(agreement) == 2
    assert {key: m.value for key, m in job.metrics.items()} == {
        key: m.value for key, m in other.metrics.items()
    }


def test_the_starts_of_a_fit_are_those_of_this_machine(
    tmp_path: Path, store: Store, cluster: LocalCluster, launcher: Launcher
) -> None:
    data = dataset()
    spec = JobSpec(data.digest, data.name, "bayesian_gplvm", {**STARTS, "max_iter": 150})
    store.datasets.put(data)
    name = store.submit(spec)
    launcher.ensure_running()
    job = finished_by_others(store, name, cluster)
    assert job.status == "done", job.message
    assert parts_elsewhere(store, name) > 0
    here, other = run_here(tmp_path / "here", data, spec)
    same_starts(store, job, here, other)
    files = [
        {path.name for path in one.job_folder(run).path.iterdir()} - {"worker.log", "lock"}
        for one, run in ((store, name), (here, other.id))
    ]
    assert files[0] == files[1]
    steps = [event.step for event in store.events(name)]
    assert [step.iteration for step in steps] == sorted({step.iteration for step in steps})
    assert {step.start for step in steps} == {1, 2, 3, 4, 5}
    assert steps[-1].iteration == here.events(other.id)[-1].step.iteration


def test_a_cancelled_fit_keeps_the_best_start_so_far(store: Store, launcher: Launcher) -> None:
    data = dataset()
    settings = {**STARTS, "n_restarts": 100, "max_iter": 300}
    spec = JobSpec(data.digest, data.name, "bayesian_gplvm", settings)
    store.datasets.put(data)
    name = store.submit(spec)
    launcher.ensure_running()
    until(lambda: any(e.step.start > 2 for e in store.events(name)), "two starts that have ended")
    store.cancel(name)
    job = finished(store, name)
    assert job.status == "cancelled"
    assert job.has_model
    found: Any = store.load_model(name)
    assert job.elbo == found.restarts_.bounds.max()


def test_a_learning_curve_is_that_of_this_machine(
    tmp_path: Path, store: Store, toy: Dataset, cluster: LocalCluster, launcher: Launcher
) -> None:
    settings = {"n_components": 2, "n_inducing": 10, "max_iter": 120}
    fit = JobSpec(toy.digest, toy.name, "ldgd", settings)
    spec = learning_curve_of(fit, (15, 24, 40), 3)
    store.datasets.put(toy)
    name = store.submit(spec)
    launcher.ensure_running()
    job = finished_by_others(store, name, cluster)
    assert job.status == "done", job.message
    assert parts_elsewhere(store, name) > 0
    here, other = run_here(tmp_path / "here", toy, spec)
    curves = [
        LearningCurve.from_json(read_json(one.job_folder(run).files.learning_curve))
        for one, run in ((store, name), (here, other.id))
    ]
    points = [[dataclasses.replace(p, seconds=0.0) for p in one.points] for one in curves]
    assert points[0] == points[1]
    assert len(points[0]) == 9
    assert {key: m.value for key, m in job.metrics.items()} == {
        key: m.value for key, m in other.metrics.items()
    }
    assert [event.step.iteration for event in store.events(name)] == list(range(1, 10))
