"""Periods of a target along a column, from its periodogram."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks, lombscargle

from lvmcore.numerics.array_types import FloatArray

__all__ = ["likely_periods"]

# Frequencies for each distinct value of the column, and at most.
OVERSAMPLING, MOST_FREQUENCIES = 5, 20_000
# A period is at most this share of the range, so that the function repeats.
LARGEST_SHARE = 0.6


def likely_periods(x: FloatArray, y: FloatArray, count: int) -> list[float]:
    """The periods of the highest peaks of the Lomb–Scargle periodogram, highest first.

    y is first freed from its quadratic trend. The shortest period is twice the median distance of
    neighbouring values of x.

    Args:
        x: the column, [n].
        y: the target, [n].
        count: number of periods at most.

    Returns:
        Periods in units of x; empty where x has fewer than five different values.
    """
    values: NDArray[np.float64] = np.unique(x)
    if len(values) < 5:
        return []
    extent = values[-1] - values[0]
    place = (x - values.mean()) / extent
    trend = np.polynomial.Polynomial.fit(place, y, 2)
    rest = y - trend(place)
    low = 1 / (LARGEST_SHARE * extent)
    high = 0.5 / float(np.median(np.diff(values)))
    if high <= low or not np.ptp(rest) > 0:
        return []
    n_frequencies = min(MOST_FREQUENCIES, OVERSAMPLING * len(values))
    frequencies = np.linspace(low, high, n_frequencies)
    power = lombscargle(x, rest, 2 * np.pi * frequencies)
    peaks, _ = find_peaks(np.concatenate([[-np.inf], power, [-np.inf]]))
    best = sorted(peaks - 1, key=lambda i: -power[i])[:count]
    return [float(1 / frequencies[i]) for i in best]
