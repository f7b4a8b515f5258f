"""Maps whose columns have likelihoods of their own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore.errors import ConfigError, DataError
from lvmcore.models import MODELS
from lvmcore.results import FitStep

KEYS = ["bayesian_gplvm", "ldgd", "fast_ldgd", "stochastic_gplvm"]
TEXT = "gaussian*2, negative_binomial, categorical(3), bernoulli"
NEGATIVE_COUNT = "'visits' cannot have the likelihood negative_binomial: row 4"
SETTINGS: dict[str, Any] = {
    "n_components": 2,
    "n_inducing": 12,
    "max_iter": 120,
    "learning_rate": 0.05,
}


@cache
def _table() -> tuple[pd.DataFrame, np.ndarray]:
    """120 rows on a curve: two numbers, a count, a category, yes or no; and a class."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-2, 2, 120)
    level = np.digitize(t + 0.1 * rng.normal(size=120), [-0.7, 0.7])
    frame = pd.DataFrame(
        {
            "a": np.sin(t) + 0.1 * rng.normal(size=120),
            "b": t + 0.1 * rng.normal(size=120),
            "visits": rng.poisson(np.exp(0.8 * t)).astype(float),
            **{f"colour = {k}": (level == k).astype(float) for k in range(3)},
            "smoker": (t + 0.3 * rng.normal(size=120) > 0).astype(float),
        }
    )
    return frame, np.where(t > 0, "high", "low")


def _hidden(frame: pd.DataFrame) -> pd.DataFrame:
    """The table without a category in some rows, and without a number and a count in others."""
    left = frame.copy()
    left.iloc[::5, 3:6] = np.nan
    left.iloc[1::5, 0] = np.nan
    left.iloc[2::5, 2] = np.nan
    return left


@cache
def _fitted(key: str) -> Any:
    frame, labels = _table()
    return MODELS[key](column_likelihood="by column", **SETTINGS).fit(_hidden(frame), labels)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_proposed_likelihoods_and_the_language_of_the_columns(key: str) -> None:
    model, (frame, _) = _fitted(key), _table()
    assert model.column_likelihood_ == TEXT
    found = model.impute(_hidden(frame))
    p = found.mean[::5, 3:6]
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    assert (p >= 0).all()
    truth = frame.to_numpy()[::5, 3:6]
    assert (p.argmax(1) == truth.argmax(1)).mean() > 0.7
    assert (found.mean[2::5, 2] >= 0).all()
    error = found.mean[1::5, 0] - frame["a"].to_numpy()[1::5]
    assert np.sqrt(np.mean(error**2)) < 0.6 * frame["a"].std()
    assert (found.variance[np.isnan(_hidden(frame).to_numpy())] > 0).all()
    drawn = model.sample(50, random_state=1)
    assert (drawn[:, 3:6].sum(1) == 1).all()
    assert set(np.unique(drawn[:, [3, 4, 5, 6]])) <= {0.0, 1.0}
    assert (drawn[:, 2] == np.round(drawn[:, 2])).all()
    assert (drawn[:, 2] >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_a_file_predicts_the_same(key: str, tmp_path: Path) -> None:
    model, (frame, _) = _fitted(key), _table()
    model.save(tmp_path / "map.safetensors")
    again = lvmcore.load(tmp_path / "map.safetensors")
    assert again.column_likelihood_ == TEXT
    np.testing.assert_array_equal(again.transform(frame[:9]), model.transform(frame[:9]))
    for one, other in zip(
        (again.decode(model.embedding_.mean[:9]), again.impute(_hidden(frame)[:9])),
        (model.decode(model.embedding_.mean[:9]), model.impute(_hidden(frame)[:9])),
        strict=True,
    ):
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.variance, other.variance)
    np.testing.assert_array_equal(again.score_samples(frame[:9]), model.score_samples(frame[:9]))


@pytest.mark.slow
@pytest.mark.parametrize("key", ["ldgd", "fast_ldgd"])
def test_labels_are_predicted_from_mixed_columns(key: str) -> None:
    model, (frame, labels) = _fitted(key), _table()
    assert model.score(frame, labels) > 0.8
    assert set(model.relevance_) == {"data", "labels"}


def test_density_is_that_of_the_cells_in_their_own_units() -> None:
    model, (frame, _) = _fitted("bayesian_gplvm"), _table()
    only = pd.DataFrame(np.full((3, 7), np.nan), columns=frame.columns)
    only.iloc[:, 3:6] = np.eye(3)
    # the probabilities of all levels of a row without other cells add up to one
    assert np.exp(model.score_samples(only)).sum() == pytest.approx(1, abs=0.02)
    counts = pd.DataFrame(np.full((80, 7), np.nan), columns=frame.columns)
    counts["visits"] = np.arange(80.0)
    assert np.exp(model.score_samples(counts)).sum() == pytest.approx(1, abs=0.05)


def test_rows_do_not_depend_on_the_rows_beside_them() -> None:
    model, (frame, _) = _fitted("bayesian_gplvm"), _table()
    alone = np.concatenate([model.transform(frame[i : i + 1]) for i in range(4)])
    np.testing.assert_allclose(alone, model.transform(frame[:4]), atol=1e-6)


def test_a_fit_stops_where_the_callback_says_and_repeats_itself() -> None:
    frame, _ = _table()

    def stop(step: FitStep) -> bool:
        return step.iteration >= 20

    runs = [
        MODELS["bayesian_gplvm"](column_likelihood=TEXT, **SETTINGS).fit(frame, callback=stop)
        for _ in range(2)
    ]
    assert runs[0].n_iter_ < 25
    np.testing.assert_array_equal(runs[0].embedding_.mean, runs[1].embedding_.mean)


def test_a_column_of_one_level_is_left_out() -> None:
    frame, _ = _table()
    more = frame.assign(**{"colour = 3": 0.0})[
        ["a", "b", "visits", "colour = 0", "colour = 1", "colour = 2", "colour = 3", "smoker"]
    ]
    short = SETTINGS | {"max_iter": 5}
    model = MODELS["bayesian_gplvm"](column_likelihood="by column", **short).fit(more)
    assert model.column_likelihood_ == TEXT.replace("(3)", "(4)")
    assert (model.decode(model.embedding_.mean[:3]).mean[:, 6] == 0).all()


def test_bad_cells_and_lists_are_named_before_the_fit() -> None:
    frame, _ = _table()
    model = MODELS["bayesian_gplvm"](column_likelihood=TEXT, **SETTINGS)
    bad = frame.copy()
    bad.loc[3, "visits"] = -1
    with pytest.raises(DataError, match=NEGATIVE_COUNT):
        model.fit(bad)
    with pytest.raises(ConfigError, match="of 7 features, but the table has 3"):
        model.fit(frame[["a", "b", "visits"]])
    with pytest.raises(ConfigError, match="did you mean 'poisson'"):
        MODELS["ldgd"](column_likelihood="poison").fit(frame, _table()[1])
    fitted = _fitted("bayesian_gplvm")
    with pytest.raises(DataError, match=NEGATIVE_COUNT):
        fitted.transform(bad)


def test_columns_of_numbers_take_the_gaussian_route() -> None:
    frame = _table()[0][["a", "b"]]
    both = [
        MODELS["bayesian_gplvm"](max_iter=10, start="pca", column_likelihood=text).fit(
            frame[["a", "b"]]
        )
        for text in ("gaussian", "by column")
    ]
    assert [model.column_likelihood_ for model in both] == ["gaussian"] * 2
    np.testing.assert_array_equal(both[0].embedding_.mean, both[1].embedding_.mean)
