"""Decoders of random features: against dense algebra, Monte Carlo and finite differences."""

from typing import Any

import numpy as np
import pytest
import torch

from lvmcore.likelihoods.polya_gamma import LogisticLikelihood
from lvmcore.numerics.quasi_random import antithetic_draws
from lvmcore.random_features.count_decoder import CountFeatureDecoder
from lvmcore.random_features.decoder import FeatureDecoder, pooled_moments
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.gaussian_decoder import GaussianFeatureDecoder

R, D, Q = 6, 3, 2


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


def covariances(*, each: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Basis, spread, and the covariances that they stand for, [D, R, R]."""
    if each:
        basis, spread = 0.3 * normal(D, R, R, seed=1), torch.ones(R, D).double()
        return basis, spread, basis @ basis.mT
    basis = torch.linalg.qr(normal(R, R, seed=1))[0]
    spread = torch.as_tensor(np.random.default_rng(2).uniform(0.05, 0.5, (R, D)))
    return (
        basis,
        spread,
        torch.stack([basis @ torch.diag(spread[:, d]) @ basis.T for d in range(D)]),
    )


def decoder(kind: str, *, each: bool) -> tuple[FeatureDecoder, torch.Tensor]:
    features = RandomFourierFeatures(normal(3, Q, seed=0), torch.tensor(1.2).double())
    basis, spread, V = covariances(each=each)
    noise = torch.tensor([0.1, 0.2, 0.4]).double()
    weights = pooled_moments(
        normal(R, D, seed=3),
        basis,
        spread,
        1 / noise if kind == "gaussian" else torch.ones(D).double(),
        features(normal(50, Q, seed=4)).T @ features(normal(50, Q, seed=4)) / 50,
    )
    if kind == "gaussian":
        return GaussianFeatureDecoder(features, weights, noise), V
    family = LogisticLikelihood("negative_binomial", torch.tensor([1.0, 3.0, 9.0]).double())
    return CountFeatureDecoder(features, weights, family), V


@pytest.mark.parametrize("each", [False, True])
def test_functions_have_the_moments_of_the_weights(each: bool) -> None:
    found, V = decoder("gaussian", each=each)
    X = normal(5, Q, seed=5)
    Phi = found.features(X)
    mean, variance = found.functions(X)
    torch.testing.assert_close(mean, Phi @ found.weights.mean)
    for d in range(D):
        torch.testing.assert_close(variance[:, d], (Phi @ V[d] * Phi).sum(1))


@pytest.mark.parametrize("each", [False, True])
def test_the_pooled_covariance_is_right_on_average(each: bool) -> None:
    found, V = decoder("gaussian", each=each)
    assert isinstance(found, GaussianFeatureDecoder)
    precision = 1 / found.noise
    torch.testing.assert_close(
        found.weights.shared * precision.sum(), (V * precision[:, None, None]).sum(0)
    )
    # Over the rows of the fit every column has its own mean variance.
    X = normal(50, Q, seed=4)
    _, exact = found.functions(X)
    _, pool = found.pooled_functions(X)
    torch.testing.assert_close((pool * found.weights.share).mean(0), exact.mean(0))


def test_a_whole_row_is_weighed_as_its_cells_are() -> None:
    found, _ = decoder("gaussian", each=False)
    Y, mean = normal(4, D, seed=6), normal(4, Q, seed=7)
    variance = torch.full_like(mean, 0.05)
    rows = torch.tensor([2, 0])
    some = (rows, mean[rows], variance[rows])
    torch.testing.assert_close(
        found.complete_rows(Y).expected_log_density(*some),
        found.observed_rows(Y).expected_log_density(*some),
    )


def test_expected_density_by_monte_carlo() -> None:
    found, V = decoder("gaussian", each=False)
    assert isinstance(found, GaussianFeatureDecoder)
    y, x = normal(1, D, seed=6), normal(1, Q, seed=7)
    n = 200_000
    L = torch.linalg.cholesky(V)
    h = found.weights.mean.T + (L @ normal(n, D, R, 1, seed=8))[..., 0]
    f = (h * found.features(x)[:, None]).sum(-1)
    density = torch.distributions.Normal(f, found.noise.sqrt()).log_prob(y)
    # By the pooled covariance the sum over columns is exact, each weighed by its precision.
    got = found.complete_rows(y).expected_log_density(torch.zeros(1).long(), x, torch.zeros_like(x))
    error = float(density.sum(1).std()) / n**0.5
    assert float(got) == pytest.approx(float(density.sum(1).mean()), abs=5 * error)


@pytest.mark.parametrize("kind", ["gaussian", "counts"])
def test_missing_cells_leave_the_sum_and_the_gradient(kind: str) -> None:
    found, _ = decoder(kind, each=True)
    Y = normal(3, D, seed=6).abs().round()
    Y[1, 2] = torch.nan
    mean = normal(3, Q, seed=7).requires_grad_()
    value = found.observed_rows(Y).expected_log_density(
        torch.arange(3), mean, torch.full_like(mean, 0.01)
    )
    (gradient,) = torch.autograd.grad(value.sum(), mean)
    assert bool(torch.isfinite(value).all())
    assert bool(torch.isfinite(gradient).all())
    X = normal(2, 3, Q, seed=9)
    whole = torch.where(torch.isnan(Y), 5.0, Y)
    assert torch.equal(found.log_density(Y, X)[:, 0], found.log_density(whole, X)[:, 0])
    assert not torch.equal(found.log_density(Y, X)[:, 1], found.log_density(whole, X)[:, 1])


@pytest.mark.parametrize("kind", ["gaussian", "counts"])
def test_moments_of_a_cell_by_drawn_rows(kind: str) -> None:
    found, _ = decoder(kind, each=True)
    rng = np.random.default_rng(0)
    mean, variance = normal(1, Q, seed=7), torch.full((1, Q), 0.02).double()
    X = mean + variance.sqrt() * normal(100_000, Q, seed=8)
    drawn = found.sample(X, rng)
    got, spread, noise = (part.numpy()[0] for part in found.moments(mean, variance))
    np.testing.assert_allclose(got, drawn.mean(0), rtol=0.05, atol=0.02)
    np.testing.assert_allclose(spread, drawn.var(0), rtol=0.2)
    assert (noise <= spread).all()


@pytest.mark.parametrize("kind", ["gaussian", "counts"])
def test_the_metric_is_that_of_drawn_functions(kind: str) -> None:
    found, V = decoder(kind, each=False)
    scale, x = torch.tensor([1.0, 2.0, 0.5]).double(), normal(1, Q, seed=7)
    got = found.metric(x, scale)[0]
    J = found.features.slopes(x)[0]
    slope = torch.ones(D).double()
    if isinstance(found, CountFeatureDecoder):
        slope = found.family.mean_slope(found.features(x) @ found.weights.mean)[0]
    slope = slope / scale
    mean = J @ found.weights.mean * slope
    pool = found.weights.share[:, None, None] * found.weights.shared
    torch.testing.assert_close(
        got, mean @ mean.T + J @ (slope.square()[:, None, None] * pool).sum(0) @ J.T
    )
    if kind == "gaussian":  # and near to what the columns' own covariances give
        exact = mean @ mean.T + J @ (slope.square()[:, None, None] * V).sum(0) @ J.T
        torch.testing.assert_close(got, exact, rtol=0.2, atol=0.1)


@pytest.mark.parametrize("kind", ["gaussian", "counts"])
def test_arrays_bring_it_back(kind: str) -> None:
    found, _ = decoder(kind, each=True)
    arrays, like = found.arrays(), torch.zeros(0).double()
    again: Any = (
        GaussianFeatureDecoder.from_arrays(arrays, like)
        if kind == "gaussian"
        else CountFeatureDecoder.from_arrays(arrays, like, "negative_binomial")
    )
    X = normal(4, Q, seed=5)
    for one, other in zip(again.decode(X), found.decode(X), strict=True):
        assert torch.equal(one, other)


def test_mirrored_draws_have_the_moments_of_a_normal() -> None:
    draws = antithetic_draws(8, 3, torch.zeros(()).double())
    torch.testing.assert_close(draws.mean(0), torch.zeros(3).double())
    torch.testing.assert_close(draws.square().mean(0), torch.ones(3).double())
    torch.testing.assert_close(draws.pow(3).mean(0), torch.zeros(3).double())


def test_counts_placed_exactly_go_by_the_average_of_their_own_likelihood() -> None:
    found, _ = decoder("counts", each=False)
    assert isinstance(found, CountFeatureDecoder)
    exact = CountFeatureDecoder(found.features, found.weights, found.family, exactly=True)
    Y = torch.as_tensor(np.random.default_rng(6).poisson(40.0, (4, D)).astype(float))
    X = normal(1, 4, Q, seed=7)
    with_gap = Y.clone()
    with_gap[0, 1] = torch.nan
    mean, pool = exact.pooled_functions(X)
    sd = (pool * exact.weights.share).sqrt()
    psi = mean + sd * normal(20_000, 1, 1, 1, seed=8)
    cells = exact.family.log_predictive(Y, psi, torch.zeros_like(psi)).mean(0)
    cells[0, 0, 1] = 0.0
    torch.testing.assert_close(exact.expected(with_gap, X), cells.sum(-1), rtol=5e-3, atol=0.05)
    assert bool((found.expected(with_gap, X) < exact.expected(with_gap, X)).all())
    again = CountFeatureDecoder.from_arrays(exact.arrays(), X, "negative_binomial")
    assert again.exactly
    torch.testing.assert_close(again.expected(with_gap, X), exact.expected(with_gap, X))
