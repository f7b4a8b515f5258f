"""Predictions along one column: of a series beyond its last row, and of a kernel's summands. Pure.

Bands are central 90 % intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import ndtri

from lvmcore.numerics.array_types import FloatArray

if TYPE_CHECKING:
    from lvmcore.base.predictor import Predictor
    from lvmcore.data import DateScale
    from lvmcore.gp.structure.decomposition import ComponentSummary
    from lvmcore.prediction.target_rows import SupervisedRows
    from lvmcore.preprocessing.target_transform import TargetTransform

__all__ = [
    "LEVEL",
    "ComponentCurve",
    "PredictionCurve",
    "component_curves",
    "has_components",
    "series_column",
    "series_curve",
    "target_transform",
]


#: Level of the bands, and points of a curve.
LEVEL, _POINTS = 0.9, 400
#: Share of the range of the rows by which a curve of a series goes on.
_BEYOND = 0.2
_ENDS = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)


@dataclass(frozen=True)
class PredictionCurve:
    """A mean with a band along a column, in units of the target.

    Attributes:
        column: the column.
        x: increasing values of it, [n].
        mean: [n].
        lower: lower ends of the band, [n].
        upper: upper ends, [n].
        last: the last value in the rows; the part after it is beyond the data.
        dates: unit and origin of x where the column is one of dates; None of numbers.
    """

    column: str
    x: FloatArray
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    last: float
    dates: DateScale | None = None


@dataclass(frozen=True)
class ComponentCurve:
    """A summand of a kernel, or the noise.

    Attributes:
        summary: its share of the variance, and its parameters.
        curve: its posterior along its column; None of the noise, and of several columns.
    """

    summary: ComponentSummary
    curve: PredictionCurve | None


def series_column(model: Predictor, rows: SupervisedRows) -> str | None:
    """The only column of a model of a number, if it has more than two values; else None.

    Args:
        model: a fitted model.
        rows: its rows.
    """
    X = rows.X
    one = model.task == "number" and X.shape[1] == 1 and X.iloc[:, 0].nunique() > 2
    return str(X.columns[0]) if one else None


def has_components(model: Predictor) -> bool:
    """Whether a model is a Gaussian process with a kernel of several summands."""
    from lvmcore.models.supervised.gp import GPRegressor

    return isinstance(model, GPRegressor) and len(model.components_) > 2  # the noise is one


def target_transform(model: Predictor) -> TargetTransform:
    """The transform of the target of a model that ``has_components``."""
    from lvmcore.models.supervised.gp import GPRegressor

    assert isinstance(model, GPRegressor)
    return model.target_transform_


def series_curve(model: Predictor, rows: SupervisedRows) -> PredictionCurve:
    """The prediction along the only column, noise included, and a fifth of its range beyond.

    Args:
        model: a model for which ``series_column`` is a column.
        rows: its rows.
    """
    from lvmcore.base.regressor_classifier import Regressor

    column = series_column(model, rows)
    assert isinstance(model, Regressor)
    assert column is not None
    X = rows.X
    x = _line(X[column].to_numpy(), _BEYOND)
    grid = pd.DataFrame({column: x})
    lower, upper = model.predict_quantiles(grid, _ENDS).T
    mean = np.asarray(model.predict(grid))
    dates = rows.dataset.date_scales.get(column)
    return PredictionCurve(column, x, mean, lower, upper, float(X[column].max()), dates)


def component_curves(model: Predictor, rows: SupervisedRows) -> tuple[ComponentCurve, ...]:
    """Each summand of the kernel along its column, and the noise last.

    Those of the only column of a table go on beyond its last row. Of a logarithm of the target the
    curves are the factors exp f_i, of another transform they are on its scale.

    Args:
        model: a model that ``has_components``.
        rows: its rows.
    """
    from lvmcore.models.supervised.gp import GPRegressor

    assert isinstance(model, GPRegressor)
    X, beyond = rows.X, _BEYOND if series_column(model, rows) else 0.0
    found = []
    for i, summary in enumerate(model.components(rows.date_units)):
        curve = None
        if len(summary.columns) == 1:
            (column,) = summary.columns
            x = _line(X[column].to_numpy(), beyond)
            middle = np.repeat(X.median().to_numpy()[None], len(x), 0)
            grid = pd.DataFrame(middle, columns=X.columns).assign(**{column: x})
            parts = model.decompose(grid)
            mean, half = parts.mean[:, i], ndtri(_ENDS[1]) * np.sqrt(parts.variance[:, i])
            low, high = mean - half, mean + half
            if model.target_transform_.name == "log":
                mean, low, high = np.exp(mean), np.exp(low), np.exp(high)
            last, dates = float(X[column].max()), rows.dataset.date_scales.get(column)
            curve = PredictionCurve(column, x, mean, low, high, last, dates)
        found.append(ComponentCurve(summary, curve))
    return tuple(found)


def _line(cells: FloatArray, beyond: float) -> FloatArray:
    """Points over the range of a column and beyond it, its end among them."""
    low, high = float(cells.min()), float(cells.max())
    inside = np.linspace(low, high, _POINTS)
    if not beyond:
        return inside
    step = (high - low) / (_POINTS - 1)
    return np.concatenate([inside, high + step * np.arange(1, round(beyond * _POINTS) + 1)])
