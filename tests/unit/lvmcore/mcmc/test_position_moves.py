"""Moves of positions: each leaves the density that it is meant for as it is."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from lvmcore.mcmc.feature_weights import features
from lvmcore.mcmc.frequency_mixture import draw_mixture
from lvmcore.mcmc.position_moves import TARGET_ACCEPTANCE, HamiltonianMove, scale_move, shift_move

PRECISION = np.array([[2.0, 0.9], [0.9, 1.0]])


def target(x: np.ndarray) -> tuple[float, np.ndarray]:
    return float(-0.5 * (x @ PRECISION * x).sum()), -x @ PRECISION


@pytest.mark.slow
def test_leaps_leave_a_normal_density_as_it_is_and_find_their_step() -> None:
    rng, leap, x = np.random.default_rng(0), HamiltonianMove(np.log(0.01)), np.full((1, 2), 3.0)
    for i in range(2000):
        x = leap.move(x, target, rng, (i + 1) ** -0.6)
    step, drawn, accepted = leap.log_step, [], []
    for _ in range(12_000):
        x = leap.move(x, target, rng, 0.0)
        drawn.append(x[0])
        accepted.append(leap.accepted)
    assert leap.log_step == step
    assert np.mean(accepted) == pytest.approx(TARGET_ACCEPTANCE, abs=0.08)
    np.testing.assert_allclose(np.mean(drawn, axis=0), 0, atol=0.06)
    np.testing.assert_allclose(np.cov(np.array(drawn).T), np.linalg.inv(PRECISION), atol=0.09)


def test_a_leap_into_nothing_is_not_taken() -> None:
    rng, start = np.random.default_rng(1), np.zeros((1, 2))

    def cliff(x: np.ndarray) -> tuple[float, np.ndarray]:
        return (0.0 if np.array_equal(x, start) else np.nan), np.full_like(x, 1e308)

    leap = HamiltonianMove(0.0)
    assert leap.move(start, cliff, rng, 0.5) is start
    assert leap.accepted == 0
    assert leap.log_step == -0.5 * TARGET_ACCEPTANCE


def test_a_shift_draws_the_centre_alone() -> None:
    rng, X = np.random.default_rng(2), np.random.default_rng(3).normal(size=(9, 2)) + 5
    centres = []
    for _ in range(3000):
        moved = shift_move(X, rng)
        np.testing.assert_allclose(np.diff(moved, axis=0), np.diff(X, axis=0), atol=1e-12)
        centres.append(moved.mean(axis=0))
    assert kstest(np.ravel(centres) * 3, "norm").pvalue > 0.01


def test_stretching_leaves_angles_and_the_prior_as_they_are() -> None:
    """Positions and frequencies drawn from the prior have it after many stretches too."""
    rng, N, L = np.random.default_rng(4), 3, 6
    squares, moved = [], 0
    for _ in range(1500):
        mixture = draw_mixture(2, L, 2, rng)
        X, W = rng.normal(size=(N, 2)), mixture.colour(rng.standard_normal((L, 2)))
        before, Phi = X, features(X, W)
        for _ in range(8):
            X, W = scale_move(X, W, mixture, rng)
        np.testing.assert_allclose(features(X, W), Phi, atol=1e-9)
        moved += not np.array_equal(X, before)
        squares.append(np.square(X).sum(axis=0))
    assert moved > 1400
    assert kstest(np.ravel(squares), chi2(N).cdf).pvalue > 0.01
