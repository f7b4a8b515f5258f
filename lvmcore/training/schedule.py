"""The learning-rate schedule of a fit, and when its bound has converged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lvmcore.training.bound_trend import BoundTrend

__all__ = ["Schedule"]

# Before a finish: shares of max_iter, and most steps, of the constant phase and of the cooling.
CONSTANT_SHARE, MOST_CONSTANT = 0.4, 300
COOLING_SHARE, MOST_COOLING = 0.2, 150
# A finish has converged when so many steps gain less than so many nats a cell.
OPTIMUM_WINDOW, OPTIMUM_GAIN = 50, 5e-5
# Most steps of a finish that leaves rows out, before these are placed.
MOST_SUBSET = 100
# Most steps in a window of a fit by mini-batches: two epochs of 100,000 rows in batches of 512.
MOST_WINDOW = 400
# Steps between two looks at the trend of a mini-batch fit, whose verdict changes slowly.
TREND_INTERVAL = 20
# Steps of Adam between two relocations of rows.
RELOCATION_INTERVAL = 50


@dataclass(frozen=True)
class Schedule:
    """The phases of a fit: warm-up, a constant learning rate, cooling; and a quasi-Newton finish.

    Without a finish the constant phase ends when the bound is flat, or after ``max_iter`` less the
    cooling steps, and the cooling ends the fit. With a finish the constant phase takes at most
    0.4 of ``max_iter`` and at most 300 steps, the cooling at most 0.2 and 150, and none where the
    bound was flat before; the remaining steps are of the quasi-Newton method. From
    ``max_iter`` = 750 on the phases do not depend on it: a longer fit goes on from the end of a
    shorter one.

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
        finishes: whether a quasi-Newton finish follows; only where the terms are not sampled.
        direct: whether the finish begins at once, without the steps before it.
        optimum_window: steps of the finish that have to gain too little for it to have converged.
        epoch: steps in a pass over the rows; 0 where the bound of a step is no estimate from a
            batch, and for those that are compared by windows all the same.
        relocation: steps between two relocations of rows, of a fit without a finish; 0 for none.
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
    finishes: bool = False
    direct: bool = False
    optimum_window: int = OPTIMUM_WINDOW
    epoch: int = 0
    relocation: int = 0

    @classmethod
    def for_batches(
        cls, max_iter: int, learning_rate: float, cells: int, *, n_rows: int, size: int
    ) -> Schedule:
        """The schedule of a fit by mini-batches of ``size`` rows, whose bound is an estimate.

        Convergence is by the trend of the bound (``BoundTrend``), and a bound has to fall further
        to count as collapsed. A window covers two epochs, in long tables at most 400 steps.
        """
        if size >= n_rows:
            return cls(max_iter, learning_rate, cells)
        return cls(
            max_iter,
            learning_rate,
            cells,
            window=max(2 * cls.window, min(MOST_WINDOW, 2 * (n_rows // size))),
            flat=0.1 * cls.flat,
            collapse=10 * cls.collapse,
            epoch=n_rows // size,
        )

    @classmethod
    def cooling_only(cls, max_iter: int, learning_rate: float, cells: int) -> Schedule:
        """The schedule of a converged fit that continues on other cells: cooling throughout."""
        return cls(max_iter, learning_rate, cells, hold=0, cooling=1.0)

    @property
    def cooling_steps(self) -> int:
        """Number of cooling steps."""
        if self.finishes:
            return max(1, min(MOST_COOLING, round(COOLING_SHARE * self.max_iter)))
        return max(1, round(self.cooling * self.max_iter))

    @property
    def steps_before_cooling(self) -> int:
        """Steps after which the cooling starts, unless the bound is flat earlier."""
        if self.finishes:
            return max(1, min(MOST_CONSTANT, round(CONSTANT_SHARE * self.max_iter)))
        return self.max_iter - self.cooling_steps

    @property
    def is_open(self) -> bool:
        """Whether a fit with more steps goes on from the end of this one."""
        phases = self.steps_before_cooling, self.cooling_steps
        return self.finishes and (self.direct or phases == (MOST_CONSTANT, MOST_COOLING))

    def rate(self, iteration: int, cooling_since: int | None) -> float:
        """The learning rate of a step, counted from 0."""
        rate = self.learning_rate * min(1.0, (iteration + 1) / self.warm_up)
        if cooling_since is not None:
            done = (iteration - cooling_since) / self.cooling_steps
            rate *= max(0.05, 1 - 0.95 * done)
        return rate

    def relocates_before(self, iteration: int) -> bool:
        """Whether rows are relocated before a step, counted from 0."""
        interval = RELOCATION_INTERVAL if self.finishes else self.relocation
        return interval > 0 and iteration > 0 and iteration % interval == 0

    def relocates_after(self, steps: int) -> bool:
        """Whether rows are relocated before the finish, after so many steps: not at once."""
        return self.finishes and steps >= RELOCATION_INTERVAL

    def subset_steps(self, since: int) -> int:
        """Most steps of a finish with a subset of the rows: half of those that are left.

        Args:
            since: steps before the finish.
        """
        return min(MOST_SUBSET, (self.max_iter - since) // 2)

    def steps_left(self, done: int, row_share: float) -> float | None:
        """``FitStep.left``: None where the last step used all rows.

        Args:
            done: number of steps.
            row_share: share of the rows in the last one, which takes as much of the time. Steps of
                a share are followed by those of all rows.
        """
        if row_share == 1:
            return None
        first = self.steps_before_cooling + self.cooling_steps
        last = min(self.max_iter, first + self.subset_steps(first))
        shares = max(0, last - done)
        return shares + (self.max_iter - done - shares) / row_share

    def is_at_optimum(self, bounds: list[float]) -> bool:
        """Whether the quasi-Newton finish has converged.

        Its last ``optimum_window`` steps gained less than 5e-5 nats a cell. As its bound mostly
        rises ever more slowly, after 50 such steps the next 500 mostly gain less than 0.001. Not
        after a saddle: one fit to oil flow of five gained 2e-5 in 50 steps for 250 steps, and then
        0.005.

        Args:
            bounds: the bound after each step of the finish, nats.
        """
        if len(bounds) <= self.optimum_window:
            return False
        return bounds[-1] - bounds[-1 - self.optimum_window] < OPTIMUM_GAIN * self.cells

    @property
    def flat_rate(self) -> float:
        """Nats a step; a bound that rises by less has converged.

        For mini-batches that of the finish, 0.001 nats a cell in 1000 steps.
        """
        if self.epoch:
            return OPTIMUM_GAIN / OPTIMUM_WINDOW * self.cells
        return self.flat * self.cells / self.window

    def is_judged_after(self, iteration: int) -> bool:
        """Whether convergence is judged after a step: after every step, or a trend now and then."""
        return not self.epoch or (iteration + 1) % TREND_INTERVAL == 0

    def trend(self, bounds: list[float]) -> BoundTrend | None:
        """The trend of the bounds of the steps at the full learning rate; None for too few steps.

        The cooling is left out: it raises the bound by itself, as a lower rate scatters the
        parameters less, and this gain comes once, however many steps precede it.
        """
        return BoundTrend.of(bounds[self.hold :], self.epoch) if self.epoch else None

    def has_converged(self, bounds: list[float], rate_factor: float = 1.0) -> bool:
        """Whether more steps at the full learning rate would gain too little.

        For mini-batches if the confidence interval of the trend is between −``flat_rate`` and
        ``flat_rate``, after as many steps as two windows have; else by ``is_flat``. A bound that
        falls has not converged.

        Args:
            bounds: the bound of each step, nats.
            rate_factor: as in ``is_flat``.
        """
        if not self.epoch:
            return self.is_flat(bounds, rate_factor)
        trend = self.trend(bounds)
        if trend is None or len(bounds) < self.hold + 2 * self.window:
            return False
        return max(map(abs, trend.range)) < rate_factor * self.flat_rate

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
