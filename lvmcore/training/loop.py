"""The optimisation loop: Adam with recovery, a quasi-Newton finish, early stopping, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import NumericalError
from lvmcore.persistence import history_arrays, history_from_arrays
from lvmcore.results import Callback, FitStep
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.held_out import HeldOutTracking, held_out_scores
from lvmcore.training.objective import Objective
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.quasi_newton import QuasiNewtonFinish
from lvmcore.training.schedule import Schedule

__all__ = ["train"]

SECONDS_BETWEEN_SNAPSHOTS = 0.05
# Snapshots take at most this share of a fit's time.
SNAPSHOT_SHARE = 0.1
STEPS_BETWEEN_COPIES = 10
MOST_BREAKDOWNS = 5
# Smallest factor of the learning rate after repeated recoveries.
LEAST_RATE_FACTOR = 1 / 64

#: Scalars of the loop's state by their keys in a checkpoint; tensors and history are kept apart.
_CHECKPOINT_KEYS = {
    "brake": "rate_factor",
    "cooling_since": "cooling_since",
    "converged": "converged",
    "copied": "copied_at",
    "settled": "recovered_at",
    "breakdowns": "breakdowns",
    "finish": "finish_since",
}


def train(
    objective: Objective[Any],
    schedule: Schedule,
    callback: Callback | None,
    *,
    draws: int = 1,
    checkpoint: Checkpoint | None = None,
    held_out: HeldOutTracking | None = None,
) -> FitOutcome:
    """Maximise ``objective`` with Adam, and where the schedule has a finish then with LBFGS.

    A step of Adam that leads to a matrix that cannot be factorised, to a bound that is not finite
    or to one that has collapsed is undone: the loop restores its last copy of the parameters and
    halves the learning rate.

    Args:
        objective: left at the parameters of the last step.
        schedule: learning rate of each step, and the test of convergence.
        callback: called with each step; True stops the loop.
        draws: samples that the final bound averages, where it is sampled; one after a stop.
        checkpoint: restored at the start, saved at intervals and at a stop; a resumed fit ends
            exactly as an uninterrupted one.
        held_out: a score on held-out rows, and whether the fit stops by it.

    Returns:
        The final bound, the history, and whether the fit converged.

    Raises:
        NumericalError: more than ``MOST_BREAKDOWNS`` steps broke down.
    """
    return _Optimisation(objective, schedule, callback, checkpoint, held_out).run(draws)


class _Optimisation:
    """The state of one call of ``train``."""

    def __init__(
        self,
        objective: Objective[Any],
        schedule: Schedule,
        callback: Callback | None,
        checkpoint: Checkpoint | None,
        held_out: HeldOutTracking | None,
    ) -> None:
        self.objective, self.schedule, self.callback = objective, schedule, callback
        self.checkpoint, self.held_out = checkpoint, held_out
        self.stops_early = held_out is not None and held_out.stops
        self.parameters = objective.parameter_state()
        self.history: list[FitStep] = []
        self.rate_factor = 1.0
        self.cooling_since: int | None = None
        self.finish: QuasiNewtonFinish | None = None
        self.finish_since: int | None = None
        self.finish_arrays: Mapping[str, NDArray[Any]] = {}
        self.converged = False
        self.began = time.perf_counter()
        self.last_snapshot, self.snapshot_gap = -math.inf, SECONDS_BETWEEN_SNAPSHOTS
        self.best, self.copied_at, self.recovered_at = -math.inf, 0, 0
        self.breakdowns = 0

    def run(self, draws: int) -> FitOutcome:
        """Step until the schedule, the held-out score or the callback ends the fit."""
        iteration = self._restore()
        over = self.finish_since is not None or self.schedule.direct
        over = over or (iteration > 0 and self._is_finished(iteration - 1))
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
            cooled = self._has_cooled(iteration) and not self.schedule.finishes
            last = cooled or iteration + 1 == self.schedule.max_iter
            stopped = self._report(iteration, values, last=last)
            self._save_checkpoint(iteration + 1, now=stopped)
            if stopped:
                break
            over = self._is_finished(iteration)
            iteration += 1
        if self.schedule.finishes and not stopped:
            stopped = self._run_finish(iteration)
        if self.stops_early and held_out_scores(self.history):
            self.parameters.restore_copies()
        bound = self._final_bound(1 if stopped else draws)
        trend = self.schedule.trend(self._full_rate_bounds())
        rise = None if trend is None else trend.range
        return FitOutcome(bound, tuple(self.history), self.converged, stopped, rise)

    def _run_finish(self, iteration: int) -> bool:
        """The quasi-Newton finish after some steps; returns whether the callback stopped it."""
        self._begin_finish(iteration)
        schedule, stopped = self.schedule, False
        while iteration < schedule.max_iter and not self.converged and not stopped:
            assert self.finish is not None
            self.finish.iterate()
            terms = self.finish.terms
            self.converged = self._is_at_optimum(math.fsum(terms.values()))
            self._place_rows(iteration + 1)
            last = self.converged or iteration + 1 == schedule.max_iter
            stopped = self._report(iteration, terms, last=last)
            iteration += 1
            self._save_checkpoint(iteration, now=stopped)
        if schedule.is_open and not self.converged and not stopped:
            self._save_branch(iteration)
        return stopped

    def _is_at_optimum(self, bound: float) -> bool:
        """Whether the finish ends with a step to this bound."""
        assert self.finish is not None
        assert self.finish_since is not None
        recent = self.history[-self.schedule.optimum_window :]
        bounds = [step.objective for step in recent if step.iteration > self.finish_since]
        return self.finish.stalled or self.schedule.is_at_optimum([*bounds, bound])

    def _place_rows(self, iteration: int) -> None:
        """Begin the finish anew with more rows, if it has used a subset for long enough."""
        assert self.finish_since is not None
        done = iteration - self.finish_since
        due = self.converged or done >= self.schedule.subset_steps(self.finish_since)
        if due and self.objective.place_rows():
            self.finish = QuasiNewtonFinish(self.objective, self.schedule.cells)
            self.finish_since, self.converged = iteration, False
            self.parameters.copy()

    def _begin_finish(self, iteration: int) -> None:
        """Begin the finish, or go on with a restored one."""
        try:
            if self.finish_since is None and self.schedule.relocates_after(iteration):
                self.objective.relocate_rows()
            self.finish = QuasiNewtonFinish(self.objective, self.schedule.cells)
        except NumericalError:  # the last step broke down
            self.parameters.restore_copies()
            self.finish = QuasiNewtonFinish(self.objective, self.schedule.cells)
        if self.finish_since is None:
            self.finish_since, self.converged = iteration, False
        else:
            self.finish.restore(self.finish_arrays)
        self.parameters.copy()
        self.best = -math.inf

    def _step(self, iteration: int) -> dict[str, float]:
        """One Adam step; returns the terms at the parameters before it."""
        rate = self.rate_factor * self.schedule.rate(iteration, self.cooling_since)
        if self.schedule.relocates_before(iteration):
            self.objective.relocate_rows()
        self.parameters.zero_grad()
        terms = self.objective.batch_terms()
        bound = torch.stack([term.double() for term in terms.values()]).sum()
        if not bool(torch.isfinite(bound.detach())):
            raise NumericalError(
                f"The bound was not finite at step {iteration + 1}. Try a lower learning rate or "
                "another seed, and look for columns with extreme values."
            )
        if self._has_collapsed(float(bound.detach()), iteration):
            self._recover()
        else:
            self._update_parameters(bound, iteration, rate)
        return {name: float(term.detach()) for name, term in terms.items()}

    def _update_parameters(self, bound: Tensor, iteration: int, rate: float) -> None:
        (-bound).backward()  # type: ignore[no-untyped-call]
        if iteration < self.schedule.hold:
            for parameter in self.objective.frozen_in_warm_up():
                parameter.grad = None
        self.parameters.step(rate)
        self.objective.step_rows(rate)

    def _has_collapsed(self, bound: float, iteration: int) -> bool:
        """Whether the bound has collapsed; where not, parameters are copied at intervals."""
        if bound < self.best - self.schedule.collapse * self.schedule.cells:
            return True
        due = bound >= self.best and iteration - self.copied_at >= STEPS_BETWEEN_COPIES
        if due and not (self.stops_early and held_out_scores(self.history)):
            self.parameters.copy()
            self.copied_at = iteration
        self.best = max(self.best, bound)
        return False

    def _report(self, iteration: int, values: dict[str, float], *, last: bool) -> bool:
        """Add a step to the history and call the callback; returns whether that stops the fit."""
        seconds = time.perf_counter() - self.began
        snapshot = None
        if self.callback is not None and (
            last or seconds - self.last_snapshot >= self.snapshot_gap
        ):
            with suppress(NumericalError):  # the next step recovers, or raises it
                snapshot = self.objective.snapshot()
            self.last_snapshot = seconds
            took = time.perf_counter() - self.began - seconds
            self.snapshot_gap = max(SECONDS_BETWEEN_SNAPSHOTS, took / SNAPSHOT_SHARE)
        step = FitStep(
            iteration + 1,
            self.schedule.max_iter,
            seconds,
            math.fsum(values.values()),
            values,
            snapshot,
            held_out=self._held_out_score(iteration, last=last),
            left=self.schedule.steps_left(iteration + 1, self.objective.row_share),
        )
        self.history.append(replace(step, snapshot=None, left=None))
        step = replace(step, ends=last)
        return self.callback is not None and bool(self.callback(step))

    def _held_out_score(self, iteration: int, *, last: bool) -> float:
        """The held-out score after a step, NaN where none is due; copies the best parameters."""
        if self.held_out is None:
            return math.nan
        score = self.held_out.score_after(iteration, last=last)
        best = min(held_out_scores(self.history), default=math.inf)
        if self.stops_early and score < best:
            self.parameters.copy()
            self.copied_at = iteration
        return score

    def _is_finished(self, iteration: int) -> bool:
        """Whether the fit ends after a step; starts the cooling when it is due."""
        if self.held_out is not None and self.held_out.is_exhausted(held_out_scores(self.history)):
            self.converged = True
            return True
        schedule = self.schedule
        if self.cooling_since is None:
            if schedule.is_judged_after(iteration):
                self.converged = schedule.has_converged(self._full_rate_bounds(), self.rate_factor)
            if self.converged and schedule.finishes:
                self._save_branch(iteration + 1)
                return True
            if self.converged or iteration + 1 >= schedule.steps_before_cooling:
                self._save_branch(iteration + 1)
                self.cooling_since = iteration + 1
            return False
        return self._has_cooled(iteration)

    def _full_rate_bounds(self) -> list[float]:
        """The bounds of the steps before the cooling, since the last recovery."""
        most = math.inf if self.cooling_since is None else self.cooling_since
        steps = self.history[self.recovered_at :]
        return [step.objective for step in steps if step.iteration <= most]

    def _has_cooled(self, iteration: int) -> bool:
        """Whether a step is the last one of the cooling."""
        since = self.cooling_since
        return since is not None and iteration + 1 - since >= self.schedule.cooling_steps

    def _final_bound(self, draws: int) -> float:
        """The bound at the final parameters; a last step that broke down is undone."""
        try:
            bound = self.objective.bound(draws)
        except NumericalError:
            bound = math.nan
        lost = self.schedule.collapse * self.schedule.cells
        if not bound >= self.best - lost:
            self._recover()
            bound = self.objective.bound(draws)
        return bound

    def _recover(self) -> None:
        """Restore the last copies, forget Adam's moments and halve the learning rate."""
        self.parameters.restore_copies()
        self.parameters.forget_moments()
        self.rate_factor = max(0.5 * self.rate_factor, LEAST_RATE_FACTOR)
        self.best, self.recovered_at = -math.inf, len(self.history)

    # ---- checkpoints ---------------------------------------------------------------------------

    def _save_checkpoint(self, done: int, *, now: bool) -> None:
        """Save a checkpoint after so many steps, if one is due or wanted now."""
        if self.checkpoint is not None and (now or self.checkpoint.due()):
            self.checkpoint.save(*self._state(done))

    def _save_branch(self, done: int) -> None:
        """Save the state from which a fit with more steps can continue."""
        if self.checkpoint is not None:
            arrays, facts = self._state(done)
            flat = self.rate_factor * self.schedule.flat_rate * self.schedule.window
            self.checkpoint.save_branch(
                arrays,
                {
                    **facts,
                    "window": self.schedule.window,
                    "flat": flat,
                    "finishes": self.schedule.finishes,
                },
            )

    def _state(self, done: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The state after so many steps."""
        arrays = history_arrays(self.history)
        arrays |= self.parameters.arrays()
        if self.finish is not None:
            arrays |= self.finish.arrays()
        facts = {
            "iteration": done,
            "seconds": self.history[-1].seconds,  # as several starts count them
            "best": self.best if math.isfinite(self.best) else None,
            "terms": list(self.history[0].terms),
            **{key: getattr(self, name) for key, name in _CHECKPOINT_KEYS.items()},
        }
        return arrays, facts

    def _restore(self) -> int:
        """Restore the state of a checkpoint; returns the number of steps it holds.

        Without one, the branch of a fit with fewer steps is restored if there is one. Its steps are
        reported to the callback, which has not been called with them.
        """
        if self.checkpoint is None:
            return 0
        found = self.checkpoint.restore(self.parameters.sizes)
        report: Callback | None = None
        if found is None:
            whole = self.schedule.is_open
            most = self.schedule.max_iter if whole else self.schedule.steps_before_cooling
            found = self.checkpoint.restore_branch(most, self.parameters.sizes)
            report = self.callback
        if found is None:
            return 0
        arrays, facts = found[0], {"finish": None, **found[1]}  # none in older checkpoints
        self.parameters.restore(arrays)
        self.history = [
            replace(
                step,
                total=self.schedule.max_iter,
                terms={name: step.terms[name] for name in facts["terms"]},
            )
            for step in history_from_arrays(arrays)
        ]
        for key, name in _CHECKPOINT_KEYS.items():
            setattr(self, name, facts[key])
        self.finish_arrays = arrays
        self.best = -math.inf if facts["best"] is None else facts["best"]
        if report is not None:
            for step in self.history:
                report(step)
        self.began = time.perf_counter() - facts["seconds"]
        return int(facts["iteration"])
