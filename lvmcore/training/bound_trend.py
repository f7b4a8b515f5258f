"""Trend of a bound that is estimated from mini-batches, by its averages over blocks of steps.

The bound of a step is an estimate from a batch. Averages over long blocks of steps are nearly
independent, however successive steps are correlated (the method of batch means, Schmeiser 1982,
Operations Research 30), and those over whole passes do not depend on which rows a batch has. A
straight line through the averages of the later half of the steps gives the rise of the bound a
step, and their scatter about it the standard error of an average, and so that of the rise.
Curvature counts as scatter: the error is rather too large than too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

__all__ = ["BoundTrend"]

BLOCKS = 10
# Quantile of Student's t at 0.975 with BLOCKS − 2 degrees of freedom.
QUANTILE = 2.306


@dataclass(frozen=True)
class BoundTrend:
    """Rise of a noisy bound over the later half of some steps.

    Attributes:
        rise: of the bound a step, nats.
        error: standard error of ``rise``, nats.
    """

    rise: float
    error: float

    @classmethod
    def of(cls, bounds: Sequence[float], epoch: int = 1) -> Self | None:
        """From the bounds of successive steps; None for too few of them.

        Args:
            bounds: the bound of each step, nats.
            epoch: steps in a pass over the rows; a block at least as long is of whole passes.
        """
        later = np.asarray(bounds[len(bounds) // 2 :], dtype=np.float64)
        length = len(later) // BLOCKS
        if length > epoch:
            length -= length % epoch
        if length < 1:
            return None
        averages = later[-BLOCKS * length :].reshape(BLOCKS, length).mean(1)
        steps = length * (np.arange(BLOCKS) - 0.5 * (BLOCKS - 1))
        rise = float(steps @ averages / (steps @ steps))
        residuals = averages - averages.mean() - rise * steps
        error_of_average = np.sqrt(residuals @ residuals / (BLOCKS - 2))
        return cls(rise, float(error_of_average / np.sqrt(steps @ steps)))

    @property
    def range(self) -> tuple[float, float]:
        """The 95 % confidence interval of ``rise``, nats a step."""
        half = QUANTILE * self.error
        return self.rise - half, self.rise + half
