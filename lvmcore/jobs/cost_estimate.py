"""What a fit will cost, from a handful of its steps: measured in a process, and remembered."""

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
from lvmcore.runs.atomic_files import read_json, write_json
from lvmcore.runs.job import JobSpec
from lvmcore.runs.store import Store

__all__ = ["CostEstimate", "CostEstimator"]

logger = logging.getLogger(__name__)

#: Settings that change neither the time of a step nor the memory.
_FREE_OF_CHARGE = frozenset(
    {"random_state", "learning_rate", "max_iter", "label_weight", "n_restarts"}
)
# Somebody who changes settings changes several.
_SETTLES_SECONDS = 0.8
_LOOK_SECONDS = 0.2
_BUSY_SECONDS = 1.0
# Who waits for an answer looks for it every second; when nobody has for so long, none is needed.
_INTEREST_SECONDS = 5.0
_LONGEST_SECONDS = 120.0
_TOO_SLOW = -1000  # no exit status


Wanted = tuple[str, JobSpec, Dataset]


@dataclass(frozen=True)
class CostEstimate:
    """What a fit costs on this machine.

    Attributes:
        step: seconds a step.
        rest: seconds before the first and after the last step.
        memory: bytes that its process holds at most; None where it is more than was free.
        free: bytes that were free when it was measured.
    """

    step: float
    rest: float
    memory: int | None
    free: int

    def seconds(self, steps: int) -> float:
        """The most that a fit of so many steps takes, seconds."""
        return self.rest + self.step * steps


class CostEstimator:
    """Estimates fits one at a time, the latest that was asked for, while no run is under way.

    It gives up what nobody looks for any more: an estimate takes the memory and the time of a fit.

    It works in a daemon thread with a process that ends with the server. What it finds is kept
    with the store, as it holds for this machine and data set.

    Args:
        store: whose queue it keeps out of the way of.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.home / "estimates"
        self._threads = threads_of_a_fit(default_slots())
        self._guard = threading.Lock()
        self._changed = threading.Condition(self._guard)
        self._known: dict[str, CostEstimate | None] = {}
        self._wanted: Wanted | None = None
        self._looked = 0.0
        self._closed = False
        self._thread: threading.Thread | None = None

    def known(self, spec: JobSpec) -> tuple[bool, CostEstimate | None]:
        """Whether the answer is known, and the estimate; None where none can be made."""
        key = self._key(spec)
        with self._guard:
            if key in self._known:
                return True, self._known[key]
            if self._wanted is not None and self._wanted[0] == key:
                self._looked = time.monotonic()
        try:
            found = CostEstimate(**read_json(self._folder / f"{key}.json"))
        except (DataError, TypeError):
            return False, None
        with self._guard:
            self._known[key] = found
        return True, found

    def ask(self, spec: JobSpec, dataset: Dataset) -> None:
        """Ask for an estimate, in place of one asked for before; it returns at once.

        Look for the answer with ``known`` every second or so, or it is given up.
        """
        wanted = (self._key(spec), spec, dataset)
        with self._changed:
            self._looked = time.monotonic()
            if self._closed or (self._wanted is not None and self._wanted[0] == wanted[0]):
                return
            self._wanted = wanted
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="estimator", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, and end the process."""
        with self._changed:
            self._closed, self._wanted = True, None
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # ---- the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._closed:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._wanted is not None)
                wanted = self._wanted
            if wanted is None or not self._is_settled(wanted):
                continue
            if not self._is_looked_for(wanted):
                self._forget(wanted)
                continue
            try:
                self._estimate(*wanted, partial(self._goes_on, wanted))
            except Exception:
                logger.exception("a fit could not be estimated")
                self._answer(wanted[0], None)

    def _is_settled(self, wanted: Wanted) -> bool:
        """Whether it is still wanted when somebody has had the time to change a setting."""
        with self._changed:
            return not self._changed.wait_for(
                lambda: self._closed or self._wanted is not wanted, _SETTLES_SECONDS
            )

    def _goes_on(self, wanted: Wanted) -> bool:
        """Whether an estimate is still wanted, and no run is in need of the machine."""
        return self._is_looked_for(wanted) and not self._is_busy()

    def _is_looked_for(self, wanted: Wanted) -> bool:
        recent = time.monotonic() - self._looked < _INTEREST_SECONDS
        return self._wanted is wanted and recent

    def _forget(self, wanted: Wanted) -> None:
        with self._changed:
            if self._wanted is wanted:
                self._wanted = None

    def _is_busy(self) -> bool:
        return any(not job.finished for job in self._store.list(None))

    def _estimate(
        self, key: str, spec: JobSpec, dataset: Dataset, goes_on: Callable[[], bool]
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
            ended = self._run(request, goes_on)
            if ended is None:
                return
            # Without a last word it was killed, or gave up inside a library: for want of memory.
            silent = {"error": "TooSlow" if ended == _TOO_SLOW else "MemoryError"}
            found = read_json(out) if out.is_file() else silent
        self._answer(key, _estimate_of(found, free))

    def _run(self, request: dict[str, Any], goes_on: Callable[[], bool]) -> int | None:
        """Have a process measure; its exit status, None where other things mattered more."""
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
                    return process.wait(_LOOK_SECONDS)
                late = time.monotonic() > deadline
                if late or not goes_on():
                    process.kill()
                    process.wait()
                    return _TOO_SLOW if late else None

    def _answer(self, key: str, found: CostEstimate | None) -> None:
        with self._changed:
            self._known[key] = found
            if self._wanted is not None and self._wanted[0] == key:
                self._wanted = None
        if found is not None and found.memory is not None:
            with suppress(OSError):  # a full disk: it is measured again another time
                self._folder.mkdir(exist_ok=True)
                write_json(self._folder / f"{key}.json", asdict(found))

    def _key(self, spec: JobSpec) -> str:
        settings = {
            name: value for name, value in spec.parameters.items() if name not in _FREE_OF_CHARGE
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
    return CostEstimate(float(found["step"]), float(found["rest"]), int(found["memory"]), free)
