"""Kills workers and servers at random moments, and looks at what they leave."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import psutil

from lvmcore import persistence
from lvmcore.data import Dataset
from lvmcore.runs import Job, JobSpec, Store
from lvmcore.runs.job_folder import JobFolder
from tests.unit.lvmcore.jobs.waiting import until, workers_of

__all__ = ["Bench", "Victim", "left_beyond_the_checkpoint", "read_everything"]

Victim = Literal["worker", "server", "both"]

SERVER = """
import sys, threading
from lvmcore.jobs.launcher import Launcher
from lvmcore.runs import Store
launcher = Launcher(Store(sys.argv[1]))
print("up", flush=True)
threading.Event().wait()
"""
SETTINGS = {"n_components": 2, "n_inducing": 12, "max_iter": 900, "learning_rate": 0.02}
#: A busy machine may stop a process for so long between looking at the clock and writing.
SLACK_SECONDS = 1.0


def dataset(rows: int = 150) -> Dataset:
    """Rows on a curved surface, six columns."""
    rng = np.random.default_rng(11)
    latent = rng.standard_normal((rows, 2))
    X = np.sin(latent @ rng.standard_normal((2, 6))) + 0.1 * rng.standard_normal((rows, 6))
    return Dataset.from_arrays(X, name="surface")


@dataclass
class Bench:
    """A store, a server on it that can be killed and started again, and the runs put through it.

    Attributes:
        store: as another process sees it, which lives on.
        settling: seconds from a kill, or from the start after one, to the right states.
    """

    store: Store
    settling: list[float] = field(default_factory=list)
    _server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have a server, in a process of its own."""
        if self._server is None:
            command = [sys.executable, "-c", SERVER, str(self.store.home)]
            self._server = subprocess.Popen(command, stdout=subprocess.PIPE)
            assert self._server.stdout is not None
            assert self._server.stdout.readline() == b"up\n"

    def stop(self) -> None:
        """Kill the server, if there is one, and wait for the end of its workers."""
        if self._server is not None:
            workers = self.workers()
            self._server.kill()
            self._server.wait()
            assert self._server.stdout is not None
            self._server.stdout.close()
            self._server = None
            until(lambda: not any(_alive(worker) for worker in workers), "the end of the workers")

    def workers(self) -> list[psutil.Process]:
        """The server's living workers, the spare included."""
        return [] if self._server is None else workers_of(self._server.pid)

    def submit(self, **settings: object) -> str:
        """Put a fit in the queue."""
        digest = self.store.datasets.put(dataset())
        spec = JobSpec(digest, "surface", "bayesian_gplvm", {**SETTINGS, **settings})
        return self.store.submit(spec)

    def kill(self, victim: Victim) -> None:
        """Kill at once, start what was killed again, and wait for the right states."""
        workers = self.workers()
        if victim == "worker":
            for worker in workers:
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
        else:
            assert self._server is not None
            self._server.kill()
            for worker in workers if victim == "both" else []:
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
            self._server.wait()
            assert self._server.stdout is not None
            self._server.stdout.close()
            self._server = None
        began = time.monotonic()
        Store(self.store.home).reconcile()
        until(lambda: not any(job.status == "running" for job in self._dead()), "the right states")
        self.settling.append(time.monotonic() - began)
        until(lambda: not any(_alive(worker) for worker in workers), "the end of the workers")

    def _dead(self) -> list[Job]:
        """The runs that no living worker can be working on."""
        if self.workers():  # the server lives: it may have begun the next one
            return [job for job in self.store.list() if not _is_locked(self.store, job)]
        return self.store.list()


def _is_locked(store: Store, job: Job) -> bool:
    folder: JobFolder = store.job_folder(job.id)
    try:
        with folder.lock():
            return False
    except TimeoutError:
        return True


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def read_everything(home: Path) -> int:
    """Read every file of a store to its end; what is torn raises.

    Returns:
        How many files were read.
    """
    count = 0
    for path in home.rglob("*"):
        if not path.is_file() or path.name.startswith(".") or path.parent.name.startswith("."):
            continue
        count += 1
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.suffix == ".parquet":
            pd.read_parquet(path)
        elif path.name == "checkpoint.safetensors" or path.name.startswith("branch-"):
            persistence.read(path, format=persistence.CHECKPOINT_FORMAT)
        elif path.suffix == ".safetensors":
            persistence.read(path)
        elif path.suffix == ".jsonl":
            for line in path.read_bytes().split(b"\n")[:-1]:
                json.loads(line)
    return count


def left_beyond_the_checkpoint(store: Store, name: str) -> int:
    """How many steps of a run were written down later than a checkpoint of them was due.

    One is what the kill may leave: the step whose checkpoint was being written.
    """
    path = store.job_folder(name).files.checkpoint
    seconds, gap = 0.0, 2.0
    if path.is_file():
        facts = persistence.read_metadata(path, format=persistence.CHECKPOINT_FORMAT)
        seconds, gap = facts["seconds"], facts["gap"]
    limit = seconds + gap + SLACK_SECONDS
    return sum(event.step.seconds > limit for event in store.events(name))
