"""How badly each row fits the model: its standardised residual. Pure.

Of a row with latent mean μ, the residual is √(mean over columns of ((y − m(μ)) / s(μ))²), where m
and s are the predictive mean and sd, noise included, at μ on the scale that was learned. Missing
cells and columns that are constant are left out. A new row of the model's own making has about 1;
the rows of the fit have less, as their places were chosen to fit them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lvmcore.data import Dataset
from lvmcore.standardise import Standardiser

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel

__all__ = ["MOST_CELLS", "MOST_ROWS", "Residuals", "residuals"]

FloatArray = NDArray[np.float64]

#: Rows, and cells, that are decoded at most: of larger tables rows are taken evenly spaced.
MOST_ROWS, MOST_CELLS = 10_000, 2_000_000
_CELLS_AT_A_TIME = 500_000


@dataclass(frozen=True)
class Residuals:
    """How badly rows fit.

    Attributes:
        rows: positions of the rows that were looked at, [n].
        size: their standardised residuals, NaN for a row without a cell that counts, [n].
        column: position of the column that fits worst in each, [n].
        deviation: how far that cell is from its reconstruction, in predictive sd, [n].
    """

    rows: NDArray[np.intp]
    size: FloatArray
    column: NDArray[np.intp]
    deviation: FloatArray

    def worst(self, most: int) -> NDArray[np.intp]:
        """Positions in ``rows`` of those that fit worst, the worst first."""
        order = np.argsort(-self.size, kind="stable")
        return order[~np.isnan(self.size[order])][:most]


def residuals(model: LatentVariableModel, dataset: Dataset) -> Residuals:
    """Measure how badly the rows of a fit are reconstructed.

    Args:
        model: a fitted model that decodes.
        dataset: the rows that it was fitted to.

    Raises:
        UnsupportedError: the model cannot decode.
    """
    width = len(dataset.feature_names)
    most = max(1, min(MOST_ROWS, MOST_CELLS // width))
    rows = np.arange(0, len(dataset), -(-len(dataset) // most))
    varies = ~Standardiser.fit(dataset.X, list(dataset.feature_names)).constant
    size, column, deviation = np.empty(len(rows)), np.empty(len(rows), np.intp), np.empty(len(rows))
    step = max(1, _CELLS_AT_A_TIME // width)
    for begin in range(0, len(rows), step):
        part = slice(begin, begin + step)
        predicted = model.decode(model.embedding_.mean[rows[part]])
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (dataset.X[rows[part]] - predicted.mean) / np.sqrt(predicted.variance)
        z[:, ~varies] = np.nan
        known = np.isfinite(z)
        filled = np.where(known, z, 0.0)
        counted = known.sum(axis=1)
        size[part] = np.sqrt(np.square(filled).sum(axis=1) / np.where(counted > 0, counted, np.nan))
        column[part] = np.abs(filled).argmax(axis=1)
        deviation[part] = np.take_along_axis(filled, column[part][:, None], axis=1)[:, 0]
    return Residuals(rows, size, column, deviation)
