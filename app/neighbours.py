"""The rows nearest to a row, on the map and among the data. Pure, exact, over all rows.

On the map the distance is √(Σ_q w_q (x_q − x'_q)²) with w the relevance of the data path divided by
its largest, so that a dimension the model does not use does not count; it is in units of the most
relevant dimension. A map that its model cannot decode has no such scale, and every dimension of it
counts alike. Among the data it is the Euclidean distance of standardised columns, on the scale
that was learned; where cells are missing, over the columns that both rows have, scaled up to all
of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lvmcore.blocks import blocks
from lvmcore.relevance import shares
from lvmcore.standardise import Standardiser

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel

__all__ = ["Near", "among_data", "on_map", "weights"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Near:
    """Rows near another row.

    Attributes:
        rows: their positions, the nearest first, [k].
        distance: of each, [k].
    """

    rows: NDArray[np.intp]
    distance: FloatArray


def weights(model: LatentVariableModel) -> FloatArray:
    """What each latent dimension counts in a distance on the map, the most relevant one 1, [Q]."""
    found = shares(model.relevance_)
    share = found.get("data", next(iter(found.values())))
    if not model.capabilities.decoding or not share.max() > 0:
        return np.ones(len(share))
    return np.asarray(share / share.max())


def on_map(model: LatentVariableModel, row: int, most: int) -> Near:
    """The rows whose latent means are nearest to that of a row.

    Args:
        model: a fitted model.
        row: position of the row.
        most: how many to find.
    """
    mean = model.embedding_.mean
    squared = np.square(mean - mean[row]) @ weights(model)
    return _nearest(np.sqrt(squared), row, most)


def among_data(X: FloatArray, standard: Standardiser, row: int, most: int) -> Near:
    """The rows whose cells are nearest to those of a row.

    Args:
        X: on the scale that was learned, NaN where missing, [N, D].
        standard: its columns' means and scales.
        row: position of the row.
        most: how many to find; fewer where other rows share no column with it.
    """
    keep = ~standard.constant
    own, scale = X[row, keep], standard.scale[keep]
    squared = np.empty(len(X))
    at = 0
    for block in blocks(X):
        difference = (block[:, keep] - own) / scale
        both = np.isfinite(difference)
        sums = np.einsum("nd,nd->n", *[np.where(both, difference, 0.0)] * 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            squared[at : at + len(block)] = sums * (keep.sum() / both.sum(axis=1))
        at += len(block)
    return _nearest(np.sqrt(squared), row, most)


def _nearest(distance: FloatArray, row: int, most: int) -> Near:
    """The nearest rows but the row itself; equal distances in the order of the rows."""
    distance = np.where(np.isnan(distance), np.inf, distance)
    distance[row] = np.inf
    order = np.argsort(distance, kind="stable")[:most]
    order = order[np.isfinite(distance[order])]
    return Near(order, distance[order])
