"""Central intervals of predicted cells, from their mean and variance and the column's likelihood.

The predictive distribution of a cell, y ~ E p(y | f), is taken to be of a family with two moments:
log-normal, Beta and (negative) binomial distributions for columns of these kinds, Gaussian for all
other numbers. For log-normal cells with a Gaussian f it is exact; of shares near 0 or 1 with
an uncertain f the 90 % intervals hold about 86 %. A level of a category has a probability and no
interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.special import betaincinv, ndtri
from scipy.stats import nbinom, poisson

from lvmcore.likelihoods.catalogue import LIKELIHOODS, Cells, ColumnTerm
from lvmcore.numerics.array_types import FloatArray

__all__ = ["predictive_interval"]

_TINY = 1e-12
#: Least excess of a variance over the mean, relative to it, of a negative binomial distribution.
_OVERDISPERSION = 1e-9


def predictive_interval(
    terms: Sequence[ColumnTerm] | None, mean: FloatArray, variance: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Lower and upper ends of the central intervals of cells, [N, D] each.

    Args:
        terms: a likelihood for each column; None where all are Gaussian.
        mean: predictive means in the units of the cells, [N, D]; of a level its probability.
        variance: predictive variances, noise included, [N, D].
        level: probability of the intervals; of counts it is at least this.
    """
    z = float(ndtri(0.5 * (1 + level)))
    reach: FloatArray = z * np.sqrt(variance)
    lower, upper = mean - reach, mean + reach
    begin = 0
    for term in terms or ():
        kind = LIKELIHOODS[term.name].cells
        at = np.s_[..., begin : begin + term.n_features]
        begin += term.n_features
        if kind in _ENDS:
            lower[at] = _ENDS[kind](mean[at], variance[at], 0.5 * (1 - level))
            upper[at] = _ENDS[kind](mean[at], variance[at], 0.5 * (1 + level))
        elif kind in ("binary", "one-hot"):
            lower[at] = upper[at] = mean[at]
    return lower, upper


def _log_normal(mean: FloatArray, variance: FloatArray, p: float) -> FloatArray:
    """exp(μ + z s), s² = log(1 + v/m²) and μ = log m − s²/2."""
    m = np.maximum(mean, _TINY)
    square = np.log1p(variance / m**2)
    found: FloatArray = np.exp(np.log(m) - 0.5 * square + ndtri(p) * np.sqrt(square))
    return found


def _beta(mean: FloatArray, variance: FloatArray, p: float) -> FloatArray:
    """Beta(mν, (1 − m)ν), ν = m(1 − m)/v − 1."""
    m = np.clip(mean, 1e-6, 1 - 1e-6)
    total = np.maximum(m * (1 - m) / np.maximum(variance, _TINY) - 1, 1e-3)
    return np.asarray(betaincinv(m * total, (1 - m) * total, p), dtype=np.float64)


def _count(mean: FloatArray, variance: FloatArray, p: float) -> FloatArray:
    """Negative binomial of size m²/(v − m), or Poisson where v ≤ m."""
    m = np.maximum(mean, _TINY)
    excess = variance - m
    wide = excess > _OVERDISPERSION * m
    size = m**2 / np.where(wide, excess, 1.0)
    found: FloatArray = np.where(
        wide, nbinom.ppf(p, size, size / (size + m)), poisson.ppf(p, m)
    ).astype(np.float64)
    return found


_ENDS: Mapping[Cells, Callable[[FloatArray, FloatArray, float], FloatArray]] = {
    "positive": _log_normal,
    "shares": _beta,
    "counts": _count,
}
