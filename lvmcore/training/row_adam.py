"""Adam for a matrix of which a step updates some rows only."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lvmcore.training.adam import BETAS, EPSILON

__all__ = ["RowAdam"]


class RowAdam(nn.Module):
    """Rows of parameters that are updated by Adam, each with moments and a step count of its own.

    Adam's moments of a whole matrix would also move the rows without a gradient, and would count
    the steps of the other rows in the bias correction. Here a row is as after Adam's steps for that
    row alone (Kingma and Ba 2015, Algorithm 1): a step leaves all others unchanged. Values, moments
    and counts are buffers, to be saved and restored as a state.

    Args:
        values: initial parameters, [N, K].
    """

    values: Tensor
    first: Tensor
    second: Tensor
    steps: Tensor

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("values", values.detach().clone())
        self.register_buffer("first", torch.zeros_like(values))
        self.register_buffer("second", torch.zeros_like(values))
        self.register_buffer("steps", values.new_zeros(len(values), 1))
        self._taken: tuple[Tensor, Tensor] | None = None

    def take(self, rows: Tensor) -> Tensor:
        """Parameters of some distinct rows, [n, K].

        Where gradients are recorded, they are a leaf, whose gradient the next ``step`` uses.

        Args:
            rows: row numbers, [n].
        """
        taken = self.values[rows]
        if torch.is_grad_enabled():
            taken.requires_grad_()
            self._taken = rows, taken
        return taken

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update the rows that were taken last, by the gradient that reached them.

        Args:
            rate: learning rate of this step.
        """
        last, self._taken = self._taken, None
        if last is None or last[1].grad is None:
            return
        rows, gradient = last[0], last[1].grad
        (beta1, beta2), steps = BETAS, self.steps[rows] + 1
        first = self.first[rows].lerp_(gradient, 1 - beta1)
        second = self.second[rows].lerp_(gradient.square(), 1 - beta2)
        scale = (second / (1 - beta2**steps)).sqrt_().add_(EPSILON)
        self.values[rows] -= rate * (first / (1 - beta1**steps)) / scale
        self.first[rows], self.second[rows], self.steps[rows] = first, second, steps

    @torch.no_grad()
    def copy(self, rows: Tensor, sources: Tensor) -> None:
        """Copy the parameters of some rows from others; moments and counts of the rows begin anew.

        Args:
            rows: row numbers, [n]; one that is its own source stays as it is.
            sources: row numbers, [n].
        """
        moved = rows != sources
        rows = rows[moved]
        self.values[rows] = self.values[sources[moved]]
        for part in (self.first, self.second, self.steps):
            part[rows] = 0
