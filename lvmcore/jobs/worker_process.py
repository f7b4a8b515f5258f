"""A worker process, controlled by the launcher: start, request, signals, and end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import psutil

from lvmcore.jobs.machine_limits import limit_threads, threads_of_a_fit

__all__ = ["WorkerProcess", "environment"]

_TAIL_BYTES = 4000


def environment(threads: int) -> dict[str, str]:
    """The environment of a worker: this one, with this lvmcore on the path.

    Args:
        threads: number of threads, unless the environment sets it.
    """
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    environment = dict(os.environ)
    environment["PYTHONPATH"] = root if not inherited else os.pathsep.join((root, inherited))
    limit_threads(environment, threads)
    return environment


class WorkerProcess:
    """A worker process: it imports torch and the models, then waits for one run.

    It has its own session, so that Ctrl-C in the server's terminal does not reach it, and it ends
    when the pipe to its standard input is closed, so also with the server.

    Args:
        threads: number of threads; None for those of a single fit.
        module: the module that the process runs.
        variables: further variables of its environment.
    """

    def __init__(
        self,
        threads: int | None = None,
        *,
        module: str = "lvmcore.jobs.worker",
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
            env={**environment(threads or threads_of_a_fit()), **variables},
            bufsize=0,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def memory(self) -> int:
        """Its current memory, bytes; 0 if it has ended."""
        with suppress(psutil.Error):
            return int(psutil.Process(self._process.pid).memory_info().rss)
        return 0

    def assign(self, home: Path, name: str, gpu: str = "") -> None:
        """Send it the request for a run. A process that has ended ignores it.

        Args:
            home: folder of the store.
            name: id of the run.
            gpu: the GPU of ``auto`` and ``cuda`` for it, such as "cuda:1"; "" for none.
        """
        request = json.dumps({"home": str(home), "id": name, "gpu": gpu}) + "\n"
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(request.encode())

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for its end; whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            return True
        return False

    def terminate(self) -> None:
        """Send SIGTERM: it stops at its next step."""
        self._process.terminate()

    def release(self) -> None:
        """Close its standard input: it stops at its next step and keeps the fit so far."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def end(self) -> None:
        """Kill it and its child processes if it runs, and release its resources."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.release()
        self._errors.close()

    def error_tail(self) -> str:
        """The end of its standard error before it received a run."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _TAIL_BYTES))
        return self._errors.read().decode(errors="replace")
