"""The vector-quantised autoencoder: its map, its codes, its files, and what it is not."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine

from lvmcore import CVQVAE, load
from lvmcore.data import load_sample
from lvmcore.errors import UnsupportedError
from lvmcore.evaluation.map_quality import map_metrics
from lvmcore.models import MODELS
from lvmcore.training.checkpoint import Checkpoint

SETTINGS: dict[str, Any] = {"n_components": 2, "n_codes": 24, "n_hidden": 16, "max_iter": 250}


@cache
def wine() -> NDArray[np.float64]:
    return np.asarray(load_wine().data)


@cache
def fitted() -> CVQVAE:
    return CVQVAE(**SETTINGS).fit(wine())


def test_a_row_is_rebuilt_from_the_code_nearest_to_its_position() -> None:
    X, model = wine(), fitted()
    z = model.transform(X)
    np.testing.assert_allclose(z, model.embedding_.mean)
    chosen = ((z[:, None] - model.codes_) ** 2).sum(2).argmin(1)
    np.testing.assert_array_equal(model.nearest_codes(X), chosen)
    rebuilt = model.inverse_transform(z)
    codes = model.inverse_transform(model.codes_)
    np.testing.assert_allclose(rebuilt, codes[chosen], rtol=1e-12)
    assert len(np.unique(codes[chosen], axis=0)) == len(np.unique(chosen)) <= 24
    residual = ((X - rebuilt) / X.std(axis=0)) ** 2
    np.testing.assert_allclose(model.noise_variance_, residual.mean(axis=0))


def test_rebuilt_rows_are_better_than_those_of_few_clusters() -> None:
    X = (wine() - wine().mean(0)) / wine().std(0)
    clusters = KMeans(4, n_init=3, random_state=0).fit(X)
    assert fitted().noise_variance_.mean() < clusters.inertia_ / X.size


def test_codes_are_used_evenly_where_a_plain_one_hardly_uses_any() -> None:
    model = fitted()
    shares = np.bincount(model.nearest_codes(wine()), minlength=24) / len(wine())
    np.testing.assert_allclose(model.code_shares_, shares)
    positive = shares[shares > 0]
    assert model.perplexity_ == pytest.approx(np.exp(-(positive * np.log(positive)).sum()))
    assert model.perplexity_ > 15
    assert f"The rows use {len(positive)} of 24 codes" in model.notes_[-1]
    plain = CVQVAE(**SETTINGS, unused_codes="stay").fit(wine())
    assert plain.perplexity_ < 0.7 * model.perplexity_
    metric = map_metrics(model, load_sample("wine").dataset(label="cultivar"))["perplexity"]
    assert metric.value == model.perplexity_
    assert "24 codes" in metric.protocol


def test_the_history_holds_the_loss_and_no_bound() -> None:
    model = fitted()
    assert math.isnan(model.elbo_)
    assert model.rise_ is None
    assert all(math.isnan(step.objective) for step in model.history_)
    first, last = model.history_[0].terms, model.history_[-1].terms
    assert list(last) == ["squared error", "codebook", "commitment"]
    assert last["commitment"] == pytest.approx(0.25 * last["codebook"])
    assert 0 < last["squared error"] < 0.7 * first["squared error"]
    assert (model.embedding_.variance == 0).all()
    with pytest.raises(UnsupportedError):
        model.impute(wine())
    assert not hasattr(model, "score_samples")


def test_rows_are_sampled_by_the_shares_of_the_codes() -> None:
    model = fitted()
    drawn = model.sample(4000, random_state=0)
    means = model.inverse_transform(model.codes_)
    expected = model.code_shares_ @ means
    sd = wine().std(axis=0)
    np.testing.assert_allclose((drawn.mean(0) - expected) / sd, 0, atol=0.1)
    between = model.code_shares_ @ (means - expected) ** 2
    variance = between + model.noise_variance_ * sd**2
    np.testing.assert_allclose(drawn.var(0) / variance, 1, atol=0.15)


def test_a_stopped_fit_goes_on_with_its_codes(tmp_path: Path) -> None:
    settings = {**SETTINGS, "max_iter": 14, "batch_size": 50}
    whole = CVQVAE(**settings).fit(wine())
    path = tmp_path / "checkpoint.safetensors"
    first, second = CVQVAE(**settings), CVQVAE(**settings)
    first._fit_from(wine(), callback=lambda step: step.iteration == 6, checkpoint=Checkpoint(path))
    assert len(first.history_) == 6
    second._fit_from(wine(), checkpoint=Checkpoint(path))
    np.testing.assert_allclose(second.codes_, whole.codes_, rtol=1e-10)
    np.testing.assert_allclose(second.embedding_.mean, whole.embedding_.mean, rtol=1e-10)
    assert [step.terms for step in second.history_] == [step.terms for step in whole.history_]


def test_it_is_read_back(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.nearest_codes(wine()), model.nearest_codes(wine()))
    np.testing.assert_array_equal(again.codes_, model.codes_)
    assert again.perplexity_ == model.perplexity_
    np.testing.assert_array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))


def test_a_card_says_what_it_does_not_have() -> None:
    can = MODELS["cvq_vae"].capabilities
    assert (can.bound, can.density, can.uncertainty, can.missing_cells) == (False,) * 4
    assert (can.new_rows, can.decoding, can.sampling, can.steps) == (True,) * 4
