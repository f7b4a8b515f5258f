"""The linear model, histogram gradient boosting and random forest that a target is predicted by.

Each is fitted to all rows, and the first two also to all but a fold of them. These fits are its
parts: none depends on another.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.evaluation.cross_conformal import LeftOutPredictions
from lvmcore.numerics.array_types import FloatArray

if TYPE_CHECKING:
    from lvmcore.base.predictor import Task

__all__ = [
    "FOLDS",
    "ITERATIONS",
    "MOST_COLUMNS",
    "PENALTIES",
    "TREES",
    "WHOLE",
    "BaselineProblem",
    "Clock",
    "Fold",
    "Part",
    "Whole",
    "fit_part",
    "parts_of",
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
#: Most rows of a tree of the forest.
ROWS_OF_A_TREE = 5000
#: Operations of the linear model's steps, about, and their number.
_LINEAR_OPERATIONS, _LINEAR_STEPS = 3e9, (20, 200)
#: Number of the fit to all rows, beside those of the folds.
WHOLE = -1
#: A method, and a fold that is left out or ``WHOLE``.
Part = tuple[str, int]


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
class Clock:
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


@dataclass(frozen=True)
class Whole:
    """Predictions of the new rows by a fit to all rows, and what it tells of unseen rows.

    Attributes:
        predictions: means, [n], or class probabilities, [n, C].
        classes: names of the classes; empty for a number.
        error: mean square of the errors of unseen rows; None if other parts tell it.
        left_out: predictions by averages that have not seen a row; None if other parts tell them.
        unseen: class probabilities of unseen rows, [N, C]; None if other parts tell them.
    """

    predictions: FloatArray
    classes: tuple[str, ...] = ()
    error: float | None = None
    left_out: LeftOutPredictions | None = None
    unseen: FloatArray | None = None


@dataclass(frozen=True)
class Fold:
    """Predictions by a fit that has not seen the rows of a fold.

    Attributes:
        rows: of the fold, [h].
        unseen: absolute errors of these rows, [h], or probabilities of their classes, [h, C].
        classes: names of the classes of the fit; empty for a number.
        predictions: of the new rows, [n]; None for classes.
    """

    rows: NDArray[np.intp]
    unseen: FloatArray
    classes: tuple[str, ...] = ()
    predictions: FloatArray | None = None


@dataclass(frozen=True)
class _Method:
    """A baseline of a problem.

    Attributes:
        X: rows of the fit, as it takes them, [N, H].
        whole: fits it to all rows and predicts the new ones.
        fitted: fits it to rows and their target; None for a method that needs no folds.
    """

    X: FloatArray
    whole: Callable[[], Whole]
    fitted: Fit | None


def parts_of(problem: BaselineProblem) -> list[Part]:
    """The parts of all methods: fits to all rows, and to those of folds with a target that varies.

    The order is that of the methods.
    """
    varies = [
        k for k, (rows, _) in enumerate(_splits(problem)) if len(np.unique(problem.y[rows])) > 1
    ]
    return [
        *((key, fold) for key in ("linear", "boosting") for fold in (WHOLE, *varies)),
        ("forest", WHOLE),
    ]


def _splits(problem: BaselineProblem) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The rows that are learned from and those that are left, by fold."""
    from sklearn.model_selection import KFold

    return list(KFold(FOLDS, shuffle=True, random_state=SEED).split(problem.X))


def fit_part(problem: BaselineProblem, clock: Clock, part: Part) -> Whole | Fold | None:
    """The result of a part; None if the time was spent before its fit ended."""
    key, fold = part
    with warnings.catch_warnings(), suppress(_TimeSpentError):
        warnings.simplefilter("ignore")  # of convergence, and of constant columns
        method = _METHODS[key](problem, clock)
        if fold == WHOLE or method.fitted is None:
            return method.whole()
        learned, left = _splits(problem)[fold]
        model = method.fitted(method.X[learned], problem.y[learned])
        if problem.task == "number":
            errors = np.abs(problem.y[left] - model.predict(method.X[left]))
            return Fold(left, errors, predictions=np.asarray(model.predict(problem.X_new)))
        found = _probabilities(model, method.X[left])
        return Fold(left, found.predictions, found.classes)
    return None


# ---- methods -----------------------------------------------------------------------------------


def _linear(problem: BaselineProblem, clock: Clock) -> _Method:
    """Ridge regression, its penalty and errors by leaving one row out; or logistic regression."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(problem.X)
    X, X_new = scaler.transform(problem.X), scaler.transform(problem.X_new)
    if problem.task == "number":

        def ridge_predictions() -> Whole:
            scale = problem.y.std()
            ridge = RidgeCV(PENALTIES, store_cv_results=True).fit(X, problem.y / scale)
            error = float(ridge.cv_results_.mean(axis=0).min())  # of the penalty that is used
            return Whole(scale * ridge.predict(X_new), error=scale**2 * error)

        def ridge_fitted(X: FloatArray, y: NDArray[Any]) -> Any:
            clock.check_stop()
            return make_pipeline(StandardScaler(), RidgeCV(PENALTIES)).fit(X, y)

        return _Method(problem.X, ridge_predictions, ridge_fitted)
    classes = len(np.unique(problem.y))
    fewest, most = _LINEAR_STEPS
    steps = int(np.clip(_LINEAR_OPERATIONS / (4 * X.size * classes), fewest, most))

    def fitted(X: FloatArray, y: NDArray[Any]) -> Any:
        clock.check()
        return LogisticRegression(max_iter=steps).fit(X, y)

    return _Method(X, lambda: _probabilities(fitted(X, problem.y), X_new), fitted)


def _boosting(problem: BaselineProblem, clock: Clock) -> _Method:
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

    def whole() -> Whole:
        model = fitted(problem.X, problem.y)
        if number:
            return Whole(np.asarray(model.predict(problem.X_new)))
        return _probabilities(model, problem.X_new)

    return _Method(problem.X, whole, fitted)


def _probabilities(model: Any, X: FloatArray) -> Whole:
    names = tuple(str(name) for name in model.classes_)
    return Whole(np.asarray(model.predict_proba(X)), names)


def _forest(problem: BaselineProblem, clock: Clock) -> _Method:
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

    def whole() -> Whole:
        for trees in TREES:
            clock.check()
            model.set_params(n_estimators=trees).fit(problem.X, problem.y)
        if number:
            mean = np.asarray(model.predict(problem.X_new))
            return Whole(mean, left_out=_left_out_by_trees(problem, model))
        found = _probabilities(model, problem.X_new)
        return replace(found, unseen=np.asarray(model.oob_decision_function_))

    return _Method(problem.X, whole, None)


def _left_out_by_trees(problem: BaselineProblem, forest: Any) -> LeftOutPredictions:
    """Predictions and residuals by the trees that have not seen a row (Kim and others 2020)."""
    unseen = np.ones((len(problem.y), len(forest.estimators_)), dtype=bool)
    for tree, rows in enumerate(forest.estimators_samples_):
        unseen[rows, tree] = False
    predictions = np.array([tree.predict(problem.X_new) for tree in forest.estimators_])
    residuals = np.abs(problem.y - forest.oob_prediction_)
    return LeftOutPredictions(np.where(unseen.any(axis=1), residuals, np.nan), predictions, unseen)


#: The methods, in their order.
_METHODS: dict[str, Callable[[BaselineProblem, Clock], _Method]] = {
    "linear": _linear,
    "boosting": _boosting,
    "forest": _forest,
}
