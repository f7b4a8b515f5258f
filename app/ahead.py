"""What the models are made of, read into the system's cache before anybody asks for it.

Importing torch holds the interpreter's lock for seconds, in which a server answers nobody. Reading
its files is most of that the first time, and any process can do it: ``python -m app.ahead PID``
imports the models for nobody, and ends, or ends at once when the server, PID, is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["main", "reading"]

_COMMAND = [sys.executable, "-P", "-m", "app.ahead"]
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_NO_UPKEEP = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}  # of the memory that Arrow holds
_LEAST_URGENT = 19


@contextmanager
def reading(after: float) -> Iterator[None]:
    """Read ahead beside the body, in a process that does not outlive it.

    Nothing is read where torch is loaded by then, since the server has read it all itself.

    Args:
        after: Seconds until the reading begins, so that the body can begin first.
    """
    started: list[subprocess.Popen[bytes]] = []
    over = threading.Event()

    def read() -> None:
        if "torch" in sys.modules:
            return
        try:
            process = _start()
        except OSError:  # too many processes, say: the first model is loaded later, that is all
            return
        started.append(process)
        if over.is_set():
            process.kill()
        process.wait()

    timer = threading.Timer(after, read)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        over.set()
        for process in started:
            process.kill()
        timer.join()


def _start() -> subprocess.Popen[bytes]:
    """Start the process, silent and of one thread.

    It stays in this session: in one of its own its low priority would count for nothing.
    """
    return subprocess.Popen(
        [*_COMMAND, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    """Ours, with this package on the path, and with one thread."""
    root, inherited = str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH")
    path = root if not inherited else os.pathsep.join((root, inherited))
    return dict(os.environ) | _ONE_THREAD | _NO_UPKEEP | {"PYTHONPATH": path}


def main(server: int) -> None:
    """Import the models, after everybody else's work.

    Args:
        server: The process for whose sake this one runs. Whenever it is gone, this one ends.
    """

    def end_with_the_server(event: str, _: object) -> None:
        if event == "import" and os.getppid() != server:
            os._exit(0)

    sys.addaudithook(end_with_the_server)
    if hasattr(os, "nice"):
        os.nice(_LEAST_URGENT)
    import lvmcore.models  # noqa: F401


if __name__ == "__main__":
    main(int(sys.argv[1]))
