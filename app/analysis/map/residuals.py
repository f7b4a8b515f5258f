"""Standardised residual of each row. Pure.

The residual of a row with latent mean μ is √(mean over columns of ((y − m(μ)) / s(μ))²), where m
and s are the predictive mean and sd, noise included, at μ on the scale of the fit. Missing cells
and constant columns are left out. The expected value is about 1 for a new row sampled from the
model, and lower for the rows of the fit, whose latent positions were fitted to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lvmcore.data import Dataset
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.standardiser import Standardiser

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

__all__ = ["MOST_CELLS", "MOST_ROWS", "Residuals", "residuals"]


#: Most rows, and most cells, to decode; rows of larger tables are subsampled evenly.
MOST_ROWS, MOST_CELLS = 10_000, 2_000_000
_CELLS_PER_BLOCK = 500_000


@dataclass(frozen=True)
class Residuals:
    """Standardised residuals of rows.

    Attributes:
        rows: positions of the measured rows, [n].
        size: standardised residual of each, NaN for a row without a usable cell, [n].
        column: position of the column with the largest deviation in each row, [n].
        deviation: deviation of that cell from its reconstruction, in predictive sd, [n].
    """

    rows: NDArray[np.intp]
    size: FloatArray
    column: NDArray[np.intp]
    deviation: FloatArray

    def worst(self, most: int) -> NDArray[np.intp]:
        """Positions in ``rows`` of the largest residuals, the largest first."""
        order = np.argsort(-self.size, kind="stable")
        return order[~np.isnan(self.size[order])][:most]


def residuals(model: LatentVariableModel, dataset: Dataset) -> Residuals:
    """Standardised residuals of the rows of a fit.

    Args:
        model: a fitted model that decodes.
        dataset: the rows of the fit.

    Raises:
        UnsupportedError: the model cannot decode.
    """
    width = len(dataset.feature_names)
    most = max(1, min(MOST_ROWS, MOST_CELLS // width))
    rows = np.arange(0, len(dataset), -(-len(dataset) // most))
    varies = ~Standardiser.fit(dataset.X, list(dataset.feature_names)).constant
    size, column, deviation = np.empty(len(rows)), np.empty(len(rows), np.intp), np.empty(len(rows))
    step = max(1, _CELLS_PER_BLOCK // width)
    for first_row in range(0, len(rows), step):
        part = slice(first_row, first_row + step)
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
