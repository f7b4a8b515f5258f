"""The process that runs one job: ``python -m lvmcore.jobs.worker``.

It imports torch and the models, warms up, then waits for one line of JSON on its standard input,
``{"home": …, "id": …, "gpu": …}``. When its standard input is closed, because the server closed it
or died, the fit stops at its next step, and the fit so far is kept.
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

from lvmcore.devices import use_gpu
from lvmcore.errors import LatentboardError
from lvmcore.jobs.fitting import Reason
from lvmcore.jobs.machine_limits import keep_freed_memory
from lvmcore.jobs.run_job import run_job
from lvmcore.models import MODELS
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.run_files import private_opener
from lvmcore.runs.store import Store

__all__ = ["main"]

_STDIN = 0
_LONGEST_REQUEST = 65536
# A process that checks whether a run is alive holds its lock for a moment.
_LOCK_WAITS_SECONDS = 5.0
# Time for the current step and for saving after standard input was closed; then the process exits,
# and the steps since the last checkpoint are lost.
_GRACE_SECONDS = 3.0


class _ParentWatch:
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

    def finish(self) -> None:
        """Mark the run as finished, so that the process may end in its own time."""
        self._finished.set()

    def _watch(self) -> None:
        while os.read(_STDIN, 4096):
            pass
        self._stop.set()
        if not self._finished.wait(_GRACE_SECONDS):
            os._exit(1)


def _read_request() -> tuple[Path, str, str] | None:
    """Folder of the store, id of the run and its GPU; None if standard input was closed."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(_STDIN, _LONGEST_REQUEST)
        if not piece:
            return None
        line += piece
    request = json.loads(line)
    return Path(request["home"]), request["id"], request["gpu"]


def _has_request() -> bool:
    """Whether standard input can be read without waiting."""
    return bool(select.select([_STDIN], [], [], 0)[0])


def _warm_up() -> None:
    """Fit models to a few rows, because torch loads many of its modules on first use.

    Models whose own library takes seconds to load are left out. A request ends it.
    """
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((12, 3)), ["a", "b"] * 6
    for key, declared in MODELS.declarations.items():
        if _has_request():
            return
        if not declared.quick_to_load:
            continue
        model = MODELS[key]
        named = {parameter.name for parameter in model.parameters()}
        short = {"max_iter": 2} if "max_iter" in named else {}
        # A fit with the same error reports it.
        with contextlib.suppress(Exception):
            model().set_params(**short).fit(rows, labels)
    with contextlib.suppress(Exception):
        importlib.import_module("lvmcore.evaluation.map_quality")


def _redirect_output(path: Path) -> None:
    """Redirect standard output and error, including warnings, to the log of the run."""
    with contextlib.suppress(OSError), open(path, "ab", opener=private_opener) as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())


def main() -> int:
    """Wait for a request and execute the run.

    Returns:
        The exit status: 0 unless there was an unexpected error outside the fit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    if not _has_request():
        _warm_up()
    request = _read_request()
    if request is None:
        return 0
    home, name, gpu = request
    use_gpu(gpu)
    try:
        store = Store(home)
        folder = store.job_folder(name)
        with folder.lock(_LOCK_WAITS_SECONDS):
            if folder.state().status != "queued":
                return 0
            _redirect_output(folder.files.log)
            watch = _ParentWatch(folder)
            watch.start()
            spec = folder.spec()
            run_job(
                folder,
                lambda: store.datasets.get(spec.dataset),
                watch.should_stop,
                store=store,
            )
            watch.finish()
    except (Timeout, LatentboardError) as error:
        # Another process executes the run, or it was deleted.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
