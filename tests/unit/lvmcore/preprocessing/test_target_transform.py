"""Transforms of a target: SciPy's as a second route, densities, quantiles and moments."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import lognorm, norm, yeojohnson

from lvmcore.preprocessing.target_column import NumberTarget, PredictiveMixture
from lvmcore.preprocessing.target_transform import IDENTITY, TargetTransform

POWERS = [TargetTransform("yeo-johnson", exponent, 3.0) for exponent in (0.0, 0.35, 1.0, 1.6, 2.0)]
ALL = [IDENTITY, TargetTransform("log"), *POWERS]


def values(transform: TargetTransform) -> NDArray[Any]:
    y = np.array([-400.0, -9.0, -0.5, 0.0, 1e-9, 0.7, 30.0, 2000.0])
    return y[y > 0] if transform.name == "log" else y


@pytest.mark.parametrize("transform", ALL)
def test_the_inverse_and_the_derivative_are_those_of_the_transform(
    transform: TargetTransform,
) -> None:
    y = values(transform)
    np.testing.assert_allclose(transform.inverse(transform.forward(y)), y, rtol=1e-9, atol=1e-12)
    step = 1e-6 * np.maximum(np.abs(y), 1e-9)
    slope = (transform.forward(y + step) - transform.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(transform.log_derivative(y)), slope, rtol=1e-4)
    assert (np.diff(transform.forward(y)) > 0).all()


@pytest.mark.parametrize("transform", POWERS)
def test_yeo_johnson_is_that_of_scipy(transform: TargetTransform) -> None:
    y = values(transform)
    other = yeojohnson(y / transform.unit, transform.exponent)
    np.testing.assert_allclose(transform.forward(y), other, rtol=1e-10, atol=1e-14)


def test_the_unit_is_a_quantile_of_the_sizes_so_that_the_transform_has_no_unit() -> None:
    y = np.array([0.0, *np.arange(1.0, 12.0)])
    assert TargetTransform.yeo_johnson(0.5, y).unit == pytest.approx(2.0)
    one, two = TargetTransform.yeo_johnson(0.5, y), TargetTransform.yeo_johnson(0.5, 1000 * y)
    np.testing.assert_allclose(one.forward(y), two.forward(1000 * y))


@pytest.mark.parametrize("transform", ALL)
@pytest.mark.parametrize(("mean", "sd"), [(1.2, 0.4), (-0.3, 1.1)])
def test_a_density_integrates_to_one_and_agrees_with_quantiles_draws_and_moments(
    transform: TargetTransform, mean: float, sd: float
) -> None:
    centres, sds = np.array([[mean], [mean + 0.5]]), np.array([[sd], [0.5 * sd]])
    weights = np.array([0.7, 0.3])
    found = PredictiveMixture(centres, sds, weights, transform)
    rng = np.random.default_rng(0)
    part = rng.choice(2, 200_000, p=weights)
    draws = transform.inverse(rng.normal(centres[part, 0], sds[part, 0]))
    levels = np.array([0.05, 0.3, 0.5, 0.95])
    quantiles = found.quantiles(levels)[0]
    shares = (draws[:, None] <= quantiles).mean(0)
    np.testing.assert_allclose(shares, levels, atol=0.005)
    for level, quantile in zip(levels, quantiles, strict=True):
        assert found.cumulative(np.array([quantile]))[0] == pytest.approx(level, abs=1e-9)
    points = found.quantiles(np.array([1e-9, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-9]))[0]
    mass = sum(
        quad(lambda y: float(np.exp(found.log_density(np.array([y]))[0])), low, high)[0]
        for low, high in pairwise(points)
    )
    assert mass == pytest.approx(1, abs=1e-6)
    first, spread = (float(part[0]) for part in found.moments())
    error = draws.std() / np.sqrt(len(draws))
    assert first == pytest.approx(draws.mean(), abs=5 * error)
    assert spread == pytest.approx(draws.std(), rel=0.05)


def test_the_logarithm_is_scipy_s_lognormal() -> None:
    mean, sd = np.array([[0.5, 3.0, -2.0]]), np.array([[0.3, 0.9, 0.1]])
    found = PredictiveMixture(mean, sd, None, TargetTransform("log"))
    other = lognorm(sd[0], scale=np.exp(mean[0]))
    y = np.array([1.5, 30.0, 0.14])
    np.testing.assert_allclose(found.log_density(y), other.logpdf(y))
    np.testing.assert_allclose(found.cumulative(y), other.cdf(y))
    np.testing.assert_allclose(found.moments()[0], other.mean())
    np.testing.assert_allclose(found.moments()[1], other.std())
    np.testing.assert_allclose(found.quantiles(np.array([0.1]))[:, 0], other.ppf(0.1), rtol=1e-8)
    below = np.array([0.0, -1.0, -50.0])
    assert (found.log_density(below) == -np.inf).all()
    assert (found.cumulative(below) == 0).all()


@pytest.mark.parametrize("transform", POWERS[1:4])
def test_moments_by_quadrature_are_those_of_integrals(transform: TargetTransform) -> None:
    mean, sd = 0.4, 0.8
    first, variance = transform.normal_moments(np.array([mean]), np.array([sd]))

    def expected(power: int) -> float:
        def integrand(z: float) -> float:
            value = float(transform.inverse(np.array([z]))[0])
            return float((value - (power - 1) * first[0]) ** power * norm.pdf(z, mean, sd))

        return float(quad(integrand, -12, 0)[0] + quad(integrand, 0, 12)[0])

    assert first[0] == pytest.approx(expected(1), rel=1e-4)
    assert variance[0] == pytest.approx(expected(2), rel=1e-3)


@pytest.mark.parametrize("transform", [ALL[1], *POWERS])
def test_the_jacobian_turns_the_density_into_that_of_the_standardised_target(
    transform: TargetTransform,
) -> None:
    y = np.random.default_rng(0).gamma(3, 5, size=40)
    target = NumberTarget.fit(y, transform)
    z = target.transform(y)
    assert z.mean() == pytest.approx(0, abs=1e-12)
    assert z.std() == pytest.approx(1)
    found = norm.logpdf(z).sum() + target.log_jacobian(y)
    own = PredictiveMixture(
        np.full((1, 40), target.mean), np.full((1, 40), target.scale), None, transform
    )
    assert found == pytest.approx((own.log_density(y) + np.log(y.std())).sum())


def test_facts_are_read_back_and_damaged_ones_are_refused() -> None:
    for transform in ALL:
        assert TargetTransform.from_facts(transform.facts()) == transform
    assert TargetTransform.from_facts(None) == IDENTITY
    for wrong in ({"name": "root"}, {"exponent": 3.0}, {"unit": 0.0}):
        with pytest.raises(ValueError, match="no transform of a target"):
            TargetTransform.from_facts({**POWERS[0].facts(), **wrong})
