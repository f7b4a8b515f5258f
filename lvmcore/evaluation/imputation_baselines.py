"""Predictions of hidden cells by methods without a latent space, to compare a model with.

All methods see the same left cells, standardised, and predict the same hidden cells. Numbers get a
Gaussian, whose variance is the mean square of the method's own errors on cells that it had not
seen. Levels of a category, and values of a column of 0 and 1, get probabilities.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lvmcore.distributed.independent_calls import IndependentCalls, Look, make_calls
from lvmcore.evaluation.hidden_cells import hide_cells
from lvmcore.numerics.array_types import FloatArray

__all__ = ["CellPredictions", "baseline_predictions"]

#: Neighbours of a row, trees of a forest, fewest rows of a leaf.
NEIGHBOURS, TREES, LEAF = 10, 40, 3
#: Most rows of a tree, and most columns that a split looks at (a third of few columns).
ROWS_OF_A_TREE, MOST_COLUMNS_OF_A_SPLIT = 1000, 30
#: Seed and share of the left cells whose predictions give the variance of nearest neighbours.
SECOND_SEED, SECOND_SHARE = 1, 0.1
# Number of cells as which the pooled variance of all columns counts beside a column's own.
_POOLED_CELLS = 5
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class CellPredictions:
    """Predictions of the cells of a matrix.

    Attributes:
        mean: predictive means, NaN where the method made no prediction, [N, D].
        variance: predictive variances of a cell of each column, [D].
    """

    mean: FloatArray
    variance: FloatArray


def baseline_predictions(
    Y: FloatArray,
    hidden: NDArray[np.bool_],
    targets: Sequence[NDArray[np.intp]],
    *,
    seconds: float,
    check_stop: Callable[[], None] = lambda: None,
) -> dict[str, CellPredictions]:
    """Predictions of hidden cells by each of ``imputation_scores.BASELINES``.

    Column means predict 0 with the variance of the column. Nearest neighbours are the mean of the
    ten nearest rows with the cell, weighted by 1/distance over the cells that both have. The
    forest has 40 trees for each target, from all other columns.

    Args:
        Y: standardised rows, NaN where a cell is missing or hidden, [N, D].
        hidden: the hidden cells, [N, D].
        targets: positions of the columns that are predicted together: one for a number, all
            levels of a category.
        seconds: after this time no further column gets a forest; the columns with the most hidden
            cells come first.
        check_stop: called between two columns; it raises an error to stop.
    """
    began = time.monotonic()
    means = CellPredictions(np.zeros(Y.shape), _variance(Y, np.zeros(Y.shape)))
    neighbours = _neighbours(Y)
    check_stop()
    forest = np.full(Y.shape, np.nan)
    spread = np.full(Y.shape, np.nan)
    order = sorted(targets, key=lambda one: -int(hidden[:, one[0]].sum()))

    def own(target: NDArray[np.intp], look: Look) -> _ForestCells | None:
        if time.monotonic() - began > seconds:
            return None
        check_stop()
        look()
        return _forest(Y, hidden, target)

    def done(place: int, found: _ForestCells | None) -> None:
        if found is not None:
            forest[np.ix_(found.rows, order[place])] = found.predicted
            spread[np.ix_(found.known, order[place])] = found.unseen

    make_calls(IndependentCalls(order, own, lambda: partial(_forest, Y, hidden), done))
    return {
        "means": means,
        "neighbours": neighbours,
        "forest": CellPredictions(forest, _variance(Y, spread)),
    }


def _variance(Y: FloatArray, predicted: FloatArray) -> FloatArray:
    """Mean squares of errors by column, shrunk to that of all columns, [D].

    Args:
        Y: left cells, NaN elsewhere, [N, D].
        predicted: their predictions, NaN where there is none, [N, D].
    """
    squares = np.square(Y - predicted)
    known = ~np.isnan(squares)
    total, cells = np.where(known, squares, 0.0).sum(axis=0), known.sum(axis=0)
    pooled = total.sum() / max(1, cells.sum())
    found = (total + _POOLED_CELLS * pooled) / (cells + _POOLED_CELLS)
    return np.asarray(np.maximum(found, _LEAST_VARIANCE))


def _neighbours(Y: FloatArray) -> CellPredictions:
    """Predictions by nearest neighbours; their errors are those on a further tenth of the cells."""
    from sklearn.impute import KNNImputer

    imputer = KNNImputer(n_neighbors=NEIGHBOURS, weights="distance", keep_empty_features=True).fit(
        Y
    )
    second = hide_cells(Y, SECOND_SHARE, SECOND_SEED)
    less = np.where(second, np.nan, Y)
    again = KNNImputer(n_neighbors=NEIGHBOURS, weights="distance", keep_empty_features=True)
    predicted = np.where(second, again.fit_transform(less), np.nan)
    return CellPredictions(np.asarray(imputer.transform(Y)), _variance(Y, predicted))


@dataclass(frozen=True)
class _ForestCells:
    """Predictions of a target of K columns by a forest.

    Attributes:
        rows: rows with hidden cells, [h].
        predicted: of these, [h, K].
        known: rows with left cells, [n].
        unseen: of these, by the trees that have not seen the row, [n, K].
    """

    rows: NDArray[np.intp]
    predicted: FloatArray
    known: NDArray[np.intp]
    unseen: FloatArray


def _forest(
    Y: FloatArray, hidden: NDArray[np.bool_], target: NDArray[np.intp]
) -> _ForestCells | None:
    """Predict a target by a forest, its left cells out of bag; None of too few cells."""
    from sklearn.ensemble import RandomForestRegressor

    rows = np.flatnonzero(hidden[:, target[0]])
    known = np.flatnonzero(~np.isnan(Y[:, target]).any(axis=1))
    others = np.setdiff1d(np.arange(Y.shape[1]), target)
    if not len(rows) or len(known) < 2 * LEAF or not len(others):
        return None
    others = others[~np.isnan(Y[np.ix_(known, others)]).all(axis=0)]
    if not len(others):
        return None
    forest = RandomForestRegressor(
        n_estimators=TREES,
        min_samples_leaf=LEAF,
        max_features=min(-(-len(others) // 3), MOST_COLUMNS_OF_A_SPLIT),
        max_samples=min(len(known), ROWS_OF_A_TREE),
        oob_score=True,
        random_state=0,
    )
    wanted = Y[np.ix_(known, target)]
    forest.fit(Y[np.ix_(known, others)], wanted[:, 0] if len(target) == 1 else wanted)
    return _ForestCells(
        rows,
        forest.predict(Y[np.ix_(rows, others)]).reshape(len(rows), -1),
        known,
        np.asarray(forest.oob_prediction_).reshape(len(known), -1),
    )
