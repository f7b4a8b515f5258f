"""The process beside the store, with a node that only answers for its versions."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from lvmcore.data import Dataset
from lvmcore.jobs.executors import cluster_worker, node_worker
from lvmcore.jobs.executors.cluster_worker import ClusterRun
from lvmcore.jobs.executors.executor import NODE_LOST, UNAVAILABLE
from lvmcore.jobs.parent_process import ParentWatch
from lvmcore.runs import Store


class _RayActorError(Exception):
    """The name that Ray gives the loss of an actor, which may never have been made."""

    def __init__(self, *, actor_init_failed: bool) -> None:
        super().__init__("lost")
        self.actor_init_failed = actor_init_failed


@dataclass
class _Method:
    value: Any

    def remote(self, *arguments: object) -> Any:
        del arguments
        return self.value


@dataclass
class _Actor:
    """A node that answers for its versions alone."""

    versions: _Method
    close: _Method = field(default_factory=lambda: _Method(None))


@dataclass
class _Ray:
    """Ray, where every answer is there at once."""

    node: dict[str, str] | Exception
    exceptions: Any = field(
        default=type(
            "exceptions",
            (),
            {
                "RayActorError": _RayActorError,
                "GetTimeoutError": TimeoutError,
                "RaySystemError": OSError,
                "RayError": RuntimeError,
            },
        )
    )
    killed: int = 0

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 64.0, "memory": 1e12}}]

    def remote(self, kind: type) -> Any:
        assert kind is node_worker.NodeWorker
        return self

    def options(self, **needs: object) -> Any:
        del needs
        return _Method(_Actor(_Method(self.node)))

    def wait(self, refs: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        del timeout
        return refs, []

    def get(self, ref: Any, timeout: float | None = None) -> Any:
        del timeout
        if isinstance(ref, Exception):
            raise ref
        return ref

    def kill(self, actor: _Actor) -> None:
        assert isinstance(actor, _Actor)
        self.killed += 1


@pytest.mark.parametrize("package", ["python", "torch", "latentboard"])
def test_a_node_with_other_versions_leaves_the_run_in_the_queue(
    package: str,
    store: Store,
    submit: Callable[..., str],
    toy: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = submit(toy, n_components=2)
    other = {**node_worker.node_versions(), package: "1.2.3", "node": "far"}
    ray = _Ray(other)
    monkeypatch.setattr(cluster_worker, "connect", lambda address: ray)
    monkeypatch.setattr(cluster_worker, "read_request", lambda: (store.home, name, ""))
    monkeypatch.setattr(ParentWatch, "start", lambda self: None)
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)
    monkeypatch.setenv(cluster_worker.ADDRESS, "127.0.0.1:1")
    assert cluster_worker.main() == UNAVAILABLE
    here = node_worker.package_versions()[package]
    assert capsys.readouterr().err == (
        f"The node far has other versions than this machine: {package} 1.2.3 for {here}. Install "
        "the same ones on all machines.\n"
    )
    assert store.get(name).status == "queued"
    assert ray.killed == 1


def test_a_node_without_the_package_is_named(
    store: Store, submit: Callable[..., str], toy: Dataset
) -> None:
    name = submit(toy, n_components=2)
    folder = store.job_folder(name)
    there = dict.fromkeys(node_worker.package_versions(), "") | {"node": "far"}
    run = ClusterRun(_Ray(there), store, folder, ParentWatch(folder))
    with pytest.raises(cluster_worker.ClusterError, match=r"latentboard \(none\) for"):
        run.execute()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (_RayActorError(actor_init_failed=False), NODE_LOST),
        (TimeoutError(), NODE_LOST),
        (_RayActorError(actor_init_failed=True), UNAVAILABLE),
        (OSError(), UNAVAILABLE),
    ],
)
def test_a_node_lost_before_the_run_began_is_not_one_that_cannot_begin_it(
    error: Exception, status: int, store: Store, submit: Callable[..., str], toy: Dataset
) -> None:
    folder = store.job_folder(submit(toy, n_components=2))
    run = ClusterRun(_Ray(error), store, folder, ParentWatch(folder))
    if status == NODE_LOST:
        assert run.execute() == NODE_LOST
    else:
        with pytest.raises(cluster_worker.ClusterError, match="Is latentboard installed there"):
            run.execute()
    assert folder.state().status == "queued"
