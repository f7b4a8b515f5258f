"""Runs on a Ray cluster: the same results as on this machine, whatever is lost on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmcore.bench.harness.report import BenchmarkRow
from lvmcore.cli import main
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.jobs.executors.cluster import RayExecutor
from lvmcore.jobs.executors.cluster_state import ClusterMonitor
from lvmcore.jobs.launcher import Launcher
from lvmcore.runs import Job, JobSpec, Store
from tests.kill.harness import dataset
from tests.unit.lvmcore.jobs.executors.local_cluster import LocalCluster
from tests.unit.lvmcore.jobs.waiting import finished, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = {"n_components": 2, "n_inducing": 12}
#: Steps small enough that the fit goes on while a node is killed.
LONG = {**SETTINGS, "max_iter": 1500, "learning_rate": 0.002}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster()
    yield made
    made.close()


@pytest.fixture
def surface() -> Dataset:
    return dataset()


@pytest.fixture(scope="module")
def long_here(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The long fit by a process of this machine."""
    return fitted_here(tmp_path_factory.mktemp("long"), dataset(), **LONG)[1]


@pytest.fixture
def launcher(store: Store, cluster: LocalCluster) -> Iterator[Launcher]:
    made = Launcher(store, spare=False, executor=RayExecutor(cluster.address, slots=2))
    yield made
    made.close()


def submitted(store: Store, dataset: Dataset, **settings: Any) -> str:
    digest = store.datasets.put(dataset)
    return store.submit(JobSpec(digest, dataset.name, "bayesian_gplvm", settings))


def fitted_here(tmp_path: Path, dataset: Dataset, **settings: Any) -> tuple[Store, Job]:
    """The same fit by a process of this machine."""
    store = Store(tmp_path / "here")
    name = submitted(store, dataset, **settings)
    launcher = Launcher(store, spare=False, slots=1)
    job = finished(store, name)
    launcher.close()
    return store, job


def test_a_run_is_that_of_this_machine_and_its_model_is_used(
    tmp_path: Path, store: Store, surface: Dataset, launcher: Launcher
) -> None:
    name = submitted(store, surface, **SETTINGS, max_iter=60)
    launcher.ensure_running()
    job = finished(store, name)
    assert job.status == "done", job.message
    here, other = fitted_here(tmp_path, surface, **SETTINGS, max_iter=60)
    assert job.elbo == other.elbo
    assert {key: metric.value for key, metric in job.metrics.items()} == {
        key: metric.value for key, metric in other.metrics.items()
    }
    two = store.load_model(name).embedding_, here.load_model(other.id).embedding_
    np.testing.assert_array_equal(two[0].mean, two[1].mean)
    files = {path.name for path in store.job_folder(name).path.iterdir()}
    expected = {path.name for path in here.job_folder(other.id).path.iterdir()}
    assert files == expected
    assert store.events(name)[-1].step.iteration == here.events(other.id)[-1].step.iteration

    spec = JobSpec(job.spec.dataset, "surface", "bayesian_gplvm", kind="project", run=name)
    placed = finished(store, store.submit(spec))
    assert placed.status == "done", placed.message


def test_a_cancelled_run_keeps_the_fit_so_far(
    store: Store, surface: Dataset, launcher: Launcher
) -> None:
    name = submitted(store, surface, **SETTINGS, n_restarts=100)
    launcher.ensure_running()
    until(lambda: len(store.events(name)) > 3, "a few steps")
    store.cancel(name)
    job = finished(store, name)
    assert job.status == "cancelled"
    assert job.has_model


def test_a_queued_run_waits_for_a_core_and_is_cancelled(
    store: Store, surface: Dataset, launcher: Launcher
) -> None:
    first = submitted(store, surface, **SETTINGS, n_restarts=100)
    second = submitted(store, surface, **SETTINGS, max_iter=5)
    launcher.ensure_running()
    until(lambda: store.events(first), "the first run's start")
    assert store.get(second).status == "queued"
    store.cancel(second)
    until(lambda: store.get(second).finished, "the end of the queued run")
    store.cancel(first)
    finished(store, first)


@pytest.mark.parametrize("lost", ["nodes", "head"])
def test_a_run_goes_on_when_machines_are_lost(
    store: Store,
    surface: Dataset,
    cluster: LocalCluster,
    launcher: Launcher,
    long_here: Job,
    lost: str,
) -> None:
    name = submitted(store, surface, **LONG)
    launcher.ensure_running()
    until(lambda: len(store.events(name)) > 20, "twenty events")
    if lost == "nodes":
        cluster.lose_nodes()
    else:
        cluster.restart()
    job = finished(store, name)
    assert job.status == "done", job.message
    assert job.attempt > 1
    assert job.elbo == long_here.elbo
    steps = [event.step.iteration for event in store.events(name)]
    assert steps == sorted(set(steps))


def test_the_command_line_fits_on_a_cluster(
    tmp_path: Path, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    settings = ["--set", "max_iter=20", "--set", "n_components=2"]
    command = ["fit", "sample:wine", "--model", "bayesian_gplvm", *settings, "--out", str(out)]
    assert main([*command, "--cluster", cluster.address]) == 0, capsys.readouterr().err
    assert (out / "model.safetensors").is_file()
    assert not (out / "reserve").exists()


def test_the_nodes_are_followed(cluster: LocalCluster) -> None:
    monitor = ClusterMonitor(cluster.address)
    until(lambda: monitor.latest() is not None, "the state of the cluster")
    state = monitor.latest()
    monitor.close()
    assert state is not None
    assert state.error == ""
    assert sum(node.cores for node in state.nodes) == 1
    assert state.free_memory > 0


def rows_of(size: int) -> BenchmarkRow:
    """A row that says which process measured it."""
    if not size:
        raise DataError("There is no such table here.")
    return BenchmarkRow(f"of {size}", float(os.getpid()))


def test_rows_of_a_benchmark_are_measured_by_the_nodes(
    tmp_path: Path, cluster: LocalCluster
) -> None:
    command = (
        "import sys; from functools import partial; from pathlib import Path\n"
        "from lvmcore.bench.harness.cluster_rows import ClusterRows\n"
        "from lvmcore.bench.harness.report import Report\n"
        f"from {__name__} import rows_of\n"
        "report = Report(Path(sys.argv[1]))\n"
        "makers = [partial(rows_of, size) for size in range(3)]\n"
        "report.measure('sizes', iter(makers), ClusterRows(sys.argv[2]))\n"
    )
    path = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, "-c", command, str(path), cluster.address],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "sizes: rows_of 0: left out. There is no such table here." in done.stdout
    rows = json.loads(path.read_text("utf-8"))["rows"]
    assert sorted(row["name"] for row in rows) == ["of 1", "of 2"]
    assert all(row["value"] != os.getpid() and "torch" in row["machine"] for row in rows)
