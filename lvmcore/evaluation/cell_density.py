"""Log probabilities and densities of hidden cells under the likelihoods of their columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.likelihoods.catalogue import LIKELIHOODS, ColumnTerm
from lvmcore.likelihoods.intervals import predictive_log_density
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.row_blocks import row_blocks

__all__ = ["LEAST_PROBABILITY", "cell_log_density", "number_log_density"]

#: Least probability of a level: that of one which the rows of the fit lack is not zero.
LEAST_PROBABILITY = 1e-3


def number_log_density(
    model: LatentVariableModel, X: FloatArray, hidden: NDArray[np.bool_]
) -> FloatArray | None:
    """Log densities of hidden numbers and counts of a model with likelihoods by column.

    Args:
        model: a fitted model.
        X: rows in the units of the fit, [N, D].
        hidden: mask of the hidden cells, from whose row's other cells it predicts, [N, D].

    Returns:
        Log densities in these units, NaN for other cells and levels of a category, [N, D]; None
        for a model without likelihoods by column.
    """
    from lvmcore.gp.columns.cell_density import hidden_log_density
    from lvmcore.gp.columns.likelihood_decoder import LikelihoodDecoder
    from lvmcore.gp.model import GPLatentVariableModel
    from lvmcore.numerics.conversion import to_numpy

    if not isinstance(model, GPLatentVariableModel):
        return None
    decoder = model._decoder
    if not isinstance(decoder, LikelihoodDecoder):
        return None
    standard, found = model._standardiser, np.full(X.shape, np.nan)
    varies = ~standard.constant
    mean, variance = (part.to(decoder.weights) for part in model._fitted_rows())
    for rows in row_blocks(np.flatnonzero(hidden.any(axis=1))):
        Y = model._to_tensor(standard.transform(X[rows])).to(decoder.weights)
        mask = model._to_tensor(hidden[np.ix_(rows, varies)]) > 0
        density = to_numpy(hidden_log_density(decoder, Y, mask, mean, variance))
        found[np.ix_(rows, varies)] = density
    return np.where(hidden, found, np.nan)


def cell_log_density(
    terms: Sequence[ColumnTerm],
    X: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    hidden: NDArray[np.bool_],
    numbers: FloatArray | None = None,
) -> FloatArray:
    """Log probability of each hidden level or count, log density of each hidden number.

    Args:
        terms: the likelihoods of the columns.
        X: rows in the units of the fit; 1 or 0 in the feature of a level, also of a column of two
            values, [N, D].
        mean: predictive means, of levels their probabilities, [N, D].
        variance: predictive variances, noise included, [N, D].
        hidden: mask of the hidden cells; of a category those of its features, [N, D].
        numbers: log densities of the numbers and counts; by default those of distributions with
            these means and variances, as of the intervals.

    Returns:
        One a cell, a category being one: [n].
    """
    if numbers is None:
        numbers = predictive_log_density(terms, X, mean, variance)
    found, begin = [], 0
    for term in terms:
        at = np.arange(begin, begin + term.n_features)
        begin += term.n_features
        rows = np.flatnonzero(hidden[:, at].any(axis=1))
        kind = LIKELIHOODS[term.name].cells
        if kind == "one-hot":
            found.append(_level(mean[np.ix_(rows, at)], X[np.ix_(rows, at)]))
        elif kind == "binary":
            p, is_high = mean[rows][:, at], X[rows][:, at]
            found.append(_level(np.hstack([1 - p, p]), np.hstack([1 - is_high, is_high])))
        else:
            found.append(numbers[rows, at[0]])
    return np.concatenate(found)


def _level(p: FloatArray, X: FloatArray) -> FloatArray:
    """Log probability of the level of each row, of which each has at least a small one.

    A row without a level has one that no row of the fit has.
    """
    p = np.clip(p, LEAST_PROBABILITY, None)
    seen = X.sum(axis=1) > 0
    right = np.where(seen, p[np.arange(len(p)), X.argmax(axis=1)], LEAST_PROBABILITY)
    return np.asarray(np.log(right / p.sum(axis=1)))
