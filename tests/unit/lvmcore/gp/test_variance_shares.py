"""Shares of the variance that dimensions carry."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

import lvmcore
from lvmcore import LDGD, BayesianGPLVM, DeepQEPLVM
from lvmcore.relevance import hidden_dimensions, leading_dimensions, total_effects

RNG = np.random.default_rng(0)


def test_a_straight_dimension_is_not_taken_for_irrelevant() -> None:
    """Nine columns follow x₁ linearly, three bend with x₂: ARD rates x₂ higher, the shares x₁."""
    x = RNG.normal(size=(200, 2))
    straight = x[:, :1] * RNG.uniform(0.8, 1.2, 9)
    bent = np.column_stack([np.sin(3 * x[:, 1]), np.cos(3 * x[:, 1]), np.sin(2 * x[:, 1])])
    Y = np.hstack([straight, bent]) + 0.05 * RNG.normal(size=(200, 12))
    Y = (Y - Y.mean(0)) / Y.std(0)
    model = BayesianGPLVM(n_components=2, noise="shared", start=x).fit(Y)
    along = np.abs(np.corrcoef(np.hstack([model.embedding_.mean, x]).T)[:2, 2:])
    first = int(along[:, 0].argmax())
    assert along[first, 0] > 0.95
    shares, ard = model.variance_shares()["data"], model.relevance_["data"]
    assert ard[first] < ard[1 - first]
    assert shares.sum() == pytest.approx(1)
    assert shares[first] > shares[1 - first]


def test_for_a_linear_table_they_are_the_shares_of_the_variance() -> None:
    x = RNG.normal(size=(200, 2))
    data = x @ np.array([[1.0, 1.0, -1.0, 0.0, 1.0], [0.5, -0.5, 0.3, 0.8, 0.0]])
    data += 0.05 * RNG.normal(size=data.shape)
    model = BayesianGPLVM(n_components=2, noise="shared", start=x).fit(data)
    found, X = model.variance_shares()["data"], model.embedding_.mean
    standard = (data - data.mean(0)) / data.std(0)
    weights = np.linalg.lstsq(X, standard, rcond=None)[0]
    carried = np.square(weights).sum(axis=1) * X.var(axis=0)
    np.testing.assert_allclose(found, carried / carried.sum(), atol=0.03)


def test_total_effects_are_those_of_sobol() -> None:
    """Ishigami's function, whose total effects are known, and a linear function."""
    X = RNG.uniform(-np.pi, np.pi, size=(1000, 3))
    effects = total_effects(
        lambda x: (
            np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
        )[:, None],
        X,
    )
    # Sobol and Levitan 1999, a = 7 and b = 0.1.
    both = 8 * 0.1**2 * np.pi**8 / 225
    first = 0.5 * (1 + 0.1 * np.pi**4 / 5) ** 2
    np.testing.assert_allclose(effects, [first + both, 49 / 8, both], rtol=0.15)
    W = RNG.normal(size=(3, 5))
    linear = total_effects(lambda x: x @ W, X)
    np.testing.assert_allclose(linear, np.square(W).sum(1) * X.var(axis=0), rtol=0.1)


def test_the_labels_have_the_shares_of_their_probabilities() -> None:
    iris = load_iris()
    model = LDGD(n_components=2, max_iter=60).fit(iris.data, iris.target)
    X, rng, found = model.embedding_.mean, np.random.default_rng(5), np.zeros(2)
    for q in range(2):
        for _ in range(20):
            changed = X.copy()
            changed[:, q] = rng.permutation(X[:, q])
            p, other = (model.decode_labels(x).probability for x in (X, changed))
            found[q] += np.square(p - other).sum()
    np.testing.assert_allclose(model.variance_shares()["labels"], found / found.sum(), atol=0.06)


@pytest.mark.parametrize("kind", [BayesianGPLVM, DeepQEPLVM])
def test_they_go_through_all_layers(kind: type) -> None:
    data = load_iris().data
    model = kind(n_components=3, max_iter=60).fit(data)
    share = model.variance_shares()["data"]
    X, rng, found = model.embedding_.mean, np.random.default_rng(5), np.zeros(3)
    for q in range(3):
        for _ in range(20):
            changed = X.copy()
            changed[:, q] = rng.permutation(X[:, q])
            change = model.decode(X).mean - model.decode(changed).mean
            found[q] += np.square(change / model.standardiser_.scale).sum()
    np.testing.assert_allclose(share, found / found.sum(), atol=0.06)


def test_they_follow_a_new_fit_and_a_loaded_model(tmp_path: Path) -> None:
    iris = load_iris()
    model = LDGD(n_components=2, max_iter=30).fit(iris.data, iris.target)
    before = model.variance_shares()
    assert set(before) == {"data", "labels"}
    model.save(tmp_path / "model.safetensors")
    again = lvmcore.load(tmp_path / "model.safetensors").variance_shares()
    for path, share in before.items():
        np.testing.assert_allclose(again[path], share, rtol=1e-9)
    model.fit(iris.data[:, ::-1] ** 2, iris.target)
    assert not np.allclose(model.variance_shares()["data"], before["data"])


# ---- the dimensions shown ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "axes", "hidden"),
    [
        ({"data": [0.1, 0.6, 0.3]}, (1, 2), ()),
        ({"data": [0.3, 0.4, 0.3]}, (1, 0), (2,)),
        # The labels choose both, unless that would hide most of the data for little.
        ({"data": [0.1, 0.1, 0.8], "labels": [0.6, 0.4, 0.0]}, (0, 1), (2,)),
        ({"data": [0.1, 0.1, 0.8], "labels": [0.9, 0.1, 0.0]}, (0, 2), ()),
        ({"data": [1.0]}, (0, None), ()),
    ],
)
def test_a_large_dimension_is_shown_or_named(
    shares: dict[str, list[float]], axes: tuple[int, int | None], hidden: tuple[int, ...]
) -> None:
    found = {path: np.array(share) for path, share in shares.items()}
    assert leading_dimensions(found) == axes
    assert hidden_dimensions(found, axes) == hidden
