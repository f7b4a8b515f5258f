"""A typical row of a fit, at which columns are held while others vary. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lvmcore.data.transforms import one_hot_columns
from lvmcore.numerics.array_types import FloatArray

if TYPE_CHECKING:
    from lvmcore.prediction.target_rows import SupervisedRows

__all__ = ["typical_row"]


def typical_row(rows: SupervisedRows) -> FloatArray:
    """The median of each feature in the rows of the fit, or its mode, [H].

    The mode is taken of features with two values, and of one-hot encoded columns as a whole, so
    that exactly one of their features is 1.

    Args:
        rows: rows of the fit and held-out rows.
    """
    X = rows.X[~rows.held_out].to_numpy()
    found = np.median(X, axis=0)
    for column, cells in enumerate(X.T):
        values, counts = np.unique(cells, return_counts=True)
        if len(values) <= 2:
            found[column] = values[counts.argmax()]
    for features in one_hot_columns(rows.dataset).values():
        levels = X[:, features]
        modal = levels.sum(axis=0).argmax()
        if levels[:, modal].any():
            found[list(features)] = np.eye(len(features))[modal]
    return np.asarray(found)
