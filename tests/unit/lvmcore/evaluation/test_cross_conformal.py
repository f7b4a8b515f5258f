"""Cross-conformal intervals: their definition written out, and their coverage in finite samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor

from lvmcore.evaluation import cross_conformal
from lvmcore.evaluation.baseline_methods import BaselineProblem, _left_out_by_trees
from lvmcore.evaluation.cross_conformal import LeftOutPredictions, conformal_interval
from lvmcore.evaluation.target_baselines import baseline_predictions
from lvmcore.evaluation.target_quality import target_metrics


def written_out(
    left_out: LeftOutPredictions, level: float, new: int
) -> tuple[float | None, float | None]:
    """The interval of a new row, row by row; None for infinite ends."""
    lows, highs = [], []
    for residual, unseen in zip(left_out.residuals, left_out.unseen, strict=True):
        if np.isfinite(residual):
            mean = left_out.predictions[unseen, new].mean()
            lows.append(mean - residual)
            highs.append(mean + residual)
    N = len(lows)
    below = int(np.floor((1 - level) * (N + 1) + 1e-9))
    above = int(np.ceil(level * (N + 1) - 1e-9))
    low = sorted(lows)[below - 1] if below >= 1 else None
    return low, sorted(highs)[above - 1] if above <= N else None


def drawn(N: int, methods: int, *, folds: bool) -> LeftOutPredictions:
    rng = np.random.default_rng(N)
    residuals = rng.gamma(1, 1, size=N)
    predictions = rng.normal(size=(methods, 7))
    if folds:
        return LeftOutPredictions.of_folds(residuals, np.arange(N) % methods, predictions)
    unseen = rng.uniform(size=(N, methods)) < 0.4
    unseen[3] = False
    return LeftOutPredictions(np.where(unseen.any(1), residuals, np.nan), predictions, unseen)


@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize("N", [9, 10, 19, 60])
@pytest.mark.parametrize("level", [0.9, 0.5])
def test_the_ends_are_those_of_the_definition(
    N: int, level: float, folds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = drawn(N, 5, folds=folds)
    low, high = conformal_interval(left_out, level)
    monkeypatch.setattr(cross_conformal, "_CELLS", 2 * N)  # in blocks of two rows
    for again, ends in zip(conformal_interval(left_out, level), (low, high), strict=True):
        np.testing.assert_allclose(again, ends)
    for new in range(7):
        below, above = written_out(left_out, level, new)
        assert low[new] == (-np.inf if below is None else pytest.approx(below))
        assert high[new] == (np.inf if above is None else pytest.approx(above))
    few = np.isfinite(left_out.residuals).sum() < 9
    assert np.isinf(low).all() == (level == 0.9 and few)


def test_a_fold_without_a_method_is_left_out() -> None:
    whole = drawn(40, 4, folds=True)
    folds = np.where(np.arange(40) % 4 == 3, -1, np.arange(40) % 4)
    residuals = np.where(folds < 0, np.nan, whole.residuals)
    left_out = LeftOutPredictions.of_folds(residuals, folds, whole.predictions[:3])
    kept = folds >= 0
    other = LeftOutPredictions(
        whole.residuals[kept], whole.predictions[:3], whole.unseen[kept][:, :3]
    )
    for found, wanted in zip(
        conformal_interval(left_out, 0.8), conformal_interval(other, 0.8), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def nearest(X: NDArray[Any], y: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(y[np.abs(new[:, None] - X).argmin(1)])


def test_few_rows_of_a_method_that_repeats_them_are_covered() -> None:
    """The nearest row has no error on the rows of the fit; 20 rows in 5 folds tell its own."""
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(400):
        X = rng.normal(size=30)
        y = np.sin(X) + (0.2 + np.abs(X)) * rng.standard_t(3, size=30)
        fit, new, folds = slice(0, 20), slice(20, 30), np.arange(20) % 5
        residuals, predictions = np.empty(20), []
        for fold in range(5):
            seen = folds != fold
            residuals[~seen] = np.abs(
                y[fit][~seen] - nearest(X[fit][seen], y[fit][seen], X[fit][~seen])
            )
            predictions.append(nearest(X[fit][seen], y[fit][seen], X[new]))
        left_out = LeftOutPredictions.of_folds(residuals, folds, np.array(predictions))
        low, high = conformal_interval(left_out, 0.9)
        inside.append(((low <= y[new]) & (y[new] <= high)).mean())
    assert np.mean(inside) > 0.8  # 1 − 2α
    assert 0.87 < np.mean(inside) < 0.97


@pytest.fixture(scope="module")
def problem() -> BaselineProblem:
    """Exchangeable rows whose errors are neither Gaussian nor of one variance."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 3))
    y = 5 + 3 * X[:, 0] + np.sin(3 * X[:, 1]) + (0.3 + np.abs(X[:, 2])) * rng.laplace(size=1200)
    return BaselineProblem("number", X[:200], y[:200], X[200:], y[200:])


def test_baselines_cover_exchangeable_rows(problem: BaselineProblem) -> None:
    for key, frame in baseline_predictions(problem, seconds=100.0).items():
        assert frame is not None, key
        metrics = target_metrics(frame, "new rows")
        assert 0.85 < float(metrics["coverage_90"].value or 0) < 0.95, key
        width = float((frame["q95"] - frame["q05"]).mean())
        assert metrics["width_90"].value == pytest.approx(width)
        spread = 3.2897 * frame["sd"].mean()  # of the Gaussian of the same errors
        assert 0.5 * spread < width < 1.3 * spread


def test_trees_that_have_not_seen_a_row_are_those_out_of_bag(problem: BaselineProblem) -> None:
    forest = RandomForestRegressor(30, oob_score=True, random_state=0, max_samples=150)
    forest.fit(problem.X, problem.y)
    left_out = _left_out_by_trees(problem, forest)
    trees = np.array([tree.predict(problem.X) for tree in forest.estimators_])
    seen = left_out.unseen.any(1)
    means = np.array(
        [trees[unseen, row].mean() for row, unseen in enumerate(left_out.unseen) if seen[row]]
    )
    np.testing.assert_allclose(means, forest.oob_prediction_[seen])
    np.testing.assert_allclose(left_out.residuals[seen], np.abs(problem.y[seen] - means))


def test_too_few_rows_have_no_finite_interval() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    found = baseline_predictions(
        BaselineProblem("number", X[:8], X[:8, 0], X[8:], X[8:, 0]), seconds=60.0
    )
    frame = found["linear"]
    assert frame is not None
    assert np.isinf(frame["q95"]).all()
    assert target_metrics(frame, "new rows")["coverage_90"].value == 1
