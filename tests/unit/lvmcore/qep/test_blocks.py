"""Blocks of a given covariance against integrals, draws and the Gaussian; what mixes to noise."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import gamma, logsumexp, ndtr
from scipy.stats import norm
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from lvmcore.errors import ConfigError
from lvmcore.qep.blocks import block_kl, block_weight, log_block, noise_mixture
from lvmcore.qep.distribution import QExponential, covariance_factor, log_radial

QS = (0.5, 1.0, 1.5)


def squares(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def exact(square: Tensor, n: int, q: float) -> Tensor:
    """Log density of a block with C = I, pole included."""
    factor = covariance_factor(n, q)
    return log_radial(factor * square, n, q) + 0.5 * n * factor.log()


@pytest.mark.parametrize("n", [1, 2, 30])
def test_at_two_a_block_is_gaussian(n: int) -> None:
    e = squares(0.0, 0.3, 2.0, 80.0)
    torch.testing.assert_close(log_block(e, n, 2.0), -0.5 * (n * math.log(2 * math.pi) + e))
    torch.testing.assert_close(block_weight(e, n, 2.0), torch.ones_like(e))


@pytest.mark.parametrize("q", QS)
def test_a_number_has_a_density_of_variance_one(q: float) -> None:
    """But for what the tangent leaves out next to the pole, which is little and never too much."""

    def moment(power: int) -> float:
        # u = t^4 takes the pole out of the integral.
        value = quad(
            lambda t: (
                8 * t**3 * t ** (4 * power) * math.exp(float(log_block(squares(t**8), 1, q)[0]))
            ),
            0,
            12,
            limit=400,
        )[0]
        return float(value)

    # P(|u| < 0.01) = 2 Φ((0.01 √ρ)^{q/2}) − 1 is where the tangent is.
    near = 2 * ndtr((0.01 * math.sqrt(float(covariance_factor(1, q)))) ** (q / 2)) - 1
    assert 1 - near < moment(0) < 1
    assert moment(2) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("q", QS)
@pytest.mark.parametrize("n", [1, 3, 40])
def test_a_block_falls_is_convex_and_lies_above_its_tangents(n: int, q: float) -> None:
    e = torch.logspace(-8, 3, 200, dtype=torch.float64).mul(n).requires_grad_()
    value = log_block(e, n, q)
    (slope,) = torch.autograd.grad(value.sum(), e)
    torch.testing.assert_close(block_weight(e.detach(), n, q), -2 * slope)
    assert bool((slope < 0).all())
    assert bool((slope.diff() >= -1e-12).all())
    at = e.detach()
    tangents = value[:, None] - 0.5 * block_weight(at, n, q)[:, None] * (at - at[:, None])
    assert bool((value >= tangents - 1e-9).all())
    assert bool((value <= exact(at, n, q) + 1e-9).all())
    torch.testing.assert_close(value[at > 1e-4 * n], exact(at, n, q)[at > 1e-4 * n])


@pytest.mark.parametrize("q", QS)
def test_blocks_have_the_covariance_that_is_asked_for(q: float) -> None:
    n = 3
    draws = QExponential(torch.zeros(n).double(), torch.eye(n).double(), q).draw(
        200_000, torch.Generator().manual_seed(0)
    )
    u = draws / covariance_factor(n, q).sqrt()
    torch.testing.assert_close(u.mT.cov(), torch.eye(n).double(), rtol=0, atol=0.05)


@pytest.mark.parametrize("q", [*QS, 2.0])
@pytest.mark.parametrize(("spread", "loss"), [(1.0, 1.5), (0.1, 0.05)])
def test_the_divergence_is_no_less_than_that_of_draws(q: float, spread: float, loss: float) -> None:
    """And near where all draws are about as far out."""
    n, g = 6, torch.Generator().manual_seed(1)
    mean = torch.randn(n, generator=g, dtype=torch.float64)
    root = 0.4 * torch.randn(n, n, generator=g, dtype=torch.float64) + 0.3 * torch.eye(n)
    root = spread * root
    mine = MultivariateNormal(mean, root @ root.mT)
    torch.manual_seed(0)
    v = mine.sample((400_000,))
    sampled = float((mine.log_prob(v) - exact(v.square().sum(-1), n, q)).mean())
    prior = MultivariateNormal(torch.zeros(n).double(), torch.eye(n).double())
    expected = mean.square().sum() + root.square().sum()
    found = float(block_kl(kl_divergence(mine, prior), expected, n, q))
    assert sampled - 0.01 < found < sampled + loss * (2 - q) + 0.01


@pytest.mark.parametrize(
    ("q", "near", "logs"), [(1.9, 2e-3, 0.03), (1.5, 2e-3, 0.06), (1.0, 0.02, 0.2)]
)
def test_normal_distributions_mix_to_the_noise(q: float, near: float, logs: float) -> None:
    """|u| √ρ = |g|^{2/q}, so that P(|u| ≤ a) = 2 Φ((a √ρ)^{q/2}) − 1."""
    variances, weights = noise_mixture(q)
    assert len(weights) <= 8
    assert weights.sum() == pytest.approx(1)
    assert weights @ variances == pytest.approx(1)
    fourth = gamma(0.5 + 4 / q) * gamma(0.5) / gamma(0.5 + 2 / q) ** 2
    assert 3 * weights @ variances**2 == pytest.approx(fourth, rel=0.06)
    a = np.geomspace(2e-3, 6, 200)
    z = a * math.sqrt(float(covariance_factor(1, q)))
    within = (2 * ndtr(a[:, None] / np.sqrt(variances)) - 1) @ weights
    np.testing.assert_allclose(within, 2 * ndtr(z ** (q / 2)) - 1, atol=near)
    middle = (a > 0.01) & (z ** (q / 2) < 3)
    mixed = logsumexp(norm.logpdf(a[:, None], 0, np.sqrt(variances)), 1, b=weights)
    wanted = exact(torch.as_tensor(a) ** 2, 1, q).numpy()
    np.testing.assert_allclose(mixed[middle], wanted[middle], atol=logs)


def test_one_normal_distribution_is_the_noise_at_two() -> None:
    for part in noise_mixture(2.0):
        np.testing.assert_array_equal(part, [1.0])


def test_other_q_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"q=2\.1 cannot be used"):
        noise_mixture(2.1)
