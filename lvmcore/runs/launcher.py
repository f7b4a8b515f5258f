"""The launcher: starts queued runs in processes of their own, and sees them through."""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import suppress

from filelock import FileLock, Timeout

from lvmcore.errors import LatentboardError
from lvmcore.runs.folder import GONE, JobFolder
from lvmcore.runs.process import WorkerProcess
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
_ATTEMPTS = 2


class Launcher:
    """Runs what is queued in a store, one fit at a time, in order of submission.

    One belongs to each server process. Several launchers, of one or of several processes, may
    share a store: they take turns, and a run is started once. It works in a daemon thread, and
    every worker ends with the server.

    Args:
        store: whose queue it works off.
        spare: keep a process ready that has imported torch, so that a fit starts at once.
    """

    def __init__(self, store: Store, *, spare: bool = True) -> None:
        self.store = store
        self._keeps_spare = spare
        self._guard = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._spare: WorkerProcess | None = None
        self._spare_not_before = 0.0
        store.reconcile()
        self.ensure_running()

    def ensure_running(self) -> None:
        """Look at the queue now. Call it after submitting; it returns at once."""
        with self._guard:
            if self._closing.is_set():
                return
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="launcher", daemon=True)
                self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Stop: a run under way is interrupted and keeps what was fitted; queued ones stay."""
        with self._guard:
            self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    # ---- the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        slot = FileLock(self.store.home / "slot.lock")
        while not self._closing.is_set():
            self._wake.clear()
            try:
                self._keep_spare()
                with slot.acquire(timeout=0):
                    self._run_queue()
            except Timeout:
                pass
            except Exception:
                logger.exception("the launcher could not work off its queue")
            self._wake.wait(_IDLE_SECONDS)
        if self._spare is not None:
            self._spare.end()

    def _run_queue(self) -> None:
        while not self._closing.is_set():
            waiting = self.store.queue()
            if not waiting:
                return
            try:
                self._run(self.store.job_folder(waiting[0]))
            except LatentboardError:
                # Deleted between a look and the next.
                logger.info("run %s is gone", waiting[0])

    def _run(self, folder: JobFolder) -> None:
        words = ""
        for _ in range(_ATTEMPTS):
            worker = self._take_spare()
            try:
                worker.give(self.store.home, folder.path.name)
                self._see_through(worker, folder)
            finally:
                words = worker.last_words()
                worker.end()
            if folder.state().status != "queued" or self._closing.is_set():
                folder.settle(_describe_end(worker.returncode))
                return
        with suppress(OSError):
            folder.log_path.write_text(words, encoding="utf-8")
        folder.fail(
            "The process for this fit could not be started. The run's worker.log says why; "
            "reinstalling latentboard may help.",
            "WorkerError",
        )

    def _see_through(self, worker: WorkerProcess, folder: JobFolder) -> None:
        """Wait for the worker's end, and bring it about when the run is cancelled."""
        began = time.monotonic()
        asked: float | None = None
        told = False
        while not worker.wait(_TICK_SECONDS):
            if self._closing.is_set():
                worker.release()
                worker.wait(_CLOSING_SECONDS)
                return
            if time.monotonic() - began > _SPARE_AFTER_SECONDS:
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
        """Have a spare worker; one that died by itself is not replaced at once."""
        if self._spare is not None and self._spare.returncode is not None:
            logger.warning("a worker could not be made ready: %s", self._spare.last_words())
            self._spare.end()
            self._spare = None
            self._spare_not_before = time.monotonic() + _SPARE_RETRY_SECONDS
        due = time.monotonic() >= self._spare_not_before
        if self._keeps_spare and self._spare is None and due:
            self._spare = WorkerProcess()

    def _take_spare(self) -> WorkerProcess:
        worker, self._spare = self._spare, None
        if worker is not None and worker.returncode is None:
            return worker
        if worker is not None:
            worker.end()
        return WorkerProcess()


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
