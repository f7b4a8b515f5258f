"""The logistic family against scipy, Monte Carlo and importance sampling."""

import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from scipy import stats

from lvmcore.likelihoods.poisson import PoissonLikelihood, poisson_sites
from lvmcore.likelihoods.polya_gamma import (
    Family,
    LogisticLikelihood,
    bounded_size,
    expected_precision,
    log_normal_moments,
    log_two_cosh,
    polya_gamma_constant,
    unbounded_log_size,
)
from lvmcore.random_features.weight_posterior import weighted_evidence

SIZE = {"bernoulli": 1.0, "binomial": 7.0, "negative_binomial": 2.5}
KINDS: list[Family] = ["bernoulli", "binomial", "negative_binomial"]


def family(kind: Family) -> LogisticLikelihood:
    return LogisticLikelihood(kind, torch.full((1,), SIZE[kind], dtype=torch.float64))


def exact(kind: Family, y: np.ndarray, psi: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-psi))
    if kind == "negative_binomial":
        return stats.nbinom.logpmf(y, SIZE[kind], 1 - p)
    return stats.binom.logpmf(y, SIZE[kind], p)


def cells(kind: Family, n: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(3)
    most = {"bernoulli": 1, "binomial": 7, "negative_binomial": 30}[kind]
    y = rng.integers(0, most + 1, (n, 1)).astype(float)
    return torch.as_tensor(y), torch.as_tensor(rng.normal(scale=2, size=(n, 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities(kind: Family) -> None:
    y, psi = cells(kind)
    got = family(kind).log_probability(y, psi)
    np.testing.assert_allclose(got, exact(kind, y.numpy(), psi.numpy()), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_a_cell_holds_for_every_c_and_is_tight_at_psi(kind: Family) -> None:
    likelihood, (y, psi) = family(kind), cells(kind)
    truth = likelihood.log_probability(y, psi)
    for factor in (0.1, 0.5, 1.0, 2.0):
        c = factor * psi.abs()
        bound = (
            likelihood.log_coefficient(y)
            + likelihood.kappa(y) * psi
            - 0.5 * likelihood.trials(y) * expected_precision(c) * psi.square()
            + likelihood.trials(y) * polya_gamma_constant(c)
        )
        assert bool((bound <= truth + 1e-9).all())
        if factor == 1.0:
            torch.testing.assert_close(bound, truth)


def test_limits() -> None:
    c = torch.tensor([0.0, 1e-6, 1e-3, 800.0], dtype=torch.float64)
    expected = torch.tensor([0.25, 0.25, 0.25 - 1e-6 / 48, 1 / 1600], dtype=torch.float64)
    torch.testing.assert_close(expected_precision(c), expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(log_two_cosh(c)[-1], torch.tensor(400.0).double())
    assert float(polya_gamma_constant(c)[0]) == pytest.approx(-np.log(2))


@pytest.mark.parametrize("kind", KINDS)
def test_moments_and_predictive_by_monte_carlo(kind: Family) -> None:
    rng, likelihood = np.random.default_rng(0), family(kind)
    mean, variance = torch.tensor([[0.4]]).double(), torch.tensor([[0.3]]).double()
    psi = torch.as_tensor(rng.normal(0.4, np.sqrt(0.3), (400_000, 1)))
    drawn = likelihood.draw(psi, rng)
    got_mean, got_variance, noise = (float(part) for part in likelihood.moments(mean, variance))
    error = drawn.std() / np.sqrt(len(drawn))
    assert got_mean == pytest.approx(drawn.mean(), abs=5 * error)
    assert got_variance == pytest.approx(drawn.var(), rel=0.03)
    none = torch.zeros_like(psi)
    assert noise == pytest.approx(float(likelihood.moments(psi, none)[1].mean()), rel=0.01)
    for y in (0.0, 1.0):
        cell = torch.full((1, 1), y).double()
        share = float((drawn == y).mean())
        assert float(likelihood.log_predictive(cell, mean, variance).exp()) == pytest.approx(
            share, abs=5 * np.sqrt(share / len(drawn))
        )
        expected = likelihood.log_probability(cell, psi).mean()
        assert float(likelihood.expected_log(cell, mean, variance)) <= float(expected) + 1e-3


def test_poisson_by_scipy_and_monte_carlo() -> None:
    rng, likelihood = np.random.default_rng(0), PoissonLikelihood(torch.ones(1).double())
    y = torch.as_tensor(rng.integers(0, 20, (50, 1)).astype(float))
    psi = torch.as_tensor(rng.normal(1, 1, (50, 1)))
    expected = stats.poisson.logpmf(y.numpy(), np.exp(psi.numpy()))
    np.testing.assert_allclose(likelihood.log_probability(y, psi), expected, atol=1e-9)
    mean, variance = torch.tensor([[0.4]]).double(), torch.tensor([[0.3]]).double()
    psi = torch.as_tensor(rng.normal(0.4, np.sqrt(0.3), (400_000, 1)))
    drawn = likelihood.draw(psi, rng)
    got, spread, noise = (float(part) for part in likelihood.moments(mean, variance))
    assert got == noise == pytest.approx(drawn.mean(), rel=0.01)
    assert spread == pytest.approx(drawn.var(), rel=0.02)
    cell = torch.full((1, 1), 2.0).double()
    share = float((drawn == 2).mean())
    found = float(likelihood.log_predictive(cell, mean, variance).exp())
    assert found == pytest.approx(share, rel=0.02)
    log = likelihood.log_probability(cell, psi)
    assert float(likelihood.expected_log(cell, mean, variance)) == pytest.approx(
        float(log.mean()), abs=0.01
    )
    free = mean.clone().requires_grad_()
    likelihood.moments(free, torch.zeros_like(free))[0].sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(likelihood.mean_slope(mean), free.grad)


def test_poisson_sites_are_the_slopes_of_the_expected_log() -> None:
    likelihood, y = PoissonLikelihood(torch.ones(1).double()), torch.tensor([[3.0]]).double()
    mean = torch.tensor([[0.7]], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor([[0.2]], dtype=torch.float64, requires_grad=True)
    by_mean, by_variance = torch.autograd.grad(
        likelihood.expected_log(y, mean, variance).sum(), (mean, variance)
    )
    omega, kappa = poisson_sites(y, mean.detach(), variance.detach(), damped=False)
    torch.testing.assert_close(omega, -2 * by_variance)
    torch.testing.assert_close(kappa, by_mean + omega * mean.detach())


@pytest.mark.parametrize("kind", KINDS)
def test_sites_are_the_slopes_of_the_average_log(kind: Family) -> None:
    likelihood, rng = family(kind), np.random.default_rng(0)
    y = torch.ones(1, len(likelihood.size)).double()
    mean, variance = (torch.full_like(y, value, requires_grad=True) for value in (-0.4, 0.3))
    value = likelihood.expected_log_quadrature(y, mean, variance)
    by_mean, by_variance = torch.autograd.grad(value.sum(), (mean, variance))
    omega, kappa = likelihood.sites(y, mean.detach(), variance.detach(), damped=False)
    torch.testing.assert_close(omega, -2 * by_variance, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(kappa, by_mean + omega * mean.detach(), rtol=1e-6, atol=1e-8)
    psi = torch.as_tensor(-0.4 + np.sqrt(0.3) * rng.normal(size=(200_000, 1))).expand(-1, y.numel())
    drawn = likelihood.log_probability(y, psi)
    error = 5 * drawn.std(0) / 200_000**0.5
    assert bool(((value[0] - drawn.mean(0)).abs() < error).all())


def test_a_site_far_above_its_count_still_bends() -> None:
    likelihood, y = (
        LogisticLikelihood("negative_binomial", torch.full((1,), 9.0)),
        torch.full((1, 1), 90.0),
    )
    far = torch.full((1, 1), 40.0), torch.zeros(1, 1)
    assert float(likelihood.sites(y, *far, damped=True)[0]) == pytest.approx(0.5 * 9 * 90 / 99)
    assert float(likelihood.sites(y, *far, damped=False)[0]) < 1e-12


def test_a_poisson_site_far_below_its_count_still_bends() -> None:
    y, far = torch.full((1, 1), 90.0), (torch.full((1, 1), -5.0), torch.zeros(1, 1))
    assert float(poisson_sites(y, *far, damped=True)[0]) == 45.0
    assert float(poisson_sites(y, *far, damped=False)[0]) == pytest.approx(math.exp(-5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variance", [0.0, 1e-8, 0.3])
def test_the_variance_of_a_rate_does_not_cancel(dtype: torch.dtype, variance: float) -> None:
    """Against E e^2ψ − (E e^ψ)² in fifty digits."""
    v = Decimal(str(variance))
    exact = float((6 + 2 * v).exp() - (6 + v).exp())
    mean, around = torch.tensor([[3.0]], dtype=dtype), torch.tensor([[variance]], dtype=dtype)
    first, spread = log_normal_moments(mean, around)
    assert float(first) == pytest.approx(math.exp(3 + variance / 2), rel=1e-6)
    assert float(spread) == pytest.approx(exact, rel=1e-5)


def test_a_point_without_variance_adds_none() -> None:
    for likelihood in (
        PoissonLikelihood(torch.ones(1)),
        family("negative_binomial").to(torch.ones(1)),
    ):
        _, total, noise = likelihood.moments(torch.linspace(-20, 60, 9)[:, None], torch.zeros(9, 1))
        assert torch.equal(total, noise)


@pytest.mark.parametrize("kind", KINDS)
def test_slopes_of_the_mean(kind: Family) -> None:
    likelihood = family(kind)
    psi = torch.tensor([[-1.0], [0.5]], dtype=torch.float64, requires_grad=True)
    mean = likelihood.moments(psi, torch.zeros_like(psi))[0]
    (slope,) = torch.autograd.grad(mean.sum(), psi)
    torch.testing.assert_close(likelihood.mean_slope(psi.detach()), slope)


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_of_a_column_is_never_above_its_evidence(kind: Family) -> None:
    """Evidence by importance sampling from q(h), widened; every c of the mean field is tried."""
    rng, likelihood = np.random.default_rng(1), family(kind)
    Phi = torch.as_tensor(rng.standard_normal((15, 2)))
    y = torch.as_tensor(likelihood.draw(Phi @ torch.tensor([[1.0], [-0.5]]).double(), rng))
    c, bounds = torch.ones_like(y), []
    for _ in range(30):
        omega = likelihood.trials(y) * expected_precision(c)
        value, mean, variance = weighted_evidence(Phi, omega, likelihood.kappa(y))
        rest = likelihood.log_coefficient(y) + likelihood.trials(y) * polya_gamma_constant(c)
        bounds.append(float(value + rest.sum()))
        c = (mean.square() + variance).sqrt()
    A = torch.eye(2).double() + Phi.T @ (omega * Phi)
    q = torch.distributions.MultivariateNormal(
        torch.linalg.solve(A, Phi.T @ likelihood.kappa(y))[:, 0], 2 * torch.linalg.inv(A)
    )
    torch.manual_seed(0)
    h = q.sample((100_000,))
    joint = likelihood.log_probability(y[:, 0], h @ Phi.T).sum(1)
    joint = joint + torch.distributions.Normal(0, 1).log_prob(h).sum(1)
    weights = joint - q.log_prob(h)
    evidence = float(weights.logsumexp(0)) - np.log(len(h))
    error = float((weights - weights.logsumexp(0)).exp().std()) * np.sqrt(len(h))
    assert np.all(np.diff(bounds) > -1e-9)  # each round raises it
    assert max(bounds) <= evidence + 5 * error
    assert max(bounds) > evidence - 3.0  # and it is not far below


def test_a_size_is_found_again_from_what_it_is_learned_as() -> None:
    sizes = torch.tensor([1e-3, 0.5, 8.0, 400.0, 990.0], dtype=torch.float64)
    torch.testing.assert_close(bounded_size(unbounded_log_size(sizes)), sizes)
