"""Figures about a fit from the rows that it left out, each with its protocol."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base import LatentVariableModel
from lvmcore.data import Dataset
from lvmcore.runs.spec import Metric
from lvmcore.standardise import Standardiser

__all__ = ["measure_held_out"]

FloatArray = NDArray[np.float64]

#: Rows that are looked at: each is placed on the map by an optimisation of its own.
MOST_ROWS = 1000
SEED = 0

_LABELS = {
    "held_out_nlpd": "held-out NLPD",
    "held_out_accuracy": "held-out accuracy",
    "held_out_rmse": "held-out RMSE",
}


def measure_held_out(
    model: LatentVariableModel, fitted: Dataset, held_out: Dataset
) -> dict[str, Metric]:
    """Measure a fitted model on rows that it has not seen.

    The negative log predictive density is per row and in the data's own units: of a column that
    is learned as z = log(1 + x), the density of x is that of z divided by 1 + x, so z is added.

    Args:
        model: a fitted model.
        fitted: the rows that it was fitted to.
        held_out: the rows that the fit left out, all columns of the dataset.

    Returns:
        The figures that are defined for this model; without a value where no row can be used.
    """
    can = model.capabilities
    if not can.new_rows and not can.bound:
        return {}
    keys = [
        key
        for key, defined in (
            ("held_out_nlpd", can.bound),
            ("held_out_accuracy", can.labels != "none" and can.new_rows),
            ("held_out_rmse", can.new_rows and can.decoding),
        )
        if defined
    ]
    rows, words = _usable(fitted, held_out)
    if not len(rows):
        why = f"Each of the {len(held_out)} rows held out has a missing cell."
        return {key: Metric(_LABELS[key], None, why) for key in keys}
    X, labels = _columns(fitted, held_out)[rows], held_out.labels
    measured = {
        "held_out_nlpd": lambda: _nlpd(model, fitted, X, words),
        "held_out_accuracy": lambda: _accuracy(
            model, fitted, X, None if labels is None else labels[rows], words
        ),
        "held_out_rmse": lambda: _rmse(model, fitted, X, words),
    }
    return {key: measured[key]() for key in keys}


def _columns(fitted: Dataset, held_out: Dataset) -> FloatArray:
    """The columns that the model was fitted to: fewer where one was missing in every row of it."""
    place = {name: d for d, name in enumerate(held_out.feature_names)}
    return held_out.X[:, [place[name] for name in fitted.feature_names]]


def _usable(fitted: Dataset, held_out: Dataset) -> tuple[NDArray[np.intp], str]:
    """Positions of the held-out rows to look at, and a word on which they are."""
    complete = np.flatnonzero(~np.isnan(_columns(fitted, held_out)).any(axis=1))
    rows = complete
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(SEED).choice(complete, MOST_ROWS, replace=False))
    words = f"{len(rows):,} of the {len(held_out):,} rows held out of the fit"
    if len(rows) < len(complete):
        words += f", drawn with seed {SEED}"
    absent = len(held_out) - len(complete)
    if absent:
        words += f"; {absent:,} with missing cells left out"
    return rows, words


def _frame(fitted: Dataset, X: FloatArray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list(fitted.learned_names))


def _nlpd(model: LatentVariableModel, fitted: Dataset, X: FloatArray, on: str) -> Metric:
    density = LatentVariableModel.score(model, _frame(fitted, X))  # a label model's own is accuracy
    varies = ~Standardiser.fit(fitted.X, list(fitted.feature_names)).constant
    change = X[:, varies & fitted.log1p].sum(axis=1).mean()  # log |dz/dx| = −z
    protocol = (
        "Minus the log predictive density of a row, labels unused, mean over rows, nats, in the "
        f"data's own units; lower is better. On {on}."
    )
    return Metric(_LABELS["held_out_nlpd"], float(change - density), protocol)


def _rmse(model: LatentVariableModel, fitted: Dataset, X: FloatArray, on: str) -> Metric:
    standard = Standardiser.fit(fitted.X, list(fitted.feature_names))
    again = model.inverse_transform(model.transform(_frame(fitted, X)))
    error = standard.transform(X) - standard.transform(again)
    logs = ", of log(1 + x) where a column is learned so" if fitted.log1p.any() else ""
    protocol = (
        "Root mean square over cells of a row less its reconstruction from its place on the map, "
        f"in standard deviations of the fitted rows{logs}. On {on}."
    )
    return Metric(_LABELS["held_out_rmse"], float(np.sqrt(np.square(error).mean())), protocol)


def _accuracy(
    model: Any,
    fitted: Dataset,
    X: FloatArray,
    labels: NDArray[np.object_] | None,
    on: str,
) -> Metric:
    label = _LABELS["held_out_accuracy"]
    known = None if labels is None else ~np.asarray(pd.isna(labels))
    if labels is None or known is None or not known.any():
        return Metric(label, None, "No row held out has both a label and every cell.")
    predicted = model.predict(_frame(fitted, X[known])).astype(str)
    share = float(np.mean(predicted == labels[known].astype(str)))
    protocol = (
        f"Share of rows whose label the model predicts from the columns alone. On {on}; "
        f"{int(known.sum()):,} of these have a label."
    )
    return Metric(label, share, protocol)
