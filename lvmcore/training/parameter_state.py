"""Parameters of an objective as the training loop holds them: their copies and optimisers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.lbfgs import LBFGS
from lvmcore.training.adam import Adam
from lvmcore.training.checkpoint import restore_tensors, tensor_arrays

__all__ = ["ParameterState", "ParameterVectors"]


class ParameterState:
    """The tensors that a step changes, their last valid copies, and Adam.

    A subclass may hold further tensors in other processes: it then does there what each method does
    here.

    Args:
        parameters: those that Adam updates.
        others: other tensors that a step changes in place.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], others: Sequence[Tensor] = ()) -> None:
        self.adam = Adam(parameters)
        self.tensors: list[Tensor] = [*parameters, *others]
        self.copies: list[Tensor] = []
        self.copy()

    @property
    def sizes(self) -> list[int]:
        """Numbers in each tensor, in the order of a checkpoint."""
        return [tensor.numel() for tensor in self.tensors]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self.adam.zero_grad()

    def step(self, rate: float) -> None:
        """Adam's step of the parameters that have a gradient."""
        self.adam.step(rate)

    def copy(self) -> None:
        """Copy the tensors, in place of the last copies."""
        self.copies = [tensor.detach().clone() for tensor in self.tensors]

    @torch.no_grad()
    def restore_copies(self) -> None:
        """Set the tensors to their last copies."""
        for tensor, value in zip(self.tensors, self.copies, strict=True):
            tensor.copy_(value)

    def forget_moments(self) -> None:
        """Forget Adam's moments."""
        self.adam.state.clear()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state for a checkpoint, as of ``tensor_arrays``."""
        return tensor_arrays(self.tensors, self.copies, self.adam)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state of ``arrays``."""
        restore_tensors(arrays, self.tensors, self.copies, self.adam)


class ParameterVectors:
    """The parameters of an objective in one vector, for the quasi-Newton finish.

    Args:
        parameters: of the objective.

    A vector is a float64 tensor [P]; a subclass may have vectors with parts in other processes,
    which add up and multiply as tensors do.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)

    def optimiser(self, slack: float) -> LBFGS:
        """The quasi-Newton method of such vectors."""
        return LBFGS(slack)

    def position(self) -> Any:
        """The parameters, [P]."""
        return self.flat(self.parameters)

    @torch.no_grad()
    def move(self, x: Any) -> None:
        """Set the parameters to x, [P]."""
        parts = torch.split(x, [p.numel() for p in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))

    def gradient(self, value: Tensor) -> Any | None:
        """The gradient by the parameters, [P]; None where it is not finite."""
        found = torch.autograd.grad(value, self.parameters, allow_unused=True)
        pairs = zip(self.parameters, found, strict=True)
        flat = self.flat([torch.zeros_like(p) if g is None else g for p, g in pairs])
        return flat if bool(torch.isfinite(flat).all()) else None

    def scales(self, scales: Sequence[Tensor]) -> Any:
        """The scales of the parameters, in their shapes, as a vector."""
        return self.flat(scales)

    def rows(self, vectors: Sequence[Any]) -> NDArray[Any]:
        """Vectors as rows of an array for a checkpoint, [n, P]; [0, P] for none."""
        if not vectors:
            return to_numpy(self.position().new_zeros((0, sum(p.numel() for p in self.parameters))))
        return to_numpy(torch.stack(list(vectors)))

    def from_rows(self, rows: NDArray[Any]) -> list[Any]:
        """The vectors of ``rows``."""
        # In memory of their own, as before: a dot product's rounding depends on the alignment.
        found = torch.from_numpy(rows.copy()).to(self.parameters[0].device)
        return [row.clone() for row in found]

    @staticmethod
    def flat(tensors: Sequence[Tensor]) -> Tensor:
        """Tensors of the parameters' shapes in one vector, float64."""
        return torch.cat([tensor.detach().reshape(-1).double() for tensor in tensors])
