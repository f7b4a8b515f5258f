"""Where a fit starts, and what it reports on the way."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import kstest, norm
from sklearn.decomposition import PCA as SklearnPCA
from torch import Tensor

from lvmcore import BayesianGPLVM
from lvmcore.base import marginal_likelihood
from lvmcore.base.initial_map import pca_start
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.inducing_points import spread_points
from lvmcore.numerics.quasi_random import sobol_draws
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.training.snapshots import snapshot_of, thinned


def problem(Y: Tensor, Q: int, seed: int = 0) -> FitProblem:
    return FitProblem(
        table=InMemoryRows(Y),
        labels=(),
        n_components=Q,
        generator=torch.Generator().manual_seed(seed),
        callback=None,
    )


@pytest.fixture
def Y(rng: np.random.Generator) -> Tensor:
    Y = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 5)) + 0.1 * rng.normal(size=(40, 5))
    return torch.as_tensor((Y - Y.mean(axis=0)) / Y.std(axis=0))


def test_start_is_the_whitened_principal_components(Y: Tensor) -> None:
    X = pca_start(problem(Y, 3)).numpy()
    expected = SklearnPCA(3, svd_solver="full").fit_transform(Y.numpy())
    expected /= expected.std(axis=0)
    signs = np.sign((X * expected).sum(axis=0))
    np.testing.assert_allclose(X, expected * signs, atol=1e-8)


def test_dimensions_beyond_the_rank_start_as_small_noise(Y: Tensor) -> None:
    flat = Y[:, :2] @ torch.ones(2, 5, dtype=torch.float64)  # rank 1
    X = pca_start(problem(flat, 4))
    assert float(X[:, 0].std(correction=0)) == pytest.approx(1.0)
    assert bool(((X[:, 1:].std(0) > 0.05) & (X[:, 1:].std(0) < 0.2)).all())
    assert torch.equal(X, pca_start(problem(flat, 4)))
    assert not torch.equal(X, pca_start(problem(flat, 4, seed=1)))


def test_inducing_inputs_are_different_rows_far_apart(Y: Tensor) -> None:
    X = pca_start(problem(Y, 2))
    Z = spread_points(X, 10, torch.Generator().manual_seed(0))
    assert Z.shape == (10, 2)
    assert float(torch.cdist(Z, X).amin(1).max()) == 0.0
    assert len(torch.unique(Z, dim=0)) == 10
    # k-means++ leaves no row far from every pick.
    reach = torch.cdist(X, Z).amin(1).max()
    assert float(reach) < 0.5 * float(torch.cdist(X, X).max())
    again = spread_points(X, 10, torch.Generator().manual_seed(0))
    assert torch.equal(Z, again)


def test_every_row_is_taken_where_there_is_an_inducing_input_for_each(Y: Tensor) -> None:
    X = pca_start(problem(Y, 2))
    Z = spread_points(X, len(X), torch.Generator().manual_seed(0))
    torch.testing.assert_close(Z.sort(0).values, X.sort(0).values)


@pytest.mark.parametrize("Q", [1, 7, 40])
def test_standard_draws_are_normal_and_always_the_same(Q: int) -> None:
    draws = sobol_draws(64, Q, torch.zeros((), dtype=torch.float64))
    assert draws.shape == (64, Q)
    assert torch.equal(draws, sobol_draws(64, Q, torch.zeros((), dtype=torch.float64)))
    for column in draws.numpy().T:
        # Quasi-random: far nearer to the normal distribution than 64 random draws would be.
        assert kstest(column, "norm").statistic < 0.05
        assert abs(column.mean()) < 0.05


def test_standard_draws_of_few_dimensions_are_nearly_uncorrelated() -> None:
    draws = sobol_draws(64, 5, torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(
        draws.T.corrcoef(), torch.eye(5, dtype=torch.float64), rtol=0, atol=0.35
    )


def test_snapshot_shows_the_two_leading_dimensions() -> None:
    mean = torch.arange(15, dtype=torch.float64).reshape(5, 3)
    relevance = {"data": torch.tensor([5.0, 1.0, 2.0]), "labels": torch.tensor([0.0, 1.5, 3.0])}
    snapshot = snapshot_of(mean, relevance)
    assert snapshot.dimensions == (2, 1)
    np.testing.assert_array_equal(snapshot.mean, mean.numpy()[:, [2, 1]])
    np.testing.assert_allclose(snapshot.relevance["data"], [0.625, 0.125, 0.25])
    assert snapshot_of(mean, {"data": relevance["data"]}).dimensions == (0, 2)


def test_snapshot_of_one_dimension_shows_it_twice() -> None:
    snapshot = snapshot_of(torch.ones(4, 1), {"data": torch.ones(1)})
    assert snapshot.dimensions == (0, 0)
    assert snapshot.mean.shape == (4, 2)


def test_snapshot_of_many_rows_is_thinned() -> None:
    mean = torch.arange(9002, dtype=torch.float64).reshape(4501, 2)
    snapshot = snapshot_of(mean, {"data": torch.ones(2)})
    assert len(snapshot.rows) <= 2000
    np.testing.assert_array_equal(snapshot.mean, mean.numpy()[snapshot.rows])


def test_a_snapshot_of_rows_thinned_already_is_the_same() -> None:
    mean = torch.as_tensor(np.random.default_rng(0).normal(size=(4500, 3)))
    alpha = {"data": torch.tensor([1.0, 3.0, 2.0])}
    rows = thinned(4500)
    whole, some = snapshot_of(mean, alpha), snapshot_of(mean[rows], alpha, rows)
    np.testing.assert_array_equal(some.rows, whole.rows)
    np.testing.assert_array_equal(some.mean, whole.mean)


def test_scores_of_many_rows_are_made_in_parts(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rng.normal(size=(30, 3))
    model = BayesianGPLVM(n_components=1, n_inducing=5, max_iter=5).fit(X)
    whole = model.score(X)
    monkeypatch.setattr(marginal_likelihood, "CELLS_AT_A_TIME", 1)
    assert model.score(X) == pytest.approx(whole, rel=1e-12)


def scores(X: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of 20 new rows one by one: ``score``, and log ∫ p(y | x) N(x | 0, 1) dx on a fine grid."""
    model = BayesianGPLVM(n_components=1, n_inducing=10, max_iter=80).fit(X)
    grid, step = np.linspace(-7, 7, 4001, retstep=True)
    decoded = model.decode(grid[:, None])
    ours, exact = [], []
    for row in X[:20] + 0.1:
        density = norm.logpdf(row, decoded.mean, np.sqrt(decoded.variance)).sum(axis=1)
        exact.append(logsumexp(density + norm.logpdf(grid)) + np.log(step))
        ours.append(model.score(row[None]))
    return np.array(ours), np.array(exact)


def test_score_is_the_integral_over_the_whole_map(rng: np.random.Generator) -> None:
    t = rng.normal(size=60)
    curve = np.column_stack([t, np.sin(t), np.tanh(2 * t), t + 0.3 * t**2])
    ours, exact = scores(curve + 0.2 * rng.normal(size=curve.shape))
    assert np.ptp(exact) > 1
    np.testing.assert_allclose(ours, exact, atol=0.15)
    assert ours.mean() == pytest.approx(exact.mean(), abs=0.03)


def test_score_of_a_folded_map_misses_no_fold(rng: np.random.Generator) -> None:
    """Rows that could be in two places, as the curve's ends run beside its middle."""
    t = rng.normal(size=60)
    curve = np.column_stack([t, np.sin(2 * t), 3 * t**2])
    ours, exact = scores(curve + 0.3 * rng.normal(size=curve.shape))
    np.testing.assert_allclose(ours, exact, atol=0.25)
    assert ours.mean() == pytest.approx(exact.mean(), abs=0.06)


@pytest.mark.slow
def test_a_fit_in_float32_is_the_fit_in_float64() -> None:
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((200, 2))
    X = np.tanh(latent @ rng.standard_normal((2, 12))) + 0.1 * rng.standard_normal((200, 12))
    settings = {"n_components": 6, "n_inducing": 15, "noise": "column", "max_iter": 300}
    single = BayesianGPLVM(**settings, dtype="float32").fit(X)
    double = BayesianGPLVM(**settings).fit(X)
    assert single.elbo_ == pytest.approx(double.elbo_, abs=0.1)
