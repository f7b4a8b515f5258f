"""Intervals and densities of predicted cells, from mean, variance and the column's likelihood.

The predictive distribution of a cell, y ~ E p(y | f), is taken to be of a family with two moments:
log-normal, Beta and (negative) binomial distributions for columns of these kinds, Gaussian for all
other numbers. For log-normal cells with a Gaussian f it is exact; of shares near 0 or 1 with
an uncertain f the 90 % intervals hold about 86 %. A level of a category has a probability and no
interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri
from scipy.stats import beta, lognorm, nbinom, norm, poisson

from lvmcore.likelihoods.catalogue import LIKELIHOODS, Cells, ColumnTerm
from lvmcore.numerics.array_types import FloatArray

__all__ = ["predictive_interval", "predictive_log_density"]

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


def predictive_log_density(
    terms: Sequence[ColumnTerm], cells: FloatArray, mean: FloatArray, variance: FloatArray
) -> FloatArray:
    """Log densities of numbers and log probabilities of counts, [N, D]; NaN for levels.

    Args:
        terms: a likelihood for each column.
        cells: the numbers and counts, [N, D].
        mean: predictive means in the units of the cells, [N, D].
        variance: predictive variances, noise included, [N, D].
    """
    found, begin = np.full(cells.shape, np.nan), 0
    for term in terms:
        kind = LIKELIHOODS[term.name].cells
        at = np.s_[..., begin : begin + term.n_features]
        begin += term.n_features
        if kind not in ("binary", "one-hot"):
            found[at] = _log_density(kind, cells[at], mean[at], variance[at])
    return found


def _log_density(kind: Cells, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    if kind == "positive":
        m, s = _log_normal_parameters(mean, variance)
        found = lognorm.logpdf(y, s, scale=np.exp(m))
    elif kind == "shares":
        found = beta.logpdf(y, *_beta_shapes(mean, variance))
    elif kind == "counts":
        m, size, wide = _count_parameters(mean, variance)
        found = np.where(wide, nbinom.logpmf(y, size, size / (size + m)), poisson.logpmf(y, m))
    else:
        found = norm.logpdf(y, mean, np.sqrt(variance))
    return np.asarray(found, dtype=np.float64)


def _log_normal(mean: FloatArray, variance: FloatArray, p: float) -> FloatArray:
    """exp(μ + z s)."""
    m, s = _log_normal_parameters(mean, variance)
    found: FloatArray = np.exp(m + ndtri(p) * s)
    return found


def _log_normal_parameters(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """μ = log m − s²/2 and s, s² = log(1 + v/m²)."""
    m = np.maximum(mean, _TINY)
    square = np.log1p(variance / m**2)
    return np.log(m) - 0.5 * square, np.sqrt(square)


def _beta(mean: FloatArray, variance: FloatArray, p: float) -> FloatArray:
    """Quantile of the Beta distribution."""
    return np.asarray(betaincinv(*_beta_shapes(mean, variance), p), dtype=np.float64)


def _beta_shapes(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """mν and (1 − m)ν, ν = m(1 − m)/v − 1."""
    m = np.clip(mean, 1e-6, 1 - 1e-6)
    total = np.maximum(m * (1 - m) / np.maximum(variance, _TINY) - 1, 1e-3)
    return m * total, (1 - m) * total


def _count(mean: FloatArray, variance: FloatArray, p: float) -> FloatArray:
    """Quantile of a negative binomial or Poisson distribution."""
    m, size, wide = _count_parameters(mean, variance)
    found: FloatArray = np.where(
        wide, nbinom.ppf(p, size, size / (size + m)), poisson.ppf(p, m)
    ).astype(np.float64)
    return found


def _count_parameters(
    mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """m, the size m²/(v − m) of a negative binomial, and False where v ≤ m: Poisson."""
    m = np.maximum(mean, _TINY)
    excess = variance - m
    wide = excess > _OVERDISPERSION * m
    return m, m**2 / np.where(wide, excess, 1.0), wide


_ENDS: Mapping[Cells, Callable[[FloatArray, FloatArray, float], FloatArray]] = {
    "positive": _log_normal,
    "shares": _beta,
    "counts": _count,
}
