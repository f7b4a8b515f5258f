"""The trend of a noisy bound: its rise, its confidence interval, and the verdict of a schedule."""

import numpy as np
import pytest
from numpy.typing import NDArray

from lvmcore.training.bound_trend import BoundTrend
from lvmcore.training.schedule import Schedule

RISE, STEPS = 0.02, 1200


def noise(rng: np.random.Generator, correlation: float, n: int = STEPS) -> NDArray[np.float64]:
    """A stationary autoregressive series of variance 1/(1 − correlation²), [n]."""
    found = rng.normal(size=n)
    found[0] /= np.sqrt(1 - correlation**2)
    for i in range(1, n):
        found[i] += correlation * found[i - 1]
    return found


@pytest.mark.parametrize("correlation", [-0.4, 0.0, 0.7])
def test_the_interval_covers_the_rise_however_steps_are_correlated(correlation: float) -> None:
    rng, covered, line = np.random.default_rng(0), 0, RISE * np.arange(STEPS)
    for _ in range(400):
        trend = BoundTrend.of(list(line + noise(rng, correlation)))
        assert trend is not None
        covered += trend.range[0] < RISE < trend.range[1]
    assert covered / 400 == pytest.approx(0.95, abs=0.035)  # 3 standard errors


def test_the_error_is_that_of_a_least_squares_line_through_the_averages() -> None:
    bounds = noise(np.random.default_rng(1), 0.3) + RISE * np.arange(STEPS)
    averages = bounds[STEPS // 2 :].reshape(10, -1).mean(1)
    steps = 60.0 * np.arange(10)
    (slope, _), covariance = np.polyfit(steps, averages, 1, cov=True)
    trend = BoundTrend.of(list(bounds))
    assert trend is not None
    assert trend.rise == pytest.approx(slope, rel=1e-9)
    assert trend.error == pytest.approx(np.sqrt(covariance[0, 0]), rel=1e-9)


def test_blocks_of_whole_passes_do_not_see_which_rows_a_batch_has() -> None:
    rows = 5 * np.random.default_rng(2).normal(size=25)
    passes = np.concatenate([np.random.default_rng(s).permutation(rows) for s in range(48)])
    bounds = list(passes + RISE * np.arange(STEPS))
    known, unknown = BoundTrend.of(bounds, epoch=25), BoundTrend.of(bounds, epoch=1)
    assert known is not None
    assert unknown is not None
    assert known.rise == pytest.approx(RISE, rel=1e-9)
    assert known.error < 1e-9 < unknown.error


def test_few_steps_have_no_trend() -> None:
    assert BoundTrend.of([1.0] * 18) is None
    assert BoundTrend.of([1.0] * 20) == BoundTrend(0.0, 0.0)


def judged(rise: float, sd: float) -> bool:
    """Whether a schedule of 100 cells has converged: its limit is 1e-4 nats a step."""
    course = Schedule.for_batches(2000, 0.1, 100, n_rows=1000, size=100)
    bounds = rise * np.arange(STEPS) + sd * np.random.default_rng(3).normal(size=STEPS)
    return course.has_converged(list(bounds))


def test_a_mini_batch_fit_has_converged_when_little_is_left_beyond_doubt() -> None:
    assert judged(rise=0.0, sd=0.01)
    assert judged(rise=5e-5, sd=0.001)
    assert not judged(rise=2e-4, sd=0.001)  # it still rises
    assert not judged(rise=-2e-4, sd=0.001)  # it falls
    assert not judged(rise=0.0, sd=1.0)  # the noise would hide it


def test_a_few_steps_do_not_show_that_a_fit_has_converged() -> None:
    course = Schedule.for_batches(2000, 0.1, 100, n_rows=1000, size=100)
    least = course.hold + 2 * course.window
    assert not course.has_converged([0.0] * (least - 1))
    assert course.has_converged([0.0] * least)


def test_a_slower_rate_has_to_gain_less() -> None:
    course = Schedule.for_batches(2000, 0.1, 100, n_rows=1000, size=100)
    bounds = list(5e-5 * np.arange(STEPS))
    assert course.has_converged(bounds)
    assert not course.has_converged(bounds, rate_factor=0.25)


def test_steps_over_all_rows_are_compared_by_windows() -> None:
    course = Schedule.for_batches(2000, 0.1, 100, n_rows=100, size=100)
    assert course.trend([0.0] * 500) is None
    assert course.has_converged([0.0] * 500)
    assert not course.has_converged(list(np.arange(500.0)))
