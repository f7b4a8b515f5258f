"""Metrics of predictions of a target, each with its protocol."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import (
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from lvmcore.metrics.metric import Metric
from lvmcore.metrics.scores import classification_scores, expected_calibration_error
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.target_predictions import PROBABILITY_OF, class_probabilities

__all__ = ["coverage_at", "target_metrics"]


_LABELS = {
    "nlpp": "NLPP",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "coverage_90": "90 % coverage",
    "width_90": "90 % width",
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "log_loss": "log loss",
    "auc": "AUC",
    "calibration_error": "calibration (ECE)",
}


def target_metrics(frame: pd.DataFrame, on: str) -> dict[str, Metric]:
    """Score predictions of held-out rows.

    Args:
        frame: from ``prediction_table`` with a truth; rows without a truth or a prediction are
            left out.
        on: a description of the rows, for the protocol.

    Returns:
        For numbers NLPP, RMSE, MAE, R², and the coverage and width of the 90 % interval; for
        classes accuracy, macro F1, log loss, AUC and the expected calibration error.
    """
    rows = frame[frame["truth"].notna() & frame["log_density"].notna()]
    how = f"On {on}: {len(rows):,} rows."
    number = "mean" in frame
    if rows.empty:
        keys: tuple[str, ...] = ("nlpp", "rmse", "mae", "r2", "coverage_90", "width_90")
        keys = keys if number else ("accuracy", "macro_f1", "log_loss", "auc", "calibration_error")
        return {key: Metric(_LABELS[key], None, f"No such row is left. {how}") for key in keys}
    return _numbers(rows, how) if number else _classes(rows, how)


def coverage_at(frame: pd.DataFrame, levels: FloatArray) -> FloatArray:
    """Share of truths inside the central interval of each level, [levels].

    With u = P(target ≤ truth) the truth is inside that of level p where |u − ½| ≤ p/2.
    """
    distance = np.abs(frame["cumulative"].dropna().to_numpy() - 0.5)
    inside = distance[:, None] <= 0.5 * np.asarray(levels, dtype=np.float64)
    return np.asarray(inside.mean(axis=0))


def _figure(key: str, value: float, protocol: str, how: str) -> Metric:
    return Metric(_LABELS[key], float(value), f"{protocol} {how}")


def _numbers(rows: pd.DataFrame, how: str) -> dict[str, Metric]:
    truth, mean = rows["truth"].to_numpy(dtype=np.float64), rows["mean"].to_numpy()
    low, high = rows["q05"].to_numpy(), rows["q95"].to_numpy()
    found = {
        "nlpp": _figure(
            "nlpp",
            -rows["log_density"].mean(),
            "Negative mean log predictive density of the truth, in the target's own units, nats a "
            "row; lower is better.",
            how,
        ),
        "rmse": _figure(
            "rmse",
            root_mean_squared_error(truth, mean),
            "Root mean squared error of the predicted mean, in the target's units.",
            how,
        ),
        "mae": _figure(
            "mae",
            mean_absolute_error(truth, mean),
            "Mean absolute error of the predicted mean, in the target's units.",
            how,
        ),
        "r2": Metric(_LABELS["r2"], None, f"Needs truths that differ. {how}"),
        "coverage_90": _figure(
            "coverage_90",
            ((low <= truth) & (truth <= high)).mean(),
            "Share of truths in the 90 % interval of their prediction; 0.9 for calibrated "
            "intervals.",
            how,
        ),
        "width_90": _figure(
            "width_90",
            (high - low).mean(),
            "Mean width of the 90 % interval, in the target's units; of two methods whose coverage "
            "is 0.9 the one with the narrower intervals knows more.",
            how,
        ),
    }
    if len(np.unique(truth)) > 1:
        found["r2"] = _figure(
            "r2",
            r2_score(truth, mean),
            "1 − squared error / squared error of the rows' own mean: 1 at best, 0 for that mean.",
            how,
        )
    return found


def _classes(rows: pd.DataFrame, how: str) -> dict[str, Metric]:
    classes, probability = class_probabilities(rows)
    truth, said = rows["truth"].astype(str), rows["predicted"].astype(str)
    scores = classification_scores(truth, said)
    place = {name: code for code, name in enumerate(classes)}
    codes = np.array([place.get(name, -1) for name in truth])
    return {
        "accuracy": _figure(
            "accuracy",
            scores.accuracy,
            "Share of rows whose most probable class is the true one.",
            how,
        ),
        "macro_f1": _figure(
            "macro_f1",
            scores.f1,
            "Harmonic mean of precision and recall, mean over the classes; one that is never "
            "predicted counts 0.",
            how,
        ),
        "log_loss": _log_loss(rows, how),
        "auc": _auc(probability, codes, how),
        "calibration_error": _figure(
            "calibration_error",
            expected_calibration_error(probability, codes),
            "Mean absolute difference between the probability of the predicted class and its "
            "accuracy, over 15 bins of that probability, weighted by their rows; 0 at best.",
            how,
        ),
    }


def _log_loss(rows: pd.DataFrame, how: str) -> Metric:
    known = rows[[f"{PROBABILITY_OF}{name}" in rows for name in rows["truth"].astype(str)]]
    strange = len(rows) - len(known)
    if known.empty:
        return Metric(_LABELS["log_loss"], None, f"No row is of a class of the fit. {how}")
    text = (
        "Negative mean log probability of the true class (NLPP of a class), nats a row; lower is "
        "better."
    )
    if strange:
        text += f" Rows of classes that the fit has not seen are left out: {strange:,}."
    density = np.maximum(known["log_density"].to_numpy(), np.log(np.finfo(np.float64).tiny))
    return _figure("log_loss", -density.mean(), text, how)


def _auc(probability: FloatArray, codes: NDArray[np.intp], how: str) -> Metric:
    """Area under the ROC curve; for several classes the mean over each against the rest.

    Rows of classes that are not in the fit are left out.
    """
    strange = int((codes < 0).sum())
    probability, codes = probability[codes >= 0], codes[codes >= 0]
    found = [
        float(roc_auc_score(codes == code, probability[:, code]))
        for code in range(probability.shape[1])
        if 0 < (codes == code).sum() < len(codes)
    ]
    if not found:
        return Metric(_LABELS["auc"], None, f"Needs rows of two classes. {how}")
    if probability.shape[1] == 2:
        text = "Probability that a row of the second class is ranked above one of the first."
    else:
        text = (
            f"Probability that a row of a class is ranked above one of the others, mean over "
            f"{len(found)} classes, each against the rest."
        )
    if strange:
        text += f" Rows of classes that the fit has not seen are left out: {strange:,}."
    return _figure("auc", float(np.mean(found)), text, how)
