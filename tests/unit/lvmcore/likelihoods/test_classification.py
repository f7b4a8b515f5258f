"""Expectations under the probit likelihood against adaptive quadrature, sampling and limits."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import log_ndtr, logsumexp, ndtr
from scipy.stats import norm

from lvmcore.likelihoods.classification import (
    bernoulli_probit_expectation,
    label_expectation,
    label_log_probability,
    label_probability,
    label_probability_variance,
    probit_mean,
    probit_variance,
    softmax_expectation,
    softmax_log_mean,
    softmax_moments,
)

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


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-9), (torch.float32, 2e-3)])
def test_expected_log_probability_far_from_the_boundary(dtype: torch.dtype, error: float) -> None:
    # log Φ and its slope have two formulas, which meet at −35, in single precision at −12; without
    # variance z is the mean.
    places = [-300.0, -60.0, -37.0, -35.5, -34.5, -20.0, -14.0, -12.5, -11.5, -5.0, 0.0, 20.0]
    mean = torch.tensor(places, dtype=dtype, requires_grad=True)
    z = np.array(places)
    got = bernoulli_probit_expectation(torch.ones_like(mean), mean, torch.full_like(mean, 1e-30))
    np.testing.assert_allclose(got.detach().numpy(), log_ndtr(z), rtol=0.01 * error, atol=error**2)
    (slope,) = torch.autograd.grad(got.sum(), mean)
    expected = np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(slope.numpy(), expected, rtol=error, atol=error**2)


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


# ---- softmax -------------------------------------------------------------------------------------


def softmax_case(C: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One-hot classes, means and variances of six points."""
    rng = np.random.default_rng(seed)
    chosen = np.eye(C)[rng.integers(C, size=6)]
    mean, variance = 2 * rng.standard_normal((6, C)), rng.uniform(0.1, 3.0, (6, C))
    return torch.as_tensor(chosen), torch.as_tensor(mean), torch.as_tensor(variance)


@pytest.mark.slow(quick=["2", "4"])
@pytest.mark.parametrize("C", [2, 4, 12])
def test_softmax_against_many_draws(C: int) -> None:
    chosen, mean, variance = softmax_case(C)
    f = np.random.default_rng(1).standard_normal((100_000, 6, C))
    f = mean.numpy() + np.sqrt(variance.numpy()) * f
    log_p = f - logsumexp(f, axis=-1, keepdims=True)
    p = np.exp(log_p)
    expected = (log_p * chosen.numpy()).sum(-1).mean(0)
    got = softmax_expectation(chosen, mean, variance)
    np.testing.assert_allclose(got, expected, atol=0.05)
    first, second = softmax_moments(mean, variance)
    np.testing.assert_allclose(first, p.mean(0), atol=0.01)
    np.testing.assert_allclose(second, p.var(0), atol=0.01)
    np.testing.assert_allclose(first.sum(1), 1)


@pytest.mark.parametrize("gap", [-3.0, 0.0, 1.5])
def test_softmax_of_two_classes_is_a_logistic_of_their_difference(gap: float) -> None:
    chosen = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    mean = torch.tensor([[0.4 + gap, 0.4]], dtype=torch.float64)
    variance = torch.tensor([[0.7, 1.1]], dtype=torch.float64)
    expected = expectation(lambda d: -np.logaddexp(0, -d), gap, 1.8)
    got = softmax_expectation(chosen, mean, variance)
    assert float(got) == pytest.approx(expected, abs=0.02)
    p = expectation(lambda d: 1 / (1 + np.exp(-d)), gap, 1.8)
    assert float(softmax_moments(mean, variance)[0][0, 0]) == pytest.approx(p, abs=0.005)


@pytest.mark.parametrize("C", [2, 5])
def test_the_log_of_the_mean_softmax(C: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the averages over the draws, and its gradients by differences, in any blocks."""
    chosen, mean, variance = softmax_case(C)
    got = softmax_log_mean(chosen, mean, variance)
    wanted = (softmax_moments(mean, variance)[0] * chosen).sum(1).log()
    torch.testing.assert_close(got, wanted)
    monkeypatch.setattr("lvmcore.likelihoods.classification.CHUNK_CELLS", 2 * 128 * C)
    torch.testing.assert_close(softmax_log_mean(chosen, mean, variance), got)
    leaves = mean.requires_grad_(), variance.requires_grad_()
    assert torch.autograd.gradcheck(lambda m, v: softmax_log_mean(chosen, m, v), leaves)


@pytest.mark.parametrize("link", ["probit", "softmax"])
@pytest.mark.parametrize("far", [-3.0, -30.0, -1000.0])
def test_the_log_probability_of_a_label_far_from_its_function(link: Any, far: float) -> None:
    """Two functions f ~ N(±far/2, 0.01): softmax sees the difference, the probit each of them."""
    sign = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    mean = torch.tensor([[far / 2, -far / 2]], dtype=torch.float64, requires_grad=True)
    variance = torch.full_like(mean, 0.01)
    got = label_log_probability(link, sign, mean, variance)
    if link == "probit":
        wanted = 2 * log_ndtr(far / 2 / 1.01**0.5)
    else:  # log E logistic(d), d ~ N(far, 0.02); in the tail logistic(d) = exp(d)
        wanted = (
            np.log(expectation(lambda d: 1 / (1 + np.exp(-d)), far, 0.02))
            if far > -10
            else far + 0.01
        )
    assert float(got.detach()) == pytest.approx(wanted, abs=0.002)
    (slope,) = torch.autograd.grad(got.sum(), mean)
    assert bool(torch.isfinite(slope).all())
    assert float((sign * slope).min()) > 0.5


def test_softmax_without_variance_is_the_plain_one() -> None:
    chosen, mean, variance = softmax_case(3)
    tiny = torch.full_like(variance, 1e-16)
    expected = (torch.log_softmax(mean, 1) * chosen).sum(1)
    torch.testing.assert_close(softmax_expectation(chosen, mean, tiny), expected)
    torch.testing.assert_close(softmax_moments(mean, tiny)[0], torch.softmax(mean, 1))
    torch.testing.assert_close(softmax_log_mean(chosen, mean, tiny), expected)


@pytest.mark.slow
def test_softmax_gradients_are_those_of_the_expectation() -> None:
    """By differences of an average over many draws, the same for both ends."""
    chosen, mean, variance = (part[:2] for part in softmax_case(3))
    mean.requires_grad_()
    variance.requires_grad_()
    got = torch.autograd.grad(softmax_expectation(chosen, mean, variance).sum(), (mean, variance))
    z = np.random.default_rng(2).standard_normal((200_000, 2, 3))

    def brute(m: np.ndarray, v: np.ndarray) -> float:
        f = m + np.sqrt(v) * z
        log_p = f - logsumexp(f, axis=-1, keepdims=True)
        return float((log_p * chosen.numpy()).sum(-1).mean(0).sum())

    m, v, h = mean.detach().numpy(), variance.detach().numpy(), 1e-3
    for n in range(2):
        for c in range(3):
            step = np.zeros((2, 3))
            step[n, c] = h
            by_mean = (brute(m + step, v) - brute(m - step, v)) / (2 * h)
            by_variance = (brute(m, v + step) - brute(m, v - step)) / (2 * h)
            assert float(got[0][n, c]) == pytest.approx(by_mean, abs=0.01)
            assert float(got[1][n, c]) == pytest.approx(by_variance, abs=0.01)
    assert (got[1] <= 0).all()  # a concave log likelihood


def test_many_points_in_chunks_are_as_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    case = softmax_case(4)
    whole = softmax_expectation(*case), *softmax_moments(*case[1:])
    monkeypatch.setattr("lvmcore.likelihoods.classification.CHUNK_CELLS", 7 * 24)
    torch.testing.assert_close((softmax_expectation(*case), *softmax_moments(*case[1:])), whole)


@pytest.mark.parametrize("parts", [2, 8])
def test_parts_take_turns_with_the_draws_of_the_softmax(parts: int) -> None:
    """Rows that are there once a part have all the draws between them."""
    chosen, mean, variance = softmax_case(3)
    leaves = mean.requires_grad_(), variance.requires_grad_()
    whole = softmax_expectation(chosen, *leaves)
    repeated = [part.repeat(parts, 1) for part in (chosen, *leaves)]
    found = softmax_expectation(repeated[0], repeated[1], repeated[2], parts=parts)
    each = found.reshape(parts, -1)
    torch.testing.assert_close(each.mean(0), whole)
    assert float((each - whole).detach().abs().max()) > 1e-3
    torch.testing.assert_close(
        torch.autograd.grad(found.sum() / parts, leaves), torch.autograd.grad(whole.sum(), leaves)
    )


def test_the_link_chooses() -> None:
    chosen, mean, variance = softmax_case(3)
    signs = 2 * chosen - 1
    one_by_one = bernoulli_probit_expectation(signs, mean, variance).sum(1)
    torch.testing.assert_close(label_expectation("probit", signs, mean, variance), one_by_one)
    together = softmax_expectation(chosen, mean, variance)
    torch.testing.assert_close(label_expectation("softmax", signs, mean, variance), together)
    torch.testing.assert_close(
        label_probability("probit", mean, variance), probit_mean(mean, variance)
    )
    first, second = softmax_moments(mean, variance)
    torch.testing.assert_close(label_probability("softmax", mean, variance), first)
    torch.testing.assert_close(label_probability_variance("softmax", mean, variance), second)
    torch.testing.assert_close(
        label_probability_variance("probit", mean, variance), probit_variance(mean, variance)
    )
