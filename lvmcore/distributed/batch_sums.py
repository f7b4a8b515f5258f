"""Sums over the rows of a batch, whose rows are in several shards, as tensors with a gradient."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lvmcore.distributed.batch_block import BatchPart
from lvmcore.distributed.row_sums import total_of
from lvmcore.distributed.shards import Shards

__all__ = ["BatchSums"]

Array = NDArray[np.float64]


class BatchSums:
    """The sums that shards of ``BatchBlock``s compute for a step.

    The process of the fit holds the parameters and the optimiser. With each batch it sends the
    shared parameters, and each shard the numbers of its rows; the sums come back, then the
    gradients by the sums go out and those by the parameters come back: two exchanges a step.

    Args:
        shards: the shards; they end with this object.
        shared: modules of the parameters that all blocks share, in their order.
        state: the tensors of ``BatchBlock.state``.
    """

    def __init__(
        self, shards: Shards, shared: Sequence[nn.Module], state: Sequence[Tensor] = ()
    ) -> None:
        self._shards, self._state = shards, list(state)
        self._shared = list(nn.ModuleList(shared).parameters())
        weakref.finalize(self, shards.close)

    def values(self) -> tuple[list[Array], list[Array]]:
        """The shared parameters, and the tensors of the state."""
        return _arrays(self._shared), _arrays(self._state)

    def of_batch(
        self,
        rows: Tensor,
        scale: float,
        noise: Tensor | None = None,
        inputs: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Sums over a batch, differentiable by the shared parameters and by the inputs.

        They are those of ``BatchBlock.batch_sums``.

        Args:
            rows: distinct row numbers, [B].
            scale: N/B.
            noise: random numbers of the rows, [S, B, K].
            inputs: parameters of the rows, [B, K].
        """
        places = [
            torch.nonzero((rows >= block.start) & (rows < block.stop))[:, 0]
            for block in self._shards.rows
        ]
        state = _arrays(self._state)
        parts = [
            BatchPart(
                (rows[place] - block.start).numpy(),
                scale,
                state,
                None if noise is None else noise[:, place].double().numpy(),
            )
            for place, block in zip(places, self._shards.rows, strict=True)
        ]
        found: tuple[Tensor, ...] = _BatchSums.apply(  # type: ignore[no-untyped-call]
            self._shards, torch.is_grad_enabled(), parts, places, inputs, *self._shared
        )
        return found

    def of_all_rows(self, name: str, own: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Answers of a method of the blocks, in the order of the rows.

        Args:
            name: of the method, whose arguments are the shared parameters, the state, and those of
                each block.
            own: the arguments of each block.
        """
        values = self.values()
        return self._shards.ask_each(f"block.{name}", [(*values, *some) for some in own])

    @property
    def rows(self) -> list[slice]:
        """The rows of each shard."""
        return self._shards.rows


def _arrays(tensors: Sequence[Tensor]) -> list[Array]:
    return [tensor.detach().double().numpy() for tensor in tensors]


class _BatchSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        shards: Shards,
        keeps: bool,
        parts: Sequence[BatchPart],
        places: Sequence[Tensor],
        inputs: Tensor | None,
        *shared: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.shards, ctx.places = shards, places
        ctx.set_materialize_grads(False)  # else zeros travel for sums without a gradient
        # Shapes alone: natural gradients change some parameters in place before ``backward``.
        ctx.like = [None if p is None else (p.shape, p.dtype) for p in (inputs, *shared)]
        values = _arrays(shared)
        keeps = keeps and any(ctx.needs_input_grad)
        if inputs is not None:
            own = inputs.detach().double()
            parts = [
                BatchPart(part.rows, part.scale, part.state, part.noise, own[place].numpy())
                for part, place in zip(parts, places, strict=True)
            ]
        # A shard without rows of the batch is not asked.
        asked = [(values, part, keeps) if len(part.rows) else None for part in parts]
        answers = shards.ask_each("evaluate", asked)
        return tuple(total_of(found) for found in zip(*answers, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Any, ...]:
        sent = [None if slope is None else slope.numpy() for slope in slopes]
        places = [place for place in ctx.places if len(place)]
        asked = [(sent,) if len(place) else None for place in ctx.places]
        answers = ctx.shards.ask_each("pull_back_all", asked)
        inputs, *shared = ctx.like
        parts = zip(*(found for found, _ in answers), strict=True)
        found = [
            None if own[0] is None else total_of(own).to(dtype).view(shape)
            for own, (shape, dtype) in zip(parts, shared, strict=True)
        ]
        by_inputs = None
        if inputs is not None:
            by_inputs = torch.zeros(inputs[0], dtype=inputs[1])
            for place, (_, own) in zip(places, answers, strict=True):
                by_inputs[place] = torch.from_numpy(own[0]).to(inputs[1])
        return None, None, None, None, by_inputs, *found
