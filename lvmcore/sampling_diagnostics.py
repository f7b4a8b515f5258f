"""Whether Markov chains agree, and what their draws are worth (Vehtari et al. 2021)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

__all__ = ["Diagnosis", "diagnose", "effective_sample_size", "split_r_hat"]

FloatArray = NDArray[np.float64]

#: Draws of a half of a chain below which nothing is told.
_FEWEST = 4


class Diagnosis(NamedTuple):
    """How far the draws of one quantity can be trusted; NaN where they do not tell.

    Attributes:
        r_hat: 1 where the halves of all chains agree; beyond 1.05 they do not.
        ess: so many independent draws would tell its mean as well.
    """

    r_hat: float
    ess: float


def diagnose(draws: FloatArray) -> Diagnosis:
    """Rank-normalised split R̂, the larger of bulk and tail, and the bulk effective sample size.

    Args:
        draws: of one quantity, [chains, draws].

    Returns:
        NaN where there are fewer than 8 draws a chain, or all draws are the same.
    """
    halves = _split(draws)
    if halves.shape[1] < _FEWEST or np.ptp(halves) == 0:
        return Diagnosis(np.nan, np.nan)
    bulk = _normal_scores(halves)
    folded = np.abs(halves - np.median(halves))
    tail = split_r_hat(_normal_scores(folded)) if np.ptp(folded) > 0 else -np.inf
    return Diagnosis(max(split_r_hat(bulk), tail), effective_sample_size(bulk))


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

    The autocorrelations of all chains together are summed in pairs as long as a pair is positive,
    each at most as large as the one before (Geyer 1992).
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
    """Both halves of each chain as chains, the middle draw of an odd number left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _normal_scores(draws: FloatArray) -> FloatArray:
    """Φ⁻¹((rank − 3/8)/(S + 1/4)) of each draw among all."""
    ranks = rankdata(draws, method="average").reshape(draws.shape)
    return np.asarray(norm.ppf((ranks - 0.375) / (draws.size + 0.25)))


def _autocovariance(chains: FloatArray) -> FloatArray:
    """Of each chain at every lag, divided by n, [chains, n]."""
    n = chains.shape[1]
    away = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.square(np.abs(np.fft.rfft(away, 2 * n, axis=1)))
    return np.asarray(np.fft.irfft(spectrum, 2 * n, axis=1)[:, :n] / n)
