"""One start of a fit from several, in this process or in another one that has a copy of the fit."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lvmcore.base.initial_map import perturbed, start_map
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.errors import NumericalError
from lvmcore.persistence import with_prefix
from lvmcore.results import Callback, FitStep, Posterior
from lvmcore.training.outcome import FitOutcome

__all__ = ["BestFit", "EndedStart", "StartFits", "StartedModel", "fit_start"]


class StartedModel(Protocol):
    """A model whose fit begins with an initial map.

    Attributes:
        start: the setting of that name.
        max_iter: maximum steps of a start.
    """

    start: str | ArrayLike
    max_iter: int
    notes_: tuple[str, ...]
    embedding_: Posterior
    relevance_: dict[str, NDArray[np.float64]]
    inducing_inputs_: dict[str, NDArray[np.float64]]

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


@dataclass(frozen=True)
class BestFit:
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
    def of(cls, start: int, model: StartedModel, outcome: FitOutcome) -> BestFit:
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

    def restore(self, model: StartedModel) -> None:
        """Restore this fit in the model."""
        model._set_state(with_prefix(self.arrays, "own."), self.facts)
        model.embedding_ = Posterior(self.arrays["mean"], self.arrays["variance"])
        model.relevance_ = model._by_path(self.arrays, "relevance.")
        model.inducing_inputs_ = model._by_path(self.arrays, "inducing.")

    def is_better_than(self, other: BestFit | None) -> bool:
        """Whether its bound is higher, or the same and its start earlier."""
        if other is None:
            return True
        mine, its = self.outcome.objective, other.outcome.objective
        return mine > its or (mine == its and self.start < other.start)


@dataclass(frozen=True)
class EndedStart:
    """How a start ended.

    Attributes:
        start: its number, from 0.
        last: the last step of which it told; None without one.
        notes: notes on it.
        fit: the fit; None where it broke down.
        error: why it broke down.
        branch: the state that it stored for a continuation with more steps; None where it is in
            the folder of the run already, or there is none.
        saved: seconds that it did not spend, as it continued an earlier fit.
        remarks: notes of its checkpoint.
    """

    start: int
    last: FitStep | None
    notes: tuple[str, ...]
    fit: BestFit | None
    error: NumericalError | None = None
    branch: bytes | None = None
    saved: float = 0.0
    remarks: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[FitStep, ...]:
        """Its steps; of one that broke down the last alone."""
        last = () if self.last is None else (self.last,)
        return last if self.fit is None else (*self.fit.outcome.history[:-1], *last)


def fit_start(
    model: StartedModel,
    problem: FitProblem,
    base: Tensor,
    start: tuple[int, int],
    *,
    callback: Callback | None,
    follow: Callable[[torch.Generator], None],
) -> EndedStart:
    """Fit a model from one of several starts; one that breaks down is no error.

    Args:
        model: the model. Its notes are those before any start, and are so again afterwards.
        problem: the problem of the whole fit, whose generator is that of start 0.
        base: initial map of start 0, [N, Q].
        start: number of the start, from 0, and its seed.
        callback: called with the steps of the start.
        follow: called with the generator before anything is drawn from it.
    """
    r, seed = start
    notes = model.notes_
    generator = problem.generator if r == 0 else torch.Generator().manual_seed(seed)
    follow(generator)
    last: list[FitStep] = []

    def record(step: FitStep) -> bool:
        last[:] = [step]
        return callback is not None and bool(callback(step))

    problem = replace(
        problem, generator=generator, callback=None if problem.callback is None else record
    )
    X = base
    if r > 0:
        again = isinstance(model.start, str) and model.start == "random"
        X = start_map(problem, "random", _discard_note) if again else perturbed(X, generator)
    error, found = None, None
    try:
        found = BestFit.of(r, model, model._fit_start(problem, X))
    except NumericalError as broken:
        error = broken
    own, model.notes_ = model.notes_[len(notes) :], notes
    if found is not None and not last and found.outcome.history:
        last = [found.outcome.history[-1]]
    return EndedStart(r, last[0] if last else None, own, found, error)


def _discard_note(text: str) -> None:
    """Discard a note."""


class StartFits:
    """The starts of a fit in another process: each call has a copy of the fit of its own.

    Args:
        model: the model, without any start.
        problem: the problem, on the CPU.
        base: initial map of start 0, [N, Q].
        starts: numbers of the starts that may be fitted.
        seeds: of all starts.
    """

    def __init__(
        self,
        model: StartedModel,
        problem: FitProblem,
        base: Tensor,
        starts: list[int],
        seeds: list[int],
    ) -> None:
        checkpoint = problem.checkpoint
        generator = problem.generator.get_state()
        told = problem.callback is not None
        bare = replace(problem, generator=None, callback=None, checkpoint=None)  # type: ignore[arg-type]
        self._content = pickle.dumps((model, bare, base, generator, told))
        self._seeds = seeds
        self._checkpoint = None if checkpoint is None else checkpoint.for_start(None)
        self._branches = {} if checkpoint is None else {r: checkpoint.branch(r + 1) for r in starts}

    def __call__(self, start: int) -> EndedStart:
        """Fit from a start."""
        model, problem, base, state, told = pickle.loads(self._content)
        generator = torch.Generator()
        generator.set_state(state)
        problem = replace(problem, generator=generator, callback=_go_on if told else None)
        with tempfile.TemporaryDirectory(prefix="latentboard-start-") as folder:
            checkpoint = None
            if self._checkpoint is not None:
                checkpoint = self._checkpoint.for_start(Path(folder))
                checkpoint.write_branch(start + 1, self._branches.get(start))
                problem = replace(problem, checkpoint=checkpoint)

            def follow(own: torch.Generator) -> None:
                if checkpoint is not None:
                    checkpoint.follow(own, start=start + 1, steps=0, seconds=0.0, beside=({}, {}))

            found = fit_start(
                model,
                problem,
                base,
                (start, self._seeds[start]),
                callback=None,
                follow=follow,
            )
            if checkpoint is None:
                return found
            return replace(
                found,
                branch=checkpoint.branch(start + 1),
                saved=checkpoint.saved,
                remarks=tuple(checkpoint.notes),
            )


def _go_on(step: FitStep) -> bool:
    """A fit in another process is not stopped by its steps."""
    del step
    return False
