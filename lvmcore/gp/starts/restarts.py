"""Restarts: fits from several initial maps, of which the one with the highest bound is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.initial_map import start_map
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.distributed.choice import shard_count
from lvmcore.distributed.independent_calls import (
    IndependentCalls,
    Look,
    calls_are_shared,
    make_calls,
)
from lvmcore.errors import CancelledError
from lvmcore.gp.starts.start_fits import EndedStart, StartedModel, StartFits, fit_start
from lvmcore.gp.starts.start_results import StartResults
from lvmcore.persistence import with_prefix
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.results import FitStep
from lvmcore.training.outcome import FitOutcome

__all__ = [
    "RestartResult",
    "derived_seeds",
    "fit_from_starts",
    "kept_start",
    "restart_state",
    "restarts_from_state",
]


@dataclass(frozen=True)
class RestartResult:
    """Results of the starts of one fit.

    Attributes:
        starts: numbers of the starts, from 1, without those that failed, [R].
        bounds: final bound of each, total nats, [R].
        seeds: seed of each, [R].
        means: final latent means of each, [R, N, Q].
        kept: position of the start that the model keeps.
    """

    starts: NDArray[np.int64]
    bounds: NDArray[np.float64]
    seeds: NDArray[np.int64]
    means: NDArray[np.float64]
    kept: int


class RestartedModel(StartedModel, Protocol):
    """A model whose fit begins with an initial map and can be restarted.

    Attributes:
        n_restarts: number of starts.
        restarts_: results of the starts; None after a single one.
    """

    n_restarts: int
    restarts_: RestartResult | None


def fit_from_starts(
    model: RestartedModel, problem: FitProblem, initial_map: Callable[[], Tensor] | None = None
) -> FitOutcome:
    """Fit a model from one or several starts, and keep the fit with the highest bound.

    The first start has the fit's own seed, and is the only one if ``n_restarts`` is 1. Later starts
    have seeds derived from it (``numpy.random.SeedSequence.spawn``); their initial map is that of
    the first, perturbed by a quarter of a standard deviation, or a new one where ``start`` is
    "random".

    Args:
        model: the model to fit; ``restarts_`` holds the results of the starts.
        problem: the problem to fit.
        initial_map: gives the initial map of the first start, [N, Q]; by default that of the
            setting ``start``.
    """
    model.restarts_ = None
    if initial_map is None:
        initial_map = partial(start_map, problem, model.start, model._note)
    if model.n_restarts == 1:
        return model._fit_start(problem, initial_map())
    return _RestartedFit(model, problem, initial_map).run()


def restart_state(
    restarts: RestartResult | None,
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Results of the starts as arrays and facts for a file; empty for a single start."""
    if restarts is None:
        return {}, {}
    names = ("starts", "bounds", "seeds", "means")
    arrays = {f"restarts.{name}": getattr(restarts, name) for name in names}
    return arrays, {"kept_start": restarts.kept}


def restarts_from_state(
    arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
) -> RestartResult | None:
    """Results of the starts from the output of ``restart_state``."""
    parts = with_prefix(arrays, "restarts.")
    return RestartResult(**parts, kept=facts["kept_start"]) if parts else None


class _StopRequestedError(Exception):
    """The fit is to stop; what is done is kept."""


class _RestartedFit:
    """A fit from several starts; see ``make_calls``.

    The callback is called with the steps in the order of the starts: with those of a start that
    another process has fitted when those before it have ended.
    """

    def __init__(
        self, model: RestartedModel, problem: FitProblem, initial_map: Callable[[], Tensor]
    ) -> None:
        self.model, self.problem = model, problem
        self.seeds = derived_seeds(problem.generator.initial_seed(), model.n_restarts)
        self.first = 0  # the start that is begun first
        self.results = StartResults(len(self.seeds))
        self.untold: dict[int, EndedStart] = {}  # ended, and their steps not told yet
        self.steps, self.seconds = 0, 0.0  # of the starts that were told
        self.own: tuple[int, torch.Generator] | None = None  # the start in this process
        self.last: FitStep | None = None  # with which the callback was called
        self.stopped = self.answered = False  # a stop was requested; the callback has seen it
        found = None if problem.checkpoint is None else problem.checkpoint.beside()
        if found is not None:
            self._restore(*found)
        self.base = initial_map()
        self.results.first_notes = model.notes_
        self.elsewhere = self._copies()

    def _copies(self) -> StartFits | None:
        """The starts for other processes; None where only this one can fit them."""
        like, starts = self.problem.table.like, self.results.left()
        in_memory = isinstance(self.problem.table, InMemoryRows) and like.device.type == "cpu"
        if not calls_are_shared() or not in_memory or shard_count() or len(starts) < 2:
            return None
        return StartFits(self.model, self.problem, self.base, starts, self.seeds)

    def run(self) -> FitOutcome:
        """Fit from the remaining starts, and restore the best fit in the model."""
        copies = self.elsewhere
        calls: IndependentCalls[int, EndedStart] = IndependentCalls(
            sorted(self.results.left(), key=lambda r: r != self.first),
            self._fit,
            None if copies is None else lambda: copies,
            self._record,
            fits=True,
        )
        try:
            make_calls(calls)
        except _StopRequestedError:
            self._tell_stop()
        except CancelledError:
            self.results.remarks.append(
                f"Stopped before all {len(self.seeds)} starts had ended: the map is the best of "
                f"the {len(self.results.lengths)} that had."
            )
            self._tell_stop()
        return self._end()

    def _fit(self, r: int, look: Look) -> EndedStart:
        """Fit from a start in this process.

        Raises:
            _StopRequestedError: a stop was requested; if no start has ended, this one is kept.
        """
        is_told = r == self.results.told
        ended = fit_start(
            self.model,
            self.problem,
            self.base,
            (r, self.seeds[r]),
            callback=partial(self._step, r, look, is_told),
            follow=partial(self._follow, r),
        )
        self.own = None
        if self.stopped:
            if self.results.kept is None:
                self._keep(ended)
            else:
                self.results.remarks.append(
                    f"Stopped in start {r + 1} of {len(self.seeds)}, which is left out: the map is "
                    "the best of those before."
                )
            raise _StopRequestedError
        if is_told:
            self.results.told += 1
            self._count_steps(ended.last)
        return ended

    def _step(self, r: int, look: Look, is_told: bool, step: FitStep) -> bool:
        """A step of a start in this process; whether it is to stop."""
        stop = look()
        if is_told:
            self._call_back(r, step)
        else:
            self.last = self.last or self._counted(r, step)
            self.stopped |= stop
        return self.stopped

    def _call_back(self, r: int, step: FitStep) -> None:
        """Call the callback with a step."""
        self.last = self._counted(r, step)
        if self.problem.callback is not None and self.problem.callback(self.last):
            self.stopped = self.answered = True

    def _counted(self, r: int, step: FitStep) -> FitStep:
        return replace(
            step,
            iteration=self.steps + step.iteration,
            total=len(self.seeds) * self.model.max_iter,
            seconds=self.seconds + step.seconds,
            start=r + 1,
            starts=len(self.seeds),
        )

    def _record(self, place: int, ended: EndedStart) -> None:
        """Record the result of a start, and tell the steps of those whose turn it is.

        Raises:
            _StopRequestedError: the callback asks to stop.
        """
        del place
        self._keep(ended)
        if ended.start >= self.results.told:
            self.untold[ended.start] = ended
        while not self.stopped and self.results.told in self.results.lengths:
            self._tell(self.results.told)
            self.results.told += 1
        self._save()
        if self.stopped and self.own is None:
            raise _StopRequestedError

    def _keep(self, ended: EndedStart) -> None:
        self.results.add(ended)
        checkpoint = self.problem.checkpoint
        if checkpoint is not None:
            checkpoint.write_branch(ended.start + 1, ended.branch)
            checkpoint.saved += ended.saved
            checkpoint.notes += [one for one in ended.remarks if one not in checkpoint.notes]

    def _tell(self, r: int) -> None:
        """Call the callback with the steps of a start that has ended."""
        ended = self.untold.pop(r, None)
        steps = (self.results.last_step(r),) if ended is None else ended.steps
        for step in steps:
            self._call_back(r, step)
        self._count_steps(steps[-1] if steps else None)

    def _tell_stop(self) -> None:
        """Have the callback see that the fit stops, as it is the one that says why."""
        if self.answered:
            return
        untold = sorted(self.untold)
        for r in untold:
            self._tell(r)
        if not untold and self.last is not None and self.problem.callback is not None:
            self.problem.callback(self.last)

    def _count_steps(self, last: FitStep | None) -> None:
        if last is not None:
            self.steps, self.seconds = self.steps + last.iteration, self.seconds + last.seconds

    def _end(self) -> FitOutcome:
        results = self.results
        if results.kept is None:
            assert results.error is not None
            raise results.error
        results.kept.restore(self.model)
        for note in results.all_notes():
            self.model._note(note)
        ended = sorted(results.means)
        if len(ended) > 1:
            self.model.restarts_ = RestartResult(
                starts=1 + np.array(ended, dtype=np.int64),
                bounds=np.array([results.bounds[r] for r in ended]),
                seeds=np.array([self.seeds[r] for r in ended], dtype=np.int64),
                means=np.stack([results.means[r] for r in ended]),
                kept=ended.index(results.kept.start),
            )
        return results.kept.outcome

    # ---- checkpoints ---------------------------------------------------------------------------

    def _follow(self, r: int, generator: torch.Generator) -> None:
        """Have the checkpoint be that of a start in this process."""
        self.own = r, generator
        if self.problem.checkpoint is not None:
            arrays, facts = self.results.to_state(r)
            facts = {**facts, "seeds": self.seeds, "steps": self.steps, "seconds": self.seconds}
            self.problem.checkpoint.follow(
                generator,
                start=r + 1,
                steps=self.steps,
                seconds=self.seconds,
                beside=(arrays, facts),
            )

    def _save(self) -> None:
        """Have the checkpoint contain the results of starts that other processes have fitted."""
        left = self.results.left()
        if self.elsewhere is None or self.problem.checkpoint is None:
            return
        if self.own is not None:
            self._follow(*self.own)
        elif left:
            self._follow(left[0], self.problem.generator)
            self.own = None
            self.problem.checkpoint.save_between()

    def _restore(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Restore the state at which the checkpoint was written."""
        self.seeds = [int(seed) for seed in facts["seeds"]]
        self.problem.generator.manual_seed(self.seeds[0])
        self.results = StartResults.from_state(len(self.seeds), arrays, facts)
        self.first = int(facts["next"])
        self.steps, self.seconds = int(facts["steps"]), float(facts["seconds"])
        self.model.notes_ = self.results.first_notes


def derived_seeds(first: int, count: int) -> list[int]:
    """``count`` seeds: the fit's own, and seeds derived from it."""
    spawned = np.random.SeedSequence(first).spawn(count - 1)
    return [first, *(int(sequence.generate_state(1)[0]) for sequence in spawned)]


def kept_start(model: object) -> int:
    """Number of the start that a model comes from, from 1; 1 for a model with one start."""
    found: RestartResult | None = getattr(model, "restarts_", None)
    return 1 if found is None else int(found.starts[found.kept])
