"""Classification by Dirichlet labels: gpytorch's labels, matrices written out, rows left out."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

from lvmcore import ConfigError, GPClassifier
from lvmcore.gp.classification import dirichlet_method
from lvmcore.gp.classification.dirichlet import (
    DirichletGP,
    DirichletLikelihood,
    DirichletPosterior,
    DirichletRows,
    dirichlet_labels,
)
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.expression import KernelTerm

N, C = 24, 3


def small() -> tuple[DirichletGP, DirichletRows]:
    rng = np.random.default_rng(0)
    X = torch.as_tensor(rng.normal(size=(N, 2)))
    codes = np.digitize(X[:, 0].numpy() + 0.3 * rng.normal(size=N), [-0.5, 0.5])
    rows = DirichletRows(X, codes, C, 0.02)
    kernel = CompositeKernel(KernelTerm("rbf"), ["a", "b"], torch.ones(2).to(X))
    return DirichletGP(kernel.to(X), rows), rows


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.3])
def test_labels_and_noise_are_those_of_gpytorch(alpha: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit
        from gpytorch.likelihoods import DirichletClassificationLikelihood
    codes = np.array([0, 2, 1, 1, 2])
    theirs = DirichletClassificationLikelihood(
        torch.as_tensor(codes), alpha_epsilon=alpha, dtype=torch.float64
    )
    labels, variance = dirichlet_labels(codes, 3, alpha)
    np.testing.assert_allclose(labels, theirs.transformed_targets.numpy().T, rtol=1e-6)
    np.testing.assert_allclose(variance, theirs.noise.numpy().T, rtol=1e-6)


def test_a_label_has_the_moments_of_its_gamma_variable() -> None:
    labels, variance = dirichlet_labels(np.array([1]), 2, 0.05)
    for c, alpha in enumerate((0.05, 1.05)):  # a Gamma(α, 1) has the mean and the variance α
        mean = np.exp(labels[0, c] + variance[0, c] / 2)
        assert mean == pytest.approx(alpha)
        assert np.expm1(variance[0, c]) * mean**2 == pytest.approx(alpha)


def covariances(model: DirichletGP, rows: DirichletRows) -> list[NDArray[Any]]:
    K = model.gp.covariance(rows.X, rows.X).detach().numpy()
    noise = float(model.gp.noise.detach())
    return [K + np.diag(known + noise) for known in rows.known.numpy().T]


def test_the_likelihood_is_that_of_matrices_and_its_gradient_that_of_differences() -> None:
    model, rows = small()
    fit = DirichletLikelihood(model, rows)
    total = torch.stack(list(fit.terms().values())).sum()
    means = model.means.detach().numpy()
    own = sum(
        multivariate_normal(np.full(N, mean), A).logpdf(y)
        for mean, A, y in zip(means, covariances(model, rows), rows.Y.numpy().T, strict=True)
    )
    assert float(total.detach()) == pytest.approx(own, rel=1e-10)
    parameters = list(model.parameters())
    slopes = torch.autograd.grad(total, parameters)
    for parameter, slope in zip(parameters, slopes, strict=True):
        for place in range(parameter.numel()):
            values = []
            for step in (1e-5, -1e-5):
                with torch.no_grad():
                    parameter.view(-1)[place] += step
                    values.append(float(torch.stack(list(fit.terms().values())).sum()))
                    parameter.view(-1)[place] -= step
            difference = (values[0] - values[1]) / 2e-5
            assert float(slope.reshape(-1)[place]) == pytest.approx(difference, rel=1e-5, abs=1e-6)


def test_functions_are_those_of_matrices_and_probabilities_those_of_draws() -> None:
    model, rows = small()
    new = torch.as_tensor(np.random.default_rng(1).normal(size=(5, 2)))
    k = model.gp.covariance(new, rows.X).detach().numpy()
    own = model.gp.covariance(new, new).detach().numpy().diagonal()
    posterior = DirichletPosterior(model, rows)
    mean, variance = (part.numpy() for part in posterior.latent(new))
    for c, A in enumerate(covariances(model, rows)):
        prior = float(model.means[c].detach())
        left = rows.Y[:, c].numpy() - prior
        np.testing.assert_allclose(
            mean[:, c] / rows.scale, prior + k @ np.linalg.solve(A, left), rtol=1e-8
        )
        spread = own - np.einsum("na,an->n", k, np.linalg.solve(A, k.T))
        np.testing.assert_allclose(variance[:, c] / rows.scale**2, spread, rtol=1e-8)
    f = mean + np.sqrt(variance) * np.random.default_rng(2).normal(size=(100_000, 5, C))
    drawn = np.exp(f - f.max(-1, keepdims=True))
    drawn = (drawn / drawn.sum(-1, keepdims=True)).mean(0)
    np.testing.assert_allclose(posterior.probability(new).numpy(), drawn, atol=0.02)


def test_rows_left_out_are_those_of_posteriors_without_them() -> None:
    model, rows = small()
    mean, variance = DirichletPosterior(model, rows).left_out_latent()
    for row in (0, 7, 23):
        others = torch.as_tensor(np.delete(np.arange(N), row))
        without = rows.subset(others)
        without.Y, without.known, without.scale = rows.Y[others], rows.known[others], rows.scale
        at, spread = DirichletPosterior(model, without).latent(rows.X[[row]])
        np.testing.assert_allclose(mean[row], at[0], rtol=1e-8)
        np.testing.assert_allclose(variance[row], spread[0], rtol=1e-8)


def test_classes_are_learned_with_calibrated_probabilities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dirichlet_method, "CHOICE_ROWS", 60)
    X, codes = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[codes]
    fit = np.arange(150) % 2 == 0
    model = GPClassifier(kernel="rbf", max_iter=50).fit(X[fit], y[fit])
    assert model.score(X[~fit], y[~fit]) > 0.9
    assert -model.log_density(X[~fit], y[~fit]).mean() < 0.25
    assert model.alpha_epsilon_ in dirichlet_method.ALPHAS
    assert any("α_ε" in note for note in model.notes_)
    far = model.predict_proba(X[:1] + 1e3)
    assert far.max() < 0.9  # far from the rows the prior returns


def test_two_classes_have_probabilities_of_both() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=40) > 0
    model = GPClassifier(kernel="rbf", alpha_epsilon=0.01, max_iter=30).fit(X, y)
    probability = model.predict_proba(X)
    assert probability.shape == (40, 2)
    np.testing.assert_allclose(probability.sum(1), 1)
    assert model.alpha_epsilon_ == 0.01
    assert model.score(X, y) > 0.8


def test_too_many_rows_are_refused_with_advice() -> None:
    X = np.zeros((2001, 1))
    X[:, 0] = np.arange(2001)
    with pytest.raises(ConfigError, match=r"takes at most 2,000\. Choose .* as SVGPClassifier"):
        GPClassifier().fit(X, np.arange(2001) % 2)
