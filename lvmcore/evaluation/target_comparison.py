"""Comparison of a model of a target with baselines on the same held-out rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from lvmcore.evaluation.baseline_methods import (
    FOLDS,
    ITERATIONS,
    MOST_COLUMNS,
    TREES,
    BaselineProblem,
)
from lvmcore.evaluation.row_sample import RowSample, sample_rows
from lvmcore.evaluation.target_baselines import baseline_predictions
from lvmcore.evaluation.target_quality import target_metrics
from lvmcore.evaluation.target_scores import (
    BASELINES,
    COLUMNS,
    MODEL,
    MethodScores,
    TargetComparison,
)
from lvmcore.metrics.paired_difference import exceeds_noise
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.target_rows import SupervisedRows

__all__ = ["compare_target"]

#: Most rows that the baselines learn from, and most cells of them, but at least the fewest rows;
#: most held-out rows that are compared.
MOST_ROWS, MOST_CELLS, FEWEST_ROWS, MOST_HELD_OUT = 10_000, 1_000_000, 500, 10_000
#: Classes above which fewer rows are taken: the time of boosting grows with the classes.
MANY_CLASSES = 20


def compare_target(
    frame: pd.DataFrame,
    rows: SupervisedRows,
    *,
    seconds: float,
    check_stop: Callable[[], None] = lambda: None,
) -> TargetComparison | None:
    """Compare a model with a linear model, histogram boosting and a random forest.

    Args:
        frame: the model's predictions of the rows, with their truths (``prediction_table``).
        rows: the rows of the fit and the held-out rows.
        seconds: a baseline whose fit does not end in this time is left out.
        check_stop: called now and then; it raises an error to stop.

    Returns:
        None where no held-out row has a prediction and a class that the baselines know.
    """
    number = "mean" in frame
    y = rows.y.astype(np.float64) if number else rows.y.astype(str)
    kinds = 1 if number else len(np.unique(y))
    most = MOST_CELLS // max(1, rows.dataset.X.shape[1])
    most = int(most * min(1.0, MANY_CLASSES / kinds))
    fitted = sample_rows(np.flatnonzero(~rows.held_out), min(MOST_ROWS, max(FEWEST_ROWS, most)))
    usable = rows.held_out & frame["log_density"].notna().to_numpy()
    if not number:
        usable &= np.isin(y, np.unique(y[fitted.rows]))
    held = sample_rows(np.flatnonzero(usable), MOST_HELD_OUT)
    if not len(held.rows):
        return None
    X = rows.dataset.X
    problem = BaselineProblem(
        "number" if number else "class",
        X[fitted.rows],
        y[fitted.rows],
        X[held.rows],
        rows.y[held.rows],
    )
    found = {MODEL: frame.iloc[held.rows]} | baseline_predictions(
        problem, seconds=seconds, check_stop=check_stop
    )
    kept = {key: table for key, table in found.items() if table is not None}
    own = _losses(kept[MODEL])
    return TargetComparison(
        problem.task,
        len(held.rows),
        tuple(_scores(key, table, own) for key, table in kept.items()),
        _protocol(number, fitted, held, X.shape[1], [key for key in BASELINES if key not in kept]),
    )


def _losses(table: pd.DataFrame) -> dict[str, FloatArray]:
    """Losses of each row: squared or 0/1 errors, and minus the log density, [n] each."""
    if "mean" in table:
        error = np.square(table["truth"].to_numpy(np.float64) - table["mean"].to_numpy())
    else:
        wrong = table["truth"].astype(str) != table["predicted"].astype(str)
        error = wrong.to_numpy(np.float64)
    return {"error": error, "density": -table["log_density"].to_numpy(np.float64)}


def _scores(key: str, table: pd.DataFrame, own: dict[str, FloatArray]) -> MethodScores:
    metrics = target_metrics(table, "the held-out rows")
    values = {
        name: value if value is not None and np.isfinite(value) else None
        for name, value in ((name, metrics[name].value) for name in _names(table))
    }
    losses = _losses(table)
    with np.errstate(invalid="ignore"):  # of infinite densities
        difference = {name: own[name] - losses[name] for name in own}
    return MethodScores(
        key,
        values,
        better=tuple(name for name, gain in difference.items() if exceeds_noise(gain)),
        worse=tuple(name for name, gain in difference.items() if exceeds_noise(-gain)),
    )


def _names(table: pd.DataFrame) -> tuple[str, ...]:
    return tuple(COLUMNS["number" if "mean" in table else "class"])


def _protocol(
    number: bool, fitted: RowSample, held: RowSample, columns: int, missing: list[str]
) -> str:
    sampled = len(fitted.rows) < fitted.total
    others = f"The model learned from all rows of the fit, the baselines from {fitted.words()}."
    same = f"All methods learned from the same {fitted.words()}."
    text = (
        f"{others if sampled else same} They predict {held.words('held-out ')}. "
        + ("Linear model: ridge regression" if number else "Linear model: logistic regression")
        + f" on standardised columns. Boosting: {ITERATIONS[-1]} iterations of scikit-learn's "
        f"histogram gradient boosting. Forest: {TREES[-1]} trees. "
    )
    if columns > MOST_COLUMNS:
        text += f"Boosting has the {MOST_COLUMNS} columns that tell most of the target one by one. "
    text += (
        "A baseline's prediction is a Gaussian of one variance: the mean square of its errors on "
        f"rows that it had not seen, each left out alone for the linear model, in {FOLDS} folds "
        "for boosting, out of bag for the forest. Coverage and width are those of the 90 % "
        "interval: of the model that of its distribution, of a baseline a cross-conformal one, by "
        f"{FOLDS} folds (CV+), of the forest by its trees that have not seen a row (jackknife+). "
        "For exchangeable rows a cross-conformal interval holds the target in about 90 % of them, "
        "whatever the method."
        if number
        else "A baseline's probabilities are mixed with the frequencies of the classes by the "
        f"share that has the lowest log loss on rows that it had not seen, in {FOLDS} folds, or "
        "out of bag for the forest."
    )
    if missing:
        names = " and ".join(BASELINES[key] for key in missing)
        text += f" Not measured, as the time for it was spent: {names}."
    return text
