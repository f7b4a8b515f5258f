"""The quasi-Newton finish of a fit: LBFGS on the terms of an objective that is not sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray

from lvmcore.errors import NumericalError
from lvmcore.numerics.lbfgs import Point, Vector
from lvmcore.training.objective import Objective

__all__ = ["QuasiNewtonFinish"]

# Fall of the bound, in nats a cell, that counts as rounding.
SLACK = 1e-5


@dataclass(frozen=True)
class _BoundPoint(Point):
    """Parameters, minus the bound there, and its gradient.

    Attributes:
        terms: the terms of the bound, by name.
    """

    terms: dict[str, float] = field(default_factory=dict)


class QuasiNewtonFinish:
    """Maximises the terms of an objective that is not sampled, and moves its parameters.

    Args:
        objective: at the parameters to start from.
        cells: number of cells that the bound sums over.

    Attributes:
        stalled: whether no step raises the bound beyond rounding, even along its gradient.

    Raises:
        NumericalError: the bound cannot be computed at the start.
    """

    def __init__(self, objective: Objective[Any], cells: int) -> None:
        self.objective, self.vectors = objective, objective.parameter_vectors()
        self.lbfgs = self.vectors.optimiser(SLACK * cells)
        self.stalled = False
        self.at: Point = self.evaluate(self.vectors.position())
        if self.at.gradient is None:
            raise NumericalError(
                "The bound could not be computed at the last step. Try another seed, and look for "
                "columns with extreme values."
            )

    @property
    def terms(self) -> dict[str, float]:
        """The terms at the current parameters, nats, by name."""
        assert isinstance(self.at, _BoundPoint)
        return self.at.terms

    def evaluate(self, x: Vector) -> Point:
        """Minus the bound and its gradient at x [P], an infinite value where it has none.

        It moves the objective's parameters to x.
        """
        self.vectors.move(x)
        x = self.vectors.position()  # rounded, where the parameters are in single precision
        nowhere = _BoundPoint(x, math.inf, None)
        try:
            terms = self.objective.terms()
            value = -torch.stack([term.double() for term in terms.values()]).sum()
            gradient = self.vectors.gradient(value)
        except NumericalError:
            return nowhere
        number = float(value.detach())
        if not math.isfinite(number) or gradient is None:
            return nowhere
        return _BoundPoint(x, number, gradient, {k: float(t.detach()) for k, t in terms.items()})

    def iterate(self) -> None:
        """One iteration: a line search, mostly of one evaluation."""
        steepest = not self.lbfgs.steps
        self.lbfgs.scales = self.vectors.scales(list(self.objective.parameter_scales()))
        found = self.lbfgs.iterate(self.at, self.evaluate)
        self.stalled = found is self.at and steepest
        self.at = found
        self.vectors.move(found.x)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state beside the parameters, for a checkpoint."""
        return {
            "lbfgs.steps": self.vectors.rows(self.lbfgs.steps),
            "lbfgs.changes": self.vectors.rows(self.lbfgs.changes),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state of ``arrays``."""
        self.lbfgs.steps, self.lbfgs.changes = (
            self.vectors.from_rows(arrays[f"lbfgs.{name}"]) for name in ("steps", "changes")
        )
