"""The process that runs one job: ``python -m lvmcore.jobs.worker``.

It imports what a fit needs, warms up, then waits for one line of JSON on its standard input,
``{"home": …, "id": …}``. Its standard input is also its leash: when the other end closes, because
the server closed it or died, the fit stops at its next step, and what was fitted is kept.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import threading
from pathlib import Path

import numpy as np
from filelock import Timeout

from lvmcore.errors import LatentboardError
from lvmcore.jobs.fitting import Reason
from lvmcore.jobs.machine_limits import keep_freed_memory
from lvmcore.jobs.run_job import run_job
from lvmcore.models import MODELS
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.store import Store

__all__ = ["main"]

_STDIN = 0
_LONGEST_REQUEST = 65536
# A reader that looks whether a run is alive holds its lock for a moment.
_LOCK_WAITS_SECONDS = 5.0
# After the leash is let go: time for the step under way and for saving, before the hard end. What
# is lost then is what came after the last checkpoint.
_GRACE_SECONDS = 3.0


class _ParentWatch:
    """Knows whether this process should stop."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._stop = threading.Event()
        self._finished = threading.Event()

    def hold(self) -> None:
        """Watch standard input and SIGTERM from now on."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop.set())
        threading.Thread(target=self._watch, name="leash", daemon=True).start()

    def should_stop(self) -> Reason | None:
        """Whether someone cancelled the run, or the server or the machine is going away."""
        if self._folder.cancel_requested():
            return "cancelled"
        return "interrupted" if self._stop.is_set() else None

    def finished(self) -> None:
        """Say that the fit has ended."""
        self._finished.set()

    def _watch(self) -> None:
        while os.read(_STDIN, 4096):
            pass
        self._stop.set()
        if not self._finished.wait(_GRACE_SECONDS):
            os._exit(1)


def _read_request() -> tuple[Path, str] | None:
    """The request; None when the other end closed instead."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(_STDIN, _LONGEST_REQUEST)
        if not piece:
            return None
        line += piece
    request = json.loads(line)
    return Path(request["home"]), request["id"]


def _request_waits() -> bool:
    """Whether there is something to read already."""
    return bool(select.select([_STDIN], [], [], 0)[0])


def _warm_up() -> None:
    """Fit models to a few rows: torch imports much of itself when it is first used.

    Those whose own library costs seconds pay for it in their fits, not in everybody's start.
    """
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((12, 3)), ["a", "b"] * 6
    for model in (model for model in MODELS.values() if model.quick_to_load):
        named = {parameter.name for parameter in model.parameters()}
        short = {"max_iter": 2} if "max_iter" in named else {}
        # What fails here fails again in a fit that needs it, and is reported there.
        with contextlib.suppress(Exception):
            model().set_params(**short).fit(rows, labels)
    with contextlib.suppress(Exception):
        importlib.import_module("lvmcore.evaluation.map_quality")


def _write_to_log(path: Path) -> None:
    """Send standard output and error, warnings included, to the run's log."""
    with contextlib.suppress(OSError), path.open("ab") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())


def main() -> int:
    """Wait for a run and run it.

    Returns:
        The exit status: 0 unless something unexpected went wrong outside the fit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    if not _request_waits():
        _warm_up()
    request = _read_request()
    if request is None:
        return 0
    home, name = request
    try:
        store = Store(home)
        folder = store.job_folder(name)
        with folder.lock(_LOCK_WAITS_SECONDS):
            if folder.state().status != "queued":
                return 0
            _write_to_log(folder.files.log)
            leash = _ParentWatch(folder)
            leash.hold()
            spec = folder.spec()
            run_job(
                folder,
                lambda: store.datasets.get(spec.dataset),
                leash.should_stop,
                store=store,
            )
            leash.finished()
    except (Timeout, LatentboardError) as error:
        # Another process runs it, or it has been deleted: there is nothing to do here.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
