"""The quasi-Newton finish of a fit: LBFGS on the terms of an objective that is not sampled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import NumericalError
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.lbfgs import LBFGS, Point
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
        self.objective, self.parameters = objective, list(objective.parameters())
        self.lbfgs = LBFGS(SLACK * cells)
        self.stalled = False
        self.at: Point = self.evaluate(self._position())
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

    def evaluate(self, x: Tensor) -> Point:
        """Minus the bound and its gradient at x [P], an infinite value where it has none.

        It moves the objective's parameters to x.
        """
        self._move(x)
        x = self._position()  # rounded, where the parameters are in single precision
        nowhere = _BoundPoint(x, math.inf, None)
        try:
            terms = self.objective.terms()
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
        return _BoundPoint(x, number, flat, {k: float(t.detach()) for k, t in terms.items()})

    def iterate(self) -> None:
        """One iteration: a line search, mostly of one evaluation."""
        steepest = not self.lbfgs.steps
        self.lbfgs.scales = self._flat(self.objective.parameter_scales())
        found = self.lbfgs.iterate(self.at, self.evaluate)
        self.stalled = found is self.at and steepest
        self.at = found
        self._move(found.x)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state beside the parameters, for a checkpoint."""
        steps, changes = self.lbfgs.steps, self.lbfgs.changes
        return {
            "lbfgs.steps": to_numpy(_stacked(steps, self.at.x)),
            "lbfgs.changes": to_numpy(_stacked(changes, self.at.x)),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state of ``arrays``."""
        pairs = (torch.from_numpy(arrays[f"lbfgs.{name}"].copy()) for name in ("steps", "changes"))
        # In memory of their own, as before: a dot product's rounding depends on the alignment.
        self.lbfgs.steps, self.lbfgs.changes = (
            [row.clone() for row in pair.to(self.at.x)] for pair in pairs
        )

    def _position(self) -> Tensor:
        """The parameters in one vector, float64."""
        return self._flat(self.parameters)

    @staticmethod
    def _flat(tensors: Iterable[Tensor]) -> Tensor:
        """Tensors of the parameters' shapes in one vector, float64."""
        return torch.cat([tensor.detach().reshape(-1).double() for tensor in tensors])

    @torch.no_grad()
    def _move(self, x: Tensor) -> None:
        parts = torch.split(x, [p.numel() for p in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))


def _stacked(vectors: list[Tensor], like: Tensor) -> Tensor:
    """Vectors as rows, [n, P]; [0, P] for none."""
    return torch.stack(vectors) if vectors else like.new_zeros((0, len(like)))
