"""The stochastic Bayesian GPLVM: its bound by another route, its batches, and what it fills."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import lvmcore
from lvmcore import BayesianGPLVM, StochasticGPLVM, TableSize
from lvmcore.base.validation import fit_fingerprint
from lvmcore.numerics.gaussians import kl_standard_normal
from lvmcore.persistence import read, write
from lvmcore.training.checkpoint import Checkpoint

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


# ---- q(x) of each row's own ----------------------------------------------------------------------

FREE: dict[str, Any] = {
    "latent_posterior": "free",
    "n_components": 3,
    "n_inducing": 12,
    "max_iter": 150,
    "batch_size": 64,
    "random_state": 0,
}


@cache
def free() -> StochasticGPLVM:
    """A fit in batches with a q(x) of each row's own; shared, so leave it as it is."""
    return StochasticGPLVM(**FREE).fit(curved(300)[1])


def test_the_bound_of_free_rows_is_the_collapsed_one() -> None:
    assert free().elbo_ == pytest.approx(collapsed_bound(free(), curved(300)[1]), rel=1e-5)
    assert list(free().history_[0].terms) == ["data fit", "KL of the map"]
    assert free()._encoder is None


def test_free_rows_have_the_bound_of_the_bayesian_gplvm_in_one_batch() -> None:
    X = curved(200)[0]
    settings = {"n_components": 2, "n_inducing": 20, "random_state": 0}
    ours = StochasticGPLVM(**settings, latent_posterior="free").fit(X).elbo_
    theirs = BayesianGPLVM(**settings, start="pca", inducing_layout="free").fit(X).elbo_
    assert abs(ours - theirs) < 0.03 * X.size


def test_free_rows_place_curved_rows_with_missing_cells_better_than_a_network() -> None:
    whole, X = curved(600)
    settings = {"n_components": 2, "n_inducing": 20, "random_state": 0, "max_iter": 600}
    models = {
        name: StochasticGPLVM(**settings, batch_size=128, latent_posterior=name).fit(X)
        for name in ("free", "encoder")
    }
    hidden = np.isnan(X)
    errors = {
        name: np.sqrt(np.mean((model.impute(X).mean - whole)[hidden] ** 2))
        for name, model in models.items()
    }
    assert models["free"].elbo_ > models["encoder"].elbo_ + 0.02 * (~hidden).sum()
    assert errors["free"] < errors["encoder"]
    filled = models["free"].impute(X)
    inside = np.abs(filled.mean - whole)[hidden] < 1.645 * np.sqrt(filled.variance[hidden])
    assert 0.8 < inside.mean() <= 1


def test_new_rows_of_free_positions_are_at_the_optimum_of_their_bound() -> None:
    model, X = free(), curved(300)[1]
    again = model.transform(X)
    near = np.abs(again - model.embedding_.mean).max(1) < 0.5
    assert near.mean() > 0.9  # rows of the fit are placed where the fit has them
    new = curved(20, seed=5)[1]
    found = model.posterior(new)
    Y = torch.as_tensor((new - model.standardiser_.mean) / model.standardiser_.scale)
    rows = model._decoder.observed_rows(Y)

    def bound(mean: Array) -> torch.Tensor:
        place = torch.as_tensor(mean), torch.as_tensor(found.variance)
        fit = rows.expected_log_density(torch.arange(20), *place)
        return fit - kl_standard_normal(*place)

    best = bound(found.mean)
    rng = np.random.default_rng(0)
    for size in (0.01, 0.1, 1.0):
        other = bound(found.mean + size * rng.normal(size=found.mean.shape))
        assert (other <= best + 1e-4).all()


def test_equal_seeds_give_equal_free_rows() -> None:
    X, few = curved(150)[1], FREE | {"max_iter": 25}
    one, same, other = (
        StochasticGPLVM(**few | {"random_state": seed}).fit(X).embedding_.mean for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_a_file_of_free_rows_places_new_rows_the_same(tmp_path: Path) -> None:
    model, new = free(), curved(30, seed=3)[1]
    model.save(tmp_path / "map.safetensors")
    again = lvmcore.load(tmp_path / "map.safetensors")
    assert again.latent_posterior == "free"
    np.testing.assert_array_equal(again.transform(new), model.transform(new))
    np.testing.assert_array_equal(again.impute(new).mean, model.impute(new).mean)


def test_a_file_of_an_earlier_version_has_an_encoder(tmp_path: Path) -> None:
    model, path = batches(), tmp_path / "map.safetensors"
    model.save(path)
    arrays, facts = read(path)
    assert facts["parameters"].pop("latent_posterior") == "encoder"
    write(path, arrays, facts)
    again = lvmcore.load(path)
    assert again.latent_posterior == "encoder"
    new = curved(30, seed=3)[1]
    np.testing.assert_array_equal(again.transform(new), model.transform(new))


def test_the_setting_leaves_the_checkpoints_of_encoders() -> None:
    X = curved(50)[1]
    as_before, encoder, own = StochasticGPLVM(), StochasticGPLVM(), StochasticGPLVM(**FREE)
    as_before.settings_ = {**as_before.get_params()}
    del as_before.settings_["latent_posterior"]
    prints = [fit_fingerprint(model, X) for model in (as_before, encoder, own)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t*6"])
@pytest.mark.parametrize("batch_size", [64, 1000])
def test_a_resumed_fit_of_free_rows_ends_the_same(
    tmp_path: Path, likelihood: str, batch_size: int
) -> None:
    X = curved(150)[1]
    few = FREE | {"max_iter": 35, "column_likelihood": likelihood, "batch_size": batch_size}
    whole = StochasticGPLVM(**few).fit(X)
    path = tmp_path / "checkpoint.safetensors"
    first, second = StochasticGPLVM(**few), StochasticGPLVM(**few)
    first._fit_from(X, callback=lambda step: step.iteration == 17, checkpoint=Checkpoint(path))
    second._fit_from(X, checkpoint=Checkpoint(path))
    np.testing.assert_array_equal(second.embedding_.mean, whole.embedding_.mean)
    np.testing.assert_array_equal(second.embedding_.variance, whole.embedding_.variance)
    assert second.elbo_ == whole.elbo_
    assert not np.array_equal(first.embedding_.mean, whole.embedding_.mean)


def test_a_table_on_disk_is_fitted_as_in_memory(tmp_path: Path) -> None:
    X, few = curved(150)[1], FREE | {"max_iter": 25}
    np.save(tmp_path / "rows.npy", X)
    disk = np.load(tmp_path / "rows.npy", mmap_mode="r")
    one, other = StochasticGPLVM(**few).fit(disk), StochasticGPLVM(**few).fit(X)
    np.testing.assert_allclose(one.embedding_.mean, other.embedding_.mean, rtol=1e-6, atol=1e-8)


def test_free_rows_of_columns_with_likelihoods(tmp_path: Path) -> None:
    X = curved(200)[1]
    settings = FREE | {"n_components": 2, "column_likelihood": "student_t*6"}
    start, model = (StochasticGPLVM(**settings | {"max_iter": n}).fit(X) for n in (1, 150))
    assert model._encoder is None
    assert model.elbo_ > start.elbo_ + 0.2 * np.isfinite(X).sum()
    near = np.abs(model.transform(X) - model.embedding_.mean).max(1) < 1
    assert near.mean() > 0.7
    model.save(tmp_path / "map.safetensors")
    again = lvmcore.load(tmp_path / "map.safetensors")
    np.testing.assert_array_equal(again.transform(X[:20]), model.transform(X[:20]))


def test_single_precision_fits_free_rows() -> None:
    model = StochasticGPLVM(**FREE | {"max_iter": 15, "dtype": "float32"}).fit(curved(150)[1])
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.transform(curved(10, seed=2)[1])).all()
