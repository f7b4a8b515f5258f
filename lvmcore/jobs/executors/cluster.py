"""The executor of a Ray cluster: one process beside the store for each run on a node."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lvmcore.jobs.executors.cluster_address import (
    ClusterError,
    check_answer,
    cluster_address,
    require_ray,
)
from lvmcore.jobs.executors.cluster_state import ADDRESS, ClusterMonitor
from lvmcore.jobs.worker_process import WorkerProcess
from lvmcore.runs.job import Job
from lvmcore.runs.store import Store

__all__ = ["ClusterError", "RayExecutor", "choose_cluster", "chosen_cluster"]

_MOST_RUNS = 8
_WORKER = "lvmcore.jobs.executors.cluster_worker"


class RayExecutor:
    """Runs on the nodes of a Ray cluster.

    A run waits on the cluster until a node has its cores, GPUs and memory free.

    Args:
        address: "host:port", or "auto".
        slots: largest number of runs that are on the cluster or wait for a node.

    Attributes:
        address: the address that Ray connects to.
        monitor: follows the nodes of the cluster.
        slots: largest number of concurrent runs.
        latency: longest time in seconds between a change of a run and its arrival in the folder.

    Raises:
        ClusterError: Ray is not installed, or the address is none.
    """

    def __init__(self, address: str = "auto", slots: int | None = None) -> None:
        require_ray()
        self.address = cluster_address(address)
        self.monitor = ClusterMonitor(self.address)
        self.slots = slots or _MOST_RUNS
        self.latency = 2.0

    def check_answer(self) -> None:
        """Check that something listens at the address.

        Raises:
            ClusterError: nothing does.
        """
        check_answer(self.address)

    def new_worker(self) -> WorkerProcess:
        """Start a process that connects to the cluster and waits for a run."""
        return WorkerProcess(1, module=_WORKER, variables={ADDRESS: self.address})

    def has_room(self, job: Job, running: Sequence[Job]) -> bool:
        """True: Ray starts a run where there is room."""
        del job, running
        return True

    def gpus_of(self, job: Job, store: Store) -> tuple[str, ...]:
        """None of this machine: Ray gives out the GPUs of the nodes."""
        del job, store
        return ()


def choose_cluster(address: str) -> None:
    """Have this process and its children use a cluster.

    Args:
        address: "host:port", or "auto".

    Raises:
        ClusterError: Ray is not installed, or the address is none.
    """
    require_ray()
    os.environ[ADDRESS] = cluster_address(address)


def chosen_cluster() -> RayExecutor | None:
    """The cluster that ``choose_cluster`` chose; None for this machine alone."""
    address = os.environ.get(ADDRESS, "")
    return RayExecutor(address) if address else None
