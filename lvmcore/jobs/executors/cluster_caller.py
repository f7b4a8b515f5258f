"""Independent calls of a run, such as its fits from several starts, made at once by a cluster.

The process of the run makes calls itself, and connects to the cluster when it has worked at them
for a while and at least one more is left. The others are then tasks; those for which no node has
room wait, and the process takes the last of them whenever it has none of its own. So a run is never
held up by a cluster that is full, or that has no cores but its own.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lvmcore.distributed.independent_calls import IndependentCalls
from lvmcore.errors import CancelledError
from lvmcore.jobs.executors.cluster_address import ClusterError, connected
from lvmcore.jobs.executors.cluster_tasks import ClusterTasks, TaskNeeds, TaskResult

__all__ = ["ClusterCaller"]

#: Time after which the process connects: less work is done before a node has begun.
PATIENCE_SECONDS = 2.0
#: Time between two looks at the tasks during a call, and longest wait for a task without one.
_LOOK_SECONDS, _WAIT_SECONDS = 0.2, 0.5


class ClusterCaller:
    """Makes calls in this process and on a cluster.

    Args:
        address: from ``cluster_address``.
        should_stop: whether the run is to stop.
        gpus: GPUs of a fit.
        memory: memory of a fit, bytes; None without an estimate.
        patience: seconds after which the process connects.
    """

    def __init__(
        self,
        address: str,
        should_stop: Callable[[], bool],
        *,
        gpus: int = 0,
        memory: int | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._address, self._should_stop = address, should_stop
        self._gpus, self._memory, self._patience = gpus, memory, patience
        self._failed = False

    def make(self, calls: IndependentCalls[Any, Any]) -> None:
        """Make all calls; see ``Caller``."""
        under_way = _Calls(calls, self._tasks, self._should_stop, self._patience)
        try:
            while under_way.left:
                if not under_way.make_one():
                    under_way.collect(_WAIT_SECONDS)
                    if self._should_stop():
                        raise CancelledError("Stopped before all parts of the run were done.")
        finally:
            under_way.close()

    def _tasks(self, calls: IndependentCalls[Any, Any]) -> ClusterTasks[int] | None:
        """Tasks for calls; None where the cluster cannot be used."""
        import torch

        if self._failed or calls.elsewhere is None:
            return None
        handler = signal.getsignal(signal.SIGTERM)
        try:
            ray = connected(self._address)
        except ClusterError as error:
            self._failed = True
            print(f"{error} The run goes on in its own process.", file=sys.stderr)
            return None
        finally:  # Ray replaces it
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)
        threads = torch.get_num_threads()
        needs = TaskNeeds(threads, self._gpus, self._memory) if calls.fits else TaskNeeds(threads)
        return ClusterTasks(ray, calls.elsewhere(), needs)


class _Calls:
    """Calls of which some are done, some tasks, and one is made by this process.

    Args:
        calls: the calls.
        open_tasks: connects to the cluster; None where it cannot be used.
        should_stop: whether the run is to stop.
        patience: seconds after which that is done.
    """

    def __init__(
        self,
        calls: IndependentCalls[Any, Any],
        open_tasks: Callable[[IndependentCalls[Any, Any]], ClusterTasks[int] | None],
        should_stop: Callable[[], bool],
        patience: float,
    ) -> None:
        self._calls, self._open, self._should_stop = calls, open_tasks, should_stop
        self.left = dict.fromkeys(range(len(calls.items)))  # places, in order
        self._tasks: ClusterTasks[int] | None = None
        self._own: int | None = None
        self._own_calls = self._made_elsewhere = 0
        self._begin = time.monotonic() + patience
        self._next_look = 0.0
        self._refused: list[int] = []  # of tasks that nodes could not end

    def make_one(self) -> bool:
        """Make a call in this process; False if none is left that has not begun elsewhere."""
        if self._own_calls:  # the first call is that of the first item
            self._look()
        self._own_calls += 1
        place = self._own = self._free_place()
        if place is None:
            return False
        result = self._calls.own(self._calls.items[place], self._look)
        self._own = None
        self._finish(place, result)
        return True

    def _free_place(self) -> int | None:
        """A place for this process: the first before there are tasks; then the last that waits.

        A part that no node could end comes before those that wait.
        """
        with self._giving_up():
            if self._tasks is not None and not self._refused:
                place = max(self._tasks.waiting(), default=None)
                if place is not None:
                    self._tasks.withdraw(place)
                return place
        if self._refused:
            return self._refused.pop()
        return next(iter(self.left), None)

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Leave the calls to this process where the cluster no longer answers."""
        try:
            yield
        except ClusterError as error:
            print(f"{error} The run goes on in its own process.", file=sys.stderr)
            self._tasks, self._refused = None, []

    def _look(self) -> bool:
        """Collect what tasks have finished; make the calls that are left tasks when it is time.

        Returns:
            Whether the run is to stop.
        """
        now = time.monotonic()
        if now < self._next_look:
            return False
        if self._tasks is not None:
            self.collect(0.0)
        elif now >= self._begin:
            self._connect()
        self._next_look = time.monotonic() + _LOOK_SECONDS
        return self._should_stop()

    def _connect(self) -> None:
        others = [place for place in self.left if place != self._own]
        if not others or len(self.left) < 2:
            return
        self._begin = float("inf")
        with self._giving_up():
            self._tasks = self._open(self._calls)
            if self._tasks is not None:
                for place in others:
                    self._tasks.submit(place, self._calls.items[place])

    def collect(self, seconds: float) -> None:
        """Keep the results of tasks that end within so many seconds."""
        found: list[TaskResult[int]] = []
        with self._giving_up():
            if self._tasks is not None:
                found = self._tasks.finished(seconds)
        for result in found:
            self._take(result)

    def _take(self, found: TaskResult[int]) -> None:
        if isinstance(found.error, ClusterError):
            print(f"{found.error} The process of the run does it.", file=sys.stderr)
            self._refused.append(found.key)
        else:
            self._made_elsewhere += 1
            self._finish(found.key, found.get())

    def _finish(self, place: int, result: Any) -> None:
        del self.left[place]
        self._calls.done(place, result)

    def close(self) -> None:
        """End the tasks, and say in the log of the run what they have done."""
        if self._tasks is not None:
            self._tasks.close()
            print(
                f"{self._made_elsewhere} of {len(self._calls.items)} parts of the run were "
                "computed by other processes of the cluster.",
                file=sys.stderr,
                flush=True,
            )
