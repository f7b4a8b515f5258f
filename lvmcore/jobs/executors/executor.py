"""The interface of an executor: what starts the workers of the launcher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lvmcore.jobs.worker_process import WorkerProcess
from lvmcore.runs.job import Job
from lvmcore.runs.store import Store

__all__ = ["NODE_LOST", "PROCESS_LOST", "UNAVAILABLE", "Executor"]

#: Exit status of a worker whose run was lost with its node; the run is in the queue again.
NODE_LOST = 75
#: Exit status of a worker whose run's process ended on its node before the run did.
PROCESS_LOST = 70
#: Exit status of a worker that could not begin its run; the run stays in the queue.
UNAVAILABLE = 69


class Executor(Protocol):
    """Starts worker processes, and decides which queued run may start.

    A worker process holds the lock of its run, ends with the launcher's process, and writes the
    files of the run to its folder, wherever the run is computed.
    """

    @property
    def slots(self) -> int:
        """Largest number of concurrent runs."""

    @property
    def latency(self) -> float:
        """Longest time in seconds between a change of a run and its arrival in the folder."""

    def new_worker(self) -> WorkerProcess:
        """Start a worker process, which waits for a run."""

    def has_room(self, job: Job, running: Sequence[Job]) -> bool:
        """Whether a queued run may start beside the running ones."""

    def gpus_of(self, job: Job, store: Store) -> tuple[str, ...]:
        """The GPUs of this machine of which a run needs one; none for a run on the CPU."""
