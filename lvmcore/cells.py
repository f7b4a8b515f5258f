"""Which cells of a table are observed, in the form that the bounds need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

__all__ = ["ObservedCells"]


@dataclass(frozen=True)
class ObservedCells:
    """The observed cells of a table, columns with the same rows taken together.

    Attributes:
        mask: True where a cell is observed, [N, D].
        sets: the K different sets of rows, 1 where the set has the row and 0 elsewhere, [N, K].
        groups: which of the sets a column has, [D].
        counts: observed cells of each column, [D], float64.
    """

    mask: Tensor
    sets: Tensor
    groups: Tensor
    counts: Tensor

    @classmethod
    def of(cls, mask: Tensor, like: Tensor) -> Self:
        """Of a mask [N, D], with its numbers in the dtype and on the device of ``like``."""
        sets, groups = torch.unique(mask.to(torch.uint8), dim=1, return_inverse=True)
        return cls(
            mask.to(like.device),
            sets.to(like),
            groups.to(like.device),
            mask.sum(0).to(like.device).double(),
        )
