"""Restarts: fits from several initial maps, of which the one with the highest bound is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lvmcore.base.initial_map import perturbed, start_map
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.errors import NumericalError
from lvmcore.persistence import history_arrays, history_from_arrays, with_prefix
from lvmcore.results import Callback, FitStep, Posterior
from lvmcore.training.checkpoint import State
from lvmcore.training.outcome import FitOutcome

__all__ = [
    "RestartResult",
    "derived_seeds",
    "fit_from_starts",
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


class RestartedModel(Protocol):
    """A model whose fit begins with an initial map and can be restarted.

    Attributes:
        start: the setting of that name.
        n_restarts: number of starts.
        max_iter: maximum steps of each.
        restarts_: results of the starts; None after a single one.
    """

    start: str | ArrayLike
    n_restarts: int
    max_iter: int
    notes_: tuple[str, ...]
    embedding_: Posterior
    relevance_: dict[str, NDArray[np.float64]]
    inducing_inputs_: dict[str, NDArray[np.float64]]
    restarts_: RestartResult | None

    def _fit_start(self, problem: FitProblem, X: Tensor) -> FitOutcome:
        """Fit from the initial map X, [N, Q]."""

    def _note(self, text: str) -> None:
        """Add a note on the fit."""

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The model's own fitted state."""

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Restore the state of ``_get_state``."""

    def _by_path(self, arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, Any]:
        """The arrays whose names start with ``prefix``, by the rest of their names."""


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


@dataclass(frozen=True)
class _BestFit:
    """The fit with the highest bound so far.

    Attributes:
        start: number of the start, from 0.
        arrays: arrays of the model's own state, and the map.
        facts: facts of the model's own state.
        outcome: outcome of the fit.
    """

    start: int
    arrays: dict[str, NDArray[Any]]
    facts: dict[str, Any]
    outcome: FitOutcome

    @classmethod
    def of(cls, start: int, model: RestartedModel, outcome: FitOutcome) -> _BestFit:
        """From a model that has just been fitted."""
        own, facts = model._get_state()
        arrays = {
            **{f"own.{name}": array for name, array in own.items()},
            "mean": model.embedding_.mean,
            "variance": model.embedding_.variance,
            **{f"relevance.{path}": alpha for path, alpha in model.relevance_.items()},
            **{f"inducing.{path}": Z for path, Z in model.inducing_inputs_.items()},
        }
        return cls(start, arrays, facts, outcome)

    def restore(self, model: RestartedModel) -> None:
        """Restore this fit in the model."""
        model._set_state(with_prefix(self.arrays, "own."), self.facts)
        model.embedding_ = Posterior(self.arrays["mean"], self.arrays["variance"])
        model.relevance_ = model._by_path(self.arrays, "relevance.")
        model.inducing_inputs_ = model._by_path(self.arrays, "inducing.")


class _RestartedFit:
    """A fit from several starts in sequence."""

    def __init__(
        self, model: RestartedModel, problem: FitProblem, initial_map: Callable[[], Tensor]
    ) -> None:
        self.model, self.problem = model, problem
        self.seeds = derived_seeds(problem.generator.initial_seed(), model.n_restarts)
        self.next = 0
        self.ended: list[int] = []  # completed starts, in order
        self.bounds: list[float] = []
        self.means: list[NDArray[np.float64]] = []
        self.kept: _BestFit | None = None
        self.steps, self.seconds = 0, 0.0
        self.last: FitStep | None = None
        self.stopped = False
        found = None if problem.checkpoint is None else problem.checkpoint.beside()
        if found is not None:
            self._restore(*found)
        self.base = initial_map()

    def run(self) -> FitOutcome:
        """Fit from the remaining starts, and restore the best fit in the model."""
        for r in range(self.next, self.model.n_restarts):
            self.last = None
            try:
                outcome = self._fit(r)
            except NumericalError:
                if r + 1 == self.model.n_restarts and self.kept is None:
                    raise
                self.model._note(f"Start {r + 1} of {len(self.seeds)} broke down and is left out.")
                self._count_steps(self.last)
                continue
            if self.stopped and self.kept is not None:
                self.model._note(
                    f"Stopped in start {r + 1} of {len(self.seeds)}, which is left out: the map is "
                    "the best of those before."
                )
                break
            self._record(r, outcome)
            if self.stopped:
                break
        return self._end()

    def _fit(self, r: int) -> FitOutcome:
        problem, generator, X = self.problem, self.problem.generator, self.base
        if r > 0:
            generator = torch.Generator().manual_seed(self.seeds[r])
        if problem.checkpoint is not None:
            problem.checkpoint.follow(
                generator,
                start=r + 1,
                steps=self.steps,
                seconds=self.seconds,
                beside=self._state(r),
            )
        problem = replace(problem, generator=generator, callback=self._callback(r))
        if r > 0:
            again = isinstance(self.model.start, str) and self.model.start == "random"
            X = start_map(problem, "random", _discard_note) if again else perturbed(X, generator)
        return self.model._fit_start(problem, X)

    def _callback(self, r: int) -> Callback | None:
        callback_of_fit = self.problem.callback
        if callback_of_fit is None:
            return None

        def callback(step: FitStep) -> bool:
            self.last = step
            counted = replace(
                step,
                iteration=self.steps + step.iteration,
                total=len(self.seeds) * self.model.max_iter,
                seconds=self.seconds + step.seconds,
                start=r + 1,
                starts=len(self.seeds),
            )
            self.stopped = bool(callback_of_fit(counted))
            return self.stopped

        return callback

    def _record(self, r: int, outcome: FitOutcome) -> None:
        """Record the result of a start."""
        self.ended.append(r)
        self.bounds.append(outcome.objective)
        self.means.append(self.model.embedding_.mean)
        if self.kept is None or outcome.objective > self.kept.outcome.objective:
            self.kept = _BestFit.of(r, self.model, outcome)
        self._count_steps(outcome.history[-1] if outcome.history else None)

    def _count_steps(self, last: FitStep | None) -> None:
        if last is not None:
            self.steps, self.seconds = self.steps + last.iteration, self.seconds + last.seconds

    def _end(self) -> FitOutcome:
        assert self.kept is not None
        self.kept.restore(self.model)
        if len(self.ended) > 1:
            self.model.restarts_ = RestartResult(
                starts=1 + np.array(self.ended, dtype=np.int64),
                bounds=np.array(self.bounds),
                seeds=np.array([self.seeds[r] for r in self.ended], dtype=np.int64),
                means=np.stack(self.means),
                kept=self.ended.index(self.kept.start),
            )
        return self.kept.outcome

    # ---- checkpoints ---------------------------------------------------------------------------

    def _state(self, r: int) -> State:
        """Results of the starts before start r, for a checkpoint."""
        facts: dict[str, Any] = {
            "next": r,
            "seeds": self.seeds,
            "ended": list(self.ended),
            "bounds": list(self.bounds),
            "steps": self.steps,
            "seconds": self.seconds,
            "notes": list(self.model.notes_),
        }
        arrays = {f"mean.{i}": mean for i, mean in enumerate(self.means)}
        if self.kept is not None:
            outcome = self.kept.outcome
            arrays |= {f"kept.{name}": array for name, array in self.kept.arrays.items()}
            arrays |= {
                f"kept.{name}": column for name, column in history_arrays(outcome.history).items()
            }
            facts["kept"] = {
                "start": self.kept.start,
                "facts": self.kept.facts,
                "objective": outcome.objective,
                "converged": outcome.converged,
                "rise": outcome.rise,
                "terms": list(outcome.history[0].terms) if outcome.history else [],
            }
        return arrays, facts

    def _restore(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Restore the state before the start in which the checkpoint was written."""
        self.next, self.seeds = int(facts["next"]), [int(seed) for seed in facts["seeds"]]
        self.problem.generator.manual_seed(self.seeds[0])
        self.ended, self.bounds = list(facts["ended"]), list(facts["bounds"])
        self.means = [arrays[f"mean.{i}"] for i in range(len(self.ended))]
        self.steps, self.seconds = int(facts["steps"]), float(facts["seconds"])
        self.model.notes_ = tuple(facts["notes"])
        if "kept" in facts:
            kept, own = facts["kept"], with_prefix(arrays, "kept.")
            history = tuple(
                replace(step, terms={name: step.terms[name] for name in kept["terms"]})
                for step in history_from_arrays(own)
            )
            rise = kept.get("rise")  # not in earlier checkpoints
            outcome = FitOutcome(
                float(kept["objective"]),
                history,
                bool(kept["converged"]),
                rise=None if rise is None else tuple(rise),
            )
            self.kept = _BestFit(int(kept["start"]), own, dict(kept["facts"]), outcome)


def derived_seeds(first: int, count: int) -> list[int]:
    """``count`` seeds: the fit's own, and seeds derived from it."""
    spawned = np.random.SeedSequence(first).spawn(count - 1)
    return [first, *(int(sequence.generate_state(1)[0]) for sequence in spawned)]


def _discard_note(text: str) -> None:
    """Discard a note."""
