"""Preloading of the model libraries into the file cache of the system.

The import of torch holds the interpreter lock for seconds, in which the server does not answer.
Most of the first import is reading files, which another process can do: ``python -m
app.shell.preload PID`` imports the models and exits, or exits immediately if the server process
PID has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["background_preload", "main"]

_COMMAND = [sys.executable, "-P", "-m", "app.shell.preload"]
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_NO_BACKGROUND_THREAD = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false"
}  # of the memory of Arrow
_LOWEST_PRIORITY = 19


@contextmanager
def background_preload(after: float) -> Iterator[None]:
    """Preload files in a process during the body of the ``with`` statement.

    Nothing is read if torch is already loaded by then.

    Args:
        after: Seconds until the start, so that the body can start first.
    """
    started: list[subprocess.Popen[bytes]] = []
    ended = threading.Event()

    def read() -> None:
        if "torch" in sys.modules:
            return
        try:
            process = _start()
        except OSError:  # for example too many processes; the first model is then loaded later
            return
        started.append(process)
        if ended.is_set():
            process.kill()
        process.wait()

    timer = threading.Timer(after, read)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        ended.set()
        for process in started:
            process.kill()
        timer.join()


def _start() -> subprocess.Popen[bytes]:
    """Start the process without output and with one thread.

    It stays in this session: in another session its low priority would have no effect.
    """
    return subprocess.Popen(
        [*_COMMAND, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    """The environment of this process, with this package on the path and one thread."""
    root, inherited = str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")
    path = root if not inherited else os.pathsep.join((root, inherited))
    return dict(os.environ) | _ONE_THREAD | _NO_BACKGROUND_THREAD | {"PYTHONPATH": path}


def main(server: int) -> None:
    """Import the models with the lowest priority.

    Args:
        server: Id of the server process. This process exits when the server has ended.
    """

    def exit_with_server(event: str, _: object) -> None:
        if event == "import" and os.getppid() != server:
            os._exit(0)

    sys.addaudithook(exit_with_server)
    if hasattr(os, "nice"):
        os.nice(_LOWEST_PRIORITY)
    from lvmcore.models import REGISTRY

    REGISTRY.import_all()


if __name__ == "__main__":
    main(int(sys.argv[1]))
