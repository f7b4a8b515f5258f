"""Likely periods: found in series with a trend, gaps and noise; none where there cannot be one."""

from __future__ import annotations

import numpy as np
import pytest

from lvmcore.kernels.periodogram import likely_periods


@pytest.mark.parametrize("period", [2.5, 7.0, 12.0, 40.0])
def test_the_period_of_a_series_with_trend_gaps_and_noise_comes_first(period: float) -> None:
    rng = np.random.default_rng(0)
    x = np.sort(rng.choice(200, 120, replace=False)).astype(float)
    y = np.sin(2 * np.pi * x / period) + 0.02 * x + 1e-4 * x**2 + 0.3 * rng.normal(size=120)
    found = likely_periods(x, y, 3)
    assert found[0] == pytest.approx(period, rel=0.05)
    assert 1 <= len(found) <= 3


def test_two_periods_are_both_found() -> None:
    x = np.arange(300.0)
    y = np.sin(2 * np.pi * x / 7) + 0.8 * np.sin(2 * np.pi * x / 31)
    first, second = likely_periods(x, y, 2)
    assert first == pytest.approx(7, rel=0.03)
    assert second == pytest.approx(31, rel=0.05)


def test_there_is_none_in_few_values_or_without_variation() -> None:
    assert likely_periods(np.array([0.0, 1, 2, 3]), np.ones(4), 3) == []
    assert likely_periods(np.repeat([0.0, 1.0], 20), np.arange(40.0), 3) == []
    assert likely_periods(np.arange(30.0), np.zeros(30), 3) == []
