"""Random features, weights integrated out and drawn, and likelihoods, by other routes."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import bernoulli, gamma, invgamma, kstest, multivariate_normal, nbinom, norm

from lvmcore.mcmc.feature_weights import (
    Likelihood,
    WeightEvidence,
    draw_inverse_gamma,
    draw_rows,
    feature_gradient,
    features,
    log_likelihood,
    slice_draw,
)

rng = np.random.default_rng(0)
N, D, Q, L = 7, 3, 2, 4
X, W, W2 = rng.normal(size=(N, Q)), rng.normal(size=(L, Q)), rng.normal(size=(L, Q))
KAPPA = rng.normal(size=(N, D))
OMEGA = rng.gamma(2.0, size=(N, D))
PRECISION = rng.gamma(2.0, size=2 * L)
EVIDENCES = {
    "own": WeightEvidence(KAPPA, OMEGA, PRECISION),
    "shared": WeightEvidence(KAPPA, 1.7, PRECISION),
}
for_evidences = pytest.mark.parametrize("evidence", EVIDENCES.values(), ids=EVIDENCES)


def test_many_features_make_the_kernel_of_their_spectrum() -> None:
    frequencies = np.random.default_rng(1).normal(size=(200_000, Q))
    Phi = features(X, frequencies)
    apart = np.square(X[:, None] - X).sum(axis=2)
    np.testing.assert_allclose(Phi @ Phi.T, np.exp(-0.5 * apart), atol=0.01)


@for_evidences
def test_the_evidence_is_that_of_pseudo_data(evidence: WeightEvidence) -> None:
    """κ/ω with variance 1/ω about Φ H; what does not depend on Φ cancels between two."""
    found, expected = [], []
    for frequencies in (W, W2):
        Phi = features(X, frequencies)
        found.append(evidence(Phi)[0])
        omega = np.broadcast_to(evidence.omega, (N, D))
        total = 0.0
        for d in range(D):
            covariance = (Phi / PRECISION) @ Phi.T + np.diag(1 / omega[:, d])
            pseudo = KAPPA[:, d] / omega[:, d]
            total += multivariate_normal.logpdf(pseudo, np.zeros(N), covariance)
        expected.append(total)
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], abs=1e-9)


def test_gaussian_evidence_is_the_marginal_likelihood() -> None:
    noise, scale = 0.3, 1.4
    Y, Phi = rng.normal(size=(N, D)), features(X, W)
    evidence = WeightEvidence(Y / noise, 1 / noise, np.full(2 * L, 1 / scale))
    value, _ = evidence(Phi)
    rest = -0.5 * (N * D * np.log(2 * np.pi * noise) + np.square(Y).sum() / noise)
    covariance = scale * Phi @ Phi.T + noise * np.eye(N)
    expected = multivariate_normal.logpdf(Y.T, np.zeros(N), covariance).sum()
    assert value + rest == pytest.approx(expected, abs=1e-9)


@for_evidences
def test_the_slope_is_that_of_differences(evidence: WeightEvidence) -> None:
    Phi, h = features(X, W), 1e-6
    _, slope = evidence(Phi)
    for n, r in [(0, 0), (3, 5), (6, 7)]:
        step = np.zeros_like(Phi)
        step[n, r] = h
        difference = (evidence(Phi + step)[0] - evidence(Phi - step)[0]) / (2 * h)
        assert slope[n, r] == pytest.approx(difference, rel=1e-6, abs=1e-7)


def test_slopes_reach_positions_and_frequencies() -> None:
    weight = rng.normal(size=(N, 2 * L))
    x, w = (torch.tensor(array, requires_grad=True) for array in (X, W))
    angles = x @ w.T
    Phi = torch.cat([angles.sin(), angles.cos()], 1) / L**0.5
    (Phi * torch.tensor(weight)).sum().backward()
    slope_X, slope_W = feature_gradient(features(X, W), weight, X, W)
    np.testing.assert_allclose(slope_X, x.grad, atol=1e-12)
    np.testing.assert_allclose(slope_W, w.grad, atol=1e-12)


def test_a_column_of_ones_has_no_slope() -> None:
    Phi = np.column_stack([features(X, W), np.ones(N)])
    weight = rng.normal(size=(N, 2 * L + 1))
    plain = feature_gradient(Phi[:, :-1], weight[:, :-1], X, W)
    np.testing.assert_array_equal(feature_gradient(Phi, weight, X, W)[0], plain[0])


@for_evidences
def test_weights_have_their_posterior_moments(evidence: WeightEvidence) -> None:
    Phi, generator = features(X, W), np.random.default_rng(2)
    drawn = np.stack([evidence.draw(Phi, generator) for _ in range(6000)])
    omega = np.broadcast_to(evidence.omega, (N, D))
    for d in range(D):
        covariance = np.linalg.inv(Phi.T @ (omega[:, [d]] * Phi) + np.diag(PRECISION))
        mean = covariance @ Phi.T @ KAPPA[:, d]
        sd = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(drawn[:, :, d].mean(axis=0), mean, atol=4 * sd.max() / 77)
        np.testing.assert_allclose(np.cov(drawn[:, :, d].T), covariance, atol=0.08 * sd.max() ** 2)


PSI = np.array([[-1.0, 0.2, 2.0], [0.5, -0.3, 1.0]])
R = np.array([0.7, 2.0, 11.0])
COUNTS = np.array([[0.0, 3.0, 90.0], [2.0, 1.0, 20.0]])


@pytest.mark.parametrize(
    ("likelihood", "Y", "spread", "expected"),
    [
        ("gaussian", COUNTS, np.array([2.5]), norm.logpdf(COUNTS, PSI, np.sqrt(2.5))),
        ("bernoulli", COUNTS % 2, np.ones(0), bernoulli.logpmf(COUNTS % 2, expit(PSI))),
        ("negative_binomial", COUNTS, R, nbinom.logpmf(COUNTS, R, 1 - expit(PSI))),
    ],
)
def test_likelihoods_are_those_of_scipy(
    likelihood: Likelihood, Y: np.ndarray, spread: np.ndarray, expected: np.ndarray
) -> None:
    np.testing.assert_allclose(log_likelihood(likelihood, Y, PSI, spread), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("likelihood", "spread", "mean", "variance"),
    [
        ("gaussian", np.array([2.5]), PSI, np.full_like(PSI, 2.5)),
        ("bernoulli", np.ones(0), expit(PSI), expit(PSI) * (1 - expit(PSI))),
        ("negative_binomial", R, R * np.exp(PSI), R * np.exp(PSI) * (1 + np.exp(PSI))),
    ],
)
def test_cells_are_drawn_with_their_moments(
    likelihood: Likelihood, spread: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> None:
    generator = np.random.default_rng(3)
    drawn = np.stack([draw_rows(likelihood, PSI, spread, generator) for _ in range(20_000)])
    error = np.sqrt(variance / 20_000)
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.5 * error).all()
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.15)


def test_counts_beyond_what_can_be_drawn_are_the_most() -> None:
    drawn = draw_rows("negative_binomial", np.full((1, 1), 80.0), np.ones(1), rng)
    assert np.isfinite(drawn).all()
    assert drawn[0, 0] > 1e18


def test_slices_leave_a_density_as_it_is() -> None:
    """Three gamma variables on the log scale at once, each of its own shape."""
    shapes, generator = np.array([0.5, 2.0, 30.0]), np.random.default_rng(4)
    at, kept = np.log(shapes), []
    for i in range(20_000):
        at = slice_draw(lambda u: shapes * u - np.exp(u), at, 2.0, generator)
        if i % 10 == 0:
            kept.append(np.exp(at))
    for values, shape in zip(np.stack(kept).T, shapes, strict=True):
        assert kstest(values, gamma(shape).cdf).pvalue > 0.001


def test_inverse_gamma() -> None:
    generator = np.random.default_rng(5)
    drawn = [draw_inverse_gamma(2.5, 0.7, generator) for _ in range(4000)]
    assert kstest(drawn, invgamma(2.5, scale=0.7).cdf).pvalue > 0.01
