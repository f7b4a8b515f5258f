"""The convolutional network as a classifier: shifts, colours, files, stops, and what it is of."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from lvmcore import CNNClassifier, load
from lvmcore.base.table_size import TableSize
from lvmcore.errors import DataError
from lvmcore.training.checkpoint import Checkpoint

GLYPHS = np.array(
    [
        [[1, 1, 1], [1, 0, 1], [1, 1, 1]],
        [[1, 0, 1], [0, 1, 0], [1, 0, 1]],
        [[0, 1, 0], [1, 1, 1], [0, 1, 0]],
    ]
)


@cache
def shifted(n: int = 500) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Pictures of 10 x 12 noisy pixels with a ring, a cross or a plus anywhere."""
    rng = np.random.default_rng(0)
    X, y = 0.3 * rng.random((n, 10, 12)), rng.integers(0, 3, n)
    row, column = rng.integers(0, 8, n), rng.integers(0, 10, n)
    for i in range(n):
        X[i, row[i] : row[i] + 3, column[i] : column[i] + 3] += GLYPHS[y[i]]
    return X.reshape(n, -1), np.array(["ring", "cross", "plus"])[y]


QUICK = {"picture_shape": "10x12", "n_hidden": 16, "max_iter": 150}


@cache
def fitted() -> CNNClassifier:
    X, y = shifted()
    return CNNClassifier(**QUICK).fit(X[:350], y[:350])


def test_shifted_pictures_are_told_apart_where_a_linear_model_cannot() -> None:
    X, y = shifted()
    model = fitted()
    linear = LogisticRegression(max_iter=500).fit(X[:350], y[:350])
    assert linear.score(X[350:], y[350:]) < 0.7
    assert model.score(X[350:], y[350:]) > 0.9
    assert -model.log_density(X[350:], y[350:]).mean() < 0.35
    dense = CNNClassifier(**{**QUICK, "network": "columns"}).fit(X[:350], y[:350])
    assert dense.score(X[350:], y[350:]) < model.score(X[350:], y[350:]) - 0.1


def test_a_model_of_pictures_is_read_back_from_its_file(tmp_path: Path) -> None:
    X, _ = shifted()
    model = fitted()
    path = tmp_path / "model.safetensors"
    model.save(path)
    again: Any = load(path, "target")
    np.testing.assert_array_equal(again.predict_proba(X[:30]), model.predict_proba(X[:30]))
    np.testing.assert_array_equal(again.hidden(X[:30]), model.hidden(X[:30]))
    np.testing.assert_array_equal(again.relevance_["layer1"], model.relevance_["layer1"])
    assert again.n_parameters_ == model.n_parameters_
    assert again.settings_["network"] == "pictures"


def test_a_fit_to_pictures_goes_on_where_it_stopped(tmp_path: Path) -> None:
    X, y = (part[:150] for part in shifted())
    settings = {**QUICK, "max_iter": 12, "batch_size": 40}
    whole = CNNClassifier(**settings).fit(X, y)
    path = tmp_path / "checkpoint.safetensors"
    first, second = CNNClassifier(**settings), CNNClassifier(**settings)
    first._fit_from(X, y, callback=lambda s: s.iteration == 5, checkpoint=Checkpoint(path))
    assert len(first.history_) == 5
    second._fit_from(X, y, checkpoint=Checkpoint(path))
    assert len(second.history_) == 12
    np.testing.assert_allclose(second.log_density(X, y), whole.log_density(X, y), rtol=1e-6)


@pytest.mark.slow
def test_colours_and_two_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 9, 11, 3)), rng.integers(0, 2, 300)
    row, column = rng.integers(0, 6, 300), rng.integers(0, 8, 300)
    for n in range(300):  # a bright square in red or in blue, anywhere
        X[n, row[n] : row[n] + 3, column[n] : column[n] + 3, 2 * y[n]] += 1.5
    X = X.reshape(300, -1)
    model = CNNClassifier(picture_shape="9x11x3", n_hidden=16, max_iter=150).fit(X[:220], y[:220])
    assert model.score(X[220:], y[220:]) > 0.9
    probability = model.predict_proba(X[220:])
    assert probability.shape == (80, 2)
    np.testing.assert_allclose(probability.sum(1), 1)
    expected = np.log(probability[np.arange(80), y[220:]])
    np.testing.assert_allclose(model.log_density(X[220:], y[220:]), expected)


def test_the_fit_ends_at_the_weights_of_the_best_validation_score() -> None:
    X, y = shifted()
    wrong = np.random.default_rng(1).permutation(y[:120])  # nothing to learn
    model = CNNClassifier(**{**QUICK, "max_iter": 400, "learning_rate": 0.05}, validation=0.3)
    model.fit(X[:120], wrong)
    told = np.array([s.held_out for s in model.history_ if np.isfinite(s.held_out)])
    assert model.converged_
    assert len(told) - 1 - told.argmin() == 5
    out = np.setdiff1d(np.arange(120), model._rows_of_fit)
    assert -model.log_density(X[out], wrong[out]).mean() == pytest.approx(told.min(), rel=1e-6)


def test_what_it_is_of_follows_from_the_columns_and_the_shape() -> None:
    def kind(X: NDArray[np.float64], **settings: Any) -> str:
        y = np.arange(len(X)) % 2
        model = CNNClassifier(n_hidden=4, max_iter=1, validation=0.0, **settings).fit(X, y)
        found = model._function.state()[1]["picture"]
        assert (found is None) == (model.settings_["network"] == "columns")
        return str(found)

    square = np.random.default_rng(0).random((12, 64))
    assert kind(square) == "[8, 8, 1]"
    assert kind(square, network="columns") == "None"
    assert kind(square[:, :63]) == "None"
    wide = np.random.default_rng(0).random((12, 80))
    assert kind(wide) == "None"
    assert kind(wide, picture_shape="8x10") == "[8, 10, 1]"
    assert kind(wide, picture_shape="8x10", network="columns") == "None"
    with pytest.raises(DataError, match="columns make no square picture"):
        kind(wide, network="pictures")


def test_advice_says_why() -> None:
    short = CNNClassifier.advise(TableSize(n_rows=100, n_columns=3072))
    assert short["network"].value == "pictures"
    assert short["network"].reason == "3,072 columns make pictures of 32 × 32 in colour"
    long = CNNClassifier.suggest(TableSize(n_rows=60_000, n_columns=7))
    assert long == {"network": "columns", "max_iter": 4000}


def test_hidden_units_are_the_features_of_which_the_classes_are_linear() -> None:
    X, y = (part[:100] for part in shifted())
    model = CNNClassifier(**{**QUICK, "max_iter": 30}, hidden_dim=2).fit(X, y)
    units = model.hidden(X)
    assert units.shape == (100, 2)
    log_p = np.log(model.predict_proba(X))
    contrast = log_p - log_p.mean(1, keepdims=True)
    design = np.column_stack([units, np.ones(100)])
    left = np.linalg.lstsq(design, contrast, rcond=None)[1]
    np.testing.assert_allclose(left, 0, atol=1e-12)
