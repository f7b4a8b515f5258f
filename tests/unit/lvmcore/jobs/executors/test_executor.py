"""The launcher with executors whose workers end in several ways, and addresses of clusters."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable

import pytest

from lvmcore.data import Dataset
from lvmcore.jobs.executors import cluster_address
from lvmcore.jobs.executors.cluster import RayExecutor, chosen_cluster
from lvmcore.jobs.executors.cluster_address import ClusterError, check_answer
from lvmcore.jobs.executors.cluster_state import ADDRESS
from lvmcore.jobs.executors.local import LocalExecutor
from lvmcore.jobs.executors.requirements import THREADS, Requirements, requirements
from lvmcore.jobs.launcher import Launcher
from lvmcore.jobs.worker_process import WorkerProcess
from lvmcore.runs import Job, Store
from tests.unit.lvmcore.jobs.waiting import finished, until

Submit = Callable[..., str]
Launch = Callable[..., Launcher]


class OddExecutor(LocalExecutor):
    """An executor whose first workers end early.

    Args:
        ways: how the first workers end, as ``odd_worker`` understands.
    """

    def __init__(self, *ways: str) -> None:
        super().__init__(1)
        self.latency = 0.1
        self._ways = list(ways)

    def new_worker(self) -> WorkerProcess:
        if not self._ways:
            return super().new_worker()
        module = "tests.unit.lvmcore.jobs.executors.odd_worker"
        return WorkerProcess(1, module=module, variables={"WAY": self._ways.pop(0)})


def test_a_run_that_cannot_begin_stays_in_the_queue_and_says_why(
    store: Store,
    submit: Submit,
    launch: Launch,
    toy: Dataset,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lvmcore.jobs.launcher._POSTPONED_SECONDS", 4.0)
    name = submit(toy, n_components=2)
    launcher = launch(executor=OddExecutor("unavailable"))
    until(lambda: launcher.trouble, "the reason")
    assert launcher.trouble == "No node has room."
    assert store.get(name).status == "queued"
    assert "No node has room." in caplog.text
    other = submit(toy, n_components=1)
    assert finished(store, other).status == "done"  # it overtakes
    assert finished(store, name).status == "done"
    until(lambda: not launcher.trouble, "the end of the trouble")


@pytest.mark.slow
def test_a_run_whose_node_is_lost_is_resumed(
    store: Store, submit: Submit, launch: Launch, toy: Dataset
) -> None:
    name = submit(toy, n_components=2)
    launch(executor=OddExecutor("lost", "aborted"))
    until(lambda: store.get(name).status == "done", "the end of the run")
    assert store.get(name).attempt == 3


def test_a_run_whose_process_ended_is_not_resumed(
    store: Store, submit: Submit, launch: Launch, toy: Dataset
) -> None:
    name = submit(toy, n_components=2)
    launch(executor=OddExecutor("process lost"))
    job = finished(store, name)
    assert (job.status, job.attempt) == ("interrupted", 1)


def test_a_lost_process_of_this_machine_is_not_resumed(
    store: Store, submit: Submit, launch: Launch, toy: Dataset
) -> None:
    executor = OddExecutor("aborted")
    executor.latency = 0.0
    name = submit(toy, n_components=2)
    launch(executor=executor)
    assert finished(store, name).status == "interrupted"


@pytest.mark.parametrize("address", ["nonsense", "10.0.0.5", "ray://a:1", "a b:1", "a:"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ClusterError, match="expected host:port"):
        cluster_address.cluster_address(address)


def test_auto_is_ray_s_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert cluster_address.cluster_address("auto") == "auto"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.5:6379")
    assert cluster_address.cluster_address("auto") == "10.0.0.5:6379"
    assert cluster_address.cluster_address("[::1]:6379") == "[::1]:6379"


def test_an_address_that_does_not_answer_is_said_at_once() -> None:
    with pytest.raises(ClusterError, match=r"No cluster answers at 127\.0\.0\.1:9\."):
        check_answer("127.0.0.1:9")


def test_without_ray_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"pip install 'latentboard\[ray\]'"):
        RayExecutor("127.0.0.1:6379")


def test_no_cluster_is_chosen_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    assert chosen_cluster() is None


def test_what_a_run_asks_for(
    store: Store, submit: Submit, toy: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(THREADS, "3")
    job: Job = store.get(submit(toy, n_components=2))
    needs = requirements(dataclasses.replace(job, memory=2_000_000_000))
    assert needs == Requirements(3, 0, 2_000_000_000)
    assert needs.described == "3 cores and 2.0 GB of memory"
    assert needs.fit({"CPU": 4.0, "memory": 3e9})
    assert not needs.fit({"CPU": 2.0, "memory": 3e9})
    assert not needs.fit({"CPU": 4.0, "memory": 1e9})
    assert Requirements(1, 1, None).described == "1 core and a GPU"
    assert not Requirements(1, 1, None).fit({"CPU": 4.0})
