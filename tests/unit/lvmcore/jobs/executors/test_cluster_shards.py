"""One fit over the actors of a Ray cluster: the result of one machine, whatever is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lvmcore.data import Dataset
from lvmcore.distributed.choice import chosen_shards
from lvmcore.jobs.executors.cluster import RayExecutor
from lvmcore.jobs.launcher import Launcher
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import Job, JobSpec, Store
from tests.kill.harness import dataset
from tests.unit.lvmcore.jobs.executors.local_cluster import LocalCluster
from tests.unit.lvmcore.jobs.waiting import finished, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = {"n_components": 2, "n_inducing": 12, "device": "cpu"}
OWN: dict[str, dict[str, Any]] = {
    "bayesian_gplvm": {**SETTINGS, "start": "pca"},
    "stochastic_gplvm": {**SETTINGS, "batch_size": 32, "random_state": 1},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster(nodes=3)  # of one core each: for the run, and for each shard
    yield made
    made.close()


@pytest.fixture
def surface() -> Dataset:
    return dataset()


@pytest.fixture
def launcher(store: Store, cluster: LocalCluster) -> Iterator[Launcher]:
    with chosen_shards(2):
        made = Launcher(store, spare=False, executor=RayExecutor(cluster.address, slots=1))
        yield made
        made.close()


def submitted(
    store: Store, dataset: Dataset, model: str = "bayesian_gplvm", **settings: Any
) -> str:
    digest = store.datasets.put(dataset)
    return store.submit(JobSpec(digest, dataset.name, model, {**OWN[model], **settings}))


def fitted_here(
    path: Path, dataset: Dataset, model: str = "bayesian_gplvm", **settings: Any
) -> Job:
    """The same fit in this process, without shards."""
    store = Store(path)
    name = submitted(store, dataset, model, **settings)
    with chosen_shards(0):
        run_job(store.job_folder(name), lambda: dataset, lambda: None, store=store)
    return store.get(name)


@pytest.mark.parametrize("model", OWN)
def test_a_run_over_actors_is_that_of_this_machine(
    tmp_path: Path, store: Store, surface: Dataset, launcher: Launcher, model: str
) -> None:
    name = submitted(store, surface, model, max_iter=60)
    launcher.ensure_running()
    job = finished(store, name)
    assert job.status == "done", job.message
    other = fitted_here(tmp_path / "here", surface, model, max_iter=60)
    assert job.elbo == pytest.approx(other.elbo, rel=1e-6)
    assert job.computation is not None
    assert job.computation.shards == 2
    own, there = (store.events(name), Store(tmp_path / "here").events(other.id))
    bounds = [{e.step.iteration: e.step.objective for e in events} for events in (own, there)]
    early = [n for n in bounds[0] if n in bounds[1] and n <= 40]
    assert len(early) > 3
    for n in early:
        assert bounds[0][n] == pytest.approx(bounds[1][n], rel=1e-9, abs=1e-7)


def test_a_run_goes_on_when_a_node_is_lost(
    tmp_path: Path, store: Store, surface: Dataset, cluster: LocalCluster, launcher: Launcher
) -> None:
    long = {"max_iter": 150, "learning_rate": 0.002}
    name = submitted(store, surface, **long)
    launcher.ensure_running()
    until(lambda: len(store.events(name)) > 8, "some events")
    cluster.lose_node()
    job = finished(store, name)
    assert job.status == "done", job.message
    assert job.attempt > 1
    steps = [event.step.iteration for event in store.events(name)]
    assert steps == sorted(set(steps))
    other = fitted_here(tmp_path / "here", surface, **long)
    assert job.elbo == pytest.approx(other.elbo, rel=1e-3)


def test_a_run_with_more_shards_than_the_cluster_has_cores_waits(
    store: Store, surface: Dataset, launcher: Launcher
) -> None:
    with chosen_shards(5):
        name = submitted(store, surface, max_iter=5)
        launcher.ensure_running()
        until(lambda: launcher.trouble, "the reason")
        assert "5 shards" in launcher.trouble
        assert store.get(name).status == "queued"
        store.cancel(name)
