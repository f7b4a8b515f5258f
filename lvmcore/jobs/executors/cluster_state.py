"""The nodes of a cluster and what is free: ``python -m lvmcore.jobs.executors.cluster_state``.

The process connects to the cluster and prints a line of JSON every two seconds. It ends when its
standard input is closed. The dashboard reads the lines, so that Ray never runs in its server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from lvmcore.errors import DataError
from lvmcore.jobs.executors.cluster_address import ClusterError, connect
from lvmcore.jobs.worker_process import environment
from lvmcore.runs.atomic_files import as_record

__all__ = ["ADDRESS", "ClusterMonitor", "ClusterNode", "ClusterState", "main"]

#: Environment variable with the address of the cluster.
ADDRESS = "LATENTBOARD_CLUSTER"
_INTERVAL_SECONDS = 2.0
#: The process is started anew so long after it ended, as when the cluster did not answer.
_RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class ClusterNode:
    """A node of a cluster.

    Attributes:
        name: name of the machine.
        address: its address.
        cores: its cores.
        gpus: its GPUs.
        memory: its memory for runs, bytes.
    """

    name: str
    address: str
    cores: float
    gpus: float
    memory: float


@dataclass(frozen=True)
class ClusterState:
    """A cluster at a time.

    Attributes:
        nodes: its nodes that are alive.
        free_cores: cores that no run uses.
        free_gpus: GPUs that no run uses.
        free_memory: memory that no run has asked for, bytes.
        error: why the cluster cannot be used, one sentence; "" if it can.
    """

    nodes: tuple[ClusterNode, ...] = ()
    free_cores: float = 0.0
    free_gpus: float = 0.0
    free_memory: float = 0.0
    error: str = ""


def cluster_state(ray: Any) -> ClusterState:
    """The cluster now.

    Args:
        ray: the module ``ray``, connected.
    """
    free: Mapping[str, float] = ray.available_resources()
    nodes = tuple(
        ClusterNode(
            node["NodeManagerHostname"],
            node["NodeManagerAddress"],
            node["Resources"].get("CPU", 0.0),
            node["Resources"].get("GPU", 0.0),
            node["Resources"].get("memory", 0.0),
        )
        for node in ray.nodes()
        if node["Alive"]
    )
    return ClusterState(nodes, free.get("CPU", 0.0), free.get("GPU", 0.0), free.get("memory", 0.0))


class ClusterMonitor:
    """Follows the state of a cluster through a process of its own.

    Args:
        address: from ``cluster_address``.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._guard = threading.Lock()
        self._latest: ClusterState | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def latest(self) -> ClusterState | None:
        """The state that was read last; None before the first. Starts the process."""
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, daemon=True)
                self._thread.start()
            return self._latest

    def close(self) -> None:
        """End the process."""
        self._closed.set()

    def _follow(self) -> None:
        while not self._closed.is_set():
            command = [sys.executable, "-P", "-m", "lvmcore.jobs.executors.cluster_state"]
            with subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**environment(1), ADDRESS: self._address},
            ) as process:
                self._read(process)
                process.kill()
            self._closed.wait(_RETRY_SECONDS)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with suppress(ValueError, DataError):
                found = as_record(json.loads(line), ClusterState, "the state of the cluster")
                with self._guard:
                    self._latest = found
            if self._closed.is_set():
                return


def main() -> int:
    """Print the state of the cluster until standard input is closed.

    Returns:
        The exit status: 0.
    """
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        ray = connect(os.environ[ADDRESS])
        while True:
            _print(cluster_state(ray))
            time.sleep(_INTERVAL_SECONDS)
    except ClusterError as error:
        _print(ClusterState(error=str(error)))
    except Exception as error:  # the cluster is gone
        _print(ClusterState(error=f"The cluster no longer answers: {type(error).__name__}."))
    return 0


def _print(state: ClusterState) -> None:
    print(json.dumps(asdict(state)), flush=True)


def _exit_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Ray's threads need not be waited for
