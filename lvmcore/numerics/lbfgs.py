"""Limited-memory BFGS for one large smooth problem whose values carry rounding errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

__all__ = ["LBFGS", "Point", "Vector"]

#: Pairs of steps and gradient changes that the inverse Hessian is built from at most, and the
#: largest size of all of them, bytes.
MOST_PAIRS, MOST_PAIR_BYTES = 20, 1 << 28
#: Conditions on a step t with slope φ'(t): the decrease of the value, and the share of the first
#: slope that may remain.
DECREASE, CURVATURE = 0.1, 0.9
#: Evaluations of a line search at most, and how far a step grows while the slope stays steep.
MOST_TRIALS, GROWTH = 12, 4.0
#: A fall of the value beyond so many times the steeper slope is a rounding error.
MOST_FALL = 2.0
#: Share of the bracket by which a trial stays off its ends.
MARGIN = 0.1


@runtime_checkable
class Vector(Protocol):
    """A vector [P]: a float64 tensor, or one whose parts are elsewhere."""

    def __add__(self, other: Any, /) -> Any:
        """The sum with a vector."""

    def __sub__(self, other: Any, /) -> Any:
        """The difference from a vector."""

    def __neg__(self) -> Any:
        """The vector of opposite sign."""

    def __rmul__(self, factor: Any, /) -> Any:
        """A multiple."""

    def __matmul__(self, other: Any, /) -> Any:
        """The inner product with a vector, []."""

    def __len__(self) -> int:
        """P."""


@dataclass(frozen=True)
class Point:
    """A point of the problem.

    Attributes:
        x: [P].
        value: f(x); infinite where it cannot be computed.
        gradient: [P]; None where the value is infinite.
    """

    x: Vector
    value: float
    gradient: Vector | None


#: x [P] → its point.
Evaluate = Callable[[Vector], Point]


@dataclass
class LBFGS:
    """Minimisation by the two-loop recursion (Nocedal 1980) with a tolerant line search.

    A step is accepted where the value falls enough and the slope has flattened (Wolfe); or, within
    rounding errors of the values, where the slopes say so: (2δ − 1) φ'(0) ≥ φ'(t) ≥ σ φ'(0) with
    φ(t) ≤ φ(0) + ``slack`` (the approximate Wolfe conditions of Hager and Zhang 2005). Gradients
    are accurate where differences of values are lost in rounding. A value that falls by more than
    twice what the slopes at both ends explain is wrong, and the step is shortened.

    Attributes:
        slack: rise of the value that counts as rounding.
        steps: the last steps, oldest first, [P] each.
        changes: the change of the gradient over each of them, [P] each.
        scales: of each coordinate, [P]: the inverse Hessian that the pairs correct is proportional
            to the diagonal matrix of their squares; None for the identity.
    """

    slack: float
    steps: list[Vector] = field(default_factory=list)
    changes: list[Vector] = field(default_factory=list)
    scales: Vector | None = None

    def iterate(self, at: Point, evaluate: Evaluate) -> Point:
        """The next point: one line search.

        It is ``at`` itself where no step lowers the value: the pairs are then dropped, and
        without pairs the problem is solved as far as rounding allows.

        Args:
            at: the current point, its value finite.
            evaluate: evaluates the problem.
        """
        assert at.gradient is not None
        direction = -self._inverse_hessian_product(at.gradient)
        slope = float(direction @ at.gradient)
        if not slope < 0:
            self.forget()
            direction = -self._scaled(at.gradient)
            slope = float(direction @ at.gradient)
        if slope == 0:
            return at
        step = 1.0 if self.steps else min(1.0, 1 / math.sqrt(-slope))
        found = self._search(at, direction, slope, evaluate, step)
        if found is None:
            self.forget()
            return at
        self._update(at, found)
        return found

    def forget(self) -> None:
        """Drop the pairs: the next direction is that of steepest descent."""
        self.steps.clear()
        self.changes.clear()

    def _inverse_hessian_product(self, gradient: Any) -> Any:
        """H g, [P], H the inverse Hessian that the pairs determine."""
        product, shares = gradient.clone(), []
        pairs: list[tuple[Any, Any]] = list(zip(self.steps, self.changes, strict=True))
        for s, y in reversed(pairs):
            share = float(s @ product) / float(s @ y)
            shares.append(share)
            product -= share * y
        product = self._scaled(product)
        if pairs:
            s, y = pairs[-1]
            product *= float(s @ y) / float(y @ self._scaled(y))
        for (s, y), share in zip(pairs, reversed(shares), strict=True):
            product += (share - float(y @ product) / float(s @ y)) * s
        return product

    def _scaled(self, gradient: Any) -> Any:
        """The gradient times the squares of the scales, [P]."""
        scales: Any = self.scales
        return gradient if scales is None else gradient * scales.square()

    def _search(
        self, at: Point, direction: Any, slope: float, evaluate: Evaluate, step: float
    ) -> Point | None:
        """A point along a direction; None where none is lower.

        The bracket's lower end has a low value and falls; its upper end rises or is too high.
        """
        low, low_slope = 0.0, slope
        high, high_slope = math.inf, math.nan
        best: Point | None = None
        for _ in range(MOST_TRIALS):
            point = evaluate(at.x + step * direction)
            found = math.nan if point.gradient is None else float(point.gradient @ direction)
            most = MOST_FALL * step * max(-slope, -found) + self.slack
            if point.gradient is None or at.value - point.value > most:
                high, high_slope = step, math.nan
                step = low + MARGIN * (high - low)
                continue
            near = point.value <= at.value + self.slack
            lower = point.value <= at.value + DECREASE * step * slope
            if lower or (near and found <= (2 * DECREASE - 1) * slope):
                best = point
                if found >= CURVATURE * slope:
                    return point
            if found >= 0 or not near:
                high, high_slope = step, found if found > 0 else math.nan
            else:
                low, low_slope = step, found
            step = _next_step(low, low_slope, high, high_slope)
        return best

    def _update(self, before: Point, after: Point) -> None:
        """Add the pair of a step, unless the function is not convex along it."""
        assert before.gradient is not None
        assert after.gradient is not None
        s, y = after.x - before.x, after.gradient - before.gradient
        if float(s @ y) <= 1e-10 * float(s.norm() * y.norm()):
            return
        self.steps.append(s)
        self.changes.append(y)
        most = max(3, min(MOST_PAIRS, MOST_PAIR_BYTES // (16 * len(s))))
        del self.steps[:-most], self.changes[:-most]


def _next_step(low: float, low_slope: float, high: float, high_slope: float) -> float:
    """The next trial: beyond a bracket that is open, else where the slope's secant is 0."""
    if math.isinf(high):
        return GROWTH * low
    share = 0.3 if math.isnan(high_slope) else -low_slope / (high_slope - low_slope)
    return low + min(1 - MARGIN, max(MARGIN, share)) * (high - low)
