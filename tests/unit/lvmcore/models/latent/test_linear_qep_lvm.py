"""The linear Q-EP LVM beside probabilistic PCA and a process with a linear kernel."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct

from lvmcore import LinearQEPLVM, ProbabilisticPCA
from lvmcore.errors import ConfigError
from lvmcore.qep.distribution import covariance_factor


@pytest.fixture
def X(rng: np.random.Generator) -> NDArray[np.float64]:
    places = rng.standard_normal((60, 2)) * [2.0, 1.0]
    return places @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((60, 5)) + 4


@pytest.mark.parametrize("q", [2.0, 1.0])
def test_the_map_is_that_of_probabilistic_pca_but_for_the_scales(
    X: NDArray[np.float64], q: float
) -> None:
    ours = LinearQEPLVM(n_components=2, q=q).fit(X).embedding_.mean
    theirs = ProbabilisticPCA(n_components=2).fit(X).embedding_.mean
    for one, other in zip(ours.T, theirs.T, strict=True):
        assert abs(np.corrcoef(one, other)[0, 1]) == pytest.approx(1, abs=1e-9)


def test_a_point_decodes_as_by_a_gaussian_process_with_a_linear_kernel(
    X: NDArray[np.float64], rng: np.random.Generator
) -> None:
    model = LinearQEPLVM(n_components=2, q=2.0).fit(X)
    standard = (X - X.mean(0)) / X.std(0)
    places, new = model.embedding_.mean, rng.standard_normal((7, 2))
    process = GaussianProcessRegressor(
        DotProduct(0.0, "fixed"), alpha=model.noise_variance_, optimizer=None
    ).fit(places, standard)
    mean, sd = process.predict(new, return_std=True)
    decoded = model.decode(new)
    np.testing.assert_allclose(decoded.mean, mean * X.std(0) + X.mean(0), rtol=1e-7)
    expected = (sd**2 + model.noise_variance_) * X.std(0) ** 2
    np.testing.assert_allclose(decoded.variance, expected, rtol=1e-6)


@pytest.mark.parametrize("noise", [None, 0.2])
def test_the_rows_of_the_fit_are_placed_where_they_are(
    X: NDArray[np.float64], noise: float | None
) -> None:
    model = LinearQEPLVM(n_components=2, noise_variance=noise).fit(X)
    np.testing.assert_allclose(model.transform(X), model.embedding_.mean, atol=1e-9)


def test_the_noise_in_the_units_of_the_columns_is_alike_for_every_q(
    X: NDArray[np.float64],
) -> None:
    """ρ σ² of the block; a further row, given the block, has nearly the same."""
    gaussian = LinearQEPLVM(n_components=2, q=2.0).fit(X).noise_variance_
    for q in (1.5, 1.0):
        found = LinearQEPLVM(n_components=2, q=q).fit(X)
        assert found.noise_variance_ == pytest.approx(gaussian, rel=0.02)
        scale = X.size ** (1 - 2 / q)
        factor = float(covariance_factor(X.size, q))
        assert found.noise_variance_ == pytest.approx(factor * scale * gaussian, rel=0.05)


def test_a_given_noise_above_a_dimension_leaves_it_at_zero(X: NDArray[np.float64]) -> None:
    model = LinearQEPLVM(n_components=4, q=2.0, noise_variance=1.0).fit(X)
    assert (model.relevance_["data"][:3] > 0).all()
    np.testing.assert_array_equal(model.embedding_.mean[:, 3:], 0)


def test_what_cannot_be_fitted_is_named(X: NDArray[np.float64]) -> None:
    with pytest.raises(ConfigError, match=r"noise_variance=1 explains all"):
        LinearQEPLVM(q=1.0, noise_variance=1.0).fit(np.eye(5))
    with pytest.raises(ConfigError, match="needs more than 3 rows"):
        LinearQEPLVM(n_components=3).fit(X[:3])


def test_the_density_of_a_row_is_that_of_its_gaussian(X: NDArray[np.float64]) -> None:
    model = LinearQEPLVM(n_components=2, q=1.5).fit(X)
    places = model.embedding_.mean
    origin = model.decode(np.zeros((1, 2))).mean[0]
    weights = (model.decode(np.eye(2)).mean - origin) / X.std(0)
    variance = (model.decode(places).variance / X.std(0) ** 2).mean()
    covariance = weights.T @ (places.T @ places / len(X)) @ weights + variance * np.eye(5)
    density = multivariate_normal(np.zeros(5), covariance).logpdf((X - X.mean(0)) / X.std(0))
    np.testing.assert_allclose(model.score_samples(X), density - np.log(X.std(0)).sum())
