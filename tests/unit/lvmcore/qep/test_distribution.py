"""The q-exponential distribution against the Gaussian, integrals, draws and its own bounds."""

import math

import pytest
import torch
from scipy import stats
from scipy.integrate import dblquad, quad
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from lvmcore.errors import ConfigError
from lvmcore.qep.distribution import (
    QExponential,
    check_q,
    conditional_shrinkage,
    covariance_factor,
    kl_bound,
    log_radial,
    radial_slope,
)

QS = (0.5, 1.0, 1.25, 1.7)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def factor_of(n: int, seed: int = 1) -> Tensor:
    A = torch.randn(n, n, generator=generator(seed), dtype=torch.float64)
    return torch.linalg.cholesky(A @ A.T + 0.5 * torch.eye(n))


def block(n: int, q: float) -> QExponential:
    location = torch.randn(n, generator=generator(2), dtype=torch.float64)
    return QExponential(location, factor_of(n), q)


# ---- the Gaussian ----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 4])
def test_two_is_the_gaussian(n: int) -> None:
    ours = block(n, 2.0)
    normal = MultivariateNormal(ours.location, scale_tril=ours.scale)
    u = ours.draw(7, generator())
    torch.testing.assert_close(ours.log_prob(u), normal.log_prob(u), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ours.entropy(), normal.entropy(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ours.covariance, normal.covariance_matrix, rtol=1e-10, atol=1e-10)


def test_at_two_the_divergence_is_exact() -> None:
    mean = torch.randn(3, 4, generator=generator(), dtype=torch.float64)
    factor = torch.stack([0.3 * factor_of(4, seed) for seed in (4, 5, 6)])
    wanted = sum(
        kl_divergence(
            MultivariateNormal(m, scale_tril=L),
            MultivariateNormal(torch.zeros(4).double(), torch.eye(4).double()),
        )
        for m, L in zip(mean, factor, strict=True)
    )
    torch.testing.assert_close(kl_bound(mean, factor, 2.0), wanted, rtol=1e-10, atol=1e-10)


def test_at_two_a_conditional_is_the_gaussian_s() -> None:
    ours = block(5, 2.0)
    u = ours.draw(1, generator())[0]
    found, factor = ours.condition(u[2:])
    C, away = ours.covariance, u[2:] - ours.location[2:]
    gain = C[:2, 2:] @ torch.linalg.inv(C[2:, 2:])
    torch.testing.assert_close(found.location, ours.location[:2] + gain @ away)
    torch.testing.assert_close(factor * found.scale @ found.scale.T, C[:2, :2] - gain @ C[2:, :2])
    assert float(factor) == pytest.approx(1, abs=1e-8)


# ---- below it --------------------------------------------------------------------------


@pytest.mark.slow(quick=["0.5", "1.0", "1.25"])
@pytest.mark.parametrize("q", QS)
def test_densities_integrate_to_one(q: float) -> None:
    one = block(1, q)

    def density(t: float) -> float:
        """Of log |x − μ|, either side."""
        x = one.location + math.exp(t)
        return 2 * math.exp(float(one.log_prob(x)) + t)

    assert quad(density, -33, 25, limit=400)[0] == pytest.approx(1, abs=1e-3)
    if q >= 1:
        two = QExponential(torch.zeros(2).double(), factor_of(2), q)
        half_log_det = 0.5 * float(two.log_det)

        def ring(angle: float, radius: float) -> float:
            u = two.scale @ torch.tensor(
                [radius * math.cos(angle), radius * math.sin(angle)], dtype=torch.float64
            )
            return math.exp(float(two.log_prob(u)) + half_log_det) * radius

        inside = dblquad(ring, 0, 40, 0, 2 * math.pi, epsabs=1e-5)[0]
        assert inside == pytest.approx(1, abs=1e-3)


@pytest.mark.slow(quick=["1-0.5", "1-1.0", "1-1.25"])
@pytest.mark.parametrize("q", QS)
@pytest.mark.parametrize("n", [1, 3, 20])
def test_draws_have_the_radial_law_the_covariance_and_the_entropy(q: float, n: int) -> None:
    ours = block(n, q)
    u = ours.draw(100_000, generator(3))
    power = ours.square(u) ** (q / 2)
    assert stats.kstest(power[:5000].numpy(), stats.chi2(n).cdf).pvalue > 1e-3
    away = torch.linalg.solve_triangular(ours.scale, (u - ours.location).T, upper=False)
    products = away[:, None] * away
    error = 6 * products.std(-1) / math.sqrt(len(u))
    wanted = covariance_factor(n, q) * torch.eye(n)
    assert bool(((products.mean(-1) - wanted).abs() < error).all())
    logs = -ours.log_prob(u)
    error = 5 * float(logs.std()) / math.sqrt(len(u))
    assert float(ours.entropy()) == pytest.approx(float(logs.mean()), abs=error)


@pytest.mark.parametrize("q", [*QS, 2.0])
def test_the_divergence_is_bounded_from_above(q: float) -> None:
    mean = 0.3 * torch.randn(2, 3, generator=generator(), dtype=torch.float64)
    factor = torch.stack([0.4 * factor_of(3, seed) for seed in (4, 5)])
    ours = QExponential(mean.reshape(-1), torch.block_diag(*factor), q)
    prior = QExponential(torch.zeros(6).double(), torch.eye(6).double(), q)
    u = ours.draw(200_000, generator(7))
    each = ours.log_prob(u) - prior.log_prob(u)
    error = 4 * float(each.std()) / math.sqrt(len(u))
    found = float(kl_bound(mean, factor, q))
    assert found > float(each.mean()) - error
    if q == 2.0:
        assert found == pytest.approx(float(each.mean()), abs=error)
    elif q >= 1:  # and not far above
        assert found < float(each.mean()) + 3


@pytest.mark.parametrize("q", QS)
def test_a_tangent_lies_below_and_touches(q: float) -> None:
    r = torch.linspace(0.5, 200, 60, dtype=torch.float64, requires_grad=True)
    values = log_radial(r, 10, q)
    (slope,) = torch.autograd.grad(values.sum(), r)
    torch.testing.assert_close(radial_slope(r.detach(), 10, q), slope)
    assert bool((slope < 0).all())
    for i in (0, 20, 59):
        tangent = values[i] + slope[i] * (r - r[i])
        assert bool((tangent <= values + 1e-9).all())


@pytest.mark.parametrize("q", QS)
def test_a_conditional_is_that_of_the_joint_density(q: float) -> None:
    """One number given two others, by the joint density along its line."""
    ours = block(3, q)
    known = ours.location[1:] + torch.tensor([0.7, -1.1], dtype=torch.float64)
    found, factor = ours.condition(known)
    middle, sd = float(found.location), float(found.scale)
    x = middle + sd * torch.linspace(-400, 400, 800_001, dtype=torch.float64)
    logs = ours.log_prob(torch.stack([x, *(one.expand_as(x) for one in known)], -1))
    share = (logs - logs.max()).exp()
    mean = float((share * x).sum() / share.sum())
    variance = float((share * (x - mean).square()).sum() / share.sum())
    assert mean == pytest.approx(middle, abs=1e-3 * sd)
    assert variance == pytest.approx(float(factor) * sd**2, rel=1e-3)


def test_many_known_numbers_have_a_limit() -> None:
    q, n, left = 1.2, 2000, 3
    square = torch.tensor(2100.0, dtype=torch.float64)
    limit = 1 / (n * (1 - q / 2) / square + q / 2 * square ** (q / 2 - 1))
    assert float(conditional_shrinkage(square, left, n, q)) == pytest.approx(float(limit), rel=1e-2)


def test_draws_carry_gradients() -> None:
    q = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    location = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    u = QExponential(location, factor_of(3), q).draw(5, generator())
    slopes = torch.autograd.grad(u.square().sum(), (q, location))
    assert all(bool((slope != 0).any()) for slope in slopes)


# ---- bad input -------------------------------------------------------------------------


def test_the_pole_is_finite() -> None:
    ours = block(4, 1.0)
    at = ours.location.clone().requires_grad_()
    density = ours.log_prob(at)
    (slope,) = torch.autograd.grad(density, at)
    density = density.detach()
    assert bool(torch.isfinite(density))
    assert bool(torch.isfinite(slope).all())
    assert float(density) > float(ours.log_prob(ours.location + 1e-3))


@pytest.mark.parametrize("q", [0.0, -1.0, 0.05, 2.5, math.nan])
def test_other_q_are_refused(q: float) -> None:
    with pytest.raises(ConfigError, match=r"expected a number from 0\.1 to 2"):
        check_q(q)
    assert check_q(1.5) == 1.5


@pytest.mark.parametrize("q", [0.1, 0.3])
def test_a_small_q_stays_finite(q: float) -> None:
    ours = block(3, q)
    u = ours.draw(50, generator())
    assert bool(torch.isfinite(ours.log_prob(u)).all())
    assert bool(torch.isfinite(ours.covariance).all())
    assert bool(torch.isfinite(ours.condition(u[0, 1:])[1]))
