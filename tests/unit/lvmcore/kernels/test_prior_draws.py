"""Draws of functions from the prior of a kernel."""

import numpy as np
import pytest

from lvmcore.errors import ConfigError
from lvmcore.kernels.catalogue import KERNEL_TYPES
from lvmcore.kernels.prior_draws import prior_draws

X = np.linspace(10.0, 30.0, 41)  # sd 5, mean 20


def test_the_covariance_of_many_draws_is_the_kernel() -> None:
    draws = prior_draws("rbf", "age", X, 20_000)
    found = draws.T @ draws / len(draws)
    expected = np.exp(-0.5 * np.square((X[:, None] - X) / 5.0))
    np.testing.assert_allclose(found, expected, atol=0.04)


def test_a_period_is_in_the_units_of_the_column() -> None:
    draws = prior_draws("periodic(age, period=5)", "age", X, 3)
    np.testing.assert_allclose(draws[:, :31], draws[:, 10:], atol=1e-6)
    assert np.abs(draws[:, :36] - draws[:, 5:]).max() > 0.1


def test_a_straight_line_is_drawn_straight_and_another_column_is_at_its_mean() -> None:
    draws = prior_draws("linear(age)", "age", X, 2)
    np.testing.assert_allclose(np.diff(draws, 2), 0.0, atol=1e-6)
    np.testing.assert_allclose(prior_draws("linear(height)", "age", X, 2), 0.0, atol=1e-6)
    constant = prior_draws("rbf(height)", "age", X, 2)
    np.testing.assert_allclose(constant - constant[:, :1], 0.0, atol=1e-6)


@pytest.mark.parametrize("name", KERNEL_TYPES)
def test_every_kernel_is_drawn(name: str) -> None:
    draws = prior_draws(name, "age", X, 3)
    assert draws.shape == (3, len(X))
    assert np.isfinite(draws).all()
    np.testing.assert_array_equal(draws, prior_draws(name, "age", X, 3))


def test_a_text_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(ConfigError, match="no kernel"):
        prior_draws("rbff", "age", X, 3)
