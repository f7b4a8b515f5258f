"""Sums over the rows of all shards as tensors with a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lvmcore.distributed.shards import Shards

__all__ = ["row_sums", "total_of"]


def row_sums(shards: Shards, shared: Sequence[nn.Parameter], facts: Any) -> tuple[Tensor, ...]:
    """Σ_b sums of block b, differentiable by the shared parameters.

    Their backward pass sends the gradients by the sums to the shards, which answer with gradients
    by the shared parameters and keep those by their own.

    Args:
        shards: the shards.
        shared: parameters that all blocks share.
        facts: as of ``RowBlock.sums``.
    """
    found: tuple[Tensor, ...] = _RowSums.apply(  # type: ignore[no-untyped-call]
        shards, torch.is_grad_enabled(), facts, *shared
    )
    return found


def total_of(parts: Sequence[NDArray[np.float64]]) -> Tensor:
    """The sum of arrays, in their order."""
    return torch.from_numpy(np.asarray(np.sum(np.stack(parts), axis=0)))


class _RowSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, shards: Shards, keeps: bool, facts: Any, *shared: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.shards = shards
        ctx.save_for_backward(*shared)
        values = [value.detach().double().numpy() for value in shared]
        answers = shards.ask("evaluate", values, facts, keeps and any(ctx.needs_input_grad))
        return tuple(total_of(parts) for parts in zip(*answers, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        answers = ctx.shards.ask("pull_back", [slope.numpy() for slope in slopes])
        totals = (total_of(parts) for parts in zip(*answers, strict=True))
        shared = ctx.saved_tensors
        pairs = zip(totals, shared, strict=True)
        return None, None, None, *(total.to(value).view_as(value) for total, value in pairs)
