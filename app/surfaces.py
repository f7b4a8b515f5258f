"""A slice of what a fit predicts: over two of its columns, the others at their median. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.exploring import Grid

if TYPE_CHECKING:
    from lvmcore.predictor import Predictor
    from lvmcore.runs.target import TargetRows

__all__ = ["MEAN", "SD", "Slice", "columns_to_slice", "slice_of"]

FloatArray = NDArray[np.float64]

#: What a slice can show of a number; of a class, the probability of one.
MEAN, SD = "predicted mean", "sd of the prediction"
_CELLS = 28
#: The ends of a column that a slice spans, as quantiles of the rows of the fit.
_ENDS = (0.01, 0.99)


@dataclass(frozen=True)
class Slice:
    """What is asked for.

    Attributes:
        across: column along the horizontal axis.
        upright: column along the vertical axis.
        show: MEAN or SD of a number; or the name of a class, whose probability is shown.
        unit: what the values are counted in.
    """

    across: str
    upright: str
    show: str
    unit: str


def columns_to_slice(rows: TargetRows, relevance: FloatArray, names: Sequence[str]) -> list[str]:
    """The columns that a slice can run along: more than two values, the most relevant first.

    Args:
        rows: of the fit.
        relevance: of the columns that vary, [H].
        names: of these, H of them.
    """
    X = rows.X[~rows.held_out]
    order = [names[place] for place in np.argsort(-relevance, kind="stable")]
    return [name for name in order if X[name].nunique() > 2]


def slice_of(model: Predictor, rows: TargetRows, asked: Slice) -> Grid:
    """Predict over a grid of two columns, every other column at its median of the fit's rows.

    Args:
        model: a fitted model.
        rows: that it was fitted to.
        asked: which columns, and what of the prediction.
    """
    X = rows.X[~rows.held_out]
    across, upright = (_along(X[name].to_numpy()) for name in (asked.across, asked.upright))
    grid = pd.DataFrame(np.repeat(X.median().to_numpy()[None], _CELLS**2, 0), columns=X.columns)
    grid[asked.across] = np.tile(across, _CELLS)
    grid[asked.upright] = np.repeat(upright, _CELLS)
    value = _values(model, grid, asked.show).reshape(_CELLS, _CELLS)
    sure = asked.show == SD
    limits = None if model.task == "number" else (0.0, 1.0)
    title = asked.show if model.task == "number" else f"probability of {asked.show}"
    return Grid(across, upright, value, title, asked.unit, limits, sure)


def _along(cells: FloatArray) -> FloatArray:
    """Places along a column: where all but its extremes lie; all of it where that is a point."""
    low, high = np.quantile(cells, _ENDS)
    if not low < high:
        low, high = cells.min(), cells.max()
    return np.linspace(float(low), float(high), _CELLS)


def _values(model: Predictor, X: pd.DataFrame, show: str) -> FloatArray:
    from lvmcore.prediction_tasks import Classifier, Regressor

    if isinstance(model, Regressor):
        mean, sd = model.predict(X, return_std=True)
        return np.asarray(sd if show == SD else mean)
    assert isinstance(model, Classifier)
    place = [str(name) for name in model.classes_].index(show)
    return np.asarray(model.predict_proba(X)[:, place])
