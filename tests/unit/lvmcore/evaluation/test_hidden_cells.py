"""Intervals of hidden cells of columns with likelihoods of their own."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import poisson

from lvmcore.data import Dataset
from lvmcore.evaluation.hidden_cells import hidden_frame, imputation_metrics, predict_hidden
from lvmcore.results import Predictive

NAMES = ["visits", "region = east", "region = west", "answer"]


class Filled:
    """A model whose fillings are given."""

    column_likelihood_ = "poisson, categorical(2), bernoulli"

    def __init__(self, mean: Any, variance: Any) -> None:
        self.filled = Predictive(np.array(mean), np.array(variance), np.array(variance))

    def impute(self, X: Any) -> Predictive:
        return self.filled


def test_counts_have_whole_ends_and_levels_are_one_or_both() -> None:
    X = np.array(
        [[0.0, 1.0, 0.0, 1.0], [3.0, 0.0, 1.0, 2.0], [5.0, 1.0, 0.0, 1.0], [40.0, 0.0, 1.0, 2.0]]
    )
    p = np.array([0.99, 0.5, 0.7, 0.01])
    mean = np.column_stack([[2.0, 3.0, 4.0, 5.0], p, 1 - p, 1 + p])
    variance = np.column_stack([mean[:, 0], p * (1 - p), p * (1 - p), p * (1 - p)])
    dataset = Dataset.from_arrays(X, feature_names=NAMES)
    hidden = np.ones(X.shape, dtype=bool)
    cells = predict_hidden(Filled(mean, variance), dataset, X, hidden)  # type: ignore[arg-type]
    found = hidden_frame(cells, dataset, X, 0.9)
    visits = found[found["feature"] == "visits"]
    np.testing.assert_allclose(visits["lower"], poisson.ppf(0.05, mean[:, 0]), atol=1e-9)
    np.testing.assert_allclose(visits["upper"], poisson.ppf(0.95, mean[:, 0]), atol=1e-9)
    east = found[found["feature"] == "region = east"]
    np.testing.assert_allclose(east["lower"], [1, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(east["upper"], [1, 1, 1, 0], atol=1e-9)
    answer = found[found["feature"] == "answer"]
    np.testing.assert_allclose(answer["lower"], [2, 1, 1, 1], atol=1e-9)
    np.testing.assert_allclose(answer["upper"], [2, 2, 2, 1], atol=1e-9)
    # Of the counts 0, 3, 5 and 40 the intervals hold two or three; the levels do not count.
    inside = (visits["lower"] <= visits["truth"]) & (visits["truth"] <= visits["upper"])
    assert imputation_metrics(cells, "")["cells_coverage_90"].value == pytest.approx(inside.mean())


def test_levels_alone_have_no_coverage() -> None:
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    model = Filled(np.full((3, 2), 0.5), np.full((3, 2), 0.25))
    model.column_likelihood_ = "categorical(2)"
    dataset = Dataset.from_arrays(X, feature_names=NAMES[1:3])
    cells = predict_hidden(model, dataset, X, np.ones(X.shape, dtype=bool))  # type: ignore[arg-type]
    assert imputation_metrics(cells, "")["cells_coverage_90"].value is None
