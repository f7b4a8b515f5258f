"""The outcome of a fit: its bound, its history, and how it ended."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from lvmcore.results import Callback, FitStep

__all__ = ["FitOutcome", "report_once"]


@dataclass(frozen=True)
class FitOutcome:
    """The result of an optimisation.

    Attributes:
        objective: the bound at the final parameters, total nats; NaN without a bound.
        history: every step.
        converged: whether the quasi-Newton finish reached an optimum, or without one the bound was
            flat before the steps ran out (for mini-batches: its trend, see ``BoundTrend``), or
            early stopping on held-out rows ended the fit.
        stopped: whether the callback ended the fit.
        rise: for mini-batches the least and largest rise of the bound a step before the learning
            rate was annealed, nats (95 % confidence); else None.
    """

    objective: float
    history: tuple[FitStep, ...]
    converged: bool
    stopped: bool = False
    rise: tuple[float, float] | None = None


def report_once(
    callback: Callback | None, began: float, objective: float = math.nan, *, steps: int = 1
) -> FitOutcome:
    """The outcome of a fit in closed form, or by a library without step reports.

    Args:
        callback: called with the one step; its result is ignored.
        began: start of the fit, by ``time.perf_counter``.
        objective: log likelihood, total nats; NaN where there is none.
        steps: number of this step, the last one.
    """
    terms = {} if math.isnan(objective) else {"log likelihood": objective}
    step = FitStep(steps, steps, time.perf_counter() - began, objective, terms)
    if callback is not None:
        callback(step)
    return FitOutcome(objective, (step,), converged=True)
