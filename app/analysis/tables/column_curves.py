"""Predictions over one column of several, the other columns at a typical row. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from app.analysis.tables.prediction_curves import LEVEL, PredictionCurve
from app.analysis.tables.typical_row import typical_row
from lvmcore.numerics.array_types import FloatArray

if TYPE_CHECKING:
    from lvmcore.base.predictor import Predictor
    from lvmcore.data import DateScale
    from lvmcore.prediction.target_rows import SupervisedRows

__all__ = ["ClassCurves", "class_curves", "column_curve"]


#: Points of a curve.
_POINTS = 200


@dataclass(frozen=True)
class ClassCurves:
    """Probabilities of classes along a column.

    Attributes:
        column: the column.
        x: increasing values of it, [n].
        classes: names of the classes.
        probability: of each class, [n, C]; each row adds up to 1.
        dates: unit and origin of x where the column is one of dates; None of numbers.
    """

    column: str
    x: FloatArray
    classes: tuple[str, ...]
    probability: FloatArray
    dates: DateScale | None = None


def column_curve(model: Predictor, rows: SupervisedRows, column: str) -> PredictionCurve:
    """The prediction of a number over the range of a column, noise included.

    The band is the central interval of probability ``LEVEL`` of the target of a new row.

    Args:
        model: a fitted model of a number.
        rows: its rows; the other columns are those of their ``typical_row``.
        column: name of a feature.
    """
    from lvmcore.base.regressor_classifier import Regressor

    assert isinstance(model, Regressor)
    grid = _grid(rows, column)
    x = grid[column].to_numpy()
    lower, upper = model.predict_quantiles(grid, (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)).T
    mean = np.asarray(model.predict(grid))
    dates = rows.dataset.date_scales.get(column)
    return PredictionCurve(column, x, mean, lower, upper, float(x[-1]), dates)


def class_curves(model: Predictor, rows: SupervisedRows, column: str) -> ClassCurves:
    """The probability of each class over the range of a column.

    Args:
        model: a fitted model of classes.
        rows: its rows; the other columns are those of their ``typical_row``.
        column: name of a feature.
    """
    from lvmcore.base.regressor_classifier import Classifier

    assert isinstance(model, Classifier)
    grid = _grid(rows, column)
    names = tuple(str(name) for name in model.classes_)
    dates = rows.dataset.date_scales.get(column)
    return ClassCurves(column, grid[column].to_numpy(), names, model.predict_proba(grid), dates)


def _grid(rows: SupervisedRows, column: str) -> pd.DataFrame:
    """Typical rows that differ in one column, over its range in all rows, [n, H]."""
    X = rows.X
    x = np.linspace(float(X[column].min()), float(X[column].max()), _POINTS)
    typical = np.repeat(typical_row(rows)[None], _POINTS, axis=0)
    return pd.DataFrame(typical, columns=X.columns).assign(**{column: x})
