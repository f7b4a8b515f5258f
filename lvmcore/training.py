"""The one optimisation loop, and what it reports."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore import persistence
from lvmcore.checkpoint import Checkpoint, restore_tensors, tensor_arrays
from lvmcore.errors import NumericalError
from lvmcore.results import Callback, FitStep, Snapshot

__all__ = ["Follow", "InBatches", "Objective", "Outcome", "Schedule", "report_once", "train"]

SECONDS_BETWEEN_SNAPSHOTS = 0.05
# Snapshots take at most this share of a fit's time: where one is dear, they are rarer.
SHARE_OF_SNAPSHOTS = 0.1
STEPS_BETWEEN_COPIES = 10
MOST_BREAKDOWNS = 5
SLOWEST = 1 / 64

#: What else the loop knows of its course, besides tensors and history.
_COURSE = ("brake", "cooling_since", "converged", "copied", "settled", "breakdowns")


@dataclass(frozen=True)
class Outcome:
    """How a fit ended.

    Attributes:
        objective: the bound at the parameters that were kept, total nats; NaN without a bound.
        history: every step.
        converged: True where, before the steps ran out, the bound had stopped rising, or rows that
            the fit stops by were predicted no better.
        stopped: the callback ended it, for somebody who does not want to wait.
    """

    objective: float
    history: tuple[FitStep, ...]
    converged: bool
    stopped: bool = False


def report_once(callback: Callback | None, began: float, objective: float = math.nan) -> Outcome:
    """The outcome of a fit that is one step, or whose library tells of none.

    Args:
        callback: told of the step; it comes too late to stop anything.
        began: when the fit began, by ``time.perf_counter``.
        objective: log likelihood that was reached, total nats; NaN where there is none.
    """
    terms = {} if math.isnan(objective) else {"log likelihood": objective}
    step = FitStep(1, 1, time.perf_counter() - began, objective, terms)
    if callback is not None:
        callback(step)
    return Outcome(objective, (step,), converged=True)


class Objective(Protocol):
    """What the loop maximises."""

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """Unconstrained parameters, updated in place."""

    def held(self) -> Iterable[torch.nn.Parameter]:
        """Those that stay as they are for the first ``Schedule.hold`` steps."""

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """Named scalars that add up to the bound; what is sampled averages ``draws`` new draws."""

    def snapshot(self) -> Snapshot:
        """The map as it stands."""


@runtime_checkable
class InBatches(Objective, Protocol):
    """An objective whose steps see some rows at a time.

    The loop then judges flatness by windows of many steps, and the bound of a step is an estimate;
    ``terms`` is still the bound of all rows, and what the fit reports in the end.
    """

    def batch_terms(self) -> dict[str, Tensor]:
        """Unbiased estimates of the terms from the next batch of rows."""

    def state(self) -> Iterable[Tensor]:
        """What else a step changes, in place: kept and restored as parameters are."""


@dataclass(frozen=True)
class Schedule:
    """Adam's course: warm up, cruise until the bound is flat or 60 % of the steps are spent, cool.

    Attributes:
        max_iter: steps at most.
        learning_rate: while cruising.
        cells: number of cells that the bound sums over, its scale.
        warm_up: steps in which the rate grows linearly.
        hold: steps for which ``Objective.held`` is not updated.
        window: steps that a judgement of flatness averages.
        flat: nats per cell; less gain than this from window to window counts as flat.
        collapse: nats per cell; a bound so far below its best has collapsed.
        cooling: share of ``max_iter`` in which the rate falls linearly to a twentieth.
    """

    max_iter: int
    learning_rate: float
    cells: int
    warm_up: int = 10
    hold: int = 30
    window: int = 40
    flat: float = 1e-3
    collapse: float = 0.1
    cooling: float = 0.4

    @classmethod
    def for_batches(
        cls, max_iter: int, learning_rate: float, cells: int, *, n_rows: int, size: int
    ) -> Schedule:
        """The course of a fit to batches of ``size`` rows: what a step tells is an estimate.

        Flatness is judged by two passes over the rows at least and asks for less gain; a bound has
        to fall further to count as collapsed.
        """
        if size >= n_rows:
            return cls(max_iter, learning_rate, cells)
        return cls(
            max_iter,
            learning_rate,
            cells,
            window=max(2 * cls.window, 2 * (n_rows // size)),
            flat=0.1 * cls.flat,
            collapse=10 * cls.collapse,
        )

    @classmethod
    def to_settle(cls, max_iter: int, learning_rate: float, cells: int) -> Schedule:
        """The course of a fit that has ended and goes on with other cells: it cools throughout."""
        return cls(max_iter, learning_rate, cells, hold=0, cooling=1.0)

    @property
    def cooling_steps(self) -> int:
        """How many steps the cooling takes."""
        return max(1, round(self.cooling * self.max_iter))

    @property
    def cruising_steps(self) -> int:
        """Steps after which the cooling begins, if the bound is not flat before."""
        return self.max_iter - self.cooling_steps

    def rate(self, iteration: int, cooling_since: int | None) -> float:
        """The learning rate of a step, counted from 0."""
        rate = self.learning_rate * min(1.0, (iteration + 1) / self.warm_up)
        if cooling_since is not None:
            done = (iteration - cooling_since) / self.cooling_steps
            rate *= max(0.05, 1 - 0.95 * done)
        return rate

    def is_flat(self, bounds: list[float], brake: float = 1.0) -> bool:
        """Whether the bound has stopped rising: the last window against the one before.

        Where the rate was cut to ``brake`` times itself, so much less gain is asked for.
        """
        w = self.window
        if len(bounds) < self.hold + 2 * w:
            return False
        gain = float(np.mean(bounds[-w:]) - np.mean(bounds[-2 * w : -w]))
        return gain < brake * self.flat * self.cells


@dataclass(frozen=True)
class Follow:
    """What is measured now and then on rows that the fit does not see.

    Attributes:
        measure: mean −log p of these rows at the parameters as they stand; leaves no trace on the
            fit, its random numbers included.
        patience: measurements in a row, none of them better than the best before, after which the
            fit ends, at the parameters of the best; None for a fit that only tells of them.
        every: steps from one measurement to the next.
    """

    measure: Callable[[], float]
    patience: int | None = None
    every: int = 20


def train(
    objective: Objective,
    schedule: Schedule,
    callback: Callback | None,
    *,
    draws: int = 1,
    checkpoint: Checkpoint | None = None,
    follow: Follow | None = None,
) -> Outcome:
    """Maximise ``objective`` with Adam.

    Where a step leads to a matrix that cannot be factorised, a bound that is not finite or one that
    has collapsed, the loop returns to the last sound parameters and halves the rate.

    Args:
        objective: what to maximise; left at the parameters of the last step.
        schedule: the course.
        callback: called with each step; True stops the loop.
        draws: draws that the final bound averages, where it samples; one after a stop.
        checkpoint: where to go on from, and where to leave the state now and then and at a stop; a
            fit that goes on ends exactly as if it had never stopped.
        follow: what is measured on other rows, and whether the fit stops by it.

    Returns:
        The final bound, the history, and whether the bound went flat in time, or the patience
        of what is followed came to its end.

    Raises:
        NumericalError: the computation broke down again and again.
    """
    return _Run(objective, schedule, callback, checkpoint, follow).run(draws)


class _Run:
    """The state of one call of ``train``."""

    def __init__(
        self,
        objective: Objective,
        schedule: Schedule,
        callback: Callback | None,
        checkpoint: Checkpoint | None,
        follow: Follow | None,
    ) -> None:
        self.objective, self.schedule, self.callback = objective, schedule, callback
        self.checkpoint, self.follow = checkpoint, follow
        self.stops_by_rows = follow is not None and follow.patience is not None
        parameters = list(objective.parameters())
        self.adam = torch.optim.Adam(parameters, lr=1.0, betas=(0.9, 0.99), fused=True)
        self.next_terms: Callable[[], dict[str, Tensor]] = objective.terms
        # All that a step changes.
        self.tensors: list[Tensor] = list(parameters)
        if isinstance(objective, InBatches):
            self.next_terms = objective.batch_terms
            self.tensors += objective.state()
        self.history: list[FitStep] = []
        self.brake = 1.0
        self.cooling_since: int | None = None
        self.converged = False
        self.began = time.perf_counter()
        self.last_snapshot, self.snapshot_gap = -math.inf, SECONDS_BETWEEN_SNAPSHOTS
        self.sound = self._copy()
        self.best, self.copied, self.settled = -math.inf, 0, 0
        self.breakdowns = 0

    def run(self, draws: int) -> Outcome:
        iteration = self._restore()
        over = iteration > 0 and self._finished(iteration - 1)
        stopped = False
        while not over and iteration < self.schedule.max_iter:
            try:
                values = self._step(iteration)
            except NumericalError:
                self.breakdowns += 1
                if self.breakdowns > MOST_BREAKDOWNS:
                    raise
                self._recover()
                iteration += 1
                continue
            stopped = self._report(iteration, values)
            self._keep(iteration + 1, now=stopped)
            if stopped:
                draws = 1
                break
            over = self._finished(iteration)
            iteration += 1
        if self.stops_by_rows and self._measured():
            self._go_back()
        return Outcome(self._final(draws), tuple(self.history), self.converged, stopped)

    def _step(self, iteration: int) -> dict[str, float]:
        """One Adam step; returns the terms at the parameters before it."""
        rate = self.brake * self.schedule.rate(iteration, self.cooling_since)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.zero_grad()
        terms = self.next_terms()
        bound = torch.stack([term.double() for term in terms.values()]).sum()
        if not bool(torch.isfinite(bound.detach())):
            raise NumericalError(
                f"The bound was not finite at step {iteration + 1}. Try a lower learning rate or "
                "another seed, and look for columns with extreme values."
            )
        if self._collapsed(float(bound.detach()), iteration):
            self._recover()
        else:
            self._advance(bound, iteration)
        return {name: float(term.detach()) for name, term in terms.items()}

    def _advance(self, bound: Tensor, iteration: int) -> None:
        (-bound).backward()  # type: ignore[no-untyped-call]
        if iteration < self.schedule.hold:
            for parameter in self.objective.held():
                parameter.grad = None
        self.adam.step()

    def _collapsed(self, bound: float, iteration: int) -> bool:
        """Whether to go back; keeps a copy of the parameters now and then where not."""
        if bound < self.best - self.schedule.collapse * self.schedule.cells:
            return True
        due = bound >= self.best and iteration - self.copied >= STEPS_BETWEEN_COPIES
        if due and not (self.stops_by_rows and self._measured()):
            self.sound, self.copied = self._copy(), iteration
        self.best = max(self.best, bound)
        return False

    def _report(self, iteration: int, values: dict[str, float]) -> bool:
        seconds = time.perf_counter() - self.began
        snapshot = None
        last = iteration + 1 == self.schedule.max_iter or self._cooled(iteration)
        if self.callback is not None and (
            last or seconds - self.last_snapshot >= self.snapshot_gap
        ):
            with suppress(NumericalError):  # the next step finds a way back, or says so
                snapshot = self.objective.snapshot()
            self.last_snapshot = seconds
            took = time.perf_counter() - self.began - seconds
            self.snapshot_gap = max(SECONDS_BETWEEN_SNAPSHOTS, took / SHARE_OF_SNAPSHOTS)
        step = FitStep(
            iteration + 1,
            self.schedule.max_iter,
            seconds,
            math.fsum(values.values()),
            values,
            snapshot,
            held_out=self._look(iteration, last=last),
        )
        self.history.append(replace(step, snapshot=None))
        step = replace(step, ends=last)
        return self.callback is not None and bool(self.callback(step))

    def _look(self, iteration: int, *, last: bool) -> float:
        """What is measured after a step, NaN where it is not its turn or breaks down."""
        if self.follow is None or ((iteration + 1) % self.follow.every and not last):
            return math.nan
        try:
            found = self.follow.measure()
        except NumericalError:
            return math.nan
        if self.stops_by_rows and found < min(self._measured(), default=math.inf):
            self.sound, self.copied = self._copy(), iteration
        return found

    def _measured(self) -> list[float]:
        """What was measured so far; a fit that goes back to sound parameters keeps its best."""
        return [s.held_out for s in self.history if math.isfinite(s.held_out)]

    def _finished(self, iteration: int) -> bool:
        """Start the cooling when due; say when it is over."""
        if self.follow is not None and self.follow.patience is not None:
            measured = self._measured()
            best = int(np.argmin(measured)) if measured else 0
            if len(measured) - 1 - best >= self.follow.patience:
                self.converged = True
                return True
        schedule = self.schedule
        if self.cooling_since is None:
            recent = self.history[self.settled :][-self.schedule.hold - 2 * self.schedule.window :]
            self.converged = schedule.is_flat([step.objective for step in recent], self.brake)
            if self.converged or iteration + 1 >= schedule.cruising_steps:
                self._leave_branch(iteration + 1)
                self.cooling_since = iteration + 1
            return False
        return self._cooled(iteration)

    def _cooled(self, iteration: int) -> bool:
        """Whether a step is the last one of the cooling."""
        since = self.cooling_since
        return since is not None and iteration + 1 - since >= self.schedule.cooling_steps

    def _final(self, draws: int) -> float:
        """The bound at the parameters that are kept: those of the last step, unless it broke."""
        try:
            bound = self._evaluate(draws)
        except NumericalError:
            bound = math.nan
        lost = self.schedule.collapse * self.schedule.cells
        if not bound >= self.best - lost:
            self._recover()
            bound = self._evaluate(draws)
        return bound

    def _evaluate(self, draws: int) -> float:
        with torch.no_grad():
            return math.fsum(float(term) for term in self.objective.terms(draws).values())

    def _copy(self) -> list[Tensor]:
        return [parameter.detach().clone() for parameter in self.tensors]

    def _go_back(self) -> None:
        """The last sound parameters, or the best on the rows that are followed."""
        with torch.no_grad():
            for parameter, value in zip(self.tensors, self.sound, strict=True):
                parameter.copy_(value)

    def _recover(self) -> None:
        self._go_back()
        self.adam.state.clear()
        self.brake = max(0.5 * self.brake, SLOWEST)
        self.best, self.settled = -math.inf, len(self.history)

    # ---- checkpoints ---------------------------------------------------------------------------

    def _keep(self, done: int, *, now: bool) -> None:
        """Leave a checkpoint after so many steps, if it is due or wanted now."""
        if self.checkpoint is not None and (now or self.checkpoint.due()):
            self.checkpoint.save(*self._state(done))

    def _leave_branch(self, done: int) -> None:
        """Keep the state from which a fit with more steps would go on, before the cooling."""
        if self.checkpoint is not None:
            arrays, facts = self._state(done)
            flat = self.brake * self.schedule.flat * self.schedule.cells
            self.checkpoint.leave_branch(
                arrays, {**facts, "window": self.schedule.window, "flat": flat}
            )

    def _state(self, done: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All that a step changes, after so many of them."""
        arrays = persistence.history_arrays(self.history)
        arrays |= tensor_arrays(self.tensors, self.sound, self.adam)
        facts = {
            "iteration": done,
            "seconds": time.perf_counter() - self.began,
            "best": self.best if math.isfinite(self.best) else None,
            "terms": list(self.history[0].terms),
            **{name: getattr(self, name) for name in _COURSE},
        }
        return arrays, facts

    def _restore(self) -> int:
        """Go back to where the checkpoint was left; returns how many steps were done by then.

        Without one, a fit with fewer steps may have left its state: the steps up to there are told
        to the callback as if they had just been done, as it has not heard of them.
        """
        if self.checkpoint is None:
            return 0
        found = self.checkpoint.restore()
        told: Callback | None = None
        if found is None:
            found, told = self.checkpoint.branch(self.schedule.cruising_steps), self.callback
        if found is None:
            return 0
        arrays, facts = found
        restore_tensors(arrays, self.tensors, self.sound, self.adam)
        self.history = [
            replace(
                step,
                total=self.schedule.max_iter,
                terms={name: step.terms[name] for name in facts["terms"]},
            )
            for step in persistence.history_from(arrays)
        ]
        for name in _COURSE:
            setattr(self, name, facts[name])
        self.best = -math.inf if facts["best"] is None else facts["best"]
        if told is not None:
            for step in self.history:
                told(step)
        self.began = time.perf_counter() - facts["seconds"]
        return int(facts["iteration"])
