"""The stochastic Bayesian GPLVM: its bound by another route, its batches, and what it fills."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from lvmcore import BayesianGPLVM, StochasticGPLVM, TableSize

Array = NDArray[np.float64]


def curved(n: int, seed: int = 0, noise: float = 0.15) -> tuple[Array, Array]:
    """Rows on a curved surface in six columns, and the same with a tenth of the cells missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    a = np.random.default_rng(9).normal(size=(2, 6))
    whole = np.sin(x @ a) + 0.5 * x @ a[:, ::-1] + noise * rng.normal(size=(n, 6))
    return whole, np.where(rng.random(whole.shape) < 0.1, np.nan, whole)


@cache
def batches() -> StochasticGPLVM:
    """A fit in batches; shared, so leave it as it is."""
    model = StochasticGPLVM(n_components=3, n_inducing=12, max_iter=150, batch_size=64, n_hidden=16)
    return model.set_params(random_state=0).fit(curved(300)[1])


def collapsed_bound(model: StochasticGPLVM, X: Array) -> float:
    """Titsias and Lawrence 2010, eq. 14, in NumPy, of each column's observed rows, less KL."""
    Y = (X - model.standardiser_.mean) / model.standardiser_.scale
    mu, s = model.embedding_.mean, model.embedding_.variance
    Z, alpha = model.inducing_inputs_["data"], model.relevance_["data"]
    v, noises = float(model._decoder.kernel.variance), model.noise_variance_
    psi1 = (
        v
        * np.exp(-0.5 * (alpha * (mu[:, None] - Z) ** 2 / (1 + alpha * s[:, None])).sum(2))
        / np.sqrt((1 + alpha * s).prod(1))[:, None]
    )
    middle = 0.5 * (Z[:, None] + Z)
    apart = (alpha * (Z[:, None] - Z) ** 2).sum(2)
    psi2 = (
        v**2
        * np.exp(
            -0.25 * apart
            - (alpha * (mu[:, None, None] - middle) ** 2 / (1 + 2 * alpha * s[:, None, None])).sum(
                3
            )
        )
        / np.sqrt((1 + 2 * alpha * s).prod(1))[:, None, None]
    )
    K = v * np.exp(-0.5 * apart) + 1e-9 * v * np.eye(len(Z))
    bound = -0.5 * (mu**2 + s - 1 - np.log(s)).sum()
    for d, noise in enumerate(noises):
        known = ~np.isnan(Y[:, d])
        y, n = Y[known, d], known.sum()
        A, b = psi2[known].sum(0) / noise + K, psi1[known].T @ y
        bound += 0.5 * (np.linalg.slogdet(K)[1] - np.linalg.slogdet(A)[1])
        bound += -0.5 * n * np.log(2 * np.pi * noise) - 0.5 * y @ y / noise
        bound += 0.5 * b @ np.linalg.solve(A, b) / noise**2
        bound -= 0.5 * (n * v - np.trace(np.linalg.solve(K, psi2[known].sum(0)))) / noise
    return float(bound)


def test_the_bound_is_the_collapsed_one_over_all_rows_and_observed_cells() -> None:
    model = batches()
    assert model.elbo_ == pytest.approx(collapsed_bound(model, curved(300)[1]), rel=1e-5)


def test_its_terms_are_those_of_the_bound_without_labels() -> None:
    for step in batches().history_:
        assert list(step.terms) == ["data fit", "KL of the map"]
        assert step.objective == pytest.approx(sum(step.terms.values()), rel=1e-12)


def test_batches_come_near_the_bound_of_the_whole_table() -> None:
    X = curved(600)[1]
    settings = {"n_components": 2, "n_inducing": 20, "random_state": 0}
    start = StochasticGPLVM(**settings, max_iter=1).fit(X).elbo_
    ours = StochasticGPLVM(**settings, max_iter=600, batch_size=128).fit(X).elbo_
    whole = BayesianGPLVM(**settings, noise="column").fit(X).elbo_
    assert start < ours
    assert ours - start > 0.7 * (whole - start)


def test_hidden_cells_are_filled_within_their_intervals() -> None:
    whole, X = curved(600)
    settings = {"n_components": 2, "n_inducing": 20, "random_state": 0}
    filled = StochasticGPLVM(**settings, max_iter=600, batch_size=128).fit(X).impute(X[:200])
    hidden = np.isnan(X[:200])
    away = (filled.mean - whole[:200])[hidden]
    assert np.sqrt(np.mean(away**2)) < 0.5 * whole[:200][hidden].std()
    inside = np.abs(away) < 1.645 * np.sqrt(filled.variance[hidden])
    assert 0.8 < inside.mean() <= 1


def test_settings_are_advised_for_the_length_of_the_table() -> None:
    def advised(n_rows: int, **more: bool) -> dict[str, object]:
        return StochasticGPLVM.suggest(TableSize(n_rows=n_rows, n_columns=9, **more))

    assert advised(1000)["n_inducing"] == 25
    assert not {"max_iter", "learning_rate"} & advised(1000).keys()
    assert (advised(1001)["n_inducing"], advised(1001)["max_iter"]) == (50, 2000)
    assert "learning_rate" not in advised(5000)
    assert advised(5001)["learning_rate"] == 0.15
    assert advised(5001)["n_components"] == 2
    assert advised(5001, incomplete=True)["noise"] == "column"
