"""Subsamples of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def evenly_spaced(n: int, most: int) -> NDArray[np.intp]:
    """At most ``most`` positions out of n, evenly spaced."""
    return np.arange(0, n, max(1, -(-n // most)))


def sampled_rows(n: int, most: int, seed: int) -> NDArray[np.intp]:
    """At most ``most`` positions out of n, picked at random, in ascending order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
