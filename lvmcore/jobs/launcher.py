"""The launcher: starts queued runs in processes of their own, and sees them through."""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import ExitStack, suppress
from datetime import timedelta

from filelock import BaseFileLock, FileLock, Timeout

from lvmcore.errors import LatentboardError
from lvmcore.jobs.machine_limits import available_memory, default_slots, has_gpu, threads_of_a_fit
from lvmcore.jobs.worker_process import WorkerProcess
from lvmcore.runs.job import Job, now
from lvmcore.runs.job_folder import GONE, JobFolder
from lvmcore.runs.store import Store

__all__ = ["Launcher"]

logger = logging.getLogger(__name__)

_TICK_SECONDS = 0.05
_IDLE_SECONDS = 1.0
# A cancelled fit stops at its next step; if the step is long it is told by signal, then killed. One
# that is stopping has time to save.
_TERMINATE_AFTER_SECONDS = 0.2
_KILL_AFTER_SECONDS = 0.7
_SAVING_SECONDS = 10.0
_CLOSING_SECONDS = 3.0
# Importing torch takes a core for seconds: the next spare lets a fit begin in peace.
_SPARE_AFTER_SECONDS = 1.0
_SPARE_RETRY_SECONDS = 30.0
# A spare holds some 0.4 GB. Beside a fit whose process takes more than so many bytes there is none:
# such a fit takes long, and the next one may wait the seconds in which a process is made ready.
_MOST_BESIDE_A_SPARE = 8e8
_ATTEMPTS = 2
# In this time after its start a fit has taken the memory that it needs.
_GROWING = timedelta(seconds=15)


class Launcher:
    """Runs what is queued in a store, in order of submission, so many fits at a time.

    One belongs to each server process. Several launchers, of one or of several processes, may
    share a store: together they run no more fits than one may, and a run is started once. It works
    in daemon threads, and every worker ends with the server.

    The next run waits while its memory does not fit beside the fits under way. Fits on a GPU run
    one at a time; one that waits for the GPU lets those behind it pass that need none.

    Args:
        store: whose queue it works off.
        spare: keep a process ready that has imported torch, so that a fit starts at once; while a
            fit that takes much memory is under way, none.
        slots: fits at a time; None takes one for every two cores.
    """

    def __init__(self, store: Store, *, spare: bool = True, slots: int | None = None) -> None:
        self.store = store
        self.slots = default_slots() if slots is None else slots
        self._keeps_spare = spare
        self._guard = threading.Lock()
        self._wakes = [threading.Event() for _ in range(self.slots)]
        self._closing = threading.Event()
        self._threads: list[threading.Thread | None] = [None] * self.slots
        self._spares = threading.Lock()
        self._spare: WorkerProcess | None = None
        self._large: set[WorkerProcess] = set()
        self._spare_not_before = 0.0
        store.reconcile()
        self.ensure_running()

    def ensure_running(self) -> None:
        """Look at the queue now. Call it after submitting; it returns at once."""
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

    def close(self) -> None:
        """Stop: a run under way is interrupted and keeps what was fitted; queued ones stay."""
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

    # ---- a thread, one for each slot -----------------------------------------------------------

    def _work(self, slot: int) -> None:
        place = FileLock(self.store.home / f"slot-{slot}.lock")
        turn = FileLock(self.store.home / "start.lock")
        while not self._closing.is_set():
            self._wakes[slot].clear()
            try:
                self._keep_spare()
                with place.acquire(timeout=0):
                    while not self._closing.is_set() and self._run_next(turn):
                        pass
            except Timeout:
                pass
            except Exception:
                logger.exception("the launcher could not work off its queue")
            self._wakes[slot].wait(_IDLE_SECONDS)

    def _run_next(self, turn: BaseFileLock) -> bool:
        """Start the next run that can be started, and see it through; whether there was one.

        Launchers start runs in turns, so that none is started twice.

        Raises:
            Timeout: another one is just starting a run.
        """
        with ExitStack() as held:
            held.enter_context(turn.acquire(timeout=0))
            try:
                folder = self._next(held)
                if folder is not None:
                    self._run(folder, turn)
            except LatentboardError:
                # Deleted between a look and the next.
                logger.info("a run is gone that was to be started")
                return True
        return folder is not None

    def _next(self, held: ExitStack) -> JobFolder | None:
        """The first run in the queue that there is room for; takes the GPU if it needs it."""
        for name in self.store.queue.ids():
            job = self.store.get(name)
            if not self._fits_in_memory(job):
                return None
            if _needs_gpu(job):
                gpu = FileLock(self.store.home / "gpu.lock")
                try:
                    held.enter_context(gpu.acquire(timeout=0))
                except Timeout:
                    continue
            return self.store.job_folder(name)
        return None

    def _fits_in_memory(self, job: Job) -> bool:
        """Whether a run may start beside the others; alone it always may."""
        others = [other for other in self.store.list(None) if other.status == "running"]
        if job.memory is None or not others:
            return True
        # What has just begun has not taken its memory yet.
        promised = sum(
            other.memory or 0
            for other in others
            if other.started is None or now() - other.started < _GROWING
        )
        return job.memory <= available_memory() - promised

    def _run(self, folder: JobFolder, turn: BaseFileLock) -> None:
        words = ""
        for _ in range(_ATTEMPTS):
            worker = self._take_spare()
            try:
                worker.give(self.store.home, folder.path.name)
                self._see_through(worker, folder, turn)
            finally:
                with self._spares:
                    self._large.discard(worker)
                words = worker.last_words()
                worker.end()
            if folder.state().status != "queued" or self._closing.is_set():
                folder.settle(_describe_end(worker.returncode))
                return
        if (worker.returncode or 0) < 0:
            folder.give_up("interrupted", _describe_end(worker.returncode))
            return
        with suppress(OSError):
            folder.files.log.write_text(words, encoding="utf-8")
        folder.give_up(
            "failed",
            "The process for this fit could not be started. The run's worker.log says why; "
            "reinstalling latentboard may help.",
            "WorkerError",
        )

    def _see_through(self, worker: WorkerProcess, folder: JobFolder, turn: BaseFileLock) -> None:
        """Wait for the worker's end, and bring it about when the run is cancelled."""
        began = time.monotonic()
        promised = self.store.get(folder.path.name).memory or 0
        asked: float | None = None
        told = False
        while not worker.wait(_TICK_SECONDS):
            if self._closing.is_set():
                worker.release()
                worker.wait(_CLOSING_SECONDS)
                return
            if turn.is_locked and folder.state().status != "queued":
                turn.release()
                self._wake()
            if time.monotonic() - began > _SPARE_AFTER_SECONDS:
                if max(promised, worker.memory) > _MOST_BESIDE_A_SPARE:
                    self._spare_nothing(worker)
                self._keep_spare()
            if asked is None:
                asked = time.monotonic() if folder.cancel_requested() else None
                continue
            passed = time.monotonic() - asked
            if passed > _TERMINATE_AFTER_SECONDS and not told:
                worker.terminate()
                told = True
            if passed > _KILL_AFTER_SECONDS and not _is_ending(folder, passed):
                return

    # ---- the spare -----------------------------------------------------------------------------

    def _keep_spare(self) -> None:
        """Have a spare worker, except beside a large fit; one that died is not replaced at once."""
        with self._spares:
            if self._spare is not None and self._spare.returncode is not None:
                logger.warning("a worker could not be made ready: %s", self._spare.last_words())
                self._spare.end()
                self._spare = None
                self._spare_not_before = time.monotonic() + _SPARE_RETRY_SECONDS
            due = time.monotonic() >= self._spare_not_before and not self._closing.is_set()
            if self._keeps_spare and self._spare is None and due and not self._large:
                self._spare = self._new_worker()

    def _spare_nothing(self, worker: WorkerProcess) -> None:
        """Have no spare worker until this one has ended, whose fit takes much memory."""
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
        return WorkerProcess(threads_of_a_fit(self.slots))


def _needs_gpu(job: Job) -> bool:
    device = str(job.spec.parameters.get("device", "auto"))
    return device.startswith("cuda") or (device == "auto" and has_gpu())


def _is_ending(folder: JobFolder, passed: float) -> bool:
    """Whether a cancelled run's process may go on: it saves, measures, or is about to exit."""
    state = folder.state()
    saving = state.stage == "stopping" and passed < _KILL_AFTER_SECONDS + _SAVING_SECONDS
    return state.status != "running" or saving


def _describe_end(returncode: int | None) -> str:
    """What to say of a process that ended before its run did."""
    if returncode is not None and -returncode == signal.SIGKILL:
        return (
            "The process that ran this fit was killed, as happens when the machine runs out of "
            "memory. With fewer rows or inducing points it needs less."
        )
    return GONE
