"""Predictions of a target by a linear model, histogram gradient boosting and a random forest.

The methods are scikit-learn's, mostly at their defaults. A number gets a Gaussian whose variance is
the mean square of the method's own errors on rows that it had not seen, and a 90 % interval by
cross-conformal prediction (``lvmcore.evaluation.cross_conformal``). Class probabilities are
mixed with the frequencies of the classes, by the share that minimises the log loss of such rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.evaluation.cross_conformal import LeftOutPredictions, conformal_interval
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.target_predictions import class_columns, number_columns
from lvmcore.preprocessing.target_column import PredictiveMixture

if TYPE_CHECKING:
    from lvmcore.base.predictor import Task

__all__ = [
    "FOLDS",
    "ITERATIONS",
    "LEVEL",
    "MOST_COLUMNS",
    "TREES",
    "BaselineProblem",
    "baseline_predictions",
]

#: Most columns of boosting: those that tell most of the target one by one.
MOST_COLUMNS = 500
#: Folds whose rows a method predicts without having seen them; penalties of the linear model.
FOLDS, SEED = 5, 0
PENALTIES = np.logspace(-3, 3, 13)
#: Iterations of boosting, and trees of the forest, after which the time is looked at.
ITERATIONS, TREES = (10, 25, 50, 100), (25, 50, 100)
#: Fewest rows of a leaf of boosting: a twentieth of the rows, within limits.
ROWS_PER_LEAF_ROW, ROWS_OF_A_LEAF = 20, (2, 20)
#: Most rows of a tree of the forest, and of the left time the share that boosting may take.
ROWS_OF_A_TREE, SHARE_OF_BOOSTING = 5000, 0.7
#: Operations of the linear model's steps, about, and their number.
_LINEAR_OPERATIONS, _LINEAR_STEPS = 3e9, (20, 200)
#: Shares of the class frequencies that are tried.
_SHARES = (1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
_LEAST_SHARE_OF_VARIANCE = 1e-12
#: Level of the intervals.
LEVEL = 0.9


@dataclass(frozen=True)
class BaselineProblem:
    """The rows that the baselines learn from, and those that they predict.

    Attributes:
        task: kind of target.
        X: rows of the fit, [N, H].
        y: their target, float64 or text, [N].
        X_new: rows to predict, [n, H].
        y_new: their target, [n].
    """

    task: Task
    X: FloatArray
    y: NDArray[Any]
    X_new: FloatArray
    y_new: NDArray[Any]


#: Fits a method to rows [N, H] and their target [N].
Fit = Callable[[FloatArray, NDArray[Any]], Any]


class _TimeSpentError(Exception):
    """The time of a baseline was spent before its fit ended."""


@dataclass
class _Clock:
    """The time that is left, and whether the run has to stop.

    Attributes:
        end: when the time ends, seconds of the monotonic clock.
        check_stop: raises an error to stop.
    """

    end: float
    check_stop: Callable[[], None]

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.end - time.monotonic()

    def check(self) -> None:
        """Raise if the run has to stop or the time is spent."""
        self.check_stop()
        if self.left < 0:
            raise _TimeSpentError


def baseline_predictions(
    problem: BaselineProblem,
    *,
    seconds: float,
    check_stop: Callable[[], None] = lambda: None,
) -> dict[str, pd.DataFrame | None]:
    """Predictions of new rows by each of ``target_scores.BASELINES``.

    Args:
        problem: the rows.
        seconds: time for all; a method whose fit does not end in it is left out.
        check_stop: called now and then; it raises an error to stop.

    Returns:
        Tables in the form of ``prediction_table``, with the truth; None for a method left out.
    """
    end = time.monotonic() + seconds
    found: dict[str, pd.DataFrame | None] = {}
    for key, fit in (("linear", _linear), ("boosting", _boosting), ("forest", _forest)):
        check_stop()
        share = SHARE_OF_BOOSTING if key == "boosting" else 1.0
        clock = _Clock(end - (1 - share) * (end - time.monotonic()), check_stop)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of convergence, and of constant columns
                found[key] = fit(problem, clock)
        except _TimeSpentError:
            found[key] = None
    return found


# ---- methods -----------------------------------------------------------------------------------


def _linear(problem: BaselineProblem, clock: _Clock) -> pd.DataFrame:
    """Ridge regression, its penalty and errors by leaving one row out; or logistic regression."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(problem.X)
    X, X_new = scaler.transform(problem.X), scaler.transform(problem.X_new)
    if problem.task == "number":
        scale = problem.y.std()
        ridge = RidgeCV(PENALTIES, store_cv_results=True).fit(X, problem.y / scale)
        error = float(ridge.cv_results_.mean(axis=0).min())  # of the penalty that is used

        def ridge_fitted(X: FloatArray, y: NDArray[Any]) -> Any:
            clock.check_stop()
            return make_pipeline(StandardScaler(), RidgeCV(PENALTIES)).fit(X, y)

        left_out = _left_out_by_folds(problem, ridge_fitted)
        return _numbers(problem, scale * ridge.predict(X_new), scale**2 * error, left_out)
    classes = len(np.unique(problem.y))
    fewest, most = _LINEAR_STEPS
    steps = int(np.clip(_LINEAR_OPERATIONS / (4 * X.size * classes), fewest, most))

    def fitted(X: FloatArray, y: NDArray[Any]) -> Any:
        clock.check()
        return LogisticRegression(max_iter=steps).fit(X, y)

    return _classes(problem, fitted(X, problem.y), (X, X_new), fitted)


def _boosting(problem: BaselineProblem, clock: _Clock) -> pd.DataFrame:
    """Gradient boosting of trees on histograms of the columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.feature_selection import SelectKBest, f_classif, f_regression
    from sklearn.pipeline import make_pipeline

    number = problem.task == "number"
    kind: Any = HistGradientBoostingRegressor if number else HistGradientBoostingClassifier

    def fitted(X: FloatArray, y: NDArray[Any]) -> Any:
        chosen = SelectKBest(f_regression if number else f_classif, k="all")
        if X.shape[1] > MOST_COLUMNS:
            chosen.set_params(k=MOST_COLUMNS)
        some = chosen.fit(X, y).transform(X)
        leaf = int(np.clip(len(y) // ROWS_PER_LEAF_ROW, *ROWS_OF_A_LEAF))
        model = kind(
            min_samples_leaf=leaf, early_stopping=False, warm_start=True, random_state=SEED
        )
        for iterations in ITERATIONS:
            clock.check()
            model.set_params(max_iter=iterations).fit(some, y)
        return make_pipeline(chosen, model)

    model = fitted(problem.X, problem.y)
    if not number:
        return _classes(problem, model, (problem.X, problem.X_new), fitted)
    left_out = _left_out_by_folds(problem, fitted)
    error = float(np.nanmean(np.square(left_out.residuals)))
    return _numbers(problem, model.predict(problem.X_new), error, left_out)


def _forest(problem: BaselineProblem, clock: _Clock) -> pd.DataFrame:
    """A random forest; its errors are those out of bag."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    options: dict[str, Any] = {
        "oob_score": True,
        "warm_start": True,
        "max_samples": min(len(problem.y), ROWS_OF_A_TREE),
        "random_state": SEED,
    }
    number = problem.task == "number"
    most = max(1, min(problem.X.shape[1] // 3, 100))
    model: Any = (
        RandomForestRegressor(max_features=most, **options)
        if number
        else RandomForestClassifier(**options)
    )
    for trees in TREES:
        clock.check()
        model.set_params(n_estimators=trees).fit(problem.X, problem.y)
    if number:
        left_out = _left_out_by_trees(problem, model)
        error = float(np.nanmean(np.square(left_out.residuals)))
        return _numbers(problem, model.predict(problem.X_new), error, left_out)
    names = [str(name) for name in model.classes_]
    return _mixed(
        problem,
        names,
        model.oob_decision_function_,
        model.predict_proba(problem.X_new),
    )


# ---- predictive distributions ------------------------------------------------------------------


def _folds(X: FloatArray, y: NDArray[Any], fitted: Fit) -> Iterator[tuple[NDArray[np.intp], Any]]:
    """Rows of a fold and the model fitted to the others, as many folds as the time allows."""
    from sklearn.model_selection import KFold

    done = 0
    for learned, left in KFold(FOLDS, shuffle=True, random_state=SEED).split(X):
        if len(np.unique(y[learned])) < 2:
            continue
        try:
            model = fitted(X[learned], y[learned])
        except _TimeSpentError:
            if not done:
                raise
            return
        done += 1
        yield left, model


def _left_out_by_folds(problem: BaselineProblem, fitted: Fit) -> LeftOutPredictions:
    """Predictions and residuals of models that have not seen one fold each."""
    residuals = np.full(len(problem.y), np.nan)
    folds = np.full(len(problem.y), -1)
    predictions: list[FloatArray] = []
    for rows, model in _folds(problem.X, problem.y, fitted):
        residuals[rows] = np.abs(problem.y[rows] - model.predict(problem.X[rows]))
        folds[rows] = len(predictions)
        predictions.append(model.predict(problem.X_new))
    return LeftOutPredictions.of_folds(residuals, folds, np.array(predictions))


def _left_out_by_trees(problem: BaselineProblem, forest: Any) -> LeftOutPredictions:
    """Predictions and residuals by the trees that have not seen a row (Kim and others 2020)."""
    unseen = np.ones((len(problem.y), len(forest.estimators_)), dtype=bool)
    for tree, rows in enumerate(forest.estimators_samples_):
        unseen[rows, tree] = False
    predictions = np.array([tree.predict(problem.X_new) for tree in forest.estimators_])
    residuals = np.abs(problem.y - forest.oob_prediction_)
    return LeftOutPredictions(np.where(unseen.any(axis=1), residuals, np.nan), predictions, unseen)


def _numbers(
    problem: BaselineProblem, mean: FloatArray, variance: float, left_out: LeftOutPredictions
) -> pd.DataFrame:
    """Gaussian predictions with one variance, and cross-conformal intervals."""
    least = _LEAST_SHARE_OF_VARIANCE * float(problem.y.var())
    sd = np.full((1, len(mean)), np.sqrt(max(variance, least)))
    mixture = PredictiveMixture(np.asarray(mean, dtype=np.float64)[None], sd)
    found = pd.DataFrame(dict(number_columns(mixture, problem.y_new)))
    found["q05"], found["q95"] = conformal_interval(left_out, LEVEL)
    return found


def _classes(
    problem: BaselineProblem,
    model: Any,
    X: tuple[FloatArray, FloatArray],
    fitted: Fit,
) -> pd.DataFrame:
    """Class probabilities of a model, mixed by those of the folds.

    Args:
        problem: the rows.
        model: fitted to all rows of the fit.
        X: the rows of the fit and those to predict, as the model takes them.
        fitted: fits the model to rows and their classes.
    """
    names = [str(name) for name in model.classes_]
    place = {name: k for k, name in enumerate(names)}
    unseen = np.full((len(problem.y), len(names)), np.nan)
    for rows, fold in _folds(X[0], problem.y, fitted):
        unseen[rows] = 0.0
        at = np.array([place[str(name)] for name in fold.classes_])
        unseen[np.ix_(rows, at)] = fold.predict_proba(X[0][rows])
    return _mixed(problem, names, unseen, model.predict_proba(X[1]))


def _mixed(
    problem: BaselineProblem, names: list[str], unseen: FloatArray, probability: FloatArray
) -> pd.DataFrame:
    """Probabilities (1 − s) p + s · frequency, s with the least log loss of unseen rows."""
    codes = np.searchsorted(np.array(names), problem.y.astype(str))
    frequency = np.bincount(codes, minlength=len(names)) / len(codes)
    known = np.flatnonzero(~np.isnan(unseen).any(axis=1))
    own = unseen[known, codes[known]]
    losses = [-np.log((1 - s) * own + s * frequency[codes[known]]).mean() for s in _SHARES]
    share = _SHARES[int(np.argmin(losses))]
    mixed = (1 - share) * probability + share * frequency
    return pd.DataFrame(dict(class_columns(mixed, names, problem.y_new)))
