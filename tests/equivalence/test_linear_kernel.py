"""The collapsed bound with a linear kernel and certain rows is dual probabilistic PCA."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from lvmcore import ProbabilisticPCA
from lvmcore.gp.bounds import collapsed_bound
from lvmcore.kernels.psi_statistics import psi_sums
from lvmcore.kernels.stationary import Linear

N, D, Q = 8, 40, 3


@pytest.fixture
def Y() -> Tensor:
    """[N, D], each row with mean 0 and variance 1, as probabilistic PCA of Yᵀ wants it."""
    rng = np.random.default_rng(5)
    Y = rng.normal(size=(N, Q)) @ rng.normal(size=(Q, D)) + 0.4 * rng.normal(size=(N, D))
    Y -= Y.mean(axis=1, keepdims=True)
    return torch.as_tensor(Y / Y.std(axis=1, keepdims=True))


def bound(X: Tensor, noise: float, Y: Tensor) -> Tensor:
    """a = 1, S = 0, M = Q: Kuu = I has full rank, so no inducing gap; no KL_X."""
    kernel = Linear(torch.ones(Q, dtype=torch.float64))
    Z = torch.eye(Q, dtype=torch.float64)
    sums = psi_sums(kernel, X, torch.zeros_like(X), Z, Y)
    noises = torch.full((D,), noise, dtype=torch.float64)
    value, _ = collapsed_bound(sums, kernel(Z, Z), noises, Y.square().sum(0), N)
    return value


def best(Y: Tensor) -> tuple[Tensor, float]:
    """X = U_Q (Λ_Q/D − σ²)^½ and σ² = the mean of the eigenvalues left out, YYᵀ = U Λ Uᵀ."""
    values, vectors = np.linalg.eigh(Y.numpy() @ Y.numpy().T)
    values, vectors = values[::-1] / D, vectors[:, ::-1]
    noise = float(values[Q:].mean())
    return torch.as_tensor(vectors[:, :Q] * np.sqrt(values[:Q] - noise)), noise


def test_is_the_log_density_of_the_columns(Y: Tensor) -> None:
    X, noise = best(Y)
    other = X + torch.linspace(-1, 1, N * Q, dtype=torch.float64).reshape(N, Q)
    for points in (X, other):
        density = multivariate_normal(cov=(points @ points.T).numpy() + noise * np.eye(N))
        expected = float(density.logpdf(Y.numpy().T).sum())
        assert float(bound(points, noise, Y)) == pytest.approx(expected, rel=1e-7)


def test_closed_form_positions_are_the_optimum(Y: Tensor) -> None:
    X, noise = best(Y)
    X.requires_grad_()
    value = bound(X, noise, Y)
    (gradient,) = torch.autograd.grad(value, X)
    assert float(gradient.abs().max()) < 1e-5
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(10):
            shift = 0.1 * torch.randn(X.shape, generator=generator, dtype=torch.float64)
            assert float(bound(X + shift, noise, Y)) < float(value)
        for factor in (0.9, 1.1):
            assert float(bound(X, factor * noise, Y)) < float(value)


def test_optimum_is_the_likelihood_of_probabilistic_pca_of_the_transpose(Y: Tensor) -> None:
    model = ProbabilisticPCA(n_components=Q).fit(Y.numpy().T)
    X, noise = best(Y)
    assert model.noise_variance_ == pytest.approx(noise, rel=1e-10)
    assert float(bound(X, noise, Y)) == pytest.approx(model.elbo_, rel=1e-7)
    # The loadings of the one are the positions of the other, up to the sign of a dimension.
    loadings = model.decode(np.eye(Q)).mean - model.decode(np.zeros((1, Q))).mean
    np.testing.assert_allclose(np.abs(loadings.T), X.abs().numpy(), atol=1e-8)
