"""The launcher: starts and supervises the worker processes of queued runs."""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from filelock import BaseFileLock, FileLock, Timeout

from lvmcore.errors import LatentboardError
from lvmcore.jobs.executors.executor import NODE_LOST, PROCESS_LOST, UNAVAILABLE, Executor
from lvmcore.jobs.executors.local import LocalExecutor
from lvmcore.jobs.parent_process import GRACE_SECONDS, SAVING_SECONDS
from lvmcore.jobs.worker_process import WorkerProcess
from lvmcore.persistence import write_atomically
from lvmcore.runs.job_folder import PROCESS_ENDED, JobFolder
from lvmcore.runs.run_files import PRIVATE_FILE
from lvmcore.runs.store import Store

__all__ = ["Launcher"]

logger = logging.getLogger(__name__)

_TICK_SECONDS = 0.05
_IDLE_SECONDS = 1.0
# A cancelled fit stops at its next step. During a long step its process gets SIGTERM, and is killed
# later: soon if there was no step yet, so nothing to keep. A process in the stage "stopping" has
# further time to save.
_TERMINATE_AFTER_SECONDS = 0.2
_KILL_AFTER_SECONDS = 0.7
_STEP_SECONDS = 5.0
# A spare starts after the fit: importing torch occupies a core for seconds.
_SPARE_AFTER_SECONDS = 1.0
_SPARE_RETRY_SECONDS = 30.0
# Memory of a fit, bytes, above which no spare is kept: a spare takes about 0.4 GB, and after a long
# fit the seconds to start a process matter little.
_LARGE_FIT_BYTES = 8e8
_ATTEMPTS = 2
# A run that no node can begin lets the others pass for so long.
_POSTPONED_SECONDS = 10.0
# The reason holds for so long after it, while the run is tried again.
_POSTPONED_KNOWN_SECONDS = 30.0
# Exit statuses of a worker of a cluster whose run did not lose its node: Ray ends a process in
# several ways when its node or the cluster is gone.
_NODE_KEPT = (0, PROCESS_LOST, -signal.SIGKILL)
_MOST_ATTEMPTS = 100


class Launcher:
    """Runs the queued runs of a store in order of submission, several at a time.

    Each server process has one. Several launchers, in one or several processes, may use one store:
    together they run at most ``slots`` fits, and start each run once. The launcher works in daemon
    threads, and its workers end with the server.

    The next run waits until its executor has room for it beside the active fits. Each GPU of this
    machine has one fit at a time; a run that waits for a GPU is overtaken by runs that do not need
    it, and so is one that no node of a cluster can begin. A fit that chose the CPU gives its GPU
    back. A run whose node was lost goes on from its last checkpoint.

    Args:
        store: the store.
        spare: whether to keep one idle worker that has imported torch, so that a fit starts at
            once; none is kept during a fit that takes much memory.
        slots: largest number of concurrent fits; None for one per two cores.
        executor: where the runs are executed; None for this machine.

    Attributes:
        store: the store.
        executor: where the runs are executed.
        slots: largest number of concurrent fits.
    """

    def __init__(
        self,
        store: Store,
        *,
        spare: bool = True,
        slots: int | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.store = store
        self.executor: Executor = LocalExecutor(slots) if executor is None else executor
        self.slots = self.executor.slots
        self._keeps_spare = spare
        self._guard = threading.Lock()
        self._wakes = [threading.Event() for _ in range(self.slots)]
        self._closing = threading.Event()
        self._threads: list[threading.Thread | None] = [None] * self.slots
        self._spares = threading.Lock()
        self._spare: WorkerProcess | None = None
        self._large: set[WorkerProcess] = set()
        self._spare_not_before = 0.0
        self._trouble = ""  # the reason logged last for which no run was started
        self._postponed: dict[str, tuple[float, str]] = {}  # until when, and why
        store.reconcile()
        self.ensure_running()

    def ensure_running(self) -> None:
        """Check the queue now, to be called after a submission; it returns at once."""
        with self._guard:
            if self._closing.is_set():
                return
            for slot, thread in enumerate(self._threads):
                if thread is None or not thread.is_alive():
                    fresh = threading.Thread(
                        target=self._work, args=(slot,), name=f"launcher-{slot}", daemon=True
                    )
                    self._threads[slot] = fresh
                    fresh.start()
        self._wake()

    @property
    def trouble(self) -> str:
        """Why queued runs are not started, one sentence; "" if they are."""
        recent = time.monotonic() - _POSTPONED_KNOWN_SECONDS
        reasons = [why for until, why in list(self._postponed.values()) if until > recent]
        return self._trouble or (reasons[-1] if reasons else "")

    def close(self) -> None:
        """Stop. Active runs are interrupted and keep their results so far; queued runs stay."""
        with self._guard:
            self._closing.set()
        self._wake()
        for thread in self._threads:
            if thread is not None:
                thread.join()
        with self._spares:
            if self._spare is not None:
                self._spare.end()
                self._spare = None

    def _wake(self) -> None:
        for wake in self._wakes:
            wake.set()

    # ---- one thread per slot -------------------------------------------------------------------

    def _work(self, slot: int) -> None:
        slot_lock = self._lock(f"slot-{slot}")
        start_lock = self._lock("start")
        while not self._closing.is_set():
            self._wakes[slot].clear()
            try:
                self._keep_spare()
                with slot_lock.acquire(timeout=0):
                    while not self._closing.is_set() and self._run_next(start_lock):
                        pass
                self._trouble = ""
            except Timeout:
                pass
            except OSError as error:
                self._report(f"{self.store.home} cannot be written: {error.strerror}")
            except Exception as error:
                if self._report(f"the launcher stopped at {error!r}"):
                    logger.exception("the launcher could not start the next run")
            self._wakes[slot].wait(_IDLE_SECONDS)

    def _report(self, trouble: str) -> bool:
        """Log what keeps the queue waiting, once until it changes; whether it was logged."""
        with self._guard:
            if trouble == self._trouble:
                return False
            self._trouble = trouble
        logger.error("Queued runs are not started: %s", trouble)
        return True

    def _lock(self, name: str) -> BaseFileLock:
        """A lock that the launchers of the store share."""
        return FileLock(self.store.home / f"{name}.lock", mode=PRIVATE_FILE)

    def _run_next(self, start_lock: BaseFileLock) -> bool:
        """Start the next run that can be started, and supervise it; whether there was one.

        ``start.lock`` is held while a run is started, so that none is started twice.

        Raises:
            Timeout: another launcher is starting a run.
        """
        with ExitStack() as locks:
            locks.enter_context(start_lock.acquire(timeout=0))
            try:
                found = self._next_startable()
                if found is not None:
                    folder, gpu = found
                    if gpu is not None:
                        locks.callback(gpu.lock.release)
                    self._run(folder, start_lock, gpu)
            except LatentboardError:
                # It was deleted meanwhile.
                logger.info("a run is gone that was to be started")
                return True
        return found is not None

    def _next_startable(self) -> tuple[JobFolder, _HeldGpu | None] | None:
        """The first queued run that can start now, with the GPU that it needs, locked."""
        running = [job for job in self.store.list(None) if job.status == "running"]
        for name in self.store.queue.ids():
            if time.monotonic() < self._postponed.get(name, (0.0, ""))[0]:
                continue
            job = self.store.get(name)
            if not self.executor.has_room(job, running):
                return None
            named = self.executor.gpus_of(job, self.store)
            held = next((gpu for gpu in map(self._hold_gpu, named) if gpu is not None), None)
            if held is not None or not named:
                return self.store.job_folder(name), held
        return None

    def _hold_gpu(self, device: str) -> _HeldGpu | None:
        """Lock a GPU for a run; None while another run has it."""
        lock = self._lock(f"gpu-{device.replace(':', '-')}")
        with suppress(Timeout):
            lock.acquire(timeout=0)
            return _HeldGpu(device, lock)
        return None

    def _run(self, folder: JobFolder, start_lock: BaseFileLock, gpu: _HeldGpu | None) -> None:
        errors, name = "", folder.path.name
        for _ in range(_ATTEMPTS):
            worker = self._take_spare()
            try:
                worker.assign(self.store.home, name, "" if gpu is None else gpu.device)
                self._supervise(worker, folder, start_lock, gpu)
            finally:
                with self._spares:
                    self._large.discard(worker)
                errors = worker.error_tail()
                worker.end()
            unavailable = worker.returncode == UNAVAILABLE
            if unavailable and folder.state().status == "queued":
                self._postpone(name, errors)
                return
            self._postponed.pop(name, None)
            if worker.returncode == NODE_LOST:
                return
            if folder.state().status != "queued" or self._closing.is_set():
                folder.settle(_describe_end(worker.returncode))
                self._go_on_elsewhere(worker, folder)
                return
        if (worker.returncode or 0) < 0:
            folder.give_up("interrupted", _describe_end(worker.returncode))
            return
        with suppress(OSError):
            write_atomically(folder.files.log, errors.encode())
        folder.give_up(
            "failed",
            "The process for this fit could not be started. The run's worker.log says why; "
            "reinstalling latentboard may help.",
            "WorkerError",
        )

    def _go_on_elsewhere(self, worker: WorkerProcess, folder: JobFolder) -> None:
        """Resume a run that ended with the cluster, from the checkpoint that arrived last."""
        state = folder.state()
        lost = self.executor.latency > 0 and worker.returncode not in _NODE_KEPT
        if lost and state.status == "interrupted" and state.attempt < _MOST_ATTEMPTS:
            with suppress(LatentboardError):
                folder.resume()

    def _postpone(self, name: str, errors: str) -> None:
        """Leave a run in the queue that could not begin, and keep the reason."""
        lines = errors.strip().splitlines()
        why = lines[-1] if lines else "The cluster cannot be used."
        if why != self._postponed.get(name, (0.0, ""))[1]:
            logger.error("A queued run is not started: %s", why)
        self._postponed[name] = (time.monotonic() + _POSTPONED_SECONDS, why)

    def _supervise(
        self,
        worker: WorkerProcess,
        folder: JobFolder,
        start_lock: BaseFileLock,
        gpu: _HeldGpu | None,
    ) -> None:
        """Wait for the end of the worker, and terminate it if the run is cancelled."""
        began, latency = time.monotonic(), self.executor.latency
        reserved = self.store.get(folder.path.name).memory or 0
        cancelled_at: float | None = None
        terminated = False
        while not worker.wait(_TICK_SECONDS):
            if self._closing.is_set():
                worker.release()
                if not worker.wait(GRACE_SECONDS) and folder.state().stage == "stopping":
                    worker.wait(SAVING_SECONDS)
                return
            if start_lock.is_locked and folder.state().status != "queued":
                start_lock.release()
                self._wake()
            if gpu is not None and gpu.lock.is_locked and _is_on_cpu(folder):
                gpu.lock.release()
                self._wake()
            if time.monotonic() - began > _SPARE_AFTER_SECONDS:
                if max(reserved, worker.memory) > _LARGE_FIT_BYTES:
                    self._suspend_spare(worker)
                self._keep_spare()
            if cancelled_at is None:
                cancelled_at = time.monotonic() if folder.cancel_requested() else None
                continue
            passed = time.monotonic() - cancelled_at - latency
            if passed > _TERMINATE_AFTER_SECONDS and not terminated:
                worker.terminate()
                terminated = True
            if passed > _KILL_AFTER_SECONDS and not _is_ending(folder, passed):
                return

    # ---- the spare -----------------------------------------------------------------------------

    def _keep_spare(self) -> None:
        """Start a spare unless a large fit runs; one that died is replaced after a delay."""
        with self._spares:
            if self._spare is not None and self._spare.returncode is not None:
                logger.warning("a worker could not be made ready: %s", self._spare.error_tail())
                self._spare.end()
                self._spare = None
                self._spare_not_before = time.monotonic() + _SPARE_RETRY_SECONDS
            due = time.monotonic() >= self._spare_not_before and not self._closing.is_set()
            if self._keeps_spare and self._spare is None and due and not self._large:
                self._spare = self._new_worker()

    def _suspend_spare(self, worker: WorkerProcess) -> None:
        """Keep no spare until this worker has ended, whose fit takes much memory."""
        with self._spares:
            self._large.add(worker)
            if self._spare is not None:
                self._spare.end()
                self._spare = None

    def _take_spare(self) -> WorkerProcess:
        with self._spares:
            worker, self._spare = self._spare, None
        if worker is not None and worker.returncode is None:
            return worker
        if worker is not None:
            worker.end()
        return self._new_worker()

    def _new_worker(self) -> WorkerProcess:
        return self.executor.new_worker()


@dataclass(frozen=True)
class _HeldGpu:
    """A GPU that is locked for a run.

    Attributes:
        device: its name in torch.
        lock: the lock.
    """

    device: str
    lock: BaseFileLock


def _is_on_cpu(folder: JobFolder) -> bool:
    """Whether the fit of a run has chosen the CPU."""
    found = folder.state().computation
    return found is not None and found.device == "cpu"


def _is_ending(folder: JobFolder, passed: float) -> bool:
    """Whether the process of a cancelled run is to go on.

    It may be at a step after the first one, saving, computing metrics, or about to exit.
    """
    state = folder.state()
    if state.status != "running":
        return True
    if state.stage == "stopping":
        return passed < _STEP_SECONDS + SAVING_SECONDS
    return passed < _STEP_SECONDS and _has_steps(folder)


def _has_steps(folder: JobFolder) -> bool:
    """Whether a run has recorded a step."""
    with suppress(OSError):
        return folder.files.events.stat().st_size > 0
    return False


def _describe_end(returncode: int | None) -> str:
    """Message for a process that ended before its run did."""
    if returncode is not None and -returncode == signal.SIGKILL:
        return (
            "The process that ran this fit was killed, as happens when the machine runs out of "
            "memory. With fewer rows or inducing points it needs less."
        )
    return PROCESS_ENDED
