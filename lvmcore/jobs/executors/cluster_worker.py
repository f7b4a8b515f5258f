"""The process beside the store that has a run computed on a Ray cluster.

It is started and controlled like the worker process of this machine: a request on its standard
input, SIGTERM, and the end of that input. It holds the lock of the run, starts an actor on a node
that has room, sends it the run and its datasets, and writes what the node reports to the folder of
the run. When the node is lost, the process puts the run back in the queue, to go on from the
checkpoint that arrived last, and ends with ``NODE_LOST``.

A run of registered files is computed in the process itself, as the nodes need not have the files;
the blocks of rows that a model is applied to are sent to the nodes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import Timeout

from lvmcore.distributed.choice import SHARDS
from lvmcore.errors import LatentboardError
from lvmcore.jobs.executors.cluster_address import ClusterError, connect
from lvmcore.jobs.executors.cluster_state import ADDRESS
from lvmcore.jobs.executors.executor import NODE_LOST, PROCESS_LOST, UNAVAILABLE
from lvmcore.jobs.executors.folder_mirror import FileMark, apply_changes
from lvmcore.jobs.executors.node_worker import (
    NodeWorker,
    different_versions,
    folder_files,
    package_versions,
)
from lvmcore.jobs.executors.requirements import Requirements, requirements
from lvmcore.jobs.parent_process import ParentWatch, read_request
from lvmcore.jobs.run_job import run_job
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.store import Store

__all__ = ["main"]

_LOCK_WAITS_SECONDS = 5.0
#: Time between two looks at the node, and longest time that an answer may take.
_TICK_SECONDS, _ANSWER_SECONDS = 0.1, 60.0
#: Longest time for the node to delete its copy of the run.
_CLOSING_SECONDS = 5.0


class ClusterRun:
    """A run that a node of the cluster computes.

    Args:
        ray: the module ``ray``, connected.
        store: the store.
        folder: the folder of the run, whose lock this process holds.
        watch: requests to stop.
    """

    def __init__(self, ray: Any, store: Store, folder: JobFolder, watch: ParentWatch) -> None:
        self._ray, self._store, self._folder, self._watch = ray, store, folder, watch
        self._known: dict[str, FileMark] = {}
        self._asked = ""

    def execute(self) -> int:
        """Have the run computed; ``NODE_LOST``, or the exit status of its process on the node.

        Raises:
            ClusterError: no node can run it.
        """
        name = self._folder.path.name
        needs = requirements(self._folder.job(name))
        self._check_room(needs)
        remote = self._ray.remote(NodeWorker)
        actor = remote.options(
            num_cpus=needs.threads, num_gpus=needs.gpus, memory=needs.memory
        ).remote(needs.threads, "cuda:0" if needs.gpus else "")  # Ray shows a run its GPUs alone
        errors = self._ray.exceptions
        begun = False
        try:
            if not self._wait_for(actor):
                return 0
            self._send(actor, name, needs.shards)
            begun = True
            return self._follow(actor)
        except (errors.RayActorError, errors.GetTimeoutError, errors.RaySystemError) as error:
            if not begun and _could_not_begin(error):
                raise ClusterError(
                    "A node of the cluster could not begin the run. Is latentboard installed there?"
                ) from error
            if self._folder.state().status == "running":
                self._folder.requeue()
            print(f"The node of the run was lost: {error}", file=sys.stderr)
            return NODE_LOST
        finally:
            with suppress(errors.RayError):
                self._ray.get(actor.close.remote(), timeout=_CLOSING_SECONDS)
            self._ray.kill(actor)

    def _check_room(self, needs: Requirements) -> None:
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(needs.fit(node) for node in nodes):
            raise ClusterError(
                f"No node of the cluster has {needs.described}: the run waits for such a node."
            )
        cores = int(sum(node.get("CPU", 0) for node in nodes))
        if cores < needs.threads + needs.shards:
            raise ClusterError(
                f"The cluster has {cores} cores, and the run needs {needs.threads + needs.shards}: "
                f"{needs.threads} and one for each of {needs.shards} shards. It waits for nodes."
            )

    def _wait_for(self, actor: Any) -> bool:
        """Wait until a node has room; False if the run is to stop before.

        Raises:
            ClusterError: the node has other versions of the packages.
        """
        ready = actor.versions.remote()
        while not self._ray.wait([ready], timeout=_TICK_SECONDS)[0]:
            reason = self._watch.should_stop()
            if reason == "cancelled":
                self._folder.write_state(self._folder.state().ending("cancelled"))
                self._folder.clear_up()
            if reason is not None:
                return False
        different = different_versions(package_versions(), self._ray.get(ready))
        if different:
            raise ClusterError(different)
        return True

    def _send(self, actor: Any, name: str, shards: int) -> None:
        """Send the run, the fitted run whose model it uses, and the datasets that are missing."""
        variables = {ADDRESS: os.environ[ADDRESS]}
        if shards:
            variables[SHARDS] = f"{shards} ray"
        spec, wait = self._folder.spec(), _ANSWER_SECONDS
        digests, runs = [spec.dataset], [name]
        if spec.run:
            digests.append(self._store.get(spec.run).spec.dataset)
            runs.append(spec.run)
        digests = list(dict.fromkeys(digests))
        sent = [
            actor.receive_dataset.remote(
                digest, self._ray.put(folder_files(self._store.datasets.root / digest))
            )
            for digest in self._ray.get(actor.missing_datasets.remote(digests), timeout=wait)
        ]
        for run in runs:
            files = folder_files(self._store.job_folder(run).path)
            sent.append(actor.receive_run.remote(run, files))
        self._ray.get([*sent, actor.start.remote(name, digests, variables)])

    def _follow(self, actor: Any) -> int:
        """Copy what the node writes until its process has ended; the exit status."""
        while True:
            changes, ended, errors = self._ray.get(
                actor.changes.remote(self._known), timeout=_ANSWER_SECONDS
            )
            for file, mark in apply_changes(self._folder.path, changes).items():
                if mark is None:
                    self._known.pop(file, None)
                else:
                    self._known[file] = mark
            if ended is not None:
                if self._folder.state().status == "queued":
                    print(errors, file=sys.stderr)
                else:
                    self._folder.clear_up()
                return int(ended)
            self._pass_on(actor)
            time.sleep(_TICK_SECONDS)

    def _pass_on(self, actor: Any) -> None:
        """Pass a request to stop on to the node, once."""
        reason = self._watch.should_stop()
        if reason == "cancelled" and "cancel" not in self._asked:
            actor.cancel.remote()
            self._asked = "cancel"
        if self._watch.stopped and "terminate" not in self._asked:
            actor.terminate.remote()
            self._asked += " terminate"


def _could_not_begin(error: Exception) -> bool:
    """Whether a node answered that it cannot begin, rather than being lost before it did."""
    return bool(getattr(error, "actor_init_failed", not isinstance(error, TimeoutError)))


def _end_like(ended: int) -> int:
    """The exit status of this process after that of the node's; killed where that one was."""
    if -ended == signal.SIGKILL:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0 if ended == 0 else PROCESS_LOST


def main() -> int:
    """Wait for a request and have the run computed.

    Returns:
        The exit status: 0, ``NODE_LOST``, ``PROCESS_LOST``, or ``UNAVAILABLE`` with a sentence on
        standard error.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ray = connect(os.environ[ADDRESS])
        request = read_request()
        if request is None:
            return 0
        home, name, _ = request
        return _execute(ray, home, name)
    except ClusterError as error:
        print(error, file=sys.stderr)
        return UNAVAILABLE


def _execute(ray: Any, home: Path, name: str) -> int:
    try:
        store = Store(home)
        folder = store.job_folder(name)
        with folder.lock(_LOCK_WAITS_SECONDS):
            if folder.state().status != "queued":
                return 0
            watch = ParentWatch(folder)
            watch.start()
            spec = folder.spec()
            if store.datasets.stays_in_place(spec.dataset):  # only this machine has the files
                run_job(
                    folder, lambda: store.datasets.get(spec.dataset), watch.should_stop, store=store
                )
                watch.finish()
                return 0
            ended = ClusterRun(ray, store, folder, watch).execute()
            watch.finish()
        return ended if ended == NODE_LOST else _end_like(ended)
    except ClusterError:
        raise
    except (Timeout, LatentboardError) as error:
        # Another process executes the run, or it was deleted.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # Ray's threads need not be waited for
