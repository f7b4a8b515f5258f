"""SRFLVM with a likelihood for each column."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore.base.validation import fit_fingerprint
from lvmcore.errors import ConfigError
from lvmcore.evaluation.cell_density import number_log_density
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint

TEXT = "gaussian*2, negative_binomial, categorical(3), bernoulli"
SETTINGS: dict[str, Any] = {"n_features": 20, "column_likelihood": "by column", "random_state": 0}


@cache
def _table() -> pd.DataFrame:
    """80 rows on a curve: two numbers, a count, a category, yes or no."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-2, 2, 80)
    level = np.digitize(t + 0.1 * rng.normal(size=80), [-0.7, 0.7])
    return pd.DataFrame(
        {
            "a": np.sin(t) + 0.1 * rng.normal(size=80),
            "b": t + 0.1 * rng.normal(size=80),
            "visits": rng.poisson(np.exp(0.8 * t)).astype(float),
            **{f"colour = {k}": (level == k).astype(float) for k in range(3)},
            "smoker": (t + 0.3 * rng.normal(size=80) > 0).astype(float),
        }
    )


def _hidden() -> pd.DataFrame:
    left = _table().copy()
    left.iloc[::5, 3:6] = np.nan
    left.iloc[1::5, 0] = np.nan
    left.iloc[2::5, 2] = np.nan
    return left


@cache
def _fitted(kernel: str = "learned") -> SRFLVM:
    return SRFLVM(**SETTINGS, kernel=kernel, max_iter=120).fit(_hidden())


@pytest.mark.slow
def test_cells_are_in_the_language_of_their_columns() -> None:
    model, hidden = _fitted(), _hidden()
    assert model.column_likelihood_.startswith("gaussian*2")
    found = model.impute(hidden)
    p = found.mean[::5, 3:6]
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    assert (p.argmax(1) == _table().to_numpy()[::5, 3:6].argmax(1)).mean() > 0.6
    assert (found.mean[2::5, 2] >= 0).all()
    drawn = model.sample(30, random_state=1)
    assert (drawn[:, 3:6].sum(1) == 1).all()
    assert (drawn[:, 2] == np.round(drawn[:, 2])).all()
    only = pd.DataFrame(np.full((3, 7), np.nan), columns=hidden.columns)
    only.iloc[:, 3:6] = np.eye(3)
    assert np.exp(model.score_samples(only)).sum() == pytest.approx(1, abs=0.03)
    assert (np.linalg.eigvalsh(model.latent_metric(model.embedding_.mean[:3])) > -1e-9).all()
    assert model.variance_shares()["data"].sum() == pytest.approx(1)
    assert model.inducing_inputs_ == {}
    assert model.noise_variance_.shape == (7,)
    hides = np.isnan(hidden.to_numpy())
    density = number_log_density(model, _table().to_numpy(), hides)
    assert density is not None
    assert np.isfinite(density[1::5, 0]).all()


@pytest.mark.parametrize("kernel", ["learned", "rbf"])
def test_a_file_predicts_the_same(kernel: str, tmp_path: Path) -> None:
    model, hidden = _fitted(kernel), _hidden()
    model.save(tmp_path / "map.safetensors")
    again: Any = lvmcore.load(tmp_path / "map.safetensors")
    assert again.column_likelihood_ == model.column_likelihood_
    for one, other in (
        (model.posterior(hidden[:6]), again.posterior(hidden[:6])),
        (model.impute(hidden[:6]), again.impute(hidden[:6])),
        (model.decode(model.embedding_.mean[:4]), again.decode(model.embedding_.mean[:4])),
    ):
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.variance, other.variance)
    np.testing.assert_array_equal(model.sample(4, random_state=1), again.sample(4, random_state=1))
    assert (again.kernel_ is None) == (kernel == "learned")


def test_a_resumed_fit_ends_as_one_without_a_break(tmp_path: Path) -> None:
    whole = SRFLVM(**SETTINGS, max_iter=20).fit(_hidden())

    def stop(step: FitStep) -> bool:
        return step.iteration >= 8

    path = tmp_path / "checkpoint.safetensors"
    SRFLVM(**SETTINGS, max_iter=20)._fit_from(_hidden(), callback=stop, checkpoint=Checkpoint(path))
    resumed = SRFLVM(**SETTINGS, max_iter=20)._fit_from(_hidden(), checkpoint=Checkpoint(path))
    np.testing.assert_array_equal(resumed.embedding_.mean, whole.embedding_.mean)
    assert resumed.elbo_ == whole.elbo_


def test_several_starts_keep_the_highest_bound() -> None:
    model = SRFLVM(**SETTINGS, max_iter=8, n_restarts=2).fit(_hidden())
    assert model.restarts_ is not None
    assert model.elbo_ == max(model.restarts_.bounds)
    assert np.isfinite(model.impute(_hidden()).mean).all()


def test_gaussian_columns_and_earlier_checkpoints_are_as_before() -> None:
    frame = _table()[["a", "b"]]
    both = [
        SRFLVM(n_features=10, max_iter=5, column_likelihood=text).fit(frame)
        for text in ("gaussian", "by column")
    ]
    np.testing.assert_array_equal(both[0].embedding_.mean, both[1].embedding_.mean)
    digest = fit_fingerprint(both[0], frame.to_numpy())
    del both[0].settings_["column_likelihood"]  # as earlier versions had it
    assert fit_fingerprint(both[0], frame.to_numpy()) == digest


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"covariance": "full"}, "Set covariance='diagonal'"),
        ({"spectral": "mixture"}, "Set spectral='free'"),
        ({"scaling": "shared"}, "Set scaling='auto'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        SRFLVM(**SETTINGS | settings, max_iter=5).fit(_table())


def test_a_likelihood_of_the_table_gives_way_with_a_note() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).poisson(3.0, (30, 4)), columns=list("abcd"))
    given = {"likelihood": "negative_binomial", "n_trials": 9}  # what is advised for counts
    models = [
        SRFLVM(n_features=10, max_iter=5, column_likelihood="by column", **more).fit(frame)
        for more in ({}, given)
    ]
    np.testing.assert_array_equal(models[0].embedding_.mean, models[1].embedding_.mean)
    assert not any("not used" in note for note in models[0].notes_)
    assert any(
        "likelihood='negative_binomial', n_trials=9 are" in text for text in models[1].notes_
    )


def test_an_ensemble_is_refused() -> None:
    with pytest.raises(ConfigError, match="column_likelihood='by column' cannot be used"):
        _fitted().ensemble(_hidden(), 2)
