"""Whether a fit ended too early, and what more steps would bring and take, from its curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lvmcore import persistence
from lvmcore.errors import DataError
from lvmcore.persistence import CHECKPOINT_FORMAT, branch_path

if TYPE_CHECKING:
    from lvmcore.results import FitStep
    from lvmcore.runs.job import Job
    from lvmcore.runs.store import Store

__all__ = ["Continuation", "extrapolate_bound", "propose_continuation"]

#: A fit settles in so large a part of its steps; the bound rises at full rate before.
_SETTLING = 0.4
#: The steps that are proposed, as shares of those that the fit had.
_LEAST, _MOST, _USUAL = 0.25, 1.0, 0.5
#: Fewer known steps than this on the rising part of a curve tell nothing of how it goes on.
_FEWEST = 10
_STEEPEST_DECAY = 8.0


@dataclass(frozen=True)
class Continuation:
    """What a fit that ended still rising may be given.

    Attributes:
        steps: so many more.
        total: with those it had.
        gain: nats that the bound may rise by, at least and at most, if it goes on slowing down as
            it did; None where the curve is too short, or shows no rise, to say.
        seconds: that it would take on a machine as busy as then, from where it goes on.
        anew: it would begin anew, as the state to go on from is not there.
    """

    steps: int
    total: int
    gain: tuple[float, float] | None
    seconds: float
    anew: bool


def propose_continuation(store: Store, job: Job) -> Continuation | None:
    """What a run may be given that ended still rising; None for any other run.

    None as well where its model has no setting for the steps, or they are as many as it allows.
    Loads torch.
    """
    from lvmcore.models import REGISTRY

    if not job.still_rising or job.spec.model not in REGISTRY:
        return None
    allowed = [p.high for p in REGISTRY[job.spec.model].parameters() if p.name == "max_iter"]
    if not allowed:
        return None
    steps = [event.step for event in store.events(job.id)]
    last = {step.start: step.objective for step in steps}
    if not last:
        return None
    best = max(last, key=lambda start: last[start])
    try:
        facts = persistence.read_metadata(
            branch_path(store.job_folder(job.id).path, best), format=CHECKPOINT_FORMAT
        )
        flat = float(facts["flat"]) / float(facts["window"])
    except (DataError, KeyError, ValueError, ZeroDivisionError):
        flat = None
    kept = [step for step in steps if step.start == best]
    most = None if allowed[0] is None else int(allowed[0])
    return extrapolate_bound(kept, flat=flat, branch=job.branch_step, most=most)


def extrapolate_bound(
    steps: Sequence[FitStep],
    *,
    flat: float | None = None,
    branch: int | None = None,
    most: int | None = None,
) -> Continuation | None:
    """What a fit may be given, by the curve of its start that was kept.

    The rate at which the bound rose in the last parts of the curve before the fit settled is
    carried on in three ways: falling by the same factor a step, as a power of the steps, and as one
    over the steps. The least and the largest of the three are told: on wine, iris and breast
    cancer, fits by LDGD and the Bayesian GPLVM of 200 and 400 steps, given twice as many, gained
    what lies between in eight cases of ten.

    Args:
        steps: of the fit, in order, some left out perhaps.
        flat: nats a step; a bound that rises by less counts as flat. None where it is not known.
        branch: steps after which the fit would go on; None where it begins anew.
        most: steps that a fit can have, in all; None for as many as one likes.

    Returns:
        None where there is no step with a bound, or no further step can be had.
    """
    known = [step for step in steps if math.isfinite(step.objective)]
    if not known:
        return None
    had = known[-1].total // known[-1].starts
    first = known[0].iteration - 1
    at = np.array([step.iteration - first for step in known], dtype=np.float64)
    bound = np.array([step.objective for step in known])
    cruised = round((1 - _SETTLING) * had) if branch is None else branch
    rise = _Rise.of(at[at <= cruised], bound[at <= cruised])
    more = _proposed(had, None if rise is None or flat is None else rise.flat_at(flat))
    if most is not None:
        more = min(more, most - had)
    if more < 1:
        return None
    longer = round((1 - _SETTLING) * (had + more))
    a_step = (known[-1].seconds - known[0].seconds) / max(1, known[-1].iteration - 1 - first)
    if a_step <= 0:  # all were told at the end, as of a library that does not tell while it fits
        a_step = known[-1].seconds / known[-1].iteration
    return Continuation(
        steps=more,
        total=had + more,
        gain=None if rise is None else rise.between(cruised, longer),
        seconds=known[-1].starts * a_step * (had + more - (branch or 0)),
        anew=branch is None,
    )


def _proposed(had: int, enough: float | None) -> int:
    """A round number of further steps.

    Args:
        had: steps of the fit.
        enough: steps at full rate after which the bound would be flat; None where nobody knows.
    """
    wanted = _USUAL * had if enough is None else enough / (1 - _SETTLING) - had
    wanted = min(max(wanted, _LEAST * had), _MOST * had)
    unit = 0.5 * math.pow(10, max(0, math.floor(math.log10(max(wanted, 1)))))
    return max(1, round(math.ceil(wanted / unit) * unit))


@dataclass(frozen=True)
class _Rise:
    """How fast a bound rose around two places of a curve, nats a step."""

    places: tuple[float, float]
    rates: tuple[float, float]

    @classmethod
    def of(cls, at: NDArray[np.float64], bound: NDArray[np.float64]) -> _Rise | None:
        """From the second half of a curve; None where it is too short or does not rise."""
        if len(at) < _FEWEST:
            return None
        steps = np.arange(at[0], at[-1] + 1)
        every = np.interp(steps, at, bound)  # of a quick fit some steps are written down only
        means = []
        for share in (0.5, 0.75, 1.0):
            near = (steps > (share - 0.125) * at[-1]) & (steps <= share * at[-1])
            means.append((float(steps[near].mean()), float(every[near].mean())))
        (t0, b0), (t1, b1), (t2, b2) = means
        earlier, later = (b1 - b0) / (t1 - t0), (b2 - b1) / (t2 - t1)
        if later <= 0:
            return None
        return cls(((t0 + t1) / 2, (t1 + t2) / 2), (max(earlier, later), later))

    @property
    def _power(self) -> float:
        """p of a rate that falls as step^−p."""
        (t0, t1), (earlier, later) = self.places, self.rates
        return min(math.log(earlier / later) / math.log(t1 / t0), _STEEPEST_DECAY)

    def flat_at(self, flat: float) -> float | None:
        """The step at which the rate has fallen to ``flat``; None where it does not fall."""
        power, place, rate = self._power, self.places[1], self.rates[1]
        if rate <= flat:
            return place
        return place * (rate / flat) ** (1 / power) if power > 0.05 else None

    def between(self, start: int, stop: int) -> tuple[float, float]:
        """Least and largest rise from one step to another."""
        (t0, t1), (earlier, later) = self.places, self.rates
        n = np.arange(start, max(stop, start + 1))
        found = [
            float(np.sum(later * falling))
            for falling in (
                (later / earlier) ** ((n - t1) / (t1 - t0)),
                (n / t1) ** -self._power,
                t1 / n,
            )
        ]
        return min(found), max(found)
