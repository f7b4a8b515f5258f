"""Continuation of a fit that ended before convergence: further steps, expected gain and time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import DataError
from lvmcore.persistence import CHECKPOINT_FORMAT, branch_path, read_metadata

if TYPE_CHECKING:
    from lvmcore.results import FitStep
    from lvmcore.runs.job import Job
    from lvmcore.runs.store import Store

__all__ = ["Continuation", "extrapolate_finish", "extrapolate_rate", "propose_continuation"]

#: Share of the steps in which the learning rate decays; before, the bound rises at full rate.
_DECAY_SHARE = 0.4
#: Proposed further steps, as shares of the steps of the fit: fewest, most, default.
_LEAST, _MOST, _USUAL = 0.25, 1.0, 0.5
#: Fewest recorded steps at full rate from which a curve is extrapolated.
_FEWEST_RECORDED = 10
#: Steps at the end of a quasi-Newton finish whose mean rise is extrapolated, and the range of the
#: later rise in shares of it. Of 39 continuations (oil flow, digits, breast cancer and blood cells,
#: both kinds of map, four seeds, half as many steps again) 37 were between the two; a fit that
#: converges a few steps later gains next to nothing.
_FINISH_STEPS, _FINISH_SHARES = 50, (0.005, 2.0)
#: Largest exponent p of a rate that decays as step^−p.
_STEEPEST_DECAY = 8.0
#: Exponents p of the rise of a mini-batch bound a step, for its largest and its least later gain;
#: the mean step of the rise's confidence interval, as a share of the steps before the cooling.
_BATCH_DECAYS, _MEAN_STEP = (1.0, 3.0), 0.75


@dataclass(frozen=True)
class Continuation:
    """A proposed continuation of a fit whose bound was still rising at its end.

    Attributes:
        steps: further steps.
        total: steps of the fit and further steps.
        gain: least and largest expected increase of the bound, nats; None if it is unknown.
        seconds: duration of the steps to compute, at the measured time per step.
        anew: whether the fit begins from the start, because the state to continue from is missing.
    """

    steps: int
    total: int
    gain: tuple[float, float] | None
    seconds: float
    anew: bool


def propose_continuation(store: Store, job: Job) -> Continuation | None:
    """The proposed continuation of a run whose bound was still rising at its end.

    Loads torch.

    Returns:
        None for any other run, for a model without the setting ``max_iter``, and for a fit that had
        the largest number of steps that its model allows.
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
        facts = read_metadata(
            branch_path(store.job_folder(job.id).path, best), format=CHECKPOINT_FORMAT
        )
        flat = float(facts["flat"]) / float(facts["window"])
        finishes = bool(facts.get("finishes"))
    except (DataError, KeyError, ValueError, ZeroDivisionError):
        flat, finishes = None, False
    kept = [step for step in steps if step.start == best]
    most = None if allowed[0] is None else int(allowed[0])
    if finishes:
        return extrapolate_finish(kept, branch=job.branch_step, most=most)
    return extrapolate_rate(kept, flat=flat, rise=job.rise, branch=job.branch_step, most=most)


def extrapolate_finish(
    steps: Sequence[FitStep], *, branch: int | None = None, most: int | None = None
) -> Continuation | None:
    """The proposed continuation of a fit that ended in its quasi-Newton finish.

    Its gain is a share of that of the last steps, if the fit goes on from its end. A fit that goes
    on from an earlier step takes another course, whose gain is unknown.

    Args:
        steps: steps of the fit, in order; some may be missing.
        branch: step from which the fit would continue; None if it begins from the start.
        most: largest total number of steps; None for no limit.

    Returns:
        None if no step has a bound, or no further step is allowed.
    """
    known = [step for step in steps if math.isfinite(step.objective)]
    if not known:
        return None
    had = known[-1].total // known[-1].starts
    more = _further_steps(had, None, most)
    gain = None
    if branch == had:
        at = [step.iteration for step in known]
        before = np.interp(at[-1] - _FINISH_STEPS, at, [step.objective for step in known])
        rise = max(0.0, float(known[-1].objective - before)) * more / _FINISH_STEPS
        gain = (_FINISH_SHARES[0] * rise, _FINISH_SHARES[1] * rise)
    return _continuation(known, more, gain, branch)


def extrapolate_rate(
    steps: Sequence[FitStep],
    *,
    flat: float | None = None,
    rise: tuple[float, float] | None = None,
    branch: int | None = None,
    most: int | None = None,
) -> Continuation | None:
    """The proposed continuation of a fit without a finish, from the curve of its best start.

    The steps are those after which the rate of increase of the bound, a power of the steps at full
    learning rate, is flat. Of a bound that is no average their gain is not promised: the cooling
    at the end of a fit already has a part of what this rate would bring, and extrapolations of it
    were off by factors of ten. For mini-batches the range of the averaged rise is extrapolated.

    Args:
        steps: steps of the fit, in order; some may be missing.
        flat: nats per step; a bound that rises by less counts as flat. None if unknown.
        rise: least and largest rise of a mini-batch bound a step; None for another bound.
        branch: step from which the fit would continue; None if it begins from the start.
        most: largest total number of steps; None for no limit.

    Returns:
        None if no step has a bound, or no further step is allowed.
    """
    known = [step for step in steps if math.isfinite(step.objective)]
    if not known:
        return None
    had = known[-1].total // known[-1].starts
    first = known[0].iteration - 1
    at = np.array([step.iteration - first for step in known], dtype=np.float64)
    bound = np.array([step.objective for step in known])
    full_rate_end = round((1 - _DECAY_SHARE) * had) if branch is None else branch
    rate = _IncreaseRate.of(at[at <= full_rate_end], bound[at <= full_rate_end])
    enough = None if rate is None or flat is None else rate.flat_step(flat)
    more = _further_steps(had, enough, most)
    gain = None if rise is None else _batch_gain(rise, full_rate_end, (had + more) / had)
    return _continuation(known, more, gain, branch)


def _batch_gain(rise: tuple[float, float], steps: int, factor: float) -> tuple[float, float]:
    """Gain of a mini-batch bound from more steps at the full learning rate, least and largest.

    With a rise a step r at 0.75 T, T = ``steps``, that decays as step^−p, the steps from T to k T
    gain 0.75ᵖ r T ln k for p = 1, and 0.75ᵖ r T (1 − k^(1−p))/(p − 1) else.

    Args:
        rise: its range over the later half of the steps, nats a step.
        steps: T.
        factor: k.
    """
    slow, fast = _BATCH_DECAYS
    largest = _MEAN_STEP**slow * math.log(factor)
    least = _MEAN_STEP**fast * (1 - factor ** (1 - fast)) / (fast - 1)
    return max(0.0, rise[0]) * steps * least, max(0.0, rise[1]) * steps * largest


def _continuation(
    known: Sequence[FitStep], more: int, gain: tuple[float, float] | None, branch: int | None
) -> Continuation | None:
    """The continuation of a fit by further steps; None if no step is allowed.

    Args:
        known: recorded steps of the fit with a bound, in order.
        more: further steps.
        gain: see ``Continuation``.
        branch: step from which the fit would continue; None if it begins from the start.
    """
    if more < 1:
        return None
    first, last = known[0], known[-1]
    seconds_per_step = (last.seconds - first.seconds) / max(1, last.iteration - first.iteration)
    if seconds_per_step <= 0:  # a library without a callback: all steps are reported at the end
        seconds_per_step = last.seconds / last.iteration
    total = last.total // last.starts + more
    seconds = last.starts * seconds_per_step * (total - (branch or 0))
    return Continuation(more, total, gain, seconds, anew=branch is None)


def _further_steps(had: int, enough: float | None, most: int | None) -> int:
    """A round number of further steps, below 1 if none is allowed.

    Args:
        had: steps of the fit.
        enough: steps at full rate after which the bound would be flat; None if unknown.
        most: largest total number of steps; None for no limit.
    """
    wanted = _USUAL * had if enough is None else enough / (1 - _DECAY_SHARE) - had
    wanted = min(max(wanted, _LEAST * had), _MOST * had)
    unit = 0.5 * math.pow(10, max(0, math.floor(math.log10(max(wanted, 1)))))
    more = max(1, round(math.ceil(wanted / unit) * unit))
    return more if most is None else min(more, most - had)


@dataclass(frozen=True)
class _IncreaseRate:
    """Rates of increase of a bound, nats per step, at two steps of its curve."""

    places: tuple[float, float]
    rates: tuple[float, float]

    @classmethod
    def of(cls, at: NDArray[np.float64], bound: NDArray[np.float64]) -> _IncreaseRate | None:
        """From the second half of a curve; None if it is too short or does not rise."""
        if len(at) < _FEWEST_RECORDED:
            return None
        steps = np.arange(at[0], at[-1] + 1)
        every = np.interp(steps, at, bound)  # a quick fit records only some of its steps
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
        """Exponent p of a rate that decays as step^−p."""
        (t0, t1), (earlier, later) = self.places, self.rates
        return min(math.log(earlier / later) / math.log(t1 / t0), _STEEPEST_DECAY)

    def flat_step(self, flat: float) -> float | None:
        """The step at which the rate has decayed to ``flat``; None if it does not decay."""
        power, place, rate = self._power, self.places[1], self.rates[1]
        if rate <= flat:
            return place
        return place * (rate / flat) ** (1 / power) if power > 0.05 else None
