"""The one optimisation loop, on objectives whose course is known."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import NumericalError
from lvmcore.results import FitStep, Snapshot
from lvmcore.training import loop
from lvmcore.training.held_out import HeldOutTracking
from lvmcore.training.loop import MOST_BREAKDOWNS, STEPS_BETWEEN_COPIES, train
from lvmcore.training.objective import Objective
from lvmcore.training.schedule import Schedule


class Hill(Objective[int]):
    """Maximise 10 − Σ (x − target)² − b²: two terms, b held at first."""

    def __init__(self, broken: Callable[[int], bool] = lambda call: False) -> None:
        self.x = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.b = torch.nn.Parameter(torch.ones((), dtype=torch.float64))
        self.target = torch.tensor([1.0, -2.0], dtype=torch.float64)
        self.broken, self.calls, self.drawn = broken, 0, 0

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        return [self.x, self.b]

    def frozen_in_warm_up(self) -> Iterable[torch.nn.Parameter]:
        return [self.b]

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        self.calls += 1
        self.drawn = draws
        fit = 10 - (self.x - self.target).square().sum()
        if self.broken(self.calls):
            fit = fit * torch.nan
        return {"fit": fit, "penalty": -self.b.square()}

    def draw_sample(self, draws: int) -> int:
        return draws

    n_rows = 1

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        return self.x.detach()[None][rows]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        return {"data": torch.ones(2, dtype=torch.float64)}


def schedule(
    max_iter: int = 200,
    *,
    flat: float = -np.inf,
    hold: int = 10,
    collapse: float = np.inf,
) -> Schedule:
    """One cell, so that ``flat`` and ``collapse`` are in nats; neither happens unless asked for."""
    return Schedule(max_iter, 0.1, cells=1, flat=flat, hold=hold, collapse=collapse)


def test_finds_the_top() -> None:
    hill = Hill()
    outcome = train(hill, schedule(300), None)
    assert outcome.objective == pytest.approx(10.0, abs=1e-3)
    torch.testing.assert_close(hill.x.detach(), hill.target, rtol=0, atol=0.02)
    assert len(outcome.history) == 300
    assert not outcome.converged


def test_history_tells_the_whole_course() -> None:
    outcome = train(Hill(), schedule(50), None)
    assert [step.iteration for step in outcome.history] == list(range(1, 51))
    assert {step.total for step in outcome.history} == {50}
    for step in outcome.history:
        assert list(step.terms) == ["fit", "penalty"]
        assert step.objective == pytest.approx(sum(step.terms.values()), rel=1e-14)
    # The first step reports the parameters that the fit starts from.
    assert outcome.history[0].terms == {"fit": 5.0, "penalty": -1.0}
    seconds = [step.seconds for step in outcome.history]
    assert seconds == sorted(seconds)


def test_final_bound_is_that_of_the_parameters_kept_with_the_draws_asked_for() -> None:
    hill = Hill()
    outcome = train(hill, schedule(20), None, draws=32)
    assert hill.drawn == 32
    expected = sum(float(term.detach()) for term in hill.terms().values())
    assert outcome.objective == pytest.approx(expected, rel=1e-14)
    assert outcome.objective > outcome.history[-1].objective


def test_callback_sees_every_step_and_can_stop() -> None:
    seen: list[FitStep] = []

    def stop_at_seven(step: FitStep) -> bool:
        seen.append(step)
        return step.iteration == 7

    outcome = train(Hill(), schedule(), stop_at_seven)
    assert [step.iteration for step in seen] == list(range(1, 8))
    assert len(outcome.history) == 7
    assert np.isfinite(outcome.objective)
    assert not outcome.converged


def test_snapshots_come_now_and_then_to_a_callback_alone() -> None:
    seen: list[FitStep] = []
    outcome = train(Hill(), schedule(30), seen.append)
    assert seen[0].snapshot is not None
    assert seen[-1].snapshot is not None
    assert sum(step.snapshot is None for step in seen) > 0
    np.testing.assert_array_equal(seen[-1].snapshot.mean.shape, (1, 2))
    # They would keep the whole map in memory once a step.
    assert all(step.snapshot is None for step in outcome.history)
    assert [step.ends for step in seen] == [False] * (len(seen) - 1) + [True]
    assert not any(step.ends for step in outcome.history)


@pytest.mark.parametrize(("costs", "expected"), [(0.001, 20), (0.1, 2)])
def test_dear_snapshots_are_rarer(
    monkeypatch: pytest.MonkeyPatch, costs: float, expected: int
) -> None:
    """A hundred steps of 10 ms by a clock of the test's own."""
    now = [0.0]
    monkeypatch.setattr(loop.time, "perf_counter", lambda: now[0])

    class Dear(Hill):
        def terms(self, draws: int = 1) -> dict[str, Tensor]:
            now[0] += 0.01
            return super().terms(draws)

        def snapshot(self) -> Snapshot:
            now[0] += costs
            return super().snapshot()

    seen: list[FitStep] = []
    train(Dear(), schedule(100), seen.append)
    # The last step always has one.
    found = sum(step.snapshot is not None for step in seen[:-1])
    assert found == pytest.approx(expected, abs=2 if expected > 5 else 0)


def test_held_parameters_wait() -> None:
    at: dict[int, float] = {}
    hill = Hill()

    def record(step: FitStep) -> None:
        at[step.iteration] = float(hill.b.detach())

    train(hill, schedule(40, hold=15), record)
    assert {at[i] for i in range(1, 16)} == {1.0}
    assert at[16] != 1.0


def test_flat_bound_ends_the_fit_early_and_says_converged() -> None:
    outcome = train(Hill(), schedule(2000, flat=1e-3), None)
    assert outcome.converged
    assert len(outcome.history) < 2000
    assert outcome.objective == pytest.approx(10.0, abs=1e-3)


def test_cooling_follows_convergence_and_takes_its_steps() -> None:
    course = schedule(500, flat=np.inf)  # always flat: as soon as there are two windows to compare
    outcome = train(Hill(), course, None)
    begun = course.hold + 2 * course.window
    assert outcome.converged
    assert len(outcome.history) == begun + course.cooling_steps


def test_schedule_warms_up_cruises_and_cools() -> None:
    course = Schedule(100, learning_rate=0.2, cells=1, warm_up=10, cooling=0.4)
    assert course.cooling_steps == 40
    assert [course.rate(i, None) for i in (0, 4, 9, 50)] == pytest.approx([0.02, 0.1, 0.2, 0.2])
    cooling = [course.rate(i, 60) for i in range(60, 101)]
    assert cooling[0] == pytest.approx(0.2)
    assert cooling[20] == pytest.approx(0.2 * 0.525)
    assert cooling[-1] == pytest.approx(0.01)
    assert cooling == sorted(cooling, reverse=True)
    assert course.rate(500, 60) == pytest.approx(0.01)


def test_flatness_compares_two_windows() -> None:
    course = Schedule(1000, 0.1, cells=10, flat=0.1, hold=0, window=5)  # flat: less than 1 nat
    rising = [0.3 * i for i in range(10)]  # 1.5 nats from window to window
    assert not course.is_flat(rising)
    assert course.is_flat([0.5 * value for value in rising])
    assert course.is_flat([100.0 * value for value in range(20)] + [0.0] * 10)
    assert not course.is_flat([0.0] * 9)  # too few to judge
    assert not Schedule(1000, 0.1, cells=10, flat=0.1, hold=3, window=5).is_flat([0.0] * 12)


def test_one_bad_step_is_recovered_from() -> None:
    hill = Hill(broken=lambda call: call == 31)
    outcome = train(hill, schedule(400), None)
    assert outcome.objective == pytest.approx(10.0, abs=0.01)
    assert len(outcome.history) == 399
    assert 31 not in {step.iteration for step in outcome.history}


def test_recovery_returns_to_sound_parameters_and_halves_the_rate() -> None:
    hill = Hill(broken=lambda call: call == 35)
    positions = [hill.x.detach().clone()]
    train(hill, schedule(60), lambda step: positions.append(hill.x.detach().clone()))
    # positions[i] is where i steps had led; call 35 made none, so positions[35] is the step after.
    # A fresh Adam moves every coordinate by exactly the rate in its first step: half of 0.1.
    back = [positions[35] - position for position in positions[35 - STEPS_BETWEEN_COPIES - 5 : 35]]
    half = torch.full((2,), 0.05, dtype=torch.float64)
    assert any(torch.allclose(step.abs(), half, atol=1e-6) for step in back)


def test_a_collapse_is_taken_back() -> None:
    """The parameters are thrown far off in step 60; what is lost then is what must come back."""
    hill = Hill()

    def throw(step: FitStep) -> None:
        if step.iteration == 60:
            with torch.no_grad():
                hill.x.fill_(50.0)

    outcome = train(hill, schedule(120, collapse=20.0), throw)
    objectives = [step.objective for step in outcome.history]
    assert objectives[60] < -2000
    assert objectives[61] > 5
    assert outcome.objective == pytest.approx(10.0, abs=0.1)


def test_a_broken_last_step_is_taken_back() -> None:
    """What is kept must be usable however the fit ended."""
    hill = Hill()
    hill.broken = lambda call: bool(hill.x.detach()[0] > 0.5)  # the next step leads into a hole

    def stop_at_the_brink(step: FitStep) -> bool:
        return bool(hill.x.detach()[0] > 0.5)

    outcome = train(hill, schedule(200), stop_at_the_brink)
    assert np.isfinite(outcome.objective)
    assert float(hill.x.detach()[0]) <= 0.5


def test_breaking_again_and_again_is_given_up_with_advice() -> None:
    hill = Hill(broken=lambda call: call > 10)
    with pytest.raises(NumericalError, match=r"not finite at step \d+\. Try a lower learning rate"):
        train(hill, schedule(200), None)
    assert hill.calls == 10 + MOST_BREAKDOWNS + 1
    assert bool(torch.isfinite(hill.x).all())


def test_parameters_that_stop_being_finite_count_as_broken() -> None:
    """An infinite gradient leaves the parameters unusable: the next bound says so."""
    hill = Hill()
    calls = 0

    def spoil(step: FitStep) -> None:
        nonlocal calls
        calls += 1
        if calls == 20:
            with torch.no_grad():
                hill.x.fill_(torch.inf)

    outcome = train(hill, schedule(300), spoil)
    assert outcome.objective == pytest.approx(10.0, abs=0.01)


class InTurn(Hill):
    """A hill seen through noise, one call after another, with something to keep beside it."""

    def __init__(self, broken: Callable[[int], bool] = lambda call: False) -> None:
        super().__init__(broken)
        self.count = torch.zeros((), dtype=torch.float64)
        self.wholes = 0

    def batch_terms(self) -> dict[str, Tensor]:
        self.count += 1
        terms = super().terms()
        wobble = 0.5 if int(self.count) % 2 else -0.5
        return terms | {"fit": terms["fit"] + wobble}

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        self.wholes += 1
        return super().terms(draws)

    def state(self) -> Iterable[Tensor]:
        return [self.count]


def test_steps_take_batches_and_the_end_takes_all_rows() -> None:
    hill = InTurn()
    outcome = train(hill, schedule(60), None)
    assert hill.wholes == 1
    assert int(hill.count) == 60
    expected = sum(float(term.detach()) for term in hill.terms().values())
    assert outcome.objective == pytest.approx(expected, rel=1e-14)
    wobble = [step.objective for step in outcome.history]
    assert wobble[0] > wobble[1]


def test_what_is_kept_beside_the_parameters_goes_back_with_them() -> None:
    hill = InTurn(broken=lambda call: call == 35)
    counts = []
    train(hill, schedule(60), lambda step: counts.append(int(hill.count)))
    # Call 35 broke: the count went back to that of a sound copy, and on from there.
    assert counts[33] == 34
    assert counts[34] <= 34


def test_batches_are_judged_by_whole_passes() -> None:
    whole = Schedule.for_batches(100, 0.1, 10, n_rows=50, size=50)
    assert whole == Schedule(100, 0.1, 10)
    course = Schedule.for_batches(100, 0.1, 10, n_rows=18_000, size=100)
    assert course.window == 360
    # Two passes over a longer table would be more steps than its fit has.
    assert Schedule.for_batches(100, 0.1, 10, n_rows=60_000, size=100).window == 400
    assert course.collapse > whole.collapse
    assert Schedule.for_batches(100, 0.1, 10, n_rows=60, size=50).window == 2 * whole.window


# ---- rows that the fit does not see ----------------------------------------------------


def test_what_is_followed_is_told_and_changes_nothing() -> None:
    alone, hill = Hill(), Hill()
    course = train(alone, schedule(50), None)
    told: list[FitStep] = []
    followed = train(
        hill,
        schedule(50),
        told.append,
        held_out=HeldOutTracking(lambda: float(hill.x.detach()[0]), every=20),
    )
    assert [s.objective for s in followed.history] == [s.objective for s in course.history]
    measured = {s.iteration: s.held_out for s in told if np.isfinite(s.held_out)}
    assert list(measured) == [20, 40, 50]
    assert measured[50] == float(hill.x.detach()[0])
    assert measured[20] == followed.history[19].held_out


def test_a_fit_ends_at_its_best_on_what_is_followed() -> None:
    """The objective leads past the point where the followed figure is least."""
    hill = Hill()

    def measure() -> float:
        return float((hill.x.detach()[1] + 1).abs())

    tracking = HeldOutTracking(measure, patience=3, every=2)
    outcome = train(hill, schedule(300), None, held_out=tracking)
    measured = [s.held_out for s in outcome.history if np.isfinite(s.held_out)]
    assert outcome.converged
    assert len(outcome.history) < 100
    assert int(np.argmin(measured)) == len(measured) - 1 - 3
    assert measure() == min(measured)  # the parameters are those of then
    assert outcome.objective < 9.5


def test_a_breakdown_does_not_make_a_fit_forget_its_best() -> None:
    hill = Hill(broken=lambda call: call == 25)
    figures = iter([1.0, 5.0, 4.0, 4.5, 4.8, 4.9])
    best: list[Tensor] = []

    def measure() -> float:
        if not best:
            best.append(hill.x.detach().clone())
        return next(figures)

    outcome = train(
        hill, schedule(300), None, held_out=HeldOutTracking(measure, patience=4, every=10)
    )
    assert len([s for s in outcome.history if np.isfinite(s.held_out)]) == 5
    assert torch.equal(hill.x.detach(), best[0])


def test_a_figure_that_breaks_down_is_left_out() -> None:
    def measure() -> float:
        raise NumericalError("no")

    outcome = train(
        Hill(), schedule(20), None, held_out=HeldOutTracking(measure, patience=1, every=5)
    )
    assert len(outcome.history) == 20
    assert not any(np.isfinite(step.held_out) for step in outcome.history)


def test_rows_are_relocated_at_the_intervals_of_the_schedule() -> None:
    course = Schedule(100, 0.1, 10, relocation=10)
    assert [i for i in range(35) if course.relocates_before(i)] == [10, 20, 30]
    assert not any(map(Schedule(100, 0.1, 10).relocates_before, range(100)))
    assert not course.relocates_after(99)
