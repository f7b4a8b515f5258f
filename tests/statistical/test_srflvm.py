"""SRFLVM on tables of which everything is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lvmcore
from lvmcore import SRFLVM, ConfigError, DataError
from lvmcore.metrics.scores import coverage
from lvmcore.numerics.array_types import FloatArray


def s_curve(seed: int, n: int = 250, columns: int = 60) -> tuple[FloatArray, FloatArray]:
    """Places on an S, and functions of them whose kernel is an RBF and a periodic one."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1.5 * np.pi, 1.5 * np.pi, n)
    X = np.c_[np.sin(t), np.sign(t) * (np.cos(t) - 1)]
    X = (X - X.mean(0)) / X.std(0)
    away = X[:, None] - X
    K = np.exp(-0.5 * np.square(away).sum(-1) / 2.0**2)
    K += np.exp(-2 * np.square(np.sin(np.pi * away / 6.0)).sum(-1))
    F = np.linalg.cholesky(K + 1e-6 * np.eye(n)) @ rng.standard_normal((n, columns))
    return X, F + 0.1 * rng.standard_normal(F.shape)


def explained(X: FloatArray, Z: FloatArray) -> float:
    """Share of X that an affine map of Z gives."""
    A = np.c_[Z, np.ones(len(Z))]
    left = X - A @ np.linalg.lstsq(A, X, rcond=None)[0]
    return float(1 - np.square(left).sum() / np.square(X - X.mean(0)).sum())


def planted_counts(seed: int, n: int = 150, columns: int = 12) -> tuple[FloatArray, FloatArray]:
    """Negative-binomial counts of r = 8 whose logarithm turns with a place on a line."""
    rng = np.random.default_rng(seed)
    phases = rng.uniform(0, 2 * np.pi, columns)
    x = rng.uniform(-2, 2, n)
    rates = np.exp(1.5 + np.sin(x[:, None] + phases))
    return x, rng.negative_binomial(8, 8 / (8 + rates)).astype(float)


@pytest.mark.slow
def test_an_s_shaped_manifold_is_recovered_up_to_an_affine_map() -> None:
    X, Y = s_curve(0)
    assert explained(X, SRFLVM().fit(Y).embedding_.mean) > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("spectral", ["mixture", "moment"])
def test_the_other_spectra_find_it_too(spectral: str) -> None:
    X, Y = s_curve(0, n=150)
    model = SRFLVM(spectral=spectral, max_iter=300).fit(Y)  # type: ignore[arg-type]
    assert explained(X, model.embedding_.mean) > 0.95


@pytest.mark.slow
def test_a_full_covariance_fits_no_worse() -> None:
    X, Y = s_curve(0)
    full = SRFLVM(covariance="full", max_iter=200).fit(Y)
    diagonal = SRFLVM(max_iter=200).fit(Y)
    assert explained(X, full.embedding_.mean) > 0.95
    assert full.elbo_ > diagonal.elbo_ - 0.02 * abs(diagonal.elbo_)


def test_the_learned_kernel_is_that_of_its_points() -> None:
    _, Y = s_curve(0, n=80, columns=10)
    model = SRFLVM(max_iter=100).fit(Y)
    found = model.latent_kernel([0.0, 0.5])
    np.testing.assert_allclose(found[:, 0], 1.0)
    np.testing.assert_allclose(found[:, 1], np.cos(0.5 * model.spectral_.points).mean(0))
    np.testing.assert_allclose(model.spectral_.weights.sum(), 1.0)
    np.testing.assert_allclose(model.spectral_.shares.sum(1), 1.0)
    np.testing.assert_allclose(
        model.relevance_["data"], np.square(model.spectral_.points).mean(0), rtol=1e-6
    )


@pytest.mark.slow
def test_intervals_of_filled_cells_cover() -> None:
    covered, n = 0.0, 0
    for seed in range(2):
        _, Y = s_curve(seed, n=150, columns=15)
        hidden = np.random.default_rng(seed).random(Y.shape) < 0.2
        known = np.where(hidden, np.nan, Y)
        filled = SRFLVM(max_iter=200, random_state=seed).fit(known).impute(known)
        inside = coverage(Y[hidden], filled.mean[hidden], filled.variance[hidden], 0.9)
        covered, n = covered + inside * hidden.sum(), n + hidden.sum()
        error = np.square(filled.mean - Y)[hidden].mean()
        assert error < 0.3 * np.square(Y - np.nanmean(known, 0))[hidden].mean()
    assert 0.85 < covered / n < 0.95


@pytest.mark.slow
def test_counts_are_explained_better_by_counting() -> None:
    x, Y = planted_counts(0)
    model = SRFLVM(n_components=1, likelihood="negative_binomial", max_iter=300).fit(Y)
    order = np.abs(np.corrcoef(np.argsort(np.argsort(x)), model.embedding_.mean[:, 0])[0, 1])
    assert order > 0.9
    assert 3 < np.median(model.dispersion_) < 30
    _, new = planted_counts(0, n=400)
    mean, variance = Y.mean(0), Y.var(0)
    r = mean**2 / np.maximum(variance - mean, 1e-3)
    alone = stats.nbinom.logpmf(new[150:], r, r / (r + mean)).sum(1).mean()
    assert model.score(new[150:]) > alone + 0.5


@pytest.mark.slow
def test_counts_with_gaps_are_filled() -> None:
    _, Y = planted_counts(1)
    hidden = np.random.default_rng(0).random(Y.shape) < 0.2
    known = np.where(hidden, np.nan, Y)
    model = SRFLVM(n_components=1, likelihood="negative_binomial", max_iter=300).fit(known)
    filled = model.impute(known)
    mean = np.broadcast_to(np.nanmean(known, 0), Y.shape)
    assert np.square(filled.mean - Y)[hidden].mean() < 0.8 * np.square(mean - Y)[hidden].mean()
    assert (filled.variance[hidden] > filled.noise_variance[hidden]).all()


@pytest.mark.slow(quick=["bernoulli"])
@pytest.mark.parametrize("likelihood", ["bernoulli", "binomial", "negative_binomial", "poisson"])
def test_every_likelihood_fits_saves_and_draws_its_own_kind(likelihood: Any, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 1))
    p = 1 / (1 + np.exp(-2 * np.sin(x + np.arange(6))))
    Y = {
        "bernoulli": (rng.random(p.shape) < p).astype(float),
        "binomial": rng.binomial(9, p).astype(float),
        "negative_binomial": rng.poisson(10 * p).astype(float),
        "poisson": rng.poisson(10 * p).astype(float),
    }[likelihood]
    model = SRFLVM(likelihood=likelihood, max_iter=80).fit(Y)
    drawn = model.sample(300, random_state=0)
    np.testing.assert_array_equal(drawn, np.round(drawn))
    assert drawn.min() >= 0
    if likelihood in ("bernoulli", "binomial"):
        assert drawn.max() <= Y.max()
    model.save(tmp_path / "model.safetensors")
    again = lvmcore.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.transform(Y), model.transform(Y))
    np.testing.assert_array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
    with pytest.raises(AttributeError):
        _ = model.noise_variance_


def test_columns_of_one_unit_share_their_scale() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.standard_normal((40, 40)) * rng.uniform(0.5, 2, 40)
    mixed = pixels * np.where(np.arange(40) == 3, 1000.0, 1.0)
    shared = SRFLVM(max_iter=2).fit(pixels)
    assert len(set(shared._standardiser.scale)) == 1
    assert len(set(SRFLVM(max_iter=2).fit(mixed)._standardiser.scale)) == 40
    assert len(set(SRFLVM(max_iter=2, scaling="column").fit(pixels)._standardiser.scale)) == 40
    np.testing.assert_allclose(shared.standardiser_.scale, pixels.std(0))


@pytest.mark.parametrize(
    ("likelihood", "value", "message"),
    [
        ("negative_binomial", -1.0, "row 3, column 2, is below 0"),
        ("negative_binomial", 0.5, "row 3, column 2, is no whole number"),
        ("binomial", 2.5, "row 3, column 2, is no whole number"),
        ("bernoulli", 2.0, "row 3, column 2, is neither 0 nor 1"),
        ("negative_binomial", 2e9, "row 3, column 2, is more than"),
    ],
)
def test_cells_that_do_not_suit_are_named(likelihood: Any, value: float, message: str) -> None:
    Y = np.random.default_rng(0).integers(0, 2, (20, 4)).astype(float)
    Y[2, 1] = value
    with pytest.raises(DataError, match=message):
        SRFLVM(likelihood=likelihood, max_iter=5).fit(Y)


def test_odd_counts_are_taken() -> None:
    rng = np.random.default_rng(0)
    Y = rng.poisson(2.0, (12, 5)).astype(float)  # fewer rows than features
    Y[:, 1] = 0  # a column of zeros
    Y[4] = 0  # and a row
    Y[0, 2] = 1e9
    model = SRFLVM(likelihood="negative_binomial", max_iter=60).fit(Y)
    assert "1 constant column set aside: 2." in model.notes_
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.transform(Y)).all()
    decoded = model.decode(model.embedding_.mean)
    assert np.isfinite(decoded.mean).all()
    np.testing.assert_array_equal(decoded.mean[:, 1], 0.0)


@pytest.mark.slow(quick=["poisson"])
@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_a_count_far_above_all_others_costs_the_others_nothing(likelihood: Any) -> None:
    rng = np.random.default_rng(0)
    rates = np.exp(rng.normal(size=(60, 2)) @ rng.normal(0, 0.6, size=(2, 6)) + 1)
    Y = rng.poisson(rates).astype(float)
    Y[7, 2] = 1e9
    model = SRFLVM(likelihood=likelihood, n_features=50, max_iter=200).fit(Y)
    assert model.elbo_ > -1050
    decoded = model.decode(model.embedding_.mean).mean
    assert 2e8 < decoded[7, 2] < 5e9
    others = np.delete(np.arange(6), 2)
    assert np.median(np.abs(decoded - Y)[:, others]) < 1.5


def test_too_few_trials_are_refused() -> None:
    Y = np.random.default_rng(0).integers(0, 5, (20, 3)).astype(float)
    with pytest.raises(ConfigError, match="n_trials=2 cannot be used: column"):
        SRFLVM(likelihood="binomial", n_trials=2, max_iter=5).fit(Y)
    model = SRFLVM(likelihood="binomial", max_iter=5).fit(Y)
    Y[3, 1] = 9
    with pytest.raises(DataError, match=r"count of 9 in column 2 is more than the \d trials"):
        model.transform(Y)


def test_a_fit_to_counts_forgets_the_intervals_of_one_before() -> None:
    rng = np.random.default_rng(0)
    Y = rng.poisson(5.0, (40, 5)).astype(float)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    model = SRFLVM(max_iter=30).fit(Y)
    assert (model.interval_scale_ >= 1).all()
    model.set_params(likelihood="poisson").fit(Y[:, :3])
    np.testing.assert_array_equal(model.interval_scale_, np.ones(3))
    assert np.isfinite(model.impute(Y[:, :3]).variance).all()


@pytest.mark.slow(quick=["gaussian"])
@pytest.mark.parametrize(
    "likelihood", ["gaussian", "bernoulli", "binomial", "negative_binomial", "poisson", "large"]
)
def test_a_further_fit_goes_on_from_the_one_before(likelihood: str) -> None:
    kind: Any = "negative_binomial" if likelihood == "large" else likelihood
    counts = planted_counts(0)[1]
    table = {
        "gaussian": s_curve(0, n=120, columns=10)[1],
        "bernoulli": (counts > 4).astype(float),
        "large": 60 * counts,
    }.get(likelihood, counts)
    first = SRFLVM(likelihood=kind, max_iter=150, n_features=20).fit(table)
    same, further = first.ensemble(table, 2, max_iter=100)
    assert same is first
    risen = first.elbo_ - first.history_[0].objective
    assert further.elbo_ > first.elbo_ - 0.15 * risen
    if likelihood != "gaussian":  # a small noise makes a new kernel dear at first
        assert further.history_[0].objective > first.elbo_ - 0.4 * risen
    assert np.abs(further.spectral_.points - first.spectral_.points).mean() > 0.1
    assert np.abs(further.embedding_.mean - first.embedding_.mean).mean() < 0.5
    again = first.ensemble(table, 2, max_iter=100)[1]
    np.testing.assert_array_equal(again.embedding_.mean, further.embedding_.mean)


def test_an_ensemble_asks_for_the_rows_of_the_fit_and_a_free_spectrum() -> None:
    counts = planted_counts(0, n=40)[1]
    model = SRFLVM(likelihood="poisson", max_iter=3, n_features=10).fit(counts)
    with pytest.raises(DataError, match="X has 39 rows: expected the 40 of this fit"):
        model.ensemble(counts[:-1])
    drawn = SRFLVM(likelihood="poisson", spectral="mixture", max_iter=3, n_features=10).fit(counts)
    with pytest.raises(ConfigError, match="Fit with spectral='free'"):
        drawn.ensemble(counts)
    with pytest.raises(ConfigError, match="n_fits=0"):
        model.ensemble(counts, 0)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_an_ensemble_goes_on_from_a_saved_model(likelihood: Any, tmp_path: Path) -> None:
    counts = planted_counts(0, n=60)[1]
    model = SRFLVM(likelihood=likelihood, max_iter=20, n_features=10).fit(counts)
    model.save(tmp_path / "model.safetensors")
    loaded: Any = lvmcore.load(tmp_path / "model.safetensors")
    further = [
        fits[1].elbo_ for fits in (m.ensemble(counts, 2, max_iter=5) for m in (model, loaded))
    ]
    assert further[0] == pytest.approx(further[1], rel=1e-6)
