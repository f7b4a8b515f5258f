"""A block of rows of a fit: its data, its own parameters, and what it adds to sums over rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["RowBlock", "split_rows"]


class RowBlock(ABC):
    """Consecutive rows of a table, with the parameters that belong to each of them.

    A shard holds it, mostly in another process. It can be pickled.

    Args:
        shared: a copy of the modules whose parameters all blocks share.
        own: the module of this block's parameters; the first axis of each is that of the rows.
    """

    def __init__(self, shared: nn.Module, own: nn.Module) -> None:
        self.shared, self.own = shared, own

    @property
    def shared_parameters(self) -> list[nn.Parameter]:
        """Copies of the parameters that all blocks share."""
        return list(self.shared.parameters())

    @property
    def own_parameters(self) -> list[nn.Parameter]:
        """The parameters of this block."""
        return list(self.own.parameters())

    @abstractmethod
    def sums(self, facts: Any) -> tuple[Tensor, ...]:
        """What the block adds to each sum over rows, differentiable by both kinds of parameters.

        Args:
            facts: what a step says beside the shared parameters, such as a state of random numbers.
        """

    @abstractmethod
    def own_scales(self) -> Sequence[Tensor]:
        """The expected scale of each of the block's parameters, in its shape."""

    @torch.no_grad()
    def set_shared(self, values: Sequence[Tensor]) -> None:
        """Set the copies of the shared parameters."""
        for parameter, value in zip(self.shared_parameters, values, strict=True):
            parameter.copy_(value.view_as(parameter))


def split_rows(n_rows: int, parts: int) -> list[slice]:
    """Consecutive blocks of rows whose sizes differ by one at most; fewer where rows are few."""
    parts = max(1, min(parts, n_rows))
    ends = [n_rows * (part + 1) // parts for part in range(parts)]
    return [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
