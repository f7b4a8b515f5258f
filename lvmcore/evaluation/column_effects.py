"""Effect of each column on the prediction of a target, through all layers of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from lvmcore.numerics.array_types import FloatArray
from lvmcore.relevance import EXCHANGES, MOST_POINTS, total_effects

if TYPE_CHECKING:
    from lvmcore.base.predictor import Predictor

__all__ = ["column_effects"]

#: Rows to predict at most, about; each column needs at least the fewest points.
MOST_PREDICTED, FEWEST_POINTS = 40_000, 50


def column_effects(model: Predictor, X: pd.DataFrame) -> FloatArray:
    """Share of the variance of the prediction that each varying column carries, [H].

    The total Sobol effects T_h of the columns on the predicted mean, or on the probabilities of all
    classes, as shares T_h / Σ_g T_g (Jansen 1999): how much the prediction changes if a row gets
    that column's value of another row. An interaction counts for each of its columns. Of columns
    that tell the same, one may have the whole share: it is the model's use of the column. All
    layers count, unlike in the weights of one layer's kernel.

    With more columns there are fewer exchanges of each and fewer points, so that about 40 000 rows
    are predicted.

    Args:
        model: fitted to the columns of X.
        X: rows of the fit, without missing cells.

    Returns:
        Shares of the columns that are not constant in the fit, in order; their sum is 1. All are
        equal where the prediction is constant.
    """
    names = np.asarray(X.columns)[~model.standardiser_.constant]
    H = len(names)
    exchanges = EXCHANGES if EXCHANGES * H * MOST_POINTS // 4 <= MOST_PREDICTED else 1
    points = max(FEWEST_POINTS, min(MOST_POINTS, MOST_PREDICTED // (exchanges * max(1, H))))
    predictor: Any = model
    predict = predictor.predict_proba if model.task == "class" else predictor.predict
    base = X.iloc[:1]

    def prediction(values: FloatArray) -> FloatArray:
        rows = base.iloc[np.zeros(len(values), dtype=np.intp)].reset_index(drop=True)
        found = np.asarray(predict(rows.assign(**dict(zip(names, values.T, strict=True)))))
        return found.reshape(len(values), -1)

    cells = X[names].to_numpy(dtype=np.float64)
    effects = total_effects(prediction, cells, points=points, exchanges=exchanges)
    total = effects.sum()
    return effects / total if total > 0 else np.full(H, 1 / max(1, H))
