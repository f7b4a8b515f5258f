"""Metrics of a fit on its held-out rows, each with its protocol."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.evaluation.class_separation import separation_of_placed_rows
from lvmcore.evaluation.hidden_cells import SEED as HIDDEN_SEED
from lvmcore.evaluation.hidden_cells import hide_cells, imputation_metrics, predict_hidden
from lvmcore.evaluation.map_dimensions import scored_dimensions
from lvmcore.likelihoods.catalogue import LIKELIHOODS
from lvmcore.metrics.metric import Metric
from lvmcore.metrics.scores import expected_calibration_error
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.decoded_columns import column_terms
from lvmcore.prediction.label_columns import label_columns
from lvmcore.prediction.map_table import map_columns
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = ["held_out_metrics", "held_out_positions"]


#: Most held-out rows that are placed and scored; many models infer a position by an optimisation.
MOST_ROWS = 1000
SEED = 0

_LABELS = {
    "held_out_nlpd": "held-out NLPD",
    "held_out_accuracy": "held-out accuracy",
    "held_out_rmse": "held-out RMSE",
    "held_out_ece": "held-out calibration error (ECE)",
}
#: Share of the observed cells of held-out rows that are hidden and predicted from the others.
HIDDEN = 0.2
_NO_LABEL = "No row held out has both a label and the cells that the model needs."


def held_out_metrics(
    model: LatentVariableModel, fitted: Dataset, held_out: Dataset
) -> dict[str, Metric]:
    """Score a fitted model on held-out rows.

    The negative log predictive density is per row and in the data's own units: for a column that
    is transformed to z = log(1 + x), the density of x is that of z divided by 1 + x, so z is added.
    For a model that uses labels, the nearest-neighbour accuracy and the silhouette are those of the
    held-out rows: the fit has not seen their labels.

    Args:
        model: a fitted model.
        fitted: the rows that it was fitted to.
        held_out: the held-out rows, with all columns of the dataset.

    Returns:
        The metrics that are defined for this model; their value is None if no row can be used.
    """
    can = model.capabilities
    if not can.new_rows and not can.density:
        return {}
    keys = [
        key
        for key, defined in (
            ("held_out_nlpd", can.density),
            ("held_out_accuracy", can.labels != "none" and can.new_rows),
            ("held_out_ece", can.labels != "none" and can.new_rows),
            ("held_out_rmse", can.new_rows and can.decoding),
        )
        if defined
    ]
    rows, words = _usable_rows(model, fitted, held_out)
    if not len(rows):
        lacks = "no cell" if can.missing_cells else "a missing cell"
        why = f"Each of the {len(held_out)} rows held out has {lacks}."
        return {key: Metric(_LABELS[key], None, why) for key in keys}
    X = _columns(fitted, held_out)[rows]
    found: dict[str, Metric] = {}
    if "held_out_nlpd" in keys:
        found["held_out_nlpd"] = _nlpd(model, fitted, X, words)
    placed = model.transform(_frame(fitted, X)) if can.new_rows else None
    if placed is not None and "held_out_accuracy" in keys:
        subset = held_out.subset(rows)
        found |= _classes(model, fitted, X, subset, words)
        found |= _separation(model, fitted, placed, subset, words)
    if placed is not None and "held_out_rmse" in keys:
        found["held_out_rmse"] = _rmse(model, fitted, X, placed, words)
    return found | (_cells(model, fitted, X, words) if can.missing_cells else {})


def held_out_positions(
    model: LatentVariableModel, fitted: Dataset, held_out: Dataset
) -> pd.DataFrame | None:
    """The held-out rows on the map, inferred from their columns without labels.

    Args:
        model: a fitted model.
        fitted: the rows that it was fitted to.
        held_out: the held-out rows, with all columns of the dataset.

    Returns:
        Columns ``row_id``; ``z1`` … ``zQ``, the latent means of q(x); and ``z1_sd`` … ``zQ_sd``,
        their standard deviations, if the model has them. At most ``MOST_ROWS`` rows, drawn at
        random from more. None if the model cannot place new rows, or if no row has the cells that
        it needs.
    """
    if not model.capabilities.new_rows:
        return None
    rows, _ = _usable_rows(model, fitted, held_out)
    if not len(rows):
        return None
    posterior = model.posterior(_frame(fitted, _columns(fitted, held_out)[rows]))
    sd = np.sqrt(posterior.variance) if model.capabilities.uncertainty else None
    named: dict[str, Any] = {"row_id": held_out.row_ids[rows].tolist()}
    return pd.DataFrame(named | map_columns(posterior.mean, sd))


def _columns(fitted: Dataset, held_out: Dataset) -> FloatArray:
    """The columns that the model was fitted to, without those missing in every fitted row."""
    place = {name: d for d, name in enumerate(held_out.feature_names)}
    return held_out.X[:, [place[name] for name in fitted.feature_names]]


def _usable_rows(
    model: LatentVariableModel, fitted: Dataset, held_out: Dataset
) -> tuple[NDArray[np.intp], str]:
    """Positions of the held-out rows that are scored, and a description of them."""
    gaps = np.isnan(_columns(fitted, held_out))
    takes_gaps = model.capabilities.missing_cells
    usable = np.flatnonzero(~(gaps.all(axis=1) if takes_gaps else gaps.any(axis=1)))
    rows = usable
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(SEED).choice(usable, MOST_ROWS, replace=False))
    words = f"{len(rows):,} of the {len(held_out):,} rows held out of the fit"
    if len(rows) < len(usable):
        words += f", drawn with seed {SEED}"
    absent = len(held_out) - len(usable)
    if absent:
        words += f"; {absent:,} {'without any cell' if takes_gaps else 'with missing cells'}"
        words += " left out"
    incomplete = int(gaps[rows].any(axis=1).sum())
    if incomplete:
        words += f"; {incomplete:,} of them lack cells, and are scored by the observed ones"
    return rows, words


def _frame(fitted: Dataset, X: FloatArray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list(fitted.transformed_names))


def _nlpd(model: LatentVariableModel, fitted: Dataset, X: FloatArray, on: str) -> Metric:
    # `score` of a model with labels is its accuracy, that of the base class the density.
    density = LatentVariableModel.score(model, _frame(fitted, X))
    varies = ~Standardiser.fit(fitted.X, list(fitted.feature_names)).constant
    change = np.nansum(X[:, varies & fitted.log1p], axis=1).mean()  # log |dz/dx| = −z
    protocol = (
        "Minus the log predictive density of a row, labels unused, mean over rows, nats, in the "
        f"data's own units; lower is better. On {on}."
    )
    return Metric(_LABELS["held_out_nlpd"], float(change - density), protocol)


def _rmse(
    model: LatentVariableModel, fitted: Dataset, X: FloatArray, placed: FloatArray, on: str
) -> Metric:
    standard = Standardiser.fit(fitted.X, list(fitted.feature_names))
    again = model.inverse_transform(placed)
    error = standard.transform(X) - standard.transform(again)
    logs = ", of log(1 + x) where a column is transformed so" if fitted.log1p.any() else ""
    protocol = (
        "Root mean square over cells of the difference between a row and its reconstruction from "
        f"its latent position, in standard deviations of the fitted rows{logs}. On {on}."
    )
    return Metric(_LABELS["held_out_rmse"], float(np.sqrt(np.nanmean(np.square(error)))), protocol)


def _cells(
    model: LatentVariableModel, fitted: Dataset, X: FloatArray, on: str
) -> dict[str, Metric]:
    """Calibration of predictive intervals of hidden cells, predicted from the observed ones."""
    hidden = hide_cells(X, HIDDEN, groups=_categories(model))
    how = (
        f"A fifth of the cells of each row on average ({int(hidden.sum()):,}, seed {HIDDEN_SEED}) "
        f"are hidden and predicted from its other cells, labels unused. On {on}."
    )
    return imputation_metrics(predict_hidden(model, fitted, X, hidden), how)


def _categories(model: LatentVariableModel) -> list[range]:
    """The features of each category with a likelihood of its own, which are known together."""
    terms = column_terms(model) or ()
    ends = accumulate(term.n_features for term in terms)
    return [
        range(end - term.n_features, end)
        for term, end in zip(terms, ends, strict=True)
        if LIKELIHOODS[term.name].is_one_hot
    ]


def _classes(
    model: Any, fitted: Dataset, X: FloatArray, rows: Dataset, on: str
) -> dict[str, Metric]:
    """Accuracy and calibration of the class predictions for each label column."""
    columns = label_columns(model)
    known = {column.place: _known(column.labels(rows), len(rows)) for column in columns}
    labelled = np.flatnonzero(np.any(list(known.values()), axis=0))
    probability = model.predict_proba(_frame(fitted, X[labelled])) if len(labelled) else None
    found: dict[str, Metric] = {}
    for column in columns:
        labels, has_label = column.labels(rows), known[column.place][labelled]
        if labels is None or probability is None or not has_label.any():
            keys = ("held_out_accuracy", "held_out_ece")
            found |= column.figures({key: Metric(_LABELS[key], None, _NO_LABEL) for key in keys})
            continue
        place = {name: code for code, name in enumerate(column.classes)}
        truth = np.array([place.get(str(name), -1) for name in labels[labelled][has_label]])
        found |= column.figures(_class_metrics(column.part(probability)[has_label], truth, on))
    return found


def _separation(
    model: LatentVariableModel, fitted: Dataset, placed: FloatArray, rows: Dataset, on: str
) -> dict[str, Metric]:
    """Separation of the held-out rows' classes on the map, for each label column."""
    scored = scored_dimensions(model)
    found: dict[str, Metric] = {}
    for column in label_columns(model):
        seen, labels = column.labels(fitted), column.labels(rows)
        if seen is None or labels is None:
            continue
        found |= column.figures(
            separation_of_placed_rows((model.embedding_.mean, seen), (placed, labels), scored, on)
        )
    return found


def _known(labels: NDArray[np.object_] | None, n: int) -> NDArray[np.bool_]:
    """Which of n rows have a label."""
    return np.zeros(n, dtype=bool) if labels is None else ~np.asarray(pd.isna(labels))


def _class_metrics(probability: FloatArray, truth: NDArray[np.intp], on: str) -> dict[str, Metric]:
    """Accuracy and calibration error; truth is −1 for classes that are not in the model."""
    how = f"On {on}; {len(truth):,} of these have a label."
    right = float(np.mean(probability.argmax(axis=1) == truth))
    return {
        "held_out_accuracy": Metric(
            _LABELS["held_out_accuracy"],
            right,
            f"Share of rows whose label the model predicts from the columns alone. {how}",
        ),
        "held_out_ece": Metric(
            _LABELS["held_out_ece"],
            expected_calibration_error(probability, truth),
            "Mean over rows of the absolute difference between the probability of the predicted "
            "class and the accuracy of such predictions, in 15 bins by that probability; 0 at "
            f"best. From the columns alone. {how}",
        ),
    }
