"""Estimates of the time and memory of a fit, from a few of its steps in a separate process."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lvmcore.data.dataset import Dataset
from lvmcore.data.dataset_storage import save_dataset
from lvmcore.errors import DataError
from lvmcore.jobs.machine_limits import available_memory, default_slots, threads_of_a_fit
from lvmcore.jobs.worker_process import environment
from lvmcore.runs.atomic_files import as_record, read_json, write_json
from lvmcore.runs.job import JobSpec
from lvmcore.runs.run_files import PRIVATE_FOLDER
from lvmcore.runs.store import Store

__all__ = ["CostEstimate", "CostEstimator"]

logger = logging.getLogger(__name__)

#: Settings that affect neither the time per step nor the memory.
_COST_NEUTRAL = frozenset(
    {"random_state", "learning_rate", "max_iter", "label_weight", "n_restarts"}
)
# Settings must be unchanged for this time before they are measured: several often change in a row.
_UNCHANGED_SECONDS = 0.8
_POLL_SECONDS = 0.2
_BUSY_SECONDS = 1.0
# Callers poll for a result every second; a request that is not polled for this time is abandoned.
_REQUEST_TIMEOUT_SECONDS = 5.0
_LONGEST_SECONDS = 120.0
_TOO_SLOW = -1000  # differs from every exit status


#: Key, description and dataset of a fit to estimate.
_Request = tuple[str, JobSpec, Dataset]


@dataclass(frozen=True)
class CostEstimate:
    """Time and memory of a fit on this machine.

    Attributes:
        step: seconds per step.
        rest: seconds before the first and after the last step.
        memory: peak memory of its process, bytes; None if it exceeded the free memory.
        free: free memory at the time of the measurement, bytes.
        gpu_memory: peak memory on its GPU, bytes; None for a fit on the CPU.
    """

    step: float
    rest: float
    memory: int | None
    free: int
    gpu_memory: int | None = None

    def seconds(self, steps: int) -> float:
        """Largest duration of a fit with ``steps`` steps, seconds."""
        return self.rest + self.step * steps


class CostEstimator:
    """Estimates the cost of one fit at a time: the latest request, while no run is active.

    A request that is no longer polled is abandoned, because a measurement takes the memory and the
    time of a fit. Measurements run in a daemon thread, in a process that ends with the server. The
    estimates are saved in the store, as they are specific to this machine and dataset.

    Args:
        store: the store whose runs take precedence, and which holds the estimates.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.home / "estimates"
        self._threads = threads_of_a_fit(default_slots())
        self._guard = threading.Lock()
        self._changed = threading.Condition(self._guard)
        self._known: dict[str, CostEstimate | None] = {}
        self._request: _Request | None = None
        self._last_poll = 0.0
        self._closed = False
        self._thread: threading.Thread | None = None

    def known(self, spec: JobSpec) -> tuple[bool, CostEstimate | None]:
        """Whether the measurement is done, and its estimate; None if none was possible."""
        key = self._key(spec)
        with self._guard:
            if key in self._known:
                return True, self._known[key]
            if self._request is not None and self._request[0] == key:
                self._last_poll = time.monotonic()
        try:
            stored = read_json(self._folder / f"{key}.json")
            found = as_record(stored, CostEstimate, "The estimate")
        except DataError:
            return False, None
        with self._guard:
            self._known[key] = found
        return True, found

    def ask(self, spec: JobSpec, dataset: Dataset) -> None:
        """Request an estimate, in place of an earlier request; it returns at once.

        Poll for the result with ``known`` about every second; otherwise the request is abandoned.
        """
        request = (self._key(spec), spec, dataset)
        with self._changed:
            self._last_poll = time.monotonic()
            if self._closed or (self._request is not None and self._request[0] == request[0]):
                return
            self._request = request
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="estimator", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the thread and its process."""
        with self._changed:
            self._closed, self._request = True, None
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # ---- the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._closed:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._request is not None)
                request = self._request
            if request is None or not self._is_unchanged(request):
                continue
            if not self._is_polled(request):
                self._drop(request)
                continue
            try:
                self._estimate(*request, partial(self._should_continue, request))
            except Exception:
                logger.exception("a fit could not be estimated")
                self._save(request[0], None)

    def _is_unchanged(self, request: _Request) -> bool:
        """Whether a request is unchanged after ``_UNCHANGED_SECONDS``."""
        with self._changed:
            return not self._changed.wait_for(
                lambda: self._closed or self._request is not request, _UNCHANGED_SECONDS
            )

    def _should_continue(self, request: _Request) -> bool:
        """Whether a request is still polled, and no run is active."""
        return self._is_polled(request) and not self._is_busy()

    def _is_polled(self, request: _Request) -> bool:
        recent = time.monotonic() - self._last_poll < _REQUEST_TIMEOUT_SECONDS
        return self._request is request and recent

    def _drop(self, request: _Request) -> None:
        with self._changed:
            if self._request is request:
                self._request = None

    def _is_busy(self) -> bool:
        return any(not job.finished for job in self._store.list(None))

    def _estimate(
        self, key: str, spec: JobSpec, dataset: Dataset, should_continue: Callable[[], bool]
    ) -> None:
        if self._is_busy():
            with self._changed:
                self._changed.wait(_BUSY_SECONDS)
            return
        free = available_memory()
        with tempfile.TemporaryDirectory(prefix="latentboard-") as scratch:
            out = Path(scratch) / "found.json"
            save_dataset(dataset, Path(scratch) / "dataset")
            request = {
                "dataset": str(Path(scratch) / "dataset"),
                "spec": spec.to_json(),
                "limit": free,
                "out": str(out),
            }
            ended = self._run(request, should_continue)
            if ended is None:
                return
            # A process without a result was killed, or exited inside a library: out of memory.
            silent = {"error": "TooSlow" if ended == _TOO_SLOW else "MemoryError"}
            found = read_json(out) if out.is_file() else silent
        self._save(key, _estimate_of(found, free))

    def _run(self, request: dict[str, Any], should_continue: Callable[[], bool]) -> int | None:
        """Measure in a process; its exit status, or None if the request was abandoned."""
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "lvmcore.jobs.cost_probe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment(self._threads),
            bufsize=0,
        ) as process:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write((json.dumps(request) + "\n").encode())
            deadline = time.monotonic() + _LONGEST_SECONDS
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(_POLL_SECONDS)
                late = time.monotonic() > deadline
                if late or not should_continue():
                    process.kill()
                    process.wait()
                    return _TOO_SLOW if late else None

    def _save(self, key: str, found: CostEstimate | None) -> None:
        if found is not None and found.memory is not None:
            with suppress(OSError):  # a full disk: the next request measures again
                self._folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
                write_json(self._folder / f"{key}.json", asdict(found))
        with self._changed:
            self._known[key] = found
            if self._request is not None and self._request[0] == key:
                self._request = None

    def _key(self, spec: JobSpec) -> str:
        settings = {
            name: value for name, value in spec.parameters.items() if name not in _COST_NEUTRAL
        }
        task = [spec.target, spec.groups, spec.time] if spec.target else []
        facts = [spec.dataset, spec.model, settings, dict(spec.versions), self._threads, *task]
        text = json.dumps([*facts, os.cpu_count()], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _estimate_of(found: dict[str, Any], free: int) -> CostEstimate | None:
    if found.get("error") == "MemoryError":
        return CostEstimate(0.0, 0.0, None, free)
    if "error" in found:
        return None
    gpu = found.get("gpu_memory")
    return CostEstimate(
        float(found["step"]),
        float(found["rest"]),
        int(found["memory"]),
        free,
        None if gpu is None else int(gpu),
    )
