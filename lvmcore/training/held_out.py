"""Early stopping: a score on held-out rows, measured at regular steps of a fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lvmcore.errors import NumericalError
from lvmcore.results import FitStep

__all__ = ["HeldOutTracking", "held_out_scores"]


@dataclass(frozen=True)
class HeldOutTracking:
    """A score of held-out rows, and whether the fit stops by it.

    Attributes:
        measure: mean −log p of the held-out rows at the current parameters; has no side effect on
            the fit, its random numbers included.
        patience: consecutive measurements without an improvement after which the fit ends, at the
            best parameters; None for a fit that only reports them.
        every: steps between two measurements.
    """

    measure: Callable[[], float]
    patience: int | None = None
    every: int = 20

    @property
    def stops(self) -> bool:
        """Whether the fit stops by the score."""
        return self.patience is not None

    def score_after(self, iteration: int, *, last: bool) -> float:
        """The score after a step, counted from 0; NaN where none is due or it breaks down."""
        if (iteration + 1) % self.every and not last:
            return math.nan
        try:
            return self.measure()
        except NumericalError:
            return math.nan

    def is_exhausted(self, scores: Sequence[float]) -> bool:
        """Whether the last ``patience`` scores are all no better than the best before them."""
        if self.patience is None:
            return False
        best = int(np.argmin(scores)) if scores else 0
        return len(scores) - 1 - best >= self.patience


def held_out_scores(history: Sequence[FitStep]) -> list[float]:
    """The scores in a history, in order."""
    return [step.held_out for step in history if math.isfinite(step.held_out)]
