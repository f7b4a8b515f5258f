"""How much of each column the positions on a displayed map explain. Pure."""

from __future__ import annotations

import numpy as np

from app.analysis.map import subsampling
from lvmcore.numerics.array_types import FloatArray

__all__ = ["NEIGHBOURS", "column_smoothness"]

NEIGHBOURS = 10
#: Most rows that are compared, evenly spaced.
_MOST_ROWS = 3000


def column_smoothness(points: FloatArray, X: FloatArray) -> FloatArray:
    """R² of each column given its mean over the nearest rows of the map, [D].

    1 − Σ (x − x̂)² / Σ (x − x̄)², where x̂ is the mean of the ``NEIGHBOURS`` nearest other rows. It is
    1 for a column that varies smoothly over the map, and about −1/``NEIGHBOURS`` for one that the
    map does not show. NaN for a column with fewer than three known cells, or without variance.

    Args:
        points: displayed positions of the rows, [N, 2].
        X: the columns, NaN where missing, [N, D].
    """
    from sklearn.neighbors import NearestNeighbors

    shown = subsampling.evenly_spaced(len(points), _MOST_ROWS)
    points, X = points[shown], X[shown]
    if len(points) < 3:
        return np.full(X.shape[1], np.nan)
    search = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(points) - 1)).fit(points)
    nearest = search.kneighbors(return_distance=False)  # without the row itself
    known = np.isfinite(X)
    filled = np.where(known, X, 0.0)
    number = known[nearest].sum(axis=1)
    predicted = filled[nearest].sum(axis=1) / np.maximum(number, 1)
    compared = known & (number > 0)
    count = compared.sum(axis=0)
    centre = np.where(compared, filled, 0.0).sum(axis=0) / np.maximum(count, 1)
    error = (np.where(compared, filled - predicted, 0.0) ** 2).sum(axis=0)
    total = (np.where(compared, filled - centre, 0.0) ** 2).sum(axis=0)
    varies = (count > 2) & (total > 1e-12 * np.maximum(centre**2, 1e-300) * count)
    found: FloatArray = np.where(varies, 1.0 - error / np.where(varies, total, 1.0), np.nan)
    return found
