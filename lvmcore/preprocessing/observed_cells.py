"""The observed cells of a table, in the form that the bounds use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

__all__ = ["ObservedCells"]


@dataclass(frozen=True)
class ObservedCells:
    """The observed cells of a table, with columns grouped by their set of observed rows.

    Attributes:
        mask: True where a cell is observed, [N, D].
        sets: the K different sets of rows as indicators, [N, K].
        groups: index of each column's set, [D].
        counts: observed cells of each column, [D], float64.
    """

    mask: Tensor
    sets: Tensor
    groups: Tensor
    counts: Tensor

    @classmethod
    def from_mask(cls, mask: Tensor, like: Tensor) -> Self:
        """From a mask [N, D], in the dtype and on the device of ``like``."""
        sets, groups = torch.unique(mask.to(torch.uint8), dim=1, return_inverse=True)
        return cls(
            mask.to(like.device),
            sets.to(like),
            groups.to(like.device),
            mask.sum(0).to(like.device).double(),
        )
