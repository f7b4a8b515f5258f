"""Nearest rows of a row, on the map and in the data. Pure, exact, over all rows.

The distance on the map is √(Σ_q w_q (x_q − x'_q)²), where w is the relevance of the data path
divided by its largest value. A dimension that the model does not use has no weight, and the unit is
that of the most relevant dimension. A model that cannot decode has no such scale: all its
dimensions have equal weight. The distance in the data is the Euclidean distance of standardised
columns on the scale of the fit; with missing cells, over the columns observed in both rows, scaled
up to all columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.row_blocks import row_blocks
from lvmcore.preprocessing.standardiser import Standardiser

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

__all__ = ["NearestRows", "nearest_in_data", "nearest_on_map", "weights"]


@dataclass(frozen=True)
class NearestRows:
    """The nearest rows of a row.

    Attributes:
        rows: positions of the rows, the nearest first, [k].
        distance: distance of each, [k].
    """

    rows: NDArray[np.intp]
    distance: FloatArray


def weights(model: LatentVariableModel) -> FloatArray:
    """Weight of each latent dimension in distances on the map, 1 for the most relevant, [Q]."""
    found = model.variance_shares()
    share = found.get("data", next(iter(found.values())))
    if not model.capabilities.decoding or not share.max() > 0:
        return np.ones(len(share))
    return np.asarray(share / share.max())


def nearest_on_map(model: LatentVariableModel, row: int, most: int) -> NearestRows:
    """The rows with the nearest latent means.

    Args:
        model: a fitted model.
        row: position of the row.
        most: number of rows to find.
    """
    mean = model.embedding_.mean
    squared = np.square(mean - mean[row]) @ weights(model)
    return _nearest(np.sqrt(squared), row, most)


def nearest_in_data(X: FloatArray, standard: Standardiser, row: int, most: int) -> NearestRows:
    """The rows with the nearest cells.

    Args:
        X: cells on the scale of the fit, NaN where missing, [N, D].
        standard: means and scales of the columns.
        row: position of the row.
        most: number of rows to find; rows without a common observed column are left out.
    """
    varying = ~standard.constant
    own, scale = X[row, varying], standard.scale[varying]
    squared = np.empty(len(X))
    at = 0
    for block in row_blocks(X):
        difference = (block[:, varying] - own) / scale
        both = np.isfinite(difference)
        sums = np.einsum("nd,nd->n", *[np.where(both, difference, 0.0)] * 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            squared[at : at + len(block)] = sums * (varying.sum() / both.sum(axis=1))
        at += len(block)
    return _nearest(np.sqrt(squared), row, most)


def _nearest(distance: FloatArray, row: int, most: int) -> NearestRows:
    """The nearest rows without the row itself; ties in the order of the rows."""
    distance = np.where(np.isnan(distance), np.inf, distance)
    distance[row] = np.inf
    order = np.argsort(distance, kind="stable")[:most]
    order = order[np.isfinite(distance[order])]
    return NearestRows(order, distance[order])
