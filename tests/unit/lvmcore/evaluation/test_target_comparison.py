"""The baselines of a target by other routes, their scores, and the sentence on who is best."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import KFold

from lvmcore.data import Table
from lvmcore.distributed.independent_calls import chosen_caller
from lvmcore.errors import DataError
from lvmcore.evaluation import baseline_methods, target_comparison
from lvmcore.evaluation.baseline_methods import PENALTIES, BaselineProblem
from lvmcore.evaluation.target_baselines import _mixed, baseline_predictions
from lvmcore.evaluation.target_comparison import compare_target
from lvmcore.evaluation.target_quality import target_metrics
from lvmcore.evaluation.target_scores import (
    BASELINES,
    MODEL,
    MethodScores,
    TargetComparison,
    target_comparison_from_json,
    target_comparison_to_json,
    verdict,
)
from lvmcore.metrics.paired_difference import exceeds_noise
from lvmcore.prediction.target_predictions import PROBABILITY_OF
from lvmcore.prediction.target_rows import SupervisedRows
from tests.unit.lvmcore.distributed.shuffled_caller import ShuffledCaller


def number_problem(n: int = 90) -> BaselineProblem:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = 5 + 10 * np.sin(2 * X[:, 0]) + 3 * X[:, 1] + rng.normal(size=n)
    half = 2 * n // 3
    return BaselineProblem("number", X[:half], y[:half], X[half:], y[half:])


def class_problem() -> BaselineProblem:
    """Classes a and b by the sign of a column, and two rows of a class c."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=80) > 0, "a", "b")
    y[:2] = "c"
    return BaselineProblem("class", X[:60], y[:60], X[60:], y[60:].astype(object))


@pytest.fixture(scope="module")
def numbers() -> dict[str, pd.DataFrame | None]:
    return baseline_predictions(number_problem(), seconds=100.0)


@pytest.fixture(scope="module")
def classes() -> dict[str, pd.DataFrame | None]:
    return baseline_predictions(class_problem(), seconds=100.0)


def table(found: dict[str, pd.DataFrame | None], key: str) -> pd.DataFrame:
    frame = found[key]
    assert frame is not None
    return frame


# ---- predictions -------------------------------------------------------------------------------


def test_the_linear_model_is_ridge_with_the_penalty_and_errors_of_rows_left_out(
    numbers: dict[str, pd.DataFrame | None],
) -> None:
    problem = number_problem()
    centre, scale = problem.X.mean(0), problem.X.std(0)
    X, X_new = (problem.X - centre) / scale, (problem.X_new - centre) / scale

    def ridge(X: NDArray[Any], y: NDArray[Any], new: NDArray[Any], penalty: float) -> NDArray[Any]:
        middle, mean = X.mean(0), y.mean()
        A = (X - middle).T @ (X - middle) + penalty * np.eye(3)
        return mean + (new - middle) @ np.linalg.solve(A, (X - middle).T @ (y - mean))

    errors = []
    for penalty in PENALTIES:
        each = []
        for n in range(len(X)):
            others = np.arange(len(X)) != n
            each.append(problem.y[n] - ridge(X[others], problem.y[others], X[[n]], penalty)[0])
        errors.append(np.mean(np.square(each)))
    best = int(np.argmin(errors))
    found = table(numbers, "linear")
    np.testing.assert_allclose(found["mean"], ridge(X, problem.y, X_new, PENALTIES[best]))
    np.testing.assert_allclose(found["sd"], np.sqrt(errors[best]))


def test_boosting_is_one_fit_with_the_errors_of_five_folds(
    numbers: dict[str, pd.DataFrame | None],
) -> None:
    problem = number_problem()

    def fitted(X: NDArray[Any], y: NDArray[Any]) -> HistGradientBoostingRegressor:
        leaf = max(2, len(y) // 20)
        model = HistGradientBoostingRegressor(
            min_samples_leaf=leaf, early_stopping=False, random_state=0
        )
        return model.fit(X, y)

    squares = np.empty(len(problem.y))
    for seen, left in KFold(5, shuffle=True, random_state=0).split(problem.X):
        predicted = fitted(problem.X[seen], problem.y[seen]).predict(problem.X[left])
        squares[left] = np.square(problem.y[left] - predicted)
    found = table(numbers, "boosting")
    whole = fitted(problem.X, problem.y).predict(problem.X_new)
    np.testing.assert_allclose(found["mean"], whole)
    np.testing.assert_allclose(found["sd"], np.sqrt(squares.mean()))


def test_the_forest_is_one_fit_with_the_errors_out_of_bag(
    numbers: dict[str, pd.DataFrame | None],
) -> None:
    problem = number_problem()
    forest = RandomForestRegressor(max_features=1, random_state=0, oob_score=True)
    forest.set_params(max_samples=len(problem.y)).fit(problem.X, problem.y)
    found = table(numbers, "forest")
    np.testing.assert_allclose(found["mean"], forest.predict(problem.X_new))
    error = np.mean(np.square(problem.y - forest.oob_prediction_))
    np.testing.assert_allclose(found["sd"], np.sqrt(error))
    np.testing.assert_allclose(
        found["log_density"], norm.logpdf(problem.y_new, found["mean"], np.sqrt(error))
    )


def test_probabilities_are_never_zero_for_a_class_that_is_known(
    classes: dict[str, pd.DataFrame | None],
) -> None:
    """Not even those of the forest, nor where a fold has no row of the class."""
    problem = class_problem()
    for key in BASELINES:
        found = table(classes, key)
        names = [f"{PROBABILITY_OF}{name}" for name in "abc"]
        probability = found[names].to_numpy()
        np.testing.assert_allclose(probability.sum(axis=1), 1)
        assert (probability > 0).all()
        assert (found["predicted"] == problem.y_new).mean() > 0.8
    forest = RandomForestClassifier(max_samples=60, random_state=0).fit(problem.X, problem.y)
    raw = forest.predict_proba(problem.X_new)
    assert (raw == 0).any()
    mixed = table(classes, "forest")[names].to_numpy()
    frequency = np.array([np.mean(problem.y == name) for name in "abc"])
    shares = (mixed - raw) / (frequency - raw)
    np.testing.assert_allclose(shares, shares[0, 0])  # one share for all


def test_the_share_of_the_frequencies_has_the_least_log_loss() -> None:
    """Unseen rows of which a fifth is surely wrong: the optimum of a fine search is near."""
    rng = np.random.default_rng(0)
    y = np.where(rng.uniform(size=400) < 0.5, "a", "b")
    sure = np.where(rng.uniform(size=400) < 0.8, y == "a", y != "a").astype(float)
    unseen = np.stack([sure, 1 - sure], 1)
    problem = BaselineProblem("class", np.zeros((400, 1)), y, np.zeros((1, 1)), np.array(["a"]))
    found = _mixed(problem, ["a", "b"], unseen, np.array([[1.0, 0.0]]))
    frequency = np.array([np.mean(y == "a"), np.mean(y == "b")])
    own, mean = unseen[np.arange(400), (y == "b").astype(int)], frequency[(y == "b").astype(int)]
    best = minimize_scalar(
        lambda s: -np.log((1 - s) * own + s * mean).mean(), bounds=(1e-6, 1), method="bounded"
    ).x
    share = (1 - found[f"{PROBABILITY_OF}a"][0]) / (1 - frequency[0])
    assert share == pytest.approx(0.4)  # of those tried
    assert 0.2 < best < 0.7  # between its neighbours


def test_wide_tables_are_boosted_by_the_columns_that_tell_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = number_problem()
    noise = np.random.default_rng(5).normal(size=(90, 40))
    wide = dataclasses.replace(
        problem,
        X=np.hstack([noise[:60], problem.X]),
        X_new=np.hstack([noise[60:], problem.X_new]),
    )
    monkeypatch.setattr(baseline_methods, "MOST_COLUMNS", 3)
    found = table(baseline_predictions(wide, seconds=100.0), "boosting")
    error = np.square(found["truth"] - found["mean"]).mean()
    assert error < 0.6 * problem.y_new.var()


def test_a_method_whose_time_is_spent_is_left_out() -> None:
    assert set(baseline_predictions(class_problem(), seconds=-1.0).values()) == {None}
    found = baseline_predictions(number_problem(), seconds=-1.0)
    assert [key for key, frame in found.items() if frame is not None] == ["linear"]  # no steps


def test_a_run_that_has_to_stop_stops_the_baselines() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        baseline_predictions(number_problem(), seconds=100.0, check_stop=stop)


# ---- comparison --------------------------------------------------------------------------------


def supervised(problem: BaselineProblem) -> SupervisedRows:
    X = np.vstack([problem.X, problem.X_new])
    y = np.concatenate([problem.y, problem.y_new])
    dataset = Table.from_frame(pd.DataFrame(X).add_prefix("x")).dataset()
    held = np.arange(len(y)) >= len(problem.y)
    return SupervisedRows(dataset, y, held, "the last rows")


def as_model(rows: SupervisedRows, found: pd.DataFrame, shift: float = 0.0) -> pd.DataFrame:
    """Predictions of all rows: those of a baseline for the held-out ones, moved by ``shift``."""
    frame = pd.DataFrame({"truth": rows.y, "mean": 0.0, "sd": 1.0, "q05": 0.0, "q95": 0.0})
    frame["log_density"] = frame["cumulative"] = 0.0
    part = found.assign(mean=found["mean"] + shift)
    part["log_density"] = norm.logpdf(part["truth"], part["mean"], part["sd"])
    part["cumulative"] = norm.cdf(part["truth"], part["mean"], part["sd"])
    held = rows.held_out
    frame.loc[held, part.columns] = part.to_numpy()
    return frame


def test_scores_are_those_of_the_same_held_out_rows(
    numbers: dict[str, pd.DataFrame | None],
) -> None:
    rows = supervised(number_problem())
    best = table(numbers, "forest")
    compared = compare_target(as_model(rows, best), rows, seconds=100.0)
    assert compared is not None
    assert (compared.task, compared.rows) == ("number", 30)
    assert [one.method for one in compared.methods] == [MODEL, *BASELINES]
    own, linear, _, forest = compared.methods
    assert own.values == forest.values  # the model is the forest
    assert (forest.better, forest.worse) == ((), ())
    metrics = target_metrics(table(numbers, "linear"), "")
    assert linear.values == {key: metrics[key].value for key in linear.values}
    squares = {
        key: np.square(table(numbers, key)["truth"] - table(numbers, key)["mean"]).to_numpy()
        for key in ("linear", "forest")
    }
    assert ("error" in linear.worse) == exceeds_noise(squares["linear"] - squares["forest"])
    moved = compare_target(as_model(rows, best, shift=40.0), rows, seconds=100.0)
    assert moved is not None
    assert all(set(one.better) == {"error", "density"} for one in moved.methods[1:])
    assert "better than the model: RMSE" in verdict(moved, str)


def test_a_difference_counts_from_two_standard_errors_on() -> None:
    values = np.array([1.0, 3.0, 1.0, 3.0])  # mean 2, standard error 1/√3
    assert exceeds_noise(values)
    assert not exceeds_noise(values - 0.9)  # 1.1 < 2/√3
    assert not exceeds_noise(-values)
    assert not exceeds_noise(values[:1])


def test_long_tables_are_compared_on_samples_that_are_stated(
    monkeypatch: pytest.MonkeyPatch, numbers: dict[str, pd.DataFrame | None]
) -> None:
    monkeypatch.setattr(target_comparison, "MOST_ROWS", 40)
    monkeypatch.setattr(target_comparison, "FEWEST_ROWS", 10)
    monkeypatch.setattr(target_comparison, "MOST_HELD_OUT", 20)
    rows = supervised(number_problem())
    frame = as_model(rows, table(numbers, "forest"))
    found = compare_target(frame, rows, seconds=100.0)
    assert found is not None
    assert found.rows == 20
    assert "the baselines from 40 of 60 rows, drawn with seed 0" in found.protocol
    assert "20 of 30 held-out rows, drawn with seed 0" in found.protocol
    monkeypatch.setattr(target_comparison, "MOST_CELLS", 3 * 15)
    narrow = compare_target(frame, rows, seconds=-1.0)
    assert narrow is not None
    assert "from 15 of 60 rows" in narrow.protocol
    assert "the time for it was spent: histogram boosting and a random forest" in narrow.protocol


def test_rows_of_a_class_that_no_row_of_the_fit_has_are_left_out() -> None:
    problem = class_problem()
    strange = problem.y_new.copy()
    strange[:3] = "d"
    rows = supervised(dataclasses.replace(problem, y_new=strange))
    frame = pd.DataFrame({"truth": rows.y, "predicted": "a", "probability": 1.0})
    for name in "abc":
        frame[f"{PROBABILITY_OF}{name}"] = 1 / 3
    frame["log_density"] = np.where(rows.y == "d", -np.inf, -np.log(3))
    found = compare_target(frame, rows, seconds=100.0)
    assert found is not None
    assert found.rows == 17
    assert found.methods[0].values["log_loss"] == pytest.approx(np.log(3))
    assert compare_target(frame[:63], _first(rows, 63), seconds=100.0) is None


def _first(rows: SupervisedRows, n: int) -> SupervisedRows:
    kept = np.arange(len(rows.y)) < n
    return SupervisedRows(rows.dataset.subset(kept), rows.y[kept], rows.held_out[kept], rows.how)


# ---- the sentence and the file -----------------------------------------------------------------


@pytest.mark.parametrize("make", [number_problem, class_problem])
def test_parts_fitted_elsewhere_give_the_same_predictions(
    make: Callable[[], BaselineProblem],
) -> None:
    here = baseline_predictions(make(), seconds=600.0)
    caller = ShuffledCaller(during=1)
    with chosen_caller(caller):
        there = baseline_predictions(make(), seconds=600.0)
    assert len(caller.order) == 12  # but the first: two fits to all rows, and two to five folds
    assert list(there) == list(here)
    for key, table in here.items():
        assert table is not None
        pd.testing.assert_frame_equal(there[key], table, check_exact=True)


def made(**values: tuple[float | None, float | None, str]) -> TargetComparison:
    """RMSE, NLPP and "better" or "worse" by both, of each method."""
    both = ("error", "density")
    methods = tuple(
        MethodScores(
            key,
            {"rmse": rmse, "nlpp": nlpp, "coverage_90": 0.9, "width_90": 2.5},
            better=both if how == "better" else (),
            worse=both if how == "worse" else (),
        )
        for key, (rmse, nlpp, how) in values.items()
    )
    return TargetComparison("number", 1030, methods, "")


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (
            made(model=(4.0, 2.5, ""), linear=(9.0, 3.0, "worse"), forest=(5.0, 2.8, "worse")),
            "The model predicts the 1,030 held-out rows best: RMSE 4.0, next a random forest with "
            "5.0; NLPP 2.5, next a random forest with 2.8.",
        ),
        (
            made(model=(5.2, 2.98, ""), boosting=(4.3, 2.89, "better"), forest=(5, 2.9, "")),
            "Histogram boosting predicts the 1,030 held-out rows better than the model: "
            "RMSE 4.3 against 5.2, NLPP 2.89 against 2.98.",
        ),
        (
            made(model=(5.2, 2.8, ""), boosting=(4.3, 2.9, "")),
            "On the 1,030 held-out rows histogram boosting has the best RMSE, 4.3 against 5.2 of "
            "the model, and the model has the best NLPP, 2.8 against 2.9 of histogram boosting. "
            "Both differences are within two standard errors.",
        ),
        (
            made(model=(4.0, None, ""), linear=(4.0, 3.0, "")),
            "The model predicts the 1,030 held-out rows best: RMSE 4.0, next a linear model with "
            "4.0. The difference in RMSE is within two standard errors.",
        ),
        (made(model=(4.0, 2.5, "")), ""),
    ],
)
def test_the_best_method_is_named(comparison: TargetComparison, expected: str) -> None:
    assert verdict(comparison, str) == expected


def test_a_high_accuracy_is_good() -> None:
    scores = ("accuracy", "log_loss", "calibration_error")
    methods = tuple(
        MethodScores(key, dict(zip(scores, values, strict=True)), worse=("error", "density"))
        for key, values in ((MODEL, (0.9, 0.2, 0.1)), ("linear", (0.8, 0.3, 0.1)))
    )
    text = verdict(TargetComparison("class", 1, methods, ""), str)
    assert text.startswith(
        "The model predicts the 1 held-out row best: accuracy 0.9, next a linear"
    )


def test_a_comparison_survives_its_file() -> None:
    comparison = made(model=(4.0, None, ""), linear=(9.0, 3.0, "worse"))
    content = target_comparison_to_json(comparison)
    assert target_comparison_from_json(content) == comparison
    for damaged in (
        None,
        {**content, "methods": []},
        {**content, "methods": content["methods"][1:]},
        {**content, "methods": [{**content["methods"][0], "method": "crystal ball"}]},
        {key: content[key] for key in ("task", "rows", "methods")},
    ):
        with pytest.raises(DataError, match="comparison with baselines is damaged"):
            target_comparison_from_json(damaged)
