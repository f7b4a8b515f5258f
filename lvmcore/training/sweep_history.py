"""History of a fit by closed-form sweeps over the whole table."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from lvmcore.results import Callback, FitStep, Snapshot
from lvmcore.training.loop import SECONDS_BETWEEN_SNAPSHOTS

__all__ = ["SweepHistory"]


class SweepHistory:
    """The steps of a fit, with their reports and snapshots of the map to the callback.

    Args:
        callback: called with each step; None for none.
        total: most sweeps.
    """

    def __init__(self, callback: Callback | None, total: int) -> None:
        self.steps: list[FitStep] = []
        self._callback, self._total = callback, total
        self._began, self._last_snapshot = time.perf_counter(), -math.inf

    def report(
        self,
        objective: float,
        terms: Mapping[str, float],
        snapshot: Callable[[], Snapshot],
        *,
        ends: bool,
    ) -> bool:
        """Report the next sweep; returns whether the fit should stop.

        Args:
            objective: bound after the sweep, total nats; NaN without one.
            terms: its terms by name, nats.
            snapshot: makes the snapshot of the map, where one is due.
            ends: whether it is the last sweep.
        """
        seconds, iteration = time.perf_counter() - self._began, len(self.steps) + 1
        step = FitStep(iteration, self._total, seconds, objective, dict(terms))
        self.steps.append(step)
        if self._callback is None:
            return False
        ends = ends or iteration == self._total
        if ends or seconds - self._last_snapshot >= SECONDS_BETWEEN_SNAPSHOTS:
            self._last_snapshot = seconds
            step = replace(step, snapshot=snapshot(), ends=ends)
        return bool(self._callback(step))
