"""Central intervals of predicted cells, against draws of their likelihoods."""

import numpy as np
import pytest
import torch
from scipy.stats import lognorm, norm

from lvmcore.likelihoods.catalogue import read_likelihoods
from lvmcore.likelihoods.intervals import predictive_interval, predictive_log_density
from lvmcore.likelihoods.mixed import MixedLikelihood


def test_gaussian_columns_have_symmetric_intervals() -> None:
    mean, variance = np.array([[1.0, -2.0]]), np.array([[4.0, 0.25]])
    for terms in (None, read_likelihoods("gaussian, student_t")):
        lower, upper = predictive_interval(terms, mean, variance, 0.9)
        z = norm.ppf(0.95)
        np.testing.assert_allclose(lower, [[1 - 2 * z, -2 - 0.5 * z]])
        np.testing.assert_allclose(upper, [[1 + 2 * z, -2 + 0.5 * z]])


def test_positive_numbers_have_the_quantiles_of_a_log_normal_distribution() -> None:
    law = lognorm(s=0.8, scale=np.exp(1.3))
    mean, variance = np.array([[law.mean()]]), np.array([[law.var()]])
    ends = predictive_interval(read_likelihoods("log_normal"), mean, variance, 0.8)
    np.testing.assert_allclose(np.ravel(ends), law.ppf([0.1, 0.9]))


@pytest.mark.parametrize(
    ("name", "mean", "variance"),
    [
        ("gaussian", 1.3, 0.4),
        ("log_normal", 2.0, 1.5),
        ("beta", 0.3, 0.02),
        ("poisson", 2.5, 2.5),
        ("poisson", 2.5, 1.0),
        ("negative_binomial", 2.5, 6.0),
    ],
)
def test_densities_have_the_mean_and_variance(name: str, mean: float, variance: float) -> None:
    terms = read_likelihoods(name)
    if name.endswith(("poisson", "binomial")):
        y, step = np.arange(400.0), 1.0
    else:
        ends = {"gaussian": (-6, 8), "log_normal": (1e-9, 200), "beta": (1e-9, 1 - 1e-9)}[name]
        y, step = np.linspace(*ends, 400_001, retstep=True)
    given = [np.full((len(y), 1), part) for part in (mean, variance)]
    density = step * np.exp(predictive_log_density(terms, y[:, None], *given)[:, 0])
    assert density.sum() == pytest.approx(1, abs=1e-4)
    assert density @ y == pytest.approx(mean, rel=1e-3)
    expected = mean if name == "poisson" else variance  # counts vary no less than Poisson counts
    assert density @ (y - mean) ** 2 == pytest.approx(expected, rel=1e-3)


def test_levels_and_binary_cells_have_no_interval() -> None:
    mean = np.array([[0.2, 0.5, 0.3, 0.7]])
    terms = read_likelihoods("categorical(3), bernoulli")
    lower, upper = predictive_interval(terms, mean, np.full_like(mean, 0.2), 0.9)
    np.testing.assert_array_equal(lower, mean)
    np.testing.assert_array_equal(upper, mean)
    assert np.isnan(predictive_log_density(terms, mean, mean, np.full_like(mean, 0.2))).all()


@pytest.mark.parametrize("name", ["log_normal", "beta", "poisson", "negative_binomial"])
@pytest.mark.parametrize("spread", [0.02, 0.4])
def test_draws_of_a_likelihood_are_in_the_interval(name: str, spread: float) -> None:
    likelihood = MixedLikelihood(
        read_likelihoods(name), torch.zeros(1).double(), torch.ones(1).double()
    )
    f = torch.linspace(-1.0, 1.0, 3).double()[:, None]
    mean, variance, _ = (part.detach().numpy() for part in likelihood.moments(f, f * 0 + spread))
    ends = predictive_interval(read_likelihoods(name), mean, variance, 0.9)
    rng = np.random.default_rng(0)
    draws = np.stack([likelihood.draw(f, f * 0 + spread, rng) for _ in range(8000)])
    inside = ((ends[0] <= draws) & (draws <= ends[1])).mean(axis=0)
    assert (inside > (0.88 if spread < 0.1 else 0.85)).all(), inside
    if name in ("log_normal", "beta"):
        assert (inside < 0.92).all(), inside


def test_a_count_without_excess_variance_has_the_quantiles_of_a_poisson_count() -> None:
    terms = read_likelihoods("poisson")
    lower, upper = predictive_interval(terms, np.full((1, 1), 4.0), np.full((1, 1), 4.0), 0.9)
    assert (lower, upper) == (1.0, 8.0)
