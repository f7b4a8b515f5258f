"""Convergence of Markov chains: split R̂ and effective sample size (Vehtari et al. 2021)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from lvmcore.numerics.array_types import FloatArray

__all__ = ["ChainDiagnostics", "chain_diagnostics", "effective_sample_size", "split_r_hat"]


#: Draws of half a chain that a diagnostic needs at least.
_MIN_DRAWS = 4


class ChainDiagnostics(NamedTuple):
    """Diagnostics of one quantity; NaN if there are too few draws.

    Attributes:
        r_hat: 1 if the halves of all chains agree; above 1.05 they do not.
        ess: number of independent draws with the same accuracy of the mean.
    """

    r_hat: float
    ess: float


def chain_diagnostics(draws: FloatArray) -> ChainDiagnostics:
    """Rank-normalised split R̂, the larger of bulk and tail, and the bulk effective sample size.

    Args:
        draws: of one quantity, [chains, draws].

    Returns:
        NaN for fewer than 8 draws per chain, or if all draws are equal.
    """
    halves = _split(draws)
    if halves.shape[1] < _MIN_DRAWS or np.ptp(halves) == 0:
        return ChainDiagnostics(np.nan, np.nan)
    bulk = _normal_scores(halves)
    folded = np.abs(halves - np.median(halves))
    tail = split_r_hat(_normal_scores(folded)) if np.ptp(folded) > 0 else -np.inf
    return ChainDiagnostics(max(split_r_hat(bulk), tail), effective_sample_size(bulk))


def split_r_hat(halves: FloatArray) -> float:
    """√(((n − 1)/n W + B/n)/W), W and B/n the variances within and between [chains, n]."""
    n = halves.shape[1]
    within = float(halves.var(axis=1, ddof=1).mean())
    between = float(halves.mean(axis=1).var(ddof=1))
    if within == 0:
        return np.inf
    return float(np.sqrt((n - 1) / n + between / within))


def effective_sample_size(halves: FloatArray) -> float:
    """Number of draws over the integrated autocorrelation time of chains [chains, n].

    Autocorrelations of all chains together are summed in pairs up to the first negative pair, each
    pair at most as large as the previous one (Geyer 1992).
    """
    chains, n = halves.shape
    covariance = _autocovariance(halves)
    within = float(covariance[:, 0].mean()) * n / (n - 1)
    plus = within * (n - 1) / n
    if chains > 1:
        plus += float(halves.mean(axis=1).var(ddof=1))
    rho = 1 - (within - covariance.mean(axis=0) * n / (n - 1)) / plus
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = pairs[: negative[0]] if len(negative) else pairs
    time = -1 + 2 * float(np.minimum.accumulate(pairs).sum())
    total = chains * n
    return float(total / max(time, 1 / np.log10(total)))


def _split(draws: FloatArray) -> FloatArray:
    """Both halves of each chain as chains, without the middle draw of an odd number."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _normal_scores(draws: FloatArray) -> FloatArray:
    """Φ⁻¹((rank − 3/8)/(S + 1/4)) of each draw among all."""
    ranks = rankdata(draws, method="average").reshape(draws.shape)
    return np.asarray(norm.ppf((ranks - 0.375) / (draws.size + 0.25)))


def _autocovariance(chains: FloatArray) -> FloatArray:
    """Autocovariance of each chain at every lag, divided by n, [chains, n]."""
    n = chains.shape[1]
    away = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.square(np.abs(np.fft.rfft(away, 2 * n, axis=1)))
    return np.asarray(np.fft.irfft(spectrum, 2 * n, axis=1)[:, :n] / n)
