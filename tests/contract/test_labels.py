"""Models that know labels: what they take, what they refuse, what they predict."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lvmcore import ConfigError, DataError, load
from tests.contract.small import N_COMPONENTS, N_ROWS, fit, fitted, for_models, make, table

label_aware = for_models(lambda model: model.capabilities.labels != "none")
generative = for_models(
    lambda model: model.capabilities.labels != "none" and model.capabilities.sampling
)
# Gaussian processes return to their prior.
with_prior = for_models(
    lambda model: (
        model.capabilities.labels != "none" and "n_inducing" in {p.name for p in model.parameters()}
    )
)
semi_supervised = for_models(lambda model: model.capabilities.missing_labels)


def steps(key: str, most: int) -> dict[str, int]:
    """A number of steps, for a model that has the setting."""
    return {"max_iter": most} if hasattr(make(key), "max_iter") else {}


@label_aware
def test_predictions(key: str) -> None:
    frame, labels = table(seed=1)  # rows that the fit has not seen
    model = fitted(key)
    assert model.classes_.tolist() == ["class 0", "class 1", "class 2"]
    probability = model.predict_proba(frame)
    assert probability.shape == (N_ROWS, 3)
    assert (probability > 0).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(frame), model.classes_[probability.argmax(axis=1)])
    assert np.mean(model.predict(frame) == labels) == model.score(frame, labels) > 0.9


@label_aware
def test_predictions_do_not_depend_on_neighbours(key: str) -> None:
    frame, _ = table(seed=1)
    together = fitted(key).predict_proba(frame)
    for n in (0, 11):
        alone = fitted(key).predict_proba(frame.iloc[[n]])
        np.testing.assert_allclose(alone[0], together[n], atol=1e-6)


@generative
def test_probabilities_of_a_row_average_over_where_it_may_be(key: str) -> None:
    frame, _ = table(seed=1)
    model = fitted(key)
    posterior = model.posterior(frame)
    rng = np.random.default_rng(0)
    total = np.zeros((N_ROWS, 3))
    for _ in range(400):
        noise = rng.standard_normal(posterior.mean.shape)
        points = posterior.mean + np.sqrt(posterior.variance) * noise
        total += model.decode_labels(points).unnormalised
    expected = total / total.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(frame), expected, atol=0.02)


@generative
def test_class_probabilities_of_the_map(key: str) -> None:
    model = fitted(key)
    decoded = model.decode_labels(model.embedding_.mean)
    np.testing.assert_allclose(decoded.probability.sum(axis=1), 1)
    share = decoded.unnormalised / decoded.unnormalised.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(decoded.probability, share)
    assert ((decoded.unnormalised > 0) & (decoded.unnormalised < 1)).all()
    # A probability with mean p has variance at most p (1 − p).
    most = decoded.unnormalised * (1 - decoded.unnormalised)
    assert ((decoded.variance >= 0) & (decoded.variance <= most + 1e-9)).all()


@with_prior
def test_far_from_all_rows_classes_are_as_likely_as_before_any_was_seen(key: str) -> None:
    model = fitted(key)
    decoded = model.decode_labels(np.concatenate([model.embedding_.mean, [[50.0, 50.0]]]))
    np.testing.assert_allclose(decoded.probability[-1], 1 / 3, atol=1e-6)
    assert (decoded.variance[-1] > decoded.variance[:-1].mean(axis=0)).all()


@pytest.mark.slow
@label_aware
@pytest.mark.parametrize(
    "names",
    [["b", "a", "c"], ["ß", "", "naïve name"], [-1, 0, 7], [1.0, 2.0, 4.0], [False, True, True]],
    ids=str,
)
def test_any_kind_of_label_survives_to_prediction_and_file(
    key: str, names: list[Any], tmp_path: Path
) -> None:
    frame, codes = table()
    y = [names[int(code[-1])] for code in codes]
    model = fit(key, frame, y)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for m in (model, again):
        assert m.classes_.tolist() == sorted(set(names))
        predicted = m.predict(frame)
        assert predicted.dtype == np.array(y).dtype
        assert np.mean(predicted == np.array(y)) > 0.9
        assert set(predicted.tolist()) <= set(names)


@pytest.mark.slow(quick=["lda", "ldgd", "supervised_vae"])
@label_aware
def test_a_series_of_labels_is_taken(key: str) -> None:
    frame, labels = table()
    for y in (pd.Series(labels), pd.Series(labels, dtype="category"), np.array(labels, object)):
        model = fit(key, frame, y)
        np.testing.assert_array_equal(model.embedding_.mean, fitted(key).embedding_.mean)


@label_aware
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y"),
        (["a"] * N_ROWS, r"one class \(a\)"),
        ([None] * N_ROWS, "no class"),
        (["a", "b"], rf"{N_ROWS} rows: expected one label a row"),
        (np.linspace(0, 1, N_ROWS), "Unknown label type"),
    ],
    ids=["none", "one class", "all missing", "too few", "continuous"],
)
def test_labels_that_cannot_be_used_are_refused(key: str, y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make(key).fit(table()[0], y)


@pytest.mark.slow(quick=["fast_ldgd", "ldgd", "supervised_vae"])
@semi_supervised
def test_rows_without_a_label_are_given_sensible_ones(key: str) -> None:
    frame, labels = table()
    y: list[str | None] = [
        label if n < 9 else None for n, label in enumerate(labels)
    ]  # three of each class
    model = fit(key, frame, y, **steps(key, 60))
    assert model.classes_.tolist() == ["class 0", "class 1", "class 2"]
    probability = model.predict_proba(frame)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert np.mean(model.predict(frame)[9:] == labels[9:]) > 0.9
    decoded = model.decode_labels(model.embedding_.mean).probability
    assert np.mean(model.classes_[decoded.argmax(axis=1)][9:] == labels[9:]) > 0.9


@pytest.mark.slow(quick=["fast_ldgd", "ldgd"])
@generative
def test_samples_of_a_class_look_like_it(key: str) -> None:
    frame, labels = table()
    model = fit(key, frame, labels, **steps(key, 80))
    sd = frame.std(ddof=0).to_numpy()
    for name in model.classes_:
        rows = frame[np.array(labels) == name]
        drawn = model.sample(800, label=name, random_state=0)
        away = (drawn.mean(axis=0) - rows.mean().to_numpy()) / sd
        assert np.abs(away).max() < 0.2
        assert np.mean(model.predict(pd.DataFrame(drawn, columns=frame.columns)) == name) > 0.9


@generative
@pytest.mark.parametrize("label", ["class 9", 0, ""])
def test_sampling_an_unknown_class_lists_the_known(key: str, label: Any) -> None:
    with pytest.raises(ConfigError, match=r"no class of this model: it knows class 0, class 1"):
        fitted(key).sample(3, label=label)


@pytest.mark.slow(quick=["fast_ldgd", "lda", "supervised_vae"])
@label_aware
def test_labels_shape_the_map_but_not_the_placing_of_new_rows(key: str) -> None:
    frame, labels = table()
    shuffled = list(np.random.default_rng(0).permutation(labels))
    other = fit(key, frame, shuffled)
    assert not np.allclose(other.embedding_.mean, fitted(key).embedding_.mean, atol=1e-3)
    # posterior() takes no labels at all: the fit's own rows are placed by their columns.
    placed = fitted(key).posterior(frame)
    assert placed.mean.shape == (N_ROWS, N_COMPONENTS)
    if fitted(key).capabilities.amortised:  # a network placed them by their columns in the fit
        np.testing.assert_allclose(placed.mean, fitted(key).embedding_.mean, atol=1e-6)
    elif fitted(key).capabilities.uncertainty:  # the fit itself placed them by their labels too
        assert not np.allclose(placed.mean, fitted(key).embedding_.mean, atol=1e-6)
