"""Calls of one function as tasks on the nodes of a Ray cluster.

A task takes cores, and a GPU and memory where it is to, and waits until a node has them. One whose
node or process is lost is begun again by Ray. A task says when it begins, so that the caller can
tell those that wait from those under way.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lvmcore.jobs.executors.cluster_address import ClusterError
from lvmcore.jobs.executors.node_worker import (
    different_versions,
    node_versions,
    package_versions,
)

__all__ = ["ClusterTasks", "TaskLostError", "TaskNeeds", "TaskResult"]

Key = TypeVar("Key")

#: Times that Ray begins a task again after its node or its process was lost.
MOST_LOSSES = 20


class TaskLostError(ClusterError):
    """The node or the process of a task was lost again and again."""


@dataclass(frozen=True)
class TaskNeeds:
    """What a task asks of a node.

    Attributes:
        threads: cores, and threads of its operations.
        gpus: GPUs.
        memory: bytes; None without an estimate.
    """

    threads: int = 1
    gpus: int = 0
    memory: int | None = None


@dataclass(frozen=True)
class TaskResult(Generic[Key]):
    """The end of a task.

    Attributes:
        key: of the call.
        value: what the function returned.
        error: what it raised; a ``ClusterError`` where it could not be called; None without one.
    """

    key: Key
    value: Any
    error: BaseException | None = None

    def get(self) -> Any:
        """The value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


class ClusterTasks(Generic[Key]):
    """Calls under way, each under a key.

    Its methods raise ``ClusterError`` where the cluster no longer answers.

    Args:
        ray: the module ``ray``, connected.
        function: called with one argument on a node; it can be pickled, and is sent to a node once.
            A process of a node keeps it from one call to the next.
        needs: what each call asks of a node.
    """

    def __init__(self, ray: Any, function: Callable[[Any], Any], needs: TaskNeeds) -> None:
        self._ray, self._needs = ray, needs
        self._function = uuid.uuid4().hex, ray.put(pickle.dumps(function))
        self._task = ray.remote(max_retries=MOST_LOSSES)(_call).options(
            num_cpus=needs.threads, num_gpus=needs.gpus, memory=needs.memory
        )
        self._versions = package_versions()
        self._keys: dict[Any, Key] = {}
        self._nodes: dict[Key, str] = {}

    def __len__(self) -> int:
        """Number of calls that wait or are under way."""
        return len(self._keys)

    def submit(self, key: Key, argument: Any) -> None:
        """Have the function called where there is room."""
        name, function = self._function
        with self._answering():
            task = self._task.remote(name, function, self._needs, self._versions, argument)
        self._keys[task] = key

    def finished(self, seconds: float) -> list[TaskResult[Key]]:
        """The calls that have ended, after at most so many seconds."""
        if not self._keys:
            return []
        tasks = list(self._keys)
        with self._answering():
            ready, _ = self._ray.wait(tasks, num_returns=1, timeout=seconds, fetch_local=False)
            if ready:  # and what came at the same time
                n = len(tasks)
                ready, _ = self._ray.wait(tasks, num_returns=n, timeout=0, fetch_local=False)
            found = [self._next(task) for task in ready]
        return [result for result in found if result is not None]

    def _next(self, task: Any) -> TaskResult[Key] | None:
        """The end of a call; None where it has only begun."""
        key, errors = self._keys[task], self._ray.exceptions
        try:
            value = self._ray.get(next(task))
            if isinstance(value, _Begun):
                self._nodes[key] = value.node
                return None
            result = TaskResult(key, value)
        except errors.RayTaskError as error:
            result = TaskResult(key, None, error.cause or error)
        except errors.RayError as error:
            result = TaskResult(key, None, TaskLostError(f"A node did not end its part: {error}"))
        del self._keys[task]
        self._nodes.pop(key, None)
        return result

    def waiting(self) -> list[Key]:
        """The calls that have not begun, in their order; those of a lost node are among them."""
        with self._answering():
            alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        return [key for key in self._keys.values() if self._nodes.get(key) not in alive]

    def withdraw(self, key: Key) -> None:
        """End a call without a result."""
        for task in [task for task, known in self._keys.items() if known == key]:
            del self._keys[task]
            with self._answering():
                self._ray.cancel(task, force=True)
        self._nodes.pop(key, None)

    def close(self) -> None:
        """End all calls; does nothing where the connection has ended."""
        with suppress(ClusterError):
            for key in list(self._keys.values()) if self._ray.is_initialized() else ():
                self.withdraw(key)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raise ``ClusterError`` for the errors of a connection that is lost."""
        try:
            yield
        except (self._ray.exceptions.RayError, ConnectionError, TimeoutError) as error:
            raise ClusterError(f"The cluster no longer answers: {error}") from error


@dataclass(frozen=True)
class _Begun:
    """The first answer of a task.

    Attributes:
        node: id of its node.
    """

    node: str


#: The function that this process of a node has called last, by its name.
_functions: dict[str, Callable[[Any], Any]] = {}


def _call(
    name: str, content: bytes, needs: TaskNeeds, versions: dict[str, str], argument: Any
) -> Iterator[Any]:
    """Call a function on a node; yields the notice of the beginning, then the value.

    Raises:
        ClusterError: the node has other versions of the packages.
    """
    import ray
    import torch

    from lvmcore.devices import use_gpu

    yield _Begun(ray.get_runtime_context().get_node_id())
    different = different_versions(versions, node_versions())
    if different:
        raise ClusterError(different)
    torch.set_num_threads(needs.threads)
    use_gpu("cuda:0" if needs.gpus else "")  # Ray shows a task its GPUs alone
    if name not in _functions:
        _functions.clear()
        _functions[name] = pickle.loads(content)
    yield _functions[name](argument)
