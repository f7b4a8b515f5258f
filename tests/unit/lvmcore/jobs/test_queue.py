"""How many runs at once, which one next, and when the queue is full."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lvmcore.data import Dataset
from lvmcore.devices import Gpu
from lvmcore.errors import ConfigError
from lvmcore.jobs import machine_limits
from lvmcore.jobs.executors.local import LocalExecutor
from lvmcore.jobs.launcher import Launcher
from lvmcore.jobs.machine_limits import (
    available_memory,
    default_slots,
    threads_of_a_fit,
    total_memory,
)
from lvmcore.runs import JobSpec, Store
from tests.unit.lvmcore.jobs.waiting import finished, until

Submit = Callable[..., str]
Launch = Callable[..., Launcher]
LongFit = Callable[[], str]


def running(store: Store) -> set[str]:
    return {job.id for job in store.list() if job.status == "running"}


@pytest.mark.slow
def test_as_many_fits_run_as_there_are_slots_and_the_rest_wait_in_order(
    store: Store, long_fit: LongFit, launch: Launch
) -> None:
    names = [long_fit() for _ in range(4)]
    launch(slots=2)
    other = Launcher(Store(store.home), spare=False, slots=2)
    until(lambda: running(store) == set(names[:2]), "the first two runs")
    until(lambda: store.events(names[0]) and store.events(names[1]), "both fits' first steps")
    assert running(store) == set(names[:2])
    assert [store.get(name).queue_place for name in names[2:]] == [1, 2]
    store.cancel(names[1])
    until(lambda: names[2] in running(store), "the third run, when there is a slot")
    assert store.get(names[3]).queue_place == 1
    assert names[0] in running(store)
    for name in reversed(names):
        store.cancel(name)
    for name in names:
        assert finished(store, name).status == "cancelled"
    other.close()


@pytest.mark.slow
def test_a_run_waits_while_its_memory_is_not_free_and_alone_it_starts(
    store: Store, big: Dataset, toy: Dataset, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lvmcore.jobs.executors.local.available_memory", lambda: 1000)
    settings = {"n_components": 5, "n_inducing": 60, "n_restarts": 100}
    store.datasets.put(big)
    store.datasets.put(toy)
    spec = JobSpec(big.digest, "big", "bayesian_gplvm", settings)
    first = store.submit(spec, memory=5000)
    large = store.submit(JobSpec(toy.digest, "toy", "ppca"), memory=1001)
    small = store.submit(JobSpec(toy.digest, "toy", "ppca"), memory=10)
    launch(slots=2)
    until(lambda: store.events(first), "the first run, more than what is free as it is")
    assert store.get(first).memory == 5000
    until(lambda: store.get(first).seconds > 3, "a few seconds")  # type: ignore[operator]
    assert [store.get(name).status for name in (large, small)] == ["queued", "queued"]
    store.cancel(first)
    for name in (large, small):
        assert finished(store, name).status == "done"


GPUS = (Gpu("cuda:0", "First", 1 << 34), Gpu("cuda:1", "Second", 1 << 34))
LONG = {"n_components": 5, "n_inducing": 60, "n_restarts": 100}


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher that sees two GPUs. Its workers see none: it is its order that is looked at."""
    monkeypatch.setattr("lvmcore.jobs.executors.local.machine_gpus", lambda: GPUS)


@pytest.mark.slow
@pytest.mark.usefixtures("two_gpus")
def test_each_gpu_has_one_fit_and_runs_without_a_gpu_pass(
    store: Store, big: Dataset, submit: Submit, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lvmcore.jobs.launcher._is_on_cpu", lambda folder: False)
    names = [submit(big, "bayesian_gplvm", device="auto", **LONG) for _ in range(3)]
    passing = submit(big, "ppca", n_components=2, device="auto")
    launch(slots=4)
    assert finished(store, passing).status == "done"
    until(lambda: running(store) == set(names[:2]), "the first two runs, one on each GPU")
    assert store.get(names[2]).status == "queued"
    store.cancel(names[1])
    until(lambda: names[2] in running(store), "the third run, when a GPU is free")
    for name in (names[0], names[2]):
        store.cancel(name)
        assert finished(store, name).status == "cancelled"


@pytest.mark.slow
@pytest.mark.usefixtures("two_gpus")
def test_a_fit_that_chose_the_cpu_gives_its_gpu_back(
    store: Store, big: Dataset, submit: Submit, launch: Launch
) -> None:
    names = [submit(big, "bayesian_gplvm", device="auto", **LONG) for _ in range(3)]
    launch(slots=3)
    until(lambda: running(store) == set(names), "all runs, once the first are on the CPU")
    found = store.get(names[0]).computation
    assert found is not None
    assert found.device == "cpu"
    for name in names:
        store.cancel(name)
    for name in names:
        assert finished(store, name).status == "cancelled"


@pytest.mark.usefixtures("two_gpus")
def test_which_gpus_a_run_needs(store: Store, big: Dataset, toy: Dataset, submit: Submit) -> None:
    executor = LocalExecutor(1)

    def gpus(dataset: Dataset, model: str, **settings: Any) -> tuple[str, ...]:
        return executor.gpus_of(store.get(submit(dataset, model, **settings)), store)

    assert gpus(big, "bayesian_gplvm", n_inducing=200) == ("cuda:0", "cuda:1")
    assert gpus(toy, "bayesian_gplvm", n_inducing=5) == ()  # a small step
    assert gpus(toy, "bayesian_gplvm", device="cuda") == ("cuda:0", "cuda:1")
    assert gpus(toy, "bayesian_gplvm", device="cuda:1") == ("cuda:1",)
    assert gpus(toy, "bayesian_gplvm", device="cuda:3") == ()  # the fit says that it is not there
    assert gpus(big, "bayesian_gplvm", n_inducing=200, device="cpu") == ()
    assert gpus(big, "pca", device="cuda") == ()


def test_a_full_queue_refuses_with_the_reason(tmp_path: Path, toy: Dataset) -> None:
    store = Store(tmp_path / "store", most_waiting=2)
    spec = JobSpec(store.datasets.put(toy), "toy", "ppca")
    names = [store.submit(spec) for _ in range(2)]
    with pytest.raises(ConfigError, match="queue is full: 2 runs wait already"):
        store.submit(spec)
    assert store.queue.ids() == names
    store.cancel(names[0])
    assert store.get(store.submit(spec)).queue_place == 2


@pytest.mark.parametrize(
    ("cores", "slots", "threads"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (4, 2, 2), (17, 8, 2)]
)
def test_cores_are_shared_out(
    cores: int, slots: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_limits, "cores", lambda: cores)
    assert default_slots() == slots
    assert threads_of_a_fit(slots) == threads


def test_memory_is_that_of_the_container_where_it_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, total = available_memory(), total_memory()
    assert 0 < free <= total
    monkeypatch.setattr(machine_limits, "_CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 200000\n")
    assert (available_memory(), total_memory()) == (500_000, 1_000_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert total_memory() >= total
