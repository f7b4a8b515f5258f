"""Effects of columns on a prediction: of functions with known Sobol indices, and through layers."""

import numpy as np
import pandas as pd
import pytest

from lvmcore import DSVIDeepGPRegressor, GPRegressor, SVGPClassifier
from lvmcore.evaluation import column_effects as module
from lvmcore.evaluation.column_effects import column_effects


def columns(n: int, *names: str) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.uniform(size=(n, len(names))), columns=list(names))


def test_shares_are_those_of_a_function_with_known_indices() -> None:
    """Sobol's g-function, Π (|4 x_h − 2| + a_h)/(1 + a_h), smooth enough where a is large."""
    X, a = columns(300, "a", "b", "constant", "c"), np.array([1.0, 2.0, 8.0])
    X["constant"] = 3.0
    parts = (np.abs(4 * X[["a", "b", "c"]].to_numpy() - 2) + a) / (1 + a)
    model = GPRegressor().fit(X, parts.prod(1))
    assert model.score(X, parts.prod(1)) > 0.99
    V = 1 / (3 * (1 + a) ** 2)
    total = np.array([V[h] * np.delete(1 + V, h).prod() for h in range(3)])
    np.testing.assert_allclose(column_effects(model, X), total / total.sum(), atol=0.04)


def test_a_linear_column_counts_as_much_as_its_variance() -> None:
    """Its lengthscale is long, so its kernel weight is small."""
    X = columns(200, "bent", "straight")
    y = np.sin(12 * X["bent"]) + np.sqrt(6) * X["straight"]  # variances of about ½ each
    model = GPRegressor(kernel="rbf").fit(X, y)
    weights = model.relevance_["layer1"] / model.relevance_["layer1"].sum()
    assert weights[1] < 0.1
    carried = np.array([np.sin(12 * X["bent"]).var(), 6 * X["straight"].var()])
    np.testing.assert_allclose(column_effects(model, X), carried / carried.sum(), atol=0.05)


def test_it_goes_through_all_layers_and_over_all_classes() -> None:
    X = columns(150, "none", "a", "b")
    y = X["a"] - 2 * X["b"]
    deep = DSVIDeepGPRegressor(n_layers=1, n_inducing=20, max_iter=200).fit(X, y)
    np.testing.assert_allclose(column_effects(deep, X), [0, 0.2, 0.8], atol=0.05)
    classes = SVGPClassifier(max_iter=100).fit(X, np.digitize(X["a"], [0.3, 0.7]))
    found = column_effects(classes, X)
    assert found[1] > 0.9
    assert found.sum() == pytest.approx(1)


def test_many_columns_need_no_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X = columns(200, *(f"c{h}" for h in range(30)))
    model = GPRegressor(kernel="rbf", max_iter=20).fit(X, X["c3"])
    rows: list[int] = []
    predict = GPRegressor.predict

    def counted(self: GPRegressor, X: pd.DataFrame) -> object:
        rows.append(len(X))
        return predict(self, X)

    monkeypatch.setattr(GPRegressor, "predict", counted)
    monkeypatch.setattr(module, "MOST_PREDICTED", 3000)
    assert column_effects(model, X).argmax() == 3
    assert sum(rows) <= 3100


def test_a_constant_prediction_has_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    X = columns(30, "a", "b")
    model = GPRegressor(kernel="rbf", max_iter=2).fit(X, X["a"])
    monkeypatch.setattr(GPRegressor, "predict", lambda self, X: np.ones(len(X)))
    np.testing.assert_array_equal(column_effects(model, X), [0.5, 0.5])
