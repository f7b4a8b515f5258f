"""The executor of this machine: one process for each run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from lvmcore.devices import gpu_of_run, machine_gpus
from lvmcore.errors import DataError
from lvmcore.jobs.machine_limits import available_memory, default_slots, threads_of_a_fit
from lvmcore.jobs.worker_process import WorkerProcess
from lvmcore.models import REGISTRY
from lvmcore.numerics.step_workload import step_work
from lvmcore.runs.job import Job, now
from lvmcore.runs.store import Store

__all__ = ["LocalExecutor"]

# Time after which a fit has allocated its memory.
_ALLOCATION_TIME = timedelta(seconds=15)


class LocalExecutor:
    """Runs in processes of this machine.

    Args:
        slots: largest number of concurrent runs; None for one per two cores.

    Attributes:
        slots: largest number of concurrent runs.
        latency: 0: a process writes to the folder of its run itself.
    """

    def __init__(self, slots: int | None = None) -> None:
        self.slots = default_slots() if slots is None else slots
        self.latency = 0.0

    def new_worker(self) -> WorkerProcess:
        """Start a process that imports the models and waits for a run."""
        return WorkerProcess(threads_of_a_fit(self.slots))

    def has_room(self, job: Job, running: Sequence[Job]) -> bool:
        """Whether the memory of a run is free; always so beside no other run."""
        if job.memory is None or not running:
            return True
        # Estimated memory of runs that have just started: it is not allocated yet.
        reserved = sum(
            other.memory or 0
            for other in running
            if other.started is None or now() - other.started < _ALLOCATION_TIME
        )
        return job.memory <= available_memory() - reserved

    def gpus_of(self, job: Job, store: Store) -> tuple[str, ...]:
        """The GPUs of which a run needs one.

        A run needs one if its device is a GPU, or if it is ``auto`` and a step of it may be quicker
        on one.

        Args:
            job: the run.
            store: its store.
        """
        declared = REGISTRY.declarations.get(job.spec.model)
        uses_gpu = declared is not None and declared.capabilities.gpu
        device = str(job.spec.parameters.get("device", "auto"))
        if not uses_gpu or device == "cpu":
            return ()
        gpus, work = machine_gpus(), None
        with suppress(DataError):
            shape = store.datasets.shape(job.spec.dataset)
            work = step_work(job.spec.parameters, *shape)
        return gpu_of_run(device, gpus, work, uses_gpu=uses_gpu)
