"""The event log of a fit: its steps as JSON lines, written, read and truncated."""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.persistence import write_atomically
from lvmcore.results import FitStep, Snapshot
from lvmcore.runs.atomic_files import LineAppender, dump_json, read_lines
from lvmcore.runs.job import Event

__all__ = [
    "EventLog",
    "EventReader",
    "read_events",
    "step_from_json",
    "step_to_json",
    "truncate_events",
]

# Least time between two events and between two snapshots: seconds, or a share of the time since the
# start of the fit if that is longer, so that a run of hours takes a few megabytes.
EVENT_GAP, EVENT_SHARE = 0.02, 1 / 2000
SNAPSHOT_GAP, SNAPSHOT_SHARE = 0.25, 1 / 40
SNAPSHOT_POINTS = 2000
SIGNIFICANT_DIGITS = 4
_REMEMBERED_OFFSETS = 1024
#: Errors of a line that is not an event.
_NO_EVENT = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class EventLog:
    """Writes the steps of one fit to ``events.jsonl``.

    The first and the last step of a start are always written, and so are steps with a score on
    held-out rows. The last one is written with its snapshot, which is the map of the finished run.
    The intervals are measured by the fit's own seconds, so that a fit continued from a shorter one
    has the events that the shorter one had.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._lines = LineAppender(path)
        self._last_event = -np.inf
        self._last_snapshot = -np.inf
        self._pending: FitStep | None = None

    def add(self, step: FitStep) -> None:
        """Write a step, or hold it back if the interval since the last one is too short."""
        passed = step.seconds
        if self._pending is not None and self._pending.start != step.start:
            self._write(self._pending, with_snapshot=True)
            self._last_event = -np.inf
        wanted = step.ends or math.isfinite(step.held_out)
        if not wanted and passed - self._last_event < max(EVENT_GAP, EVENT_SHARE * passed):
            self._pending = step
            return
        gap = max(SNAPSHOT_GAP, SNAPSHOT_SHARE * passed)
        due = step.ends or passed - self._last_snapshot >= gap
        with_snapshot = due and step.snapshot is not None
        self._write(step, with_snapshot)
        self._last_event = -np.inf if step.ends else passed
        if with_snapshot:
            self._last_snapshot = passed

    def close(self) -> None:
        """Write the last step if it was held back, and close the file."""
        if self._pending is not None:
            self._write(self._pending, with_snapshot=True)
        self._lines.close()

    def _write(self, step: FitStep, with_snapshot: bool) -> None:
        self._lines.append(dump_json(step_to_json(step, with_snapshot=with_snapshot)))
        self._pending = None


def step_to_json(step: FitStep, *, with_snapshot: bool = True) -> dict[str, Any]:
    """A step in the JSON form of ``events.jsonl``; snapshots are rounded and thinned."""
    stored: dict[str, Any] = {
        "iteration": step.iteration,
        "total": step.total,
        "seconds": round(step.seconds, 4),
        "objective": step.objective,
        "terms": dict(step.terms),
    }
    if math.isfinite(step.held_out):
        stored["held_out"] = step.held_out
    if step.left is not None:
        stored["left"] = step.left
    if step.starts > 1:
        stored |= {"start": step.start, "starts": step.starts}
    if with_snapshot and step.snapshot is not None:
        stored["snapshot"] = _snapshot_to_json(step.snapshot)
    return stored


def step_from_json(stored: Mapping[str, Any]) -> FitStep:
    """A step from ``step_to_json``; a null number is NaN."""
    snapshot = stored.get("snapshot")
    return FitStep(
        iteration=int(stored["iteration"]),
        total=int(stored["total"]),
        seconds=float(stored["seconds"]),
        objective=_number(stored["objective"]),
        terms={name: _number(value) for name, value in stored["terms"].items()},
        snapshot=None if snapshot is None else _snapshot_from_json(snapshot),
        start=int(stored.get("start", 1)),
        starts=int(stored.get("starts", 1)),
        held_out=_number(stored.get("held_out")),
        left=stored.get("left"),
    )


def read_events(path: Path, n: int = 0, offset: int = 0) -> tuple[list[Event], int, int]:
    """The events after line number ``n``, which ends at byte ``offset``.

    A line that is not an event (truncated by a full disk or a crash) is counted and skipped.

    Returns:
        The events, the number of the last line, and the offset after it.
    """
    lines, end = read_lines(path, offset)
    events = []
    for number, line in enumerate(lines, start=n + 1):
        try:
            events.append(Event(number, step_from_json(json.loads(line))))
        except _NO_EVENT:
            continue
    return events, n + len(lines), end


class EventReader:
    """Reads the events of runs, each file from the offset at which the previous call ended."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._offsets: OrderedDict[tuple[str, int, int], int] = OrderedDict()

    def read(self, path: Path, run: str, attempt: int, after: int) -> list[Event]:
        """The events of a run's attempt after number ``after``, oldest first.

        Args:
            path: the file of the events.
            run: id of the run.
            attempt: number of its attempt; another attempt has other lines.
            after: number of the last event already read.
        """
        with self._guard:
            offset = self._offsets.get((run, attempt, after), 0)
        events, last, end = read_events(path, after if offset else 0, offset)
        events = [event for event in events if event.n > after]
        if events and events[-1].n == last:
            with self._guard:
                self._offsets[run, attempt, last] = end
                while len(self._offsets) > _REMEMBERED_OFFSETS:
                    self._offsets.popitem(last=False)
        return events


def truncate_events(path: Path, iteration: int) -> bool:
    """Delete the events after a step, and invalid lines; the file is replaced atomically.

    Returns:
        Whether anything was deleted.
    """
    if not path.is_file():
        return False
    content = path.read_bytes()
    kept = []
    for line in read_lines(path)[0]:
        try:
            step = step_from_json(json.loads(line))
        except _NO_EVENT:
            continue
        if step.iteration > iteration:
            break
        kept.append(line + b"\n")
    whole = b"".join(kept)
    if whole != content:
        write_atomically(path, whole)
    return whole != content


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    mean, rows = snapshot.mean, snapshot.rows
    if len(rows) > SNAPSHOT_POINTS:
        keep = np.linspace(0, len(rows) - 1, SNAPSHOT_POINTS).astype(np.intp)
        mean, rows = mean[keep], rows[keep]
    return {
        "mean": _rounded(mean),
        "rows": rows,
        "dimensions": list(snapshot.dimensions),
        "relevance": {path: _rounded(share) for path, share in snapshot.relevance.items()},
    }


def _snapshot_from_json(stored: Mapping[str, Any]) -> Snapshot:
    first, second = stored["dimensions"]
    return Snapshot(
        mean=np.array(stored["mean"], dtype=np.float64).reshape(-1, 2),
        rows=np.array(stored["rows"], dtype=np.intp),
        dimensions=(int(first), int(second)),
        relevance={
            path: np.array(share, dtype=np.float64) for path, share in stored["relevance"].items()
        },
    )


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values rounded to four significant digits; non-finite values are unchanged."""
    array = np.asarray(values, dtype=np.float64)
    texts = (f"{value:.{SIGNIFICANT_DIGITS}g}" for value in array.flat)
    return np.fromiter(map(float, texts), np.float64, array.size).reshape(array.shape)
