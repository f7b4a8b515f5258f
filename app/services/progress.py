"""Progress of a run: the steps in its event log, read as they are written."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.services import server
from app.services.caching import cached
from lvmcore.export.curves import curves_frame
from lvmcore.export.tables import to_csv_bytes
from lvmcore.runs import Store

if TYPE_CHECKING:
    from lvmcore.results import FitStep, Snapshot


@dataclass
class Progress:
    """The steps of a run so far; safe to share between sessions.

    Attributes:
        steps: all steps in order, without their snapshots.
        snapshot: the last snapshot of the map; None before the first.
        by_start: the last snapshot of each start of the fit, by number from 1.
    """

    steps: list[FitStep] = field(default_factory=list)
    snapshot: Snapshot | None = None
    by_start: dict[int, Snapshot] = field(default_factory=dict)
    _read: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of_start(self, start: int) -> Progress:
        """Steps and last snapshot of one start of the fit, by its number from 1."""
        steps = [step for step in self.steps if step.start == start]
        return Progress(steps, self.by_start.get(start))

    def update(self, store: Store, run: str) -> None:
        """Read the events written since the last call."""
        with self._guard:
            for event in store.events(run, after=self._read):
                self._read = event.n
                step = event.step
                if step.snapshot is not None:
                    self.snapshot = self.by_start[step.start] = step.snapshot
                self.steps.append(replace(step, snapshot=None))


def progress(run: str) -> Progress:
    """The steps of a run up to now."""
    found = _shared_progress(run)
    found.update(server.store(), run)
    return found


@cached(max_entries=16)
def _shared_progress(run: str) -> Progress:
    del run  # part of the key
    return Progress()


def curves_csv(runs: Iterable[str]) -> bytes:
    """Training curves of runs as CSV in long form; see ``lvmcore.export.curves.curves_frame``.

    Raises:
        DataError: a run does not exist.
    """
    return to_csv_bytes(curves_frame(server.store(), runs))
