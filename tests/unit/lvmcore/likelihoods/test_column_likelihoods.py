"""Likelihoods of columns against SciPy, Monte Carlo and limit cases."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, logsumexp
from torch import Tensor

from lvmcore.likelihoods.category_columns import BernoulliColumns, CategoricalColumn, OrdinalColumn
from lvmcore.likelihoods.column import ColumnLikelihood
from lvmcore.likelihoods.count_columns import (
    NegativeBinomialColumns,
    PoissonColumns,
    ZeroInflatedColumns,
)
from lvmcore.likelihoods.number_columns import (
    BetaColumns,
    GaussianColumns,
    LogNormalColumns,
    StudentColumns,
)

LIKE = torch.zeros(1, dtype=torch.float64)
LEVELS = np.eye(4)


def _tensor(values: object) -> Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.float64))


def _number(value: Tensor) -> float:
    return float(value.detach())


def _log_normal(likelihood: LogNormalColumns) -> LogNormalColumns:
    likelihood.start(_tensor([[1.0], [2.0], [3.0], [4.0]]), torch.ones(4, 1).double())
    return likelihood


def _zero_inflated() -> ZeroInflatedColumns:
    made = ZeroInflatedColumns(1, LIKE)
    with torch.no_grad():
        made.counts.log_size.fill_(0.7)
    return made


def _ordinal() -> OrdinalColumn:
    made = OrdinalColumn(4, LIKE)
    with torch.no_grad():
        made.first.fill_(-0.8)
        made.log_steps.copy_(_tensor([-0.3, 0.2]))
    return made


def _nb_log(y: float, mean: np.ndarray, size: float) -> np.ndarray:
    return np.asarray(stats.nbinom.logpmf(y, size, size / (size + mean)))


def _zero_inflated_log(y: float, f: np.ndarray, size: float) -> np.ndarray:
    count = np.log(expit(-f[..., 1])) + _nb_log(y, np.exp(f[..., 0]), size)
    return count if y else np.logaddexp(np.log(expit(f[..., 1])), count)


#: A likelihood, cells [n, D], and log p(y | f) by SciPy of a cell at f [..., F].
Case = tuple[ColumnLikelihood, list[object], Callable[..., np.ndarray]]


def _number_cases() -> dict[str, Case]:
    gaussian, student = GaussianColumns(1, LIKE), StudentColumns(1, LIKE)
    positive = _log_normal(LogNormalColumns(1, LIKE))
    sd, freedom = _number(gaussian.noise) ** 0.5, _number(student.freedom)
    scale = _number(student.noise) ** 0.5
    centre, spread = _number(positive.centre), _number(positive.spread)
    shape = spread * _number(positive.noise) ** 0.5

    def student_t(y: float, f: np.ndarray) -> np.ndarray:
        return np.asarray(stats.t.logpdf((y - f[..., 0]) / scale, freedom) - math.log(scale))

    def log_normal(y: float, f: np.ndarray) -> np.ndarray:
        return np.asarray(stats.lognorm.logpdf(y, shape, scale=np.exp(centre + spread * f[..., 0])))

    def beta(y: float, f: np.ndarray) -> np.ndarray:
        mean = stats.norm.cdf(f[..., 0])
        return np.asarray(stats.beta.logpdf(y, 10 * mean, 10 * (1 - mean)))

    return {
        "gaussian": (gaussian, [-0.4, 1.3], lambda y, f: stats.norm.logpdf(y, f[..., 0], sd)),
        "student_t": (student, [-0.4, 9.0], student_t),
        "log_normal": (positive, [0.5, 12.0], log_normal),
        "beta": (BetaColumns(1, LIKE), [0.1, 0.85], beta),
    }


def _count_cases() -> dict[str, Case]:
    inflated = _zero_inflated()
    size = _number(inflated.counts.size)
    return {
        "poisson": (
            PoissonColumns(1, LIKE),
            [0.0, 3.0],
            lambda y, f: stats.poisson.logpmf(y, np.exp(f[..., 0])),
        ),
        "negative_binomial": (
            NegativeBinomialColumns(1, LIKE),
            [0.0, 5.0],
            lambda y, f: _nb_log(y, np.exp(f[..., 0]), 1.0),
        ),
        "zero_inflated": (inflated, [0.0, 4.0], lambda y, f: _zero_inflated_log(y, f, size)),
    }


def _category_cases() -> dict[str, Case]:
    ordinal = _ordinal()
    b = np.r_[-np.inf, ordinal.thresholds.detach().numpy(), np.inf]

    def level(y: np.ndarray, f: np.ndarray) -> np.ndarray:
        p = stats.norm.cdf(b[1:] - f) - stats.norm.cdf(b[:-1] - f)
        return np.asarray(np.log(p @ y))

    return {
        "bernoulli": (
            BernoulliColumns(1, LIKE),
            [0.0, 1.0],
            lambda y, f: stats.norm.logcdf((2 * y - 1) * f[..., 0]),
        ),
        "categorical": (
            CategoricalColumn(4, LIKE),
            [LEVELS[0], LEVELS[2]],
            lambda y, f: f @ y - logsumexp(f, -1),
        ),
        "ordinal": (ordinal, [LEVELS[0], LEVELS[3]], level),
    }


CASES = _number_cases() | _count_cases() | _category_cases()


def _case(name: str) -> tuple[ColumnLikelihood, Tensor, Callable[..., np.ndarray], int]:
    likelihood, cells, log_density = CASES[name]
    return likelihood, _tensor([np.atleast_1d(y) for y in cells]), log_density, len(cells)


def _moments(likelihood: ColumnLikelihood, n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    F = likelihood.n_functions
    mean = 0.6 * torch.randn(n, F, generator=generator, dtype=torch.float64)
    return mean, 0.1 + 0.4 * torch.rand(n, F, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", CASES)
def test_without_uncertainty_the_density_is_scipys(name: str) -> None:
    likelihood, Y, log_density, n = _case(name)
    mean, variance = _moments(likelihood, n)
    wanted = [log_density(y, f) for y, f in zip(Y.numpy(), mean.numpy(), strict=True)]
    tiny = torch.full_like(variance, 1e-16)
    for found in (
        likelihood.expected_log(Y, mean, tiny),
        likelihood.log_predictive(Y, mean, tiny),
        likelihood.smooth_bound(Y, mean, tiny),
    ):
        assert found.shape == (n, 1)
        np.testing.assert_allclose(found.detach().numpy().ravel(), np.ravel(wanted), atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_expectations_are_those_of_draws(name: str) -> None:
    likelihood, Y, log_density, n = _case(name)
    mean, variance = _moments(likelihood, n)
    rng = np.random.default_rng(0)
    f = mean.numpy() + np.sqrt(variance.numpy()) * rng.standard_normal((60_000, *mean.shape))
    logs = np.stack([np.ravel(log_density(y, f[:, i])) for i, y in enumerate(Y.numpy())], 1)
    error = 5 * logs.std(0) / math.sqrt(len(logs))
    # the quasi-random draws of a category are few
    slack = 0.05 if name == "categorical" else 1e-3
    expected = likelihood.expected_log(Y, mean, variance).detach().numpy().ravel()
    assert (np.abs(expected - logs.mean(0)) < error + slack).all()
    predictive = likelihood.log_predictive(Y, mean, variance).detach().numpy().ravel()
    density = np.exp(logs)
    spread = 5 * density.std(0) / math.sqrt(len(logs)) / density.mean(0)
    assert (np.abs(predictive - np.log(density.mean(0))) < spread + slack).all()
    bound = likelihood.smooth_bound(Y, mean, variance).detach().numpy().ravel()
    assert (bound < logs.mean(0) + error + 1e-3).all()


@pytest.mark.parametrize("name", CASES)
def test_moments_are_those_of_drawn_cells(name: str) -> None:
    likelihood, _, _, n = _case(name)
    mean, variance = _moments(likelihood, n)
    generator = torch.Generator().manual_seed(1)
    draws = 30_000
    noise = torch.randn(draws, *mean.shape, generator=generator, dtype=torch.float64)
    f = mean + variance.sqrt() * noise
    rng = np.random.default_rng(1)
    drawn = likelihood.draw(f.reshape(-1, f.shape[-1]), rng).reshape(draws, n, -1)
    first, whole, part = (x.detach().numpy() for x in likelihood.moments(mean, variance))
    error = 6 * drawn.std(0) / math.sqrt(draws)
    slack = 0.01 if name == "categorical" else 1e-3
    assert (np.abs(first - drawn.mean(0)) < error + slack).all()
    np.testing.assert_allclose(whole, drawn.var(0), rtol=0.15, atol=0.02)
    # the noise is the mean variance given f
    given = [likelihood.moments(f[i], torch.full_like(variance, 1e-16))[1] for i in range(500)]
    inner = torch.stack(given).detach().numpy()
    np.testing.assert_allclose(part, inner.mean(0), rtol=0.15, atol=0.02)
    assert (part <= whole + 1e-12).all()


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    likelihood, Y, _, n = _case(name)
    mean, variance = _moments(likelihood, n)
    mean.requires_grad_()
    variance.requires_grad_()
    if name != "categorical":  # its gradients are those of the expectation, not of the draws
        assert torch.autograd.gradcheck(
            lambda m, v: likelihood.expected_log(Y, m, v), (mean, variance), atol=1e-4
        )
    assert torch.autograd.gradcheck(
        lambda m, v: likelihood.smooth_bound(Y, m, v), (mean, variance), atol=1e-4
    )
    assert torch.autograd.gradgradcheck(
        lambda m, v: likelihood.smooth_bound(Y, m, v), (mean, variance), atol=1e-4
    )


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "zero_inflated"])
def test_probabilities_of_counts_add_up_to_one(name: str) -> None:
    likelihood = CASES[name][0]
    mean, variance = _moments(likelihood, 1)
    Y = torch.arange(400, dtype=torch.float64)[:, None]
    many = likelihood.log_predictive(Y, mean.expand(400, -1), variance.expand(400, -1))
    assert _number(many.exp().sum()) == pytest.approx(1, abs=1e-3)


def test_ordinal_column_of_two_levels_is_a_probit() -> None:
    ordinal, bernoulli = OrdinalColumn(2, LIKE), BernoulliColumns(1, LIKE)
    mean, variance = _moments(bernoulli, 2)
    levels = _tensor(np.eye(2))
    ones = _tensor([[0.0], [1.0]])
    for what in ("expected_log", "log_predictive"):
        found = getattr(ordinal, what)(levels, mean, variance).detach().numpy()
        np.testing.assert_allclose(found, getattr(bernoulli, what)(ones, mean, variance), atol=1e-6)


def test_limits_of_student_t_negative_binomial_and_zero_inflation() -> None:
    gaussian, student = GaussianColumns(1, LIKE), StudentColumns(1, LIKE)
    poisson, counts = PoissonColumns(1, LIKE), NegativeBinomialColumns(1, LIKE)
    inflated = ZeroInflatedColumns(1, LIKE)
    with torch.no_grad():
        student.log_freedom.fill_(math.log(1e7))
        for one in (counts, inflated.counts):
            one.log_size.fill_(math.log(1000.0))
    mean, variance = _moments(gaussian, 2)
    Y = _tensor([[0.0], [1.0]])
    np.testing.assert_allclose(
        student.expected_log(Y, mean, variance).detach(),
        gaussian.expected_log(Y, mean, variance).detach(),
        atol=1e-5,
    )
    near = poisson.expected_log(Y, mean, variance).detach()
    np.testing.assert_allclose(counts.expected_log(Y, mean, variance).detach(), near, atol=5e-3)
    both = torch.cat([mean, torch.full_like(mean, -40.0)], 1)
    spread = torch.cat([variance, torch.full_like(variance, 1e-12)], 1)
    np.testing.assert_allclose(inflated.expected_log(Y, both, spread).detach(), near, atol=5e-3)


@pytest.mark.parametrize("name", CASES)
def test_start_reproduces_the_marginal_distribution(name: str) -> None:
    likelihood = type(CASES[name][0])(4 if name in ("categorical", "ordinal") else 1, LIKE)
    f = torch.linspace(-1, 1, 3000, dtype=torch.float64)[:, None]
    rng = np.random.default_rng(5)
    cells = _tensor(CASES[name][0].draw(f.expand(-1, likelihood.n_functions), rng))
    if name == "gaussian":
        cells = (cells - cells.mean()) / cells.std()
    likelihood.start(cells, torch.ones(len(cells), 1).double())
    prior = torch.zeros(1, likelihood.n_functions).double()
    mean = likelihood.moments(*likelihood.values(prior, prior + 1))[0].detach()[0]
    sd = cells.std(0).numpy()
    assert (np.abs(mean.numpy() - cells.mean(0).numpy()) < 0.35 * sd + 0.02).all()
    inputs = likelihood.inputs(cells)
    assert torch.isfinite(inputs).all()
    assert _number(inputs.mean().abs()) < 0.5
