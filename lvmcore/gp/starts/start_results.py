"""Results of the starts of a fit that have ended, whatever their order, and their checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import NumericalError
from lvmcore.gp.starts.start_fits import BestFit, EndedStart
from lvmcore.persistence import history_arrays, history_from_arrays, with_prefix
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import State
from lvmcore.training.outcome import FitOutcome

__all__ = ["StartResults"]


@dataclass
class StartResults:
    """Results of the starts that have ended; the starts are numbered from 0.

    Attributes:
        count: number of all starts.
        first_notes: notes on the fit before any start.
        lengths: steps and seconds of each.
        bounds: final bound of each that did not break down, total nats.
        means: final latent means of these, [N, Q] each.
        notes: notes on each.
        remarks: notes on how the starts ended.
        kept: the fit with the highest bound.
        error: why the last one broke down that did.
        told: number of starts whose steps were told, which are the first ones.
    """

    count: int
    first_notes: tuple[str, ...] = ()
    lengths: dict[int, tuple[int, float]] = field(default_factory=dict)
    bounds: dict[int, float] = field(default_factory=dict)
    means: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    notes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    kept: BestFit | None = None
    error: NumericalError | None = None
    told: int = 0

    def add(self, ended: EndedStart) -> None:
        """Keep the result of a start."""
        r, last, notes = ended.start, ended.last, ended.notes
        self.lengths[r] = (0, 0.0) if last is None else (last.iteration, last.seconds)
        if ended.fit is None:
            self.error = ended.error
            notes = (*notes, f"Start {r + 1} of {self.count} broke down and is left out.")
        else:
            self.bounds[r] = ended.fit.outcome.objective
            self.means[r] = ended.fit.arrays["mean"]
            if ended.fit.is_better_than(self.kept):
                self.kept = ended.fit
        self.notes[r] = notes

    def left(self) -> list[int]:
        """The starts that have not ended, in order."""
        return [r for r in range(self.count) if r not in self.lengths]

    def last_step(self, r: int) -> FitStep:
        """The last step of a start, without its parts."""
        steps, seconds = self.lengths[r]
        return FitStep(steps, steps, seconds, self.bounds.get(r, math.nan), {}, ends=True)

    def all_notes(self) -> tuple[str, ...]:
        """The notes, in the order of the starts, some of them more than once."""
        own = [note for r in sorted(self.notes) for note in self.notes[r]]
        return (*self.first_notes, *own, *self.remarks)

    def to_state(self, following: int) -> State:
        """The results for a checkpoint.

        Args:
            following: the start that the rest of the checkpoint is of.
        """
        ended = sorted(self.means)
        facts: dict[str, Any] = {
            "next": following,
            "ended": ended,
            "bounds": [self.bounds[r] for r in ended],
            "notes": list(self.first_notes),
            "lengths": [[r, *length] for r, length in sorted(self.lengths.items())],
            "start_notes": [[r, list(notes)] for r, notes in sorted(self.notes.items())],
            "told": self.told,
        }
        arrays = {f"mean.{i}": self.means[r] for i, r in enumerate(ended)}
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

    @classmethod
    def from_state(
        cls, count: int, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> StartResults:
        """The results from the output of ``to_state``."""
        found = cls(count, tuple(facts["notes"]), told=int(facts.get("told", facts["next"])))
        ended = [int(r) for r in facts["ended"]]
        found.bounds = dict(zip(ended, map(float, facts["bounds"]), strict=True))
        found.means = {r: arrays[f"mean.{i}"] for i, r in enumerate(ended)}
        # Earlier versions fitted the starts in order, and kept their notes together.
        before = [(r, 0, 0.0) for r in range(int(facts["next"]))]
        lengths = facts.get("lengths", before)
        found.lengths = {int(r): (int(steps), float(seconds)) for r, steps, seconds in lengths}
        found.notes = {int(r): tuple(notes) for r, notes in facts.get("start_notes", [])}
        if "kept" in facts:
            found.kept = _kept_fit(with_prefix(arrays, "kept."), facts["kept"])
        return found


def _kept_fit(arrays: dict[str, NDArray[Any]], facts: Mapping[str, Any]) -> BestFit:
    history = tuple(
        replace(step, terms={name: step.terms[name] for name in facts["terms"]})
        for step in history_from_arrays(arrays)
    )
    rise = facts.get("rise")  # not in earlier checkpoints
    outcome = FitOutcome(
        float(facts["objective"]),
        history,
        bool(facts["converged"]),
        rise=None if rise is None else tuple(rise),
    )
    return BestFit(int(facts["start"]), arrays, dict(facts["facts"]), outcome)
