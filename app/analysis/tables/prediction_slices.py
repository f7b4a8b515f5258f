"""Prediction over a grid of two columns, the other columns at a typical row. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from app.analysis.map.heatmaps import Heatmap
from app.analysis.tables.typical_row import typical_row
from lvmcore.numerics.array_types import FloatArray

if TYPE_CHECKING:
    from lvmcore.base.predictor import Predictor
    from lvmcore.prediction.target_rows import SupervisedRows

__all__ = [
    "MEAN",
    "SD",
    "ClassPlane",
    "PredictionSlice",
    "class_plane",
    "prediction_slice",
    "sliceable_columns",
]


#: Quantities of a numeric target; for classes a slice shows the probability of one class.
MEAN, SD = "predicted mean", "sd of the prediction"
_CELLS = 28
#: Range of a column in a slice, as quantiles of the rows of the fit.
_ENDS = (0.01, 0.99)


@dataclass(frozen=True)
class PredictionSlice:
    """Which slice to compute.

    Attributes:
        across: column of the horizontal axis.
        upright: column of the vertical axis.
        show: MEAN or SD of a number; or the name of a class, for its probability.
        unit: unit of the values.
    """

    across: str
    upright: str
    show: str
    unit: str


def sliceable_columns(
    rows: SupervisedRows, relevance: FloatArray, names: Sequence[str]
) -> list[str]:
    """Columns that can be an axis of a slice: more than two values, the most relevant first.

    Args:
        rows: rows of the fit.
        relevance: relevance of the columns that vary, [H].
        names: names of these columns, H of them.
    """
    X = rows.X[~rows.held_out]
    order = [names[column] for column in np.argsort(-relevance, kind="stable")]
    return [name for name in order if X[name].nunique() > 2]


def prediction_slice(model: Predictor, rows: SupervisedRows, asked: PredictionSlice) -> Heatmap:
    """Predict over a grid of two columns, all other columns at the fit's ``typical_row``.

    Args:
        model: a fitted model.
        rows: rows of the fit.
        asked: which slice to compute.
    """
    X = rows.X[~rows.held_out]
    across, upright = (_grid_line(X[name].to_numpy()) for name in (asked.across, asked.upright))
    grid = _plane(rows, asked.across, across, asked.upright, upright)
    value = _values(model, grid, asked.show).reshape(_CELLS, _CELLS)
    low_is_certain = asked.show == SD
    limits = None if model.task == "number" else (0.0, 1.0)
    title = asked.show if model.task == "number" else f"probability of {asked.show}"
    return Heatmap(across, upright, value, title, asked.unit, limits, low_is_certain)


@dataclass(frozen=True)
class ClassPlane:
    """Probabilities of all classes over two columns.

    Attributes:
        across: column of the horizontal axis.
        upright: column of the vertical axis.
        x: horizontal positions, [nx].
        y: vertical positions, [ny].
        classes: names of the classes.
        probability: of each class, [ny, nx, C]; they add up to 1.
    """

    across: str
    upright: str
    x: FloatArray
    y: FloatArray
    classes: tuple[str, ...]
    probability: FloatArray


def class_plane(model: Predictor, rows: SupervisedRows, across: str, upright: str) -> ClassPlane:
    """Probabilities of all classes over the range of two columns, others at ``typical_row``.

    Args:
        model: a fitted model of classes.
        rows: rows of the fit and held-out rows.
        across: name of the feature of the horizontal axis.
        upright: name of that of the vertical axis.
    """
    from lvmcore.base.regressor_classifier import Classifier

    assert isinstance(model, Classifier)
    X = rows.X
    x, y = (
        np.linspace(float(X[name].min()), float(X[name].max()), _CELLS)
        for name in (across, upright)
    )
    found = model.predict_proba(_plane(rows, across, x, upright, y))
    names = tuple(str(name) for name in model.classes_)
    cells = found.reshape(_CELLS, _CELLS, len(names))
    return ClassPlane(across, upright, x, y, names, cells)


def _plane(
    rows: SupervisedRows, across: str, x: FloatArray, upright: str, y: FloatArray
) -> pd.DataFrame:
    """Typical rows at the points of a grid, x varying fastest, [nx ny, H]."""
    typical = np.repeat(typical_row(rows)[None], len(x) * len(y), axis=0)
    grid = pd.DataFrame(typical, columns=rows.X.columns)
    grid[across] = np.tile(x, len(y))
    grid[upright] = np.repeat(y, len(x))
    return grid


def _grid_line(cells: FloatArray) -> FloatArray:
    """Grid points between the quantiles ``_ENDS`` of a column; over its range if they are equal."""
    low, high = np.quantile(cells, _ENDS)
    if not low < high:
        low, high = cells.min(), cells.max()
    return np.linspace(float(low), float(high), _CELLS)


def _values(model: Predictor, X: pd.DataFrame, show: str) -> FloatArray:
    from lvmcore.base.regressor_classifier import Classifier, Regressor

    if isinstance(model, Regressor):
        mean, sd = model.predict(X, return_std=True)
        return np.asarray(sd if show == SD else mean)
    assert isinstance(model, Classifier)
    position = [str(name) for name in model.classes_].index(show)
    return np.asarray(model.predict_proba(X)[:, position])
