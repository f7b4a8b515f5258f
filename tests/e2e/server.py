"""The dashboard as its own process, for the browser tests and the page timings."""

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.__main__ import first_free_port
from lvmcore.runs import Store
from tests.unit.lvmcore.jobs.waiting import finished

__all__ = ["Server", "empty", "is_up", "running"]

START_SECONDS = 60.0
STOP_SECONDS = 10.0
# What it prints is in the log at once, and so are the stacks of its threads on a fatal signal.
_DIAGNOSTICS = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}


@dataclass(frozen=True)
class Server:
    """A dashboard that is up.

    Attributes:
        url: Its address.
        home: Its `LATENTBOARD_HOME`.
        log: The file with what it printed.
        process: The process itself, for a test that ends it on purpose.
    """

    url: str
    home: Path
    log: Path
    process: subprocess.Popen[bytes]


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        return error.code == 403  # a dashboard with a token answers, but not to everyone
    except (urllib.error.URLError, OSError):
        return False


def is_up(server: Server) -> bool:
    """Whether a dashboard runs and answers."""
    return server.process.poll() is None and _healthy(server.url)


def empty(server: Server) -> None:
    """Delete all runs and datasets of a dashboard that is up, and what it has printed."""
    store = Store(server.home)
    jobs = [job.id for job in store.list(None)]
    for job in jobs:
        store.cancel(job)
    for job in jobs:
        finished(store, job)
    for digest in store.datasets.names():
        store.datasets.delete(digest)
    for left in (*store.list(None), *store.damaged()):
        store.delete(left.id)
    store.bin.empty()
    for folder in (store.home / "datasets", store.home / "jobs"):
        for path in folder.iterdir():
            shutil.rmtree(path)
    os.truncate(server.log, 0)


def _wait_until_healthy(server: Server) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _healthy(server.url):
        status = server.process.poll()
        if status is not None or time.monotonic() > deadline:
            what = "is not up yet" if status is None else f"ended with status {status}"
            raise RuntimeError(f"The dashboard {what}. It printed:\n{server.log.read_text()}")
        time.sleep(0.05)


def _report_if_hanging(server: Server) -> None:
    """End a dashboard that is there and does not answer, and print the stacks of its threads."""
    if server.process.poll() is None and not any(_healthy(server.url) for _ in range(3)):
        server.process.send_signal(signal.SIGABRT)
        server.process.wait(STOP_SECONDS)
        print(f"The dashboard did not answer. Its threads:\n{server.log.read_text()}")


@contextmanager
def running(
    folder: Path,
    *,
    port: int | None = None,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run the dashboard with a home of its own, and stop it at the end.

    Args:
        folder: Where its home and its log go; an existing home is used again.
        port: The port to listen on; `None` takes any free one.
        arguments: Further arguments of the command.
        environment: Variables besides those of this process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    home, log = folder / "home", folder / "server.log"
    port = first_free_port(0) if port is None else port
    command = [sys.executable, "-m", "app", "--no-browser", "--port", str(port)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, "--home", str(home), *arguments],
            env=os.environ | _DIAGNOSTICS | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    server = Server(f"http://127.0.0.1:{port}", home, log, process)
    try:
        _wait_until_healthy(server)
        yield server
    finally:
        _report_if_hanging(server)
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
