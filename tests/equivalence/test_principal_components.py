"""PCA and probabilistic PCA against scikit-learn, scipy and Bayes' rule."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA as SklearnPCA

from lvmcore import PCA, ProbabilisticPCA

N, D, Q = 60, 6, 2
Array = NDArray[np.float64]


@pytest.fixture
def data() -> Array:
    """Columns with means and scales of their own."""
    rng = np.random.default_rng(11)
    Y = rng.normal(size=(N, 3)) @ rng.normal(size=(3, D)) + 0.5 * rng.normal(size=(N, D))
    return Y * np.array([0.01, 1, 5, 100, 2, 0.3]) + np.array([5, -1000, 0, 3, 0.5, 7])


def standardised(data: Array) -> Array:
    return (data - data.mean(axis=0)) / data.std(axis=0)


def generative(model: ProbabilisticPCA, data: Array) -> tuple[Array, Array, Array]:
    """Mean [D], loadings [D, Q] and noise [D] of y = μ + W x + ε, read off what decode returns."""
    origin = model.decode(np.zeros((1, Q)))
    W = (model.decode(np.eye(Q)).mean - origin.mean).T
    return origin.mean[0], W, origin.noise_variance[0]


def test_pca_is_that_of_scikit_learn(data: Array) -> None:
    ours = PCA(n_components=Q).fit(data)
    Y = standardised(data)
    theirs = SklearnPCA(Q, svd_solver="full").fit(Y)
    expected = theirs.transform(Y)
    got = ours.transform(data)
    signs = np.sign((got * expected).sum(axis=0))
    np.testing.assert_allclose(got, expected * signs, atol=1e-10)
    np.testing.assert_allclose(ours.embedding_.mean, got, atol=1e-12)
    np.testing.assert_allclose(
        ours.relevance_["data"], theirs.explained_variance_ * (N - 1) / N, rtol=1e-10
    )
    back = theirs.inverse_transform(expected) * data.std(axis=0) + data.mean(axis=0)
    np.testing.assert_allclose(ours.inverse_transform(got), back, rtol=1e-10)
    residual = ((back - data) ** 2).mean(axis=0)
    np.testing.assert_allclose(ours.decode(got).noise_variance[0], residual, rtol=1e-9)


def test_sign_of_a_component_does_not_depend_on_the_order_of_rows(data: Array) -> None:
    forwards = PCA(n_components=Q).fit(data).transform(data)
    backwards = PCA(n_components=Q).fit(data[::-1]).transform(data)
    np.testing.assert_allclose(forwards, backwards, atol=1e-9)


def test_probabilistic_pca_log_likelihood_is_the_density_of_its_rows(data: Array) -> None:
    model = ProbabilisticPCA(n_components=Q).fit(data)
    mean, W, noise = generative(model, data)
    density = multivariate_normal(mean, W @ W.T + np.diag(noise)).logpdf(data)
    assert model.score(data) == pytest.approx(density.mean(), rel=1e-9)
    # elbo_ is on the standardised data, score in the data's units.
    assert model.elbo_ == pytest.approx(density.sum() + N * np.log(data.std(axis=0)).sum())


def test_probabilistic_pca_is_that_of_scikit_learn(data: Array) -> None:
    model = ProbabilisticPCA(n_components=Q).fit(data)
    Y = standardised(data)
    # scikit-learn divides by N − 1, maximum likelihood by N.
    theirs = SklearnPCA(Q, svd_solver="full").fit(Y * np.sqrt((N - 1) / N))
    assert model.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=1e-10)
    assert model.elbo_ == pytest.approx(theirs.score(Y) * N, rel=1e-10)


def test_no_other_loadings_or_noise_are_likelier(data: Array) -> None:
    model = ProbabilisticPCA(n_components=Q).fit(data)
    Y = standardised(data)
    _, W, _ = generative(model, data)
    W = W / data.std(axis=0)[:, None]
    rng = np.random.default_rng(0)

    def likelihood(W: Array, noise: float) -> float:
        return float(multivariate_normal(cov=W @ W.T + noise * np.eye(D)).logpdf(Y).sum())

    best = likelihood(W, model.noise_variance_)
    assert best == pytest.approx(model.elbo_, rel=1e-10)
    for _ in range(10):
        assert likelihood(W + 0.05 * rng.normal(size=W.shape), model.noise_variance_) < best
    assert likelihood(W, 1.1 * model.noise_variance_) < best
    assert likelihood(W, 0.9 * model.noise_variance_) < best


def test_probabilistic_pca_posterior_is_bayes_rule(data: Array) -> None:
    model = ProbabilisticPCA(n_components=Q).fit(data)
    new = data[:5] + np.array([0.001, 0.2, 1, 10, 0.1, 0.05])
    mean, W, noise = generative(model, data)
    # Condition the joint Gaussian of (x, y) on y.
    C = W @ W.T + np.diag(noise)
    expected = (new - mean) @ np.linalg.solve(C, W)
    covariance = np.eye(Q) - W.T @ np.linalg.solve(C, W)
    got = model.posterior(new)
    np.testing.assert_allclose(got.mean, expected, atol=1e-9)
    np.testing.assert_allclose(got.variance, np.tile(np.diag(covariance), (5, 1)), atol=1e-9)
    assert abs(covariance[0, 1]) < 1e-9  # why a diagonal says it all


def test_probabilistic_pca_sample_has_the_covariance_of_the_model(data: Array) -> None:
    model = ProbabilisticPCA(n_components=Q).fit(data)
    mean, W, noise = generative(model, data)
    draws = model.sample(40_000, random_state=0)
    scale = data.std(axis=0)
    np.testing.assert_allclose((draws.mean(axis=0) - mean) / scale, 0, atol=0.03)
    wanted = (W @ W.T + np.diag(noise)) / np.outer(scale, scale)
    np.testing.assert_allclose(np.cov(draws / scale, rowvar=False), wanted, atol=0.04)


def test_as_many_components_as_columns_keep_a_density(data: Array) -> None:
    model = ProbabilisticPCA(n_components=D).fit(data)
    density = multivariate_normal(data.mean(axis=0), np.cov(data, rowvar=False, ddof=0))
    assert model.score(data) == pytest.approx(density.logpdf(data).mean(), rel=1e-6)
    np.testing.assert_allclose(model.inverse_transform(model.transform(data)), data, rtol=1e-6)
