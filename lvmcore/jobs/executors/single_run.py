"""One run on a cluster, without a launcher: for the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from lvmcore.data.dataset import Dataset
from lvmcore.jobs.executors.cluster import RayExecutor
from lvmcore.jobs.executors.cluster_address import ClusterError
from lvmcore.jobs.executors.executor import NODE_LOST, PROCESS_LOST, UNAVAILABLE
from lvmcore.jobs.executors.folder_mirror import FileMark, apply_changes, changed_files
from lvmcore.results import FitStep
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job_state import JobState, Reason
from lvmcore.runs.store import Store

__all__ = ["run_on_cluster"]

_TICK_SECONDS = 0.1


def run_on_cluster(
    folder: JobFolder,
    dataset: Dataset,
    executor: RayExecutor,
    should_stop: Callable[[], Reason | None],
    *,
    on_step: Callable[[FitStep], None] | None = None,
) -> JobState:
    """Have a fit computed on a cluster, and write its results to a folder of this machine.

    A run whose node was lost goes on from its last checkpoint on another node.

    Args:
        folder: a run that has not started, whose lock the caller holds.
        dataset: its dataset.
        executor: the cluster.
        should_stop: called often; a reason stops the run, and the fit so far is kept.
        on_step: called with every step that arrives.

    Returns:
        The final state of the run.

    Raises:
        ClusterError: the cluster cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="latentboard-cluster-") as home:
        store = Store(home)
        store.datasets.put(dataset)
        run = _ClusterCopy(store, store.submit(folder.spec()), folder, on_step)
        while not run.ended(executor, should_stop):
            pass  # its node was lost: it is in the queue again
    folder.clear_up()
    return folder.state()


class _ClusterCopy:
    """A run in a store of its own, copied to the folder that it is for.

    Args:
        store: the store.
        name: id of the run.
        folder: the folder that the run is for.
        on_step: called with every step that arrives.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        folder: JobFolder,
        on_step: Callable[[FitStep], None] | None,
    ) -> None:
        self.name = name
        self._store, self._folder, self._on_step = store, folder, on_step
        self._known: dict[str, FileMark] = {}
        self._steps = 0

    def ended(self, executor: RayExecutor, should_stop: Callable[[], Reason | None]) -> bool:
        """Have a worker run it; whether it ended, rather than lost its node.

        Raises:
            ClusterError: the cluster cannot be used.
        """
        worker = executor.new_worker()
        try:
            worker.assign(self._store.home, self.name)
            while not worker.wait(_TICK_SECONDS):
                if should_stop() is not None:
                    self._store.cancel(self.name)
                self._copy()
            errors = worker.error_tail().strip().splitlines()
        finally:
            worker.end()
        if worker.returncode == UNAVAILABLE:
            raise ClusterError(errors[-1] if errors else "The cluster cannot be used.")
        if worker.returncode == NODE_LOST:
            return False
        lost = self._store.get(self.name).status == "interrupted"
        self._copy()
        if lost and worker.returncode != PROCESS_LOST:  # it ended with the cluster
            self._store.resume(self.name)
            return False
        return True

    def _copy(self) -> None:
        """Copy what changed; the folder is "running" while the run waits for a node."""
        source = self._store.job_folder(self.name)
        waits = source.state().status == "queued"
        changes = [
            change
            for change in changed_files(source.path, self._known)
            if not (waits and change.name == source.files.status.name)
        ]
        for name, mark in apply_changes(self._folder.path, changes).items():
            if mark is None:
                self._known.pop(name, None)
            else:
                self._known[name] = mark
        for event in self._store.events(self.name, self._steps):
            self._steps = event.n
            if self._on_step is not None:
                self._on_step(event.step)
