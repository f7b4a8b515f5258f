"""Principal components of tables with gaps, against dense Gaussians and a general optimiser."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn import decomposition
from torch import Tensor

from lvmcore import PCA, ProbabilisticPCA
from lvmcore.classical import probabilistic_pca
from lvmcore.classical.probabilistic_pca import LinearGaussian, fit_linear_gaussian

N, D, Q = 40, 5, 2


@pytest.fixture
def table(rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """A linear table with an offset and three in ten cells missing; its last row has no cell."""
    Y = rng.normal(size=(N, Q)) @ rng.normal(size=(Q, D)) + rng.normal(size=D)
    Y += 0.4 * rng.normal(size=(N, D))
    observed = rng.random((N, D)) > 0.3
    observed[0], observed[-1] = True, False
    return torch.as_tensor(Y * observed), torch.as_tensor(observed)


def fit(table: tuple[Tensor, Tensor], **settings: float) -> tuple[LinearGaussian, bool]:
    return fit_linear_gaussian(*table, Q, **{"max_iter": 2000, "tolerance": 1e-10} | settings)


def likelihood(model: LinearGaussian, table: tuple[Tensor, Tensor]) -> float:
    """Σ_n log N(observed cells | μ, W Wᵀ + σ² I), by dense Gaussians."""
    W, total = model.weights.numpy(), 0.0
    covariance = W @ W.T + float(model.noise) * np.eye(D)
    for y, seen in zip(*(t.numpy() for t in table), strict=True):
        if seen.any():
            dense = multivariate_normal(model.offset.numpy()[seen], covariance[np.ix_(seen, seen)])
            total += float(dense.logpdf(y[seen]))
    return total


def test_rows_are_placed_by_the_conditional_gaussian(table: tuple[Tensor, Tensor]) -> None:
    model, _ = fit(table, max_iter=5)
    rows = model.infer(*table)
    W, noise = model.weights.numpy(), float(model.noise)
    for n, (y, seen) in enumerate(zip(*(t.numpy() for t in table), strict=True)):
        gain = W[seen].T @ np.linalg.inv(W[seen] @ W[seen].T + noise * np.eye(seen.sum()))
        mean = gain @ (y - model.offset.numpy())[seen]
        np.testing.assert_allclose(rows.mean[n], mean, atol=1e-9)
        np.testing.assert_allclose(rows.covariance[n], np.eye(Q) - gain @ W[seen], atol=1e-9)
    assert float(rows.log_density[-1]) == pytest.approx(0.0, abs=1e-9)
    assert float(rows.log_density.sum()) == pytest.approx(likelihood(model, table), rel=1e-10)


def test_every_step_is_uphill_and_the_last_is_told(table: tuple[Tensor, Tensor]) -> None:
    reached: list[float] = []
    model, converged = fit(table, callback=lambda _, value: bool(reached.append(value)))
    assert converged
    assert all(after >= before - 1e-9 for before, after in pairwise(reached))
    assert reached[-1] == pytest.approx(likelihood(model, table), rel=1e-8)


def test_no_optimiser_finds_a_higher_likelihood(table: tuple[Tensor, Tensor]) -> None:
    model, _ = fit(table)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        leaf = torch.as_tensor(x).requires_grad_()
        W, offset, noise = leaf[: D * Q].reshape(D, Q), leaf[D * Q : -1], leaf[-1].exp()
        value = -LinearGaussian(W, offset, noise).infer(*table).log_density.sum()
        (gradient,) = torch.autograd.grad(value, leaf)
        return float(value.detach()), gradient.numpy()

    start = np.concatenate([model.weights.numpy().ravel(), model.offset, [model.noise.log()]])
    found = minimize(loss, start + 0.05 * np.sin(np.arange(len(start))), jac=True, method="BFGS")
    assert -found.fun == pytest.approx(likelihood(model, table), abs=1e-4)


def test_without_gaps_it_is_the_closed_form(table: tuple[Tensor, Tensor]) -> None:
    Y = torch.where(table[1], table[0], 1.0)
    Y = (Y - Y.mean(0)) / Y.std(0, correction=0)
    model, _ = fit((Y, torch.ones_like(table[1])), tolerance=1e-13)
    closed = ProbabilisticPCA(n_components=Q).fit(Y.numpy())
    rows = model.infer(Y, torch.ones_like(table[1]))
    assert float(rows.log_density.sum()) == pytest.approx(closed.elbo_, rel=1e-8)
    np.testing.assert_allclose(np.abs(rows.mean.numpy()), np.abs(closed.embedding_.mean), atol=1e-3)


@pytest.mark.parametrize("components", [4, 25])
def test_a_table_with_more_columns_than_rows_has_the_same_components(components: int) -> None:
    rng = np.random.default_rng(11)
    X = rng.standard_normal((30, 6)) @ rng.standard_normal((6, 90))
    X = X + 0.5 * rng.standard_normal(X.shape)
    Y = (X - X.mean(axis=0)) / X.std(axis=0)
    theirs = decomposition.PCA(components, svd_solver="full").fit(Y)
    pca = PCA(n_components=components).fit(X)
    np.testing.assert_allclose(np.abs(pca.embedding_.mean), np.abs(theirs.transform(Y)), atol=1e-8)
    np.testing.assert_allclose(
        pca.relevance_["data"], theirs.explained_variance_ * 29 / 30, rtol=1e-9
    )
    closed = ProbabilisticPCA(n_components=components).fit(X)
    S = closed.relevance_["data"]
    assert closed.noise_variance_ == pytest.approx((90 - theirs_sum(theirs)) / (90 - components))
    np.testing.assert_allclose(S, theirs.explained_variance_ * 29 / 30 - closed.noise_variance_)
    loadings = (
        closed.decode(np.eye(components)).mean - closed.decode(np.zeros((1, components))).mean
    )
    W = loadings / X.std(axis=0)
    C = W.T @ W + closed.noise_variance_ * np.eye(90)
    density = multivariate_normal(np.zeros(90), C).logpdf(Y).sum()
    assert closed.elbo_ == pytest.approx(density, rel=1e-9)


def theirs_sum(found: decomposition.PCA) -> float:
    """The kept eigenvalues, of covariances with N below the line."""
    return float(found.explained_variance_.sum() * 29 / 30)


@pytest.mark.parametrize("chunk", [1, 50])
def test_blocks_of_rows_change_nothing(
    table: tuple[Tensor, Tensor], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = fit(table, max_iter=4)
    monkeypatch.setattr(probabilistic_pca, "CHUNK_CELLS", chunk)
    blocks, _ = fit(table, max_iter=4)
    torch.testing.assert_close(blocks.weights, whole.weights)


def test_a_callback_stops_the_fit(table: tuple[Tensor, Tensor]) -> None:
    model, converged = fit(table, callback=lambda iteration, _: iteration == 2)
    assert not converged
    assert likelihood(model, table) == pytest.approx(
        likelihood(fit(table, max_iter=2)[0], table), rel=1e-12
    )
