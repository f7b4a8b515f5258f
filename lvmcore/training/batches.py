"""Mini-batches of rows, and the step lengths of natural gradients over them."""

from __future__ import annotations

import torch
from torch import Tensor

# Rows per inducing input in the window of the running means.
ROWS_PER_INDUCING = 30
# Largest natural-gradient step of the label path, whose likelihood is not Gaussian.
LONGEST_LABEL_STEP = 0.7


class Batches:
    """Mini-batches of rows in a random order, which is drawn anew for every epoch.

    Args:
        n_rows: N.
        size: rows in a batch, B; a smaller last batch is left out of the epoch.
        generator: of the orders.
    """

    def __init__(self, n_rows: int, size: int, generator: torch.Generator) -> None:
        self.n_rows, self.size, self.generator = n_rows, min(size, n_rows), generator
        self.order = torch.arange(n_rows)
        self.position = torch.full((1,), n_rows)

    @property
    def whole(self) -> bool:
        """Whether every batch holds all rows."""
        return self.size == self.n_rows

    def next(self) -> Tensor:
        """Positions of the next batch's rows, [B]."""
        if self.whole:
            return self.order
        begin = int(self.position)
        if begin + self.size > self.n_rows:
            self.order.copy_(torch.randperm(self.n_rows, generator=self.generator))
            begin = 0
        self.position.fill_(begin + self.size)
        return self.order[begin : begin + self.size].clone()

    def buffers(self) -> list[Tensor]:
        """The order and the position in it."""
        return [] if self.whole else [self.order, self.position]


def step_length(size: float, n_inducing: int, *, most: float = 1.0) -> float:
    """ρ for batches of ``size`` rows: running means over about 30 rows per inducing input."""
    return min(most, size / (size + ROWS_PER_INDUCING * n_inducing))
