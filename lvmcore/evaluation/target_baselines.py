"""Predictions of a target by a linear model, histogram gradient boosting and a random forest.

The methods are scikit-learn's, mostly at their defaults. A number gets a Gaussian whose variance is
the mean square of the method's own errors on rows that it had not seen, and a 90 % interval by
cross-conformal prediction (``lvmcore.evaluation.cross_conformal``). Class probabilities are
mixed with the frequencies of the classes, by the share that minimises the log loss of such rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from lvmcore.distributed.independent_calls import IndependentCalls, Look, make_calls
from lvmcore.evaluation.baseline_methods import (
    WHOLE,
    BaselineProblem,
    Clock,
    Fold,
    Part,
    Whole,
    fit_part,
    parts_of,
)
from lvmcore.evaluation.cross_conformal import LeftOutPredictions, conformal_interval
from lvmcore.evaluation.target_scores import BASELINES
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.target_predictions import class_columns, number_columns
from lvmcore.preprocessing.target_column import PredictiveMixture

__all__ = ["LEVEL", "baseline_predictions"]

#: Of the time that is left, the share that boosting may take.
SHARE_OF_BOOSTING = 0.7
#: Shares of the class frequencies that are tried.
_SHARES = (1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0)
_LEAST_SHARE_OF_VARIANCE = 1e-12
#: Level of the intervals.
LEVEL = 0.9


def baseline_predictions(
    problem: BaselineProblem,
    *,
    seconds: float,
    check_stop: Callable[[], None] = lambda: None,
) -> dict[str, pd.DataFrame | None]:
    """Predictions of new rows by each of ``target_scores.BASELINES``.

    The fits to all rows and to the folds are independent; see ``make_calls``.

    Args:
        problem: the rows.
        seconds: time for all; a method whose fit does not end in it is left out.
        check_stop: called now and then; it raises an error to stop.

    Returns:
        Tables in the form of ``prediction_table``, with the truth; None for a method left out.
    """
    end = time.monotonic() + seconds
    ends: dict[str, float] = {}
    parts = parts_of(problem)
    found: dict[Part, Any] = {}

    def own(part: Part, look: Look) -> Whole | Fold | None:
        def check() -> None:
            look()
            check_stop()

        check()
        key, _ = part
        if key not in ends:
            share = SHARE_OF_BOOSTING if key == "boosting" else 1.0
            ends[key] = end - (1 - share) * (end - time.monotonic())
        return fit_part(problem, Clock(ends[key], check), part)

    def done(place: int, result: Whole | Fold | None) -> None:
        if result is not None:
            found[parts[place]] = result

    make_calls(IndependentCalls(parts, own, lambda: _PartFits(problem, seconds), done))
    return {key: _table_of(key, problem, found) for key in BASELINES}


class _PartFits:
    """The parts of the baselines in other processes, each with the whole time.

    Args:
        problem: the rows.
        seconds: the time.
    """

    def __init__(self, problem: BaselineProblem, seconds: float) -> None:
        self._problem, self._seconds = problem, seconds

    def __call__(self, part: Part) -> Whole | Fold | None:
        """The result of a part."""
        clock = Clock(time.monotonic() + self._seconds, lambda: None)
        return fit_part(self._problem, clock, part)


def _table_of(key: str, problem: BaselineProblem, found: Mapping[Part, Any]) -> pd.DataFrame | None:
    """The predictions of a method from its parts; None if too few of them ended in time."""
    whole: Whole | None = found.get((key, WHOLE))
    wanted = [part for part in parts_of(problem) if part[0] == key and part[1] != WHOLE]
    folds: list[Fold] = [found[part] for part in wanted if part in found]
    if whole is None or (wanted and not folds):
        return None
    if problem.task == "class":
        unseen = whole.unseen if whole.unseen is not None else _unseen(problem, whole, folds)
        return _mixed(problem, list(whole.classes), unseen, whole.predictions)
    left_out = whole.left_out or _left_out_by_folds(problem, folds)
    error = whole.error
    if error is None:
        error = float(np.nanmean(np.square(left_out.residuals)))
    return _numbers(problem, whole.predictions, error, left_out)


# ---- predictive distributions ------------------------------------------------------------------


def _left_out_by_folds(problem: BaselineProblem, folds: list[Fold]) -> LeftOutPredictions:
    """Predictions and residuals of models that have not seen one fold each."""
    residuals = np.full(len(problem.y), np.nan)
    fold_of = np.full(len(problem.y), -1)
    for number, fold in enumerate(folds):
        residuals[fold.rows] = fold.unseen
        fold_of[fold.rows] = number
    predictions = np.array([fold.predictions for fold in folds])
    return LeftOutPredictions.of_folds(residuals, fold_of, predictions)


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


def _unseen(problem: BaselineProblem, whole: Whole, folds: list[Fold]) -> FloatArray:
    """Class probabilities of rows by the fits that have not seen them, else NaN, [N, C]."""
    place = {name: k for k, name in enumerate(whole.classes)}
    unseen = np.full((len(problem.y), len(place)), np.nan)
    for fold in folds:
        unseen[fold.rows] = 0.0
        at = np.array([place[name] for name in fold.classes])
        unseen[np.ix_(fold.rows, at)] = fold.unseen
    return unseen


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
