"""Expectations under the probit likelihood against adaptive quadrature, sampling and limits."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from lvmcore.likelihoods import bernoulli_probit_expectation, probit_mean, probit_variance

MEANS = (-4.0, -1.5, 0.0, 0.7, 3.0)


def expectation(function, mean: float, variance: float) -> float:  # type: ignore[no-untyped-def]
    """E g(f) for f ~ N(mean, variance), adaptively."""
    sd = variance**0.5
    value, _ = quad(
        lambda f: function(f) * norm.pdf(f, mean, sd),
        mean - 12 * sd,
        mean + 12 * sd,
        points=[mean, 0.0] if abs(mean) < 12 * sd else [mean],
        epsabs=1e-14,
        epsrel=1e-12,
        limit=200,
    )
    return float(value)


def tensors(*values: float) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor([value], dtype=torch.float64) for value in values)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize(
    ("variance", "error"), [(0.1, 1e-8), (0.5, 1e-8), (2.0, 1e-7), (10.0, 3e-4), (100.0, 6e-3)]
)
def test_expected_log_probability(variance: float, error: float, mean: float, sign: float) -> None:
    expected = expectation(lambda f: log_ndtr(sign * f), mean, variance)
    got = bernoulli_probit_expectation(*tensors(sign, mean, variance))
    assert float(got) == pytest.approx(expected, rel=error, abs=error)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("variance", [0.1, 1.0, 10.0])
def test_mean_probability(variance: float, mean: float) -> None:
    got = probit_mean(*tensors(mean, variance))
    assert float(got) == pytest.approx(expectation(ndtr, mean, variance), rel=1e-9)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("variance", [0.1, 1.0, 10.0, 100.0])
def test_variance_of_the_probability(variance: float, mean: float) -> None:
    first = expectation(ndtr, mean, variance)
    expected = expectation(lambda f: (ndtr(f) - first) ** 2, mean, variance)
    got = probit_variance(*tensors(mean, variance))
    assert float(got) == pytest.approx(expected, abs=1e-6)


def test_without_variance_they_are_plain_values() -> None:
    mean = torch.tensor([-30.0, -2.0, 0.0, 1.0], dtype=torch.float64)
    tiny = torch.full_like(mean, 1e-14)
    one = torch.ones_like(mean)
    torch.testing.assert_close(
        bernoulli_probit_expectation(one, mean, tiny),
        torch.as_tensor(log_ndtr(mean.numpy())),
        rtol=1e-8,
        atol=1e-8,
    )
    torch.testing.assert_close(probit_mean(mean, tiny), torch.as_tensor(ndtr(mean.numpy())))
    assert float(probit_variance(mean, tiny).max()) < 1e-12


def test_probabilities_of_the_two_signs_add_up() -> None:
    mean = torch.linspace(-5, 5, 11, dtype=torch.float64)
    variance = torch.linspace(0.1, 9, 11, dtype=torch.float64)
    total = probit_mean(mean, variance) + probit_mean(-mean, variance)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_agrees_with_draws() -> None:
    rng = np.random.default_rng(0)
    mean, variance, n = 0.8, 1.7, 400_000
    p = ndtr(mean + np.sqrt(variance) * rng.standard_normal(n))
    got = probit_mean(*tensors(mean, variance)), probit_variance(*tensors(mean, variance))
    assert float(got[0]) == pytest.approx(p.mean(), abs=5 * p.std() / n**0.5)
    squares = (p - p.mean()) ** 2
    assert float(got[1]) == pytest.approx(p.var(), abs=5 * squares.std() / n**0.5)


def test_gradients_are_exact_in_any_shape() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn((2, 3), generator=generator, dtype=torch.float64)
    variance = mean.square() + 0.2
    sign = torch.where(mean > 0.3, 1.0, -1.0).double()
    leaves = mean.requires_grad_(), variance.detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda m, v: bernoulli_probit_expectation(sign, m, v), leaves)
    assert torch.autograd.gradcheck(probit_mean, leaves)
