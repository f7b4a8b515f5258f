"""A worker process as the launcher sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

from lvmcore.jobs.machine_limits import threads_of_a_fit

__all__ = ["WorkerProcess", "environment"]

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_TAIL_BYTES = 4000


def environment(threads: int) -> dict[str, str]:
    """The environment of a worker: ours, this lvmcore on the path, threads unless decided."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    environment = dict(os.environ)
    environment["PYTHONPATH"] = root if not inherited else os.pathsep.join((root, inherited))
    for name in _THREAD_VARIABLES:
        environment.setdefault(name, str(threads))
    # A thread that waits must not spin: on a busy machine that made fits twenty times slower.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return environment


class WorkerProcess:
    """One worker process: it imports torch and the models, then waits for its one run.

    It lives in its own session, so that Ctrl-C in the server's terminal does not reach it, and on
    a leash, the pipe to its standard input, so that it ends with the server.

    Args:
        threads: how many it computes with; None takes what a lone fit gets.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lvmcore.jobs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
            env=environment(threads or threads_of_a_fit()),
            bufsize=0,
        )

    @property
    def pid(self) -> int:
        """Its process id, for people and tests."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives."""
        return self._process.poll()

    @property
    def memory(self) -> int:
        """Bytes that it holds now."""
        with suppress(psutil.Error):
            return int(psutil.Process(self._process.pid).memory_info().rss)
        return 0

    def give(self, home: Path, name: str) -> None:
        """Hand it a run. A process that has died meanwhile takes nothing."""
        request = json.dumps({"home": str(home), "id": name}) + "\n"
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(request.encode())

    def wait(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        return False

    def terminate(self) -> None:
        """Ask it to stop, by signal."""
        self._process.terminate()

    def release(self) -> None:
        """Let go of its leash: it stops at its next step and keeps what was fitted."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def end(self) -> None:
        """Make sure that it and what it started are gone, and let go of everything it used."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.release()
        self._errors.close()

    def last_words(self) -> str:
        """The end of what it wrote to standard error before it took a run."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _TAIL_BYTES))
        return self._errors.read().decode(errors="replace")
