"""The quasi-Newton finish of a fit: LBFGS on the exact terms of its objective."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import NumericalError
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.lbfgs import LBFGS, Point, stacked
from lvmcore.training.objective import Objective

__all__ = ["QuasiNewtonFinish"]

# Fall of the bound, in nats a cell, that counts as rounding.
SLACK = 1e-5


class QuasiNewtonFinish:
    """Maximises the exact terms of an objective, whose parameters it moves.

    Args:
        objective: at the parameters to start from.
        cells: number of cells that the bound sums over.

    Attributes:
        terms: the terms at the current parameters.

    Raises:
        NumericalError: the bound cannot be computed at the start.
    """

    def __init__(self, objective: Objective[Any], cells: int) -> None:
        self.objective, self.parameters = objective, list(objective.parameters())
        self.lbfgs = LBFGS(SLACK * cells)
        self.terms: dict[str, float] = {}
        self._terms_of: dict[int, dict[str, float]] = {}
        self.stalled = False
        self.at = self._evaluate(self._position())
        if self.at.gradient is None:
            raise NumericalError(
                "The bound could not be computed at the last step. Try another seed, and look for "
                "columns with extreme values."
            )
        self.terms = self._terms_of[id(self.at)]

    def iterate(self) -> None:
        """One iteration: a line search, mostly of one evaluation.

        ``stalled`` is True if no step raises the bound beyond rounding, even along its gradient.
        """
        self._terms_of = {id(self.at): self.terms}
        steepest = not self.lbfgs.steps
        found = self.lbfgs.iterate(self.at, self._evaluate)
        self.stalled = found is self.at and steepest
        self.at, self.terms = found, self._terms_of[id(found)]
        self._move(found.x)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state beside the parameters, for a checkpoint."""
        steps, changes = self.lbfgs.steps, self.lbfgs.changes
        return {
            "lbfgs.steps": to_numpy(stacked(steps, self.at.x)),
            "lbfgs.changes": to_numpy(stacked(changes, self.at.x)),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state of ``arrays``."""
        pairs = (torch.from_numpy(arrays[f"lbfgs.{name}"].copy()) for name in ("steps", "changes"))
        self.lbfgs.steps, self.lbfgs.changes = (list(pair.to(self.at.x)) for pair in pairs)

    def _position(self) -> Tensor:
        """The parameters in one vector, float64."""
        return torch.cat([p.detach().reshape(-1).double() for p in self.parameters])

    @torch.no_grad()
    def _move(self, x: Tensor) -> None:
        parts = torch.split(x, [p.numel() for p in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))

    def _evaluate(self, x: Tensor) -> Point:
        """Minus the bound and its gradient; an infinite value where it cannot be computed."""
        self._move(x)
        x = self._position()  # rounded, where the parameters are in single precision
        nowhere = Point(x, math.inf, None)
        try:
            terms = self.objective.exact_terms()
            value = -torch.stack([term.double() for term in terms.values()]).sum()
            gradients = torch.autograd.grad(value, self.parameters, allow_unused=True)
        except NumericalError:
            return nowhere
        flat = torch.cat(
            [
                (torch.zeros_like(p) if g is None else g).reshape(-1).double()
                for p, g in zip(self.parameters, gradients, strict=True)
            ]
        )
        number = float(value.detach())
        if not math.isfinite(number) or not bool(torch.isfinite(flat).all()):
            return nowhere
        point = Point(x, number, flat)
        self._terms_of[id(point)] = {name: float(t.detach()) for name, t in terms.items()}
        return point
