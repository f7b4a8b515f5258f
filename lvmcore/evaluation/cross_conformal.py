"""Cross-conformal prediction intervals: CV+ and the jackknife+ (Barber and others 2021).

With the prediction μ_{−i} of a method that has not seen row i, or the fold of row i, and the
residuals R_i = |y_i − μ_{−i}(x_i)| of N rows, the interval of a new row x at the level 1 − α is

    [ q⁻_α of μ_{−i}(x) − R_i,  q⁺_α of μ_{−i}(x) + R_i ],

q⁻ the ⌊α(N + 1)⌋-th smallest of the N values, q⁺ the ⌈(1 − α)(N + 1)⌉-th. For exchangeable rows it
holds the target with a probability of at least 1 − 2α (of K folds less at most 1/K), whatever the
method, and usually of about 1 − α.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lvmcore.numerics.array_types import FloatArray

__all__ = ["LeftOutPredictions", "conformal_interval"]

# Values in a block of new rows; bounds memory, does not change results.
_CELLS = 1 << 22


@dataclass(frozen=True)
class LeftOutPredictions:
    """Predictions of new rows by averages of methods that have not seen a row, one for each row.

    Attributes:
        residuals: R_i of the rows of the fit, [N]; NaN of a row that every method has seen.
        predictions: of the new rows by each of B methods, [B, n].
        unseen: whether a method counts for μ_{−i}, [N, B]; μ_{−i} is the mean of these.
    """

    residuals: FloatArray
    predictions: FloatArray
    unseen: NDArray[np.bool_]

    @classmethod
    def of_folds(
        cls, residuals: FloatArray, folds: NDArray[np.intp], predictions: FloatArray
    ) -> LeftOutPredictions:
        """Of methods fitted without one fold each.

        Args:
            residuals: [N], NaN of the rows of a fold without a method.
            folds: the fold of each row, [N]; −1 of a fold without a method.
            predictions: of the method of each fold, [K, n].
        """
        return cls(residuals, predictions, folds[:, None] == np.arange(len(predictions)))


def conformal_interval(left_out: LeftOutPredictions, level: float) -> tuple[FloatArray, FloatArray]:
    """Ends of the intervals of the new rows, [n] each; infinite where the rows are too few.

    Args:
        left_out: the predictions.
        level: 1 − α, in (0, 1).
    """
    known = np.isfinite(left_out.residuals) & left_out.unseen.any(1)
    residuals, unseen = left_out.residuals[known, None], left_out.unseen[known]
    N, n = len(residuals), left_out.predictions.shape[1]
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    # Rounded first, as 0.1 · 10 can be below 1 in floating-point numbers.
    rank = math.floor(round((1 - level) * (N + 1), 9))  # the upper one is N + 1 − rank
    if rank < 1:
        return low, high
    shares = unseen / unseen.sum(1, keepdims=True)
    size = max(1, _CELLS // N)
    for begin in range(0, n, size):
        block = slice(begin, begin + size)
        means = shares @ left_out.predictions[:, block]
        low[block] = np.partition(means - residuals, rank - 1, axis=0)[rank - 1]
        high[block] = np.partition(means + residuals, N - rank, axis=0)[N - rank]
    return low, high
