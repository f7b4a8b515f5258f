"""The learning-rate schedule of a fit, and when its bound has converged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule:
    """Adam's learning rate: linear warm-up, a constant phase, linear cooling.

    The constant phase ends when the bound is flat, or after ``max_iter`` less the cooling steps.

    Attributes:
        max_iter: steps at most.
        learning_rate: of the constant phase.
        cells: number of cells that the bound sums over, its scale.
        warm_up: steps in which the rate grows linearly.
        hold: steps in which ``Objective.frozen_in_warm_up`` is not updated.
        window: steps over which the bound is averaged to decide whether it is flat.
        flat: nats per cell; a smaller gain from window to window counts as flat.
        collapse: nats per cell; a bound this far below its best has collapsed.
        cooling: share of ``max_iter`` in which the rate falls linearly to a twentieth.
    """

    max_iter: int
    learning_rate: float
    cells: int
    warm_up: int = 10
    hold: int = 30
    window: int = 40
    flat: float = 1e-3
    collapse: float = 0.1
    cooling: float = 0.4

    @classmethod
    def for_batches(
        cls, max_iter: int, learning_rate: float, cells: int, *, n_rows: int, size: int
    ) -> Schedule:
        """The schedule of a fit by mini-batches of ``size`` rows, whose bound is an estimate.

        A window covers at least two epochs, less gain counts as flat, and a bound has to fall
        further to count as collapsed.
        """
        if size >= n_rows:
            return cls(max_iter, learning_rate, cells)
        return cls(
            max_iter,
            learning_rate,
            cells,
            window=max(2 * cls.window, 2 * (n_rows // size)),
            flat=0.1 * cls.flat,
            collapse=10 * cls.collapse,
        )

    @classmethod
    def cooling_only(cls, max_iter: int, learning_rate: float, cells: int) -> Schedule:
        """The schedule of a converged fit that continues on other cells: cooling throughout."""
        return cls(max_iter, learning_rate, cells, hold=0, cooling=1.0)

    @property
    def cooling_steps(self) -> int:
        """Number of cooling steps."""
        return max(1, round(self.cooling * self.max_iter))

    @property
    def steps_before_cooling(self) -> int:
        """Steps after which the cooling starts, unless the bound is flat earlier."""
        return self.max_iter - self.cooling_steps

    def rate(self, iteration: int, cooling_since: int | None) -> float:
        """The learning rate of a step, counted from 0."""
        rate = self.learning_rate * min(1.0, (iteration + 1) / self.warm_up)
        if cooling_since is not None:
            done = (iteration - cooling_since) / self.cooling_steps
            rate *= max(0.05, 1 - 0.95 * done)
        return rate

    def is_flat(self, bounds: list[float], rate_factor: float = 1.0) -> bool:
        """Whether the mean bound of the last window gained too little on the window before.

        Args:
            bounds: the bound of each step, nats.
            rate_factor: by which the learning rate was cut; the gain required is cut as much.
        """
        w = self.window
        if len(bounds) < self.hold + 2 * w:
            return False
        gain = float(np.mean(bounds[-w:]) - np.mean(bounds[-2 * w : -w]))
        return gain < rate_factor * self.flat * self.cells
