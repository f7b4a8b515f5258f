"""The process that controls a worker: its request on standard input, and its wish to stop."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
from contextlib import suppress
from pathlib import Path

from lvmcore.errors import LatentboardError
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job_state import Reason

__all__ = ["GRACE_SECONDS", "SAVING_SECONDS", "ParentWatch", "has_request", "read_request"]

_STDIN = 0
_LONGEST_REQUEST = 65536
#: Time for the current step after standard input was closed, and further time for a process in the
#: stage "stopping" to save. Then the process exits: the steps since the last checkpoint are lost.
GRACE_SECONDS = 5.0
SAVING_SECONDS = 10.0


class ParentWatch:
    """Stop requests to this process: cancellation, SIGTERM, and the end of the server.

    Args:
        folder: folder of the run.
    """

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._stop = threading.Event()
        self._finished = threading.Event()

    def start(self) -> None:
        """Start to watch standard input and SIGTERM."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        threading.Thread(target=self._watch, name="parent-watch", daemon=True).start()

    def should_stop(self) -> Reason | None:
        """The reason to stop: cancellation, or the end of the server or the machine; or None."""
        if self._folder.cancel_requested():
            return "cancelled"
        return "interrupted" if self._stop.is_set() else None

    @property
    def stopped(self) -> bool:
        """Whether SIGTERM came, or standard input was closed."""
        return self._stop.is_set()

    def finish(self) -> None:
        """Mark the run as finished, so that the process may end in its own time."""
        self._finished.set()

    def _watch(self) -> None:
        while os.read(_STDIN, 4096):
            pass
        self._stop.set()
        if self._finished.wait(GRACE_SECONDS):
            return
        if not (self._saving() and self._finished.wait(SAVING_SECONDS)):
            os._exit(1)

    def _saving(self) -> bool:
        """Whether the fit has stopped, and its results are being written."""
        with suppress(LatentboardError, OSError):
            return self._folder.state().stage == "stopping"
        return False


def read_request() -> tuple[Path, str, str] | None:
    """Folder of the store, id of the run and its GPU; None if standard input was closed."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(_STDIN, _LONGEST_REQUEST)
        if not piece:
            return None
        line += piece
    request = json.loads(line)
    return Path(request["home"]), request["id"], request["gpu"]


def has_request() -> bool:
    """Whether standard input can be read without waiting."""
    return bool(select.select([_STDIN], [], [], 0)[0])
