"""The baselines of an imputation by other routes, their scores, and the columns not to use."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.neighbors import NearestNeighbors

from lvmcore import ProbabilisticPCA
from lvmcore.data import Dataset, Table
from lvmcore.data.transforms import one_hot_columns
from lvmcore.distributed.independent_calls import chosen_caller
from lvmcore.errors import DataError
from lvmcore.evaluation.hidden_cells import HiddenCells, hide_cells, predict_hidden
from lvmcore.evaluation.imputation_baselines import NEIGHBOURS, baseline_predictions
from lvmcore.evaluation.imputation_comparison import compare_imputation
from lvmcore.evaluation.imputation_scores import (
    ImputationComparison,
    comparison_from_json,
    comparison_to_json,
)
from tests.unit.lvmcore.distributed.shuffled_caller import ShuffledCaller

SINGLE = [np.array([d]) for d in range(5)]


@pytest.fixture(scope="module")
def curved() -> NDArray[np.float64]:
    """Columns 0 to 2 tell each other, column 3 is |column 0|, column 4 is noise."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 1))
    X = np.hstack([x @ np.ones((1, 3)) + 0.1 * rng.normal(size=(400, 3)), np.abs(x)])
    X = np.hstack([X, rng.normal(size=(400, 1))])
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def compared(
    dataset: Dataset, seconds: float = 100.0
) -> tuple[HiddenCells, Dataset, ImputationComparison]:
    hidden = hide_cells(dataset.X, 0.1, groups=one_hot_columns(dataset).values())
    fitted = dataclasses.replace(dataset, X=np.where(hidden, np.nan, dataset.X))
    frame = pd.DataFrame(fitted.X, columns=list(fitted.transformed_names))
    model = ProbabilisticPCA(n_components=1).fit(frame)
    cells = predict_hidden(model, fitted, dataset.X, hidden)
    return cells, fitted, compare_imputation(cells, fitted, seconds=seconds)


def test_neighbours_are_the_nearest_rows_weighted_by_distance(curved: NDArray[np.float64]) -> None:
    hidden = np.zeros(curved.shape, dtype=bool)
    hidden[::7, 1] = True
    Y = np.where(hidden, np.nan, curved)
    found = baseline_predictions(Y, hidden, SINGLE, seconds=100.0)["neighbours"]
    rows, known = np.flatnonzero(hidden[:, 1]), np.flatnonzero(~hidden[:, 1])
    others = [0, 2, 3, 4]
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(curved[np.ix_(known, others)])
    distance, index = near.kneighbors(curved[np.ix_(rows, others)])
    expected = np.average(curved[known, 1][index], axis=1, weights=1 / distance)
    np.testing.assert_allclose(found.mean[rows, 1], expected)


def test_variances_are_those_of_unseen_errors(curved: NDArray[np.float64]) -> None:
    hidden = hide_cells(curved, 0.1)
    found = baseline_predictions(np.where(hidden, np.nan, curved), hidden, SINGLE, seconds=100.0)
    for key, one in found.items():
        squares = np.where(hidden, np.square(one.mean - curved), 0.0)
        expected = squares.sum(axis=0) / hidden.sum(axis=0)
        assert one.variance.mean() == pytest.approx(expected.mean(), rel=0.3), key
    # |x| is a function of x that a forest and neighbours learn, and the noise is learned by none.
    assert found["forest"].variance[3] < 0.2
    assert found["forest"].variance[4] == pytest.approx(1.0, abs=0.25)
    assert found["means"].variance.tolist() == pytest.approx([1.0] * 5, abs=0.1)


def test_forests_of_other_processes_are_those_of_this_one(curved: NDArray[np.float64]) -> None:
    hidden = hide_cells(curved, 0.1)
    left = np.where(hidden, np.nan, curved)
    here = baseline_predictions(left, hidden, SINGLE, seconds=600.0)
    caller = ShuffledCaller(during=1)
    with chosen_caller(caller):
        there = baseline_predictions(left, hidden, SINGLE, seconds=600.0)
    assert len(caller.order) == len(SINGLE) - 1
    for key, one in here.items():
        np.testing.assert_array_equal(there[key].mean, one.mean)
        np.testing.assert_array_equal(there[key].variance, one.variance)


def test_after_its_time_no_column_gets_a_forest(curved: NDArray[np.float64]) -> None:
    hidden = hide_cells(curved, 0.2)
    found = baseline_predictions(np.where(hidden, np.nan, curved), hidden, SINGLE, seconds=-1.0)
    assert np.isnan(found["forest"].mean).all()
    _, _, comparison = compared(Dataset.from_arrays(curved), seconds=-1.0)
    assert {one.errors["forest"] for one in comparison.columns} == {None}
    assert "5 columns have no forest" in comparison.protocol


def test_errors_and_densities_are_those_of_scipy(curved: NDArray[np.float64]) -> None:
    cells, _, comparison = compared(Dataset.from_arrays(curved, feature_names=list("abcde")))
    assert [one.column for one in comparison.columns] == list("abcde")
    column = np.nonzero(cells.at)[1]
    for d, one in enumerate(comparison.columns):
        own = column == d
        assert one.cells == own.sum()
        error = np.sqrt(np.mean((cells.mean - cells.truth)[own] ** 2))
        assert one.errors["model"] == pytest.approx(error)
        sd = np.sqrt(cells.variance[own])
        density = norm.logpdf(cells.truth[own], cells.mean[own], sd).mean()
        assert one.log_densities["model"] == pytest.approx(density)
        assert one.errors["means"] == pytest.approx(np.sqrt(np.mean(cells.truth[own] ** 2)))
        by_means = norm.logpdf(cells.truth[own]).mean()
        assert one.log_densities["means"] == pytest.approx(by_means, abs=0.01)
    (total,) = comparison.total
    assert total.cells == len(cells.truth)
    assert total.errors["model"] == pytest.approx(np.sqrt(np.mean((cells.mean - cells.truth) ** 2)))


def test_the_model_is_not_to_be_used_where_a_baseline_is_better(
    curved: NDArray[np.float64],
) -> None:
    _, _, comparison = compared(Dataset.from_arrays(curved, feature_names=list("abcde")))
    better = {one.column: one.better for one in comparison.columns}
    assert {"neighbours", "forest"} <= set(better["d"])  # a line predicts no |x|
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 1)) + 0.5 * rng.normal(size=(400, 4))
    _, _, straight = compared(Dataset.from_arrays(X))
    assert [one.better for one in straight.columns] == [()] * 4


def test_densities_by_column_are_in_units_and_errors_are_not(curved: NDArray[np.float64]) -> None:
    dataset = Dataset.from_arrays(3 * curved, feature_names=list("abcde"))
    cells, fitted, plain = compared(dataset)
    own = np.where(np.nonzero(cells.at)[1] == 4, np.nan, -1.5)  # column e has none of its own
    found = compare_imputation(dataclasses.replace(cells, numbers=own), fitted, seconds=-1.0)
    for one, before in zip(found.columns, plain.columns, strict=True):
        assert one.errors["model"] == before.errors["model"]
        scale = np.nanstd(fitted.X[:, "abcde".index(one.column)])
        for key in ("means", "neighbours", "model"):
            given = before.log_densities[key]
            assert given is not None
            is_own = key == "model" and one.column != "e"
            expected = -1.5 if is_own else given - np.log(scale)
            assert one.log_densities[key] == pytest.approx(expected)
    assert "in the units of their columns" in found.protocol
    assert "in the units of their columns" not in plain.protocol


def test_levels_of_a_category_are_hidden_and_scored_together() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 300)
    frame = pd.DataFrame(
        {
            "size": kind + 0.05 * rng.normal(size=300),
            "weight": 2 * kind + 0.1 * rng.normal(size=300),
            "kind": np.array(["x", "y", "z"], dtype=object)[kind],
            "sick": np.where(kind == 2, "yes", "no"),
        }
    )
    dataset = Table.from_frame(frame, name="kinds").dataset(one_hot=["kind"])
    assert one_hot_columns(dataset)["kind"] == tuple(
        d for d, name in enumerate(dataset.feature_names) if name.startswith("kind = ")
    )
    group = list(one_hot_columns(dataset)["kind"])
    hidden = hide_cells(dataset.X, 0.3, groups=[group])
    assert (hidden[:, group].all(axis=1) == hidden[:, group].any(axis=1)).all()
    assert not hidden.all(axis=1).any()
    cells, _, comparison = compared(dataset)
    by_name = {one.column: one for one in comparison.columns}
    assert {name: one.kind for name, one in by_name.items()} == {
        "size": "numbers",
        "weight": "numbers",
        "kind": "levels",
        "sick": "levels",
    }
    row = np.flatnonzero(cells.at[:, group[0]])
    assert by_name["kind"].cells == len(row)
    left = np.delete(kind, row)
    common = np.bincount(left).argmax()
    assert by_name["kind"].errors["means"] == pytest.approx(np.mean(kind[row] != common))
    share = np.bincount(left, minlength=3) / len(left)
    assert by_name["kind"].log_densities["means"] == pytest.approx(
        np.log(share[kind[row]]).mean(), abs=1e-6
    )
    assert by_name["kind"].errors["forest"] == 0
    assert [one.kind for one in comparison.total] == ["numbers", "levels"]


def test_a_comparison_is_read_back_and_a_damaged_one_refused(curved: NDArray[np.float64]) -> None:
    _, _, comparison = compared(Dataset.from_arrays(curved))
    assert comparison_from_json(comparison_to_json(comparison)) == comparison
    for damaged in (
        {},
        {"total": 1, "columns": [], "protocol": ""},
        {"total": [{}], "columns": []},
    ):
        with pytest.raises(DataError, match="comparison of the imputation is damaged"):
            comparison_from_json(damaged)
