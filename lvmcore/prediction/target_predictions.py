"""Tables of predictions of a target, and of the hidden layers of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.predictor import Predictor
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.errors import CancelledError, DataError
from lvmcore.numerics.row_blocks import BLOCK_ROWS
from lvmcore.preprocessing.target_column import PredictiveMixture

__all__ = [
    "PROBABILITY_OF",
    "class_columns",
    "class_probabilities",
    "has_prediction",
    "hidden_frame",
    "hidden_name",
    "number_columns",
    "prediction_table",
]

#: Prefix of the columns of class probabilities.
PROBABILITY_OF = "probability of "
#: Probabilities at the ends of the central 90 % interval.
ENDS = (0.05, 0.95)

#: Called with the number of rows done and the total; True cancels.
Tell = Callable[[int, int], bool]


def has_prediction(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Mask of the rows of a ``prediction_table`` with a prediction: those without gaps, [n]."""
    return frame["mean" if "mean" in frame else "predicted"].notna().to_numpy()


def prediction_table(
    model: Predictor,
    X: pd.DataFrame,
    truth: NDArray[Any] | None = None,
    *,
    tell: Tell | None = None,
) -> pd.DataFrame:
    """Predictions of the target, and their densities at the truth.

    Args:
        model: a fitted model.
        X: rows in the data's units, [n, H]; a row with a missing cell has no prediction.
        truth: their target, NaN or None where unknown, [n]; None if unknown for all.
        tell: called after every few thousand rows; True cancels.

    Returns:
        One line per row, in the target's units. For a number ``mean``, ``sd`` (with the noise), and
        ``q05`` and ``q95``, the ends of the central 90 % interval; for a class ``predicted``, its
        ``probability``, and ``probability of …`` each class. With a truth, ``truth`` before these,
        and after them ``log_density``, log p(truth) in nats (−inf for a class that is not in the
        model), and for numbers ``cumulative``, P(target ≤ truth).

    Raises:
        CancelledError: ``tell`` asked to stop.
        DataError: the rows do not fit the model, or each has a missing cell.
    """
    needed = X.drop(columns=[name for name in model.optional_columns_ if name in X])
    whole = np.flatnonzero(~needed.isna().to_numpy().any(axis=1))
    parts = []
    for begin in range(0, len(whole), BLOCK_ROWS):
        rows = whole[begin : begin + BLOCK_ROWS]
        some = None if truth is None else truth[rows]
        part = dict(_columns(model, X.iloc[rows], some))
        parts.append(pd.DataFrame(part, index=rows))
        if tell is not None and tell(int(begin + len(rows)), len(whole)):
            raise CancelledError("Stopped before all rows were predicted.")
    if not parts:
        raise DataError(
            f"Each of the {len(X):,} rows lacks a cell that the model needs, so none can be "
            "predicted: fill them first."
        )
    found = pd.concat(parts).reindex(range(len(X)))
    if truth is not None:
        found["truth"] = truth  # also for rows without a prediction
    return found


def _columns(
    model: Predictor, X: pd.DataFrame, truth: NDArray[Any] | None
) -> Iterator[tuple[str, NDArray[Any]]]:
    if isinstance(model, Regressor):
        return number_columns(model.predictive(X), truth)
    assert isinstance(model, Classifier)
    return class_columns(model.predict_proba(X), [str(name) for name in model.classes_], truth)


def number_columns(
    predictive: PredictiveMixture, truth: NDArray[Any] | None
) -> Iterator[tuple[str, NDArray[Any]]]:
    """The columns of a ``prediction_table`` of a number, by name.

    Args:
        predictive: predictive distributions of the rows.
        truth: their target, [n]; None if unknown.
    """
    mean, sd = predictive.moments()
    low, high = predictive.quantiles(np.array(ENDS)).T
    if truth is not None:
        yield "truth", truth
    yield from (("mean", mean), ("sd", sd), ("q05", low), ("q95", high))
    if truth is not None:
        given = truth.astype(np.float64)
        yield "log_density", predictive.log_density(given)
        yield "cumulative", predictive.cumulative(given)


def class_columns(
    probability: NDArray[np.float64], classes: Sequence[str], truth: NDArray[Any] | None
) -> Iterator[tuple[str, NDArray[Any]]]:
    """The columns of a ``prediction_table`` of a class, by name.

    Args:
        probability: of each class, [n, C].
        classes: their names, C of them.
        truth: classes of the rows, [n]; None if unknown.
    """
    if truth is not None:
        yield "truth", truth
    yield "predicted", np.array(classes, dtype=object)[probability.argmax(axis=1)]
    yield "probability", probability.max(axis=1)
    for k, name in enumerate(classes):
        yield f"{PROBABILITY_OF}{name}", probability[:, k]
    if truth is not None:
        known = truth.astype(object)[:, None] == np.array(classes, dtype=object)
        with np.errstate(divide="ignore"):
            logs = np.log((probability * known).sum(axis=1))
        yield "log_density", np.where(pd.isna(truth), np.nan, logs)


def class_probabilities(frame: pd.DataFrame) -> tuple[list[str], NDArray[np.float64]]:
    """The classes of a table of predictions, and their probabilities, [n, C]."""
    names = [str(name) for name in frame.columns if str(name).startswith(PROBABILITY_OF)]
    return [name.removeprefix(PROBABILITY_OF) for name in names], frame[names].to_numpy()


def hidden_frame(model: Predictor, X: pd.DataFrame) -> pd.DataFrame | None:
    """Means of the units of every hidden layer at rows; None for a model without hidden layers.

    Args:
        model: a fitted model.
        X: complete rows in the data's units, [n, H].

    Returns:
        One column per unit, named by ``hidden_name``, [n, units].
    """
    columns: dict[str, NDArray[np.float64]] = {}
    for layer in range(1, model.n_hidden_layers_ + 1):
        units = model.hidden(X, layer)
        columns |= {hidden_name(layer, k + 1): units[:, k] for k in range(units.shape[1])}
    return pd.DataFrame(columns) if columns else None


def hidden_name(layer: int, unit: int) -> str:
    """Name of a unit of a hidden layer in a table, both numbered from 1."""
    return f"layer {layer} unit {unit}"
