"""A block of rows of a mini-batch fit: what it adds to the sums over a batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.distributed.row_block import RowBlock

__all__ = ["BatchBlock", "BatchPart"]


@dataclass(frozen=True)
class BatchPart:
    """The rows of a batch that a block has, and what a step says of them.

    Attributes:
        rows: their positions in the block, [n].
        scale: N/B, by which a sum over the whole batch estimates that over all rows.
        state: values of ``BatchBlock.state``.
        noise: random numbers of these rows, [S, n, K]; None where none are drawn.
        inputs: parameters of these rows, which the process of the fit holds, [n, K]; None for none.
    """

    rows: NDArray[np.int64]
    scale: float
    state: Sequence[NDArray[np.float64]]
    noise: NDArray[np.float64] | None = None
    inputs: NDArray[np.float64] | None = None


class BatchBlock(RowBlock):
    """Consecutive rows of a table, of which each step uses those in its batch.

    What a row has of its own stays with the process of the fit, which sends it with the batch: it
    is a few numbers, rows exchange it, and it is in every checkpoint. So a block has no parameters
    of its own but those inputs of the last batch.

    Args:
        shared: a copy of the modules whose parameters all blocks share.
    """

    def __init__(self, shared: nn.Module) -> None:
        super().__init__(shared, nn.Module())
        self.inputs: nn.Parameter | None = None

    @property
    def own_parameters(self) -> list[nn.Parameter]:
        """The inputs of the last batch."""
        return [] if self.inputs is None else [self.inputs]

    @property
    def state(self) -> Sequence[Tensor]:
        """Tensors of the shared modules that a step changes beside their parameters."""
        return ()

    @torch.no_grad()
    def set_state(self, values: Sequence[NDArray[np.float64]]) -> None:
        """Set the tensors of ``state``."""
        for tensor, value in zip(self.state, values, strict=True):
            tensor.copy_(torch.from_numpy(value.copy()))

    def sums(self, facts: BatchPart) -> tuple[Tensor, ...]:
        """``batch_sums`` of the rows of a part."""
        self.set_state(facts.state)
        self.inputs = None
        if facts.inputs is not None:
            self.inputs = nn.Parameter(torch.from_numpy(facts.inputs.copy()))
        noise = None if facts.noise is None else torch.from_numpy(facts.noise.copy())
        return self.batch_sums(torch.from_numpy(facts.rows.copy()), facts.scale, noise)

    @abstractmethod
    def batch_sums(self, rows: Tensor, scale: float, noise: Tensor | None) -> tuple[Tensor, ...]:
        """What some rows add to each sum over the batch; some of the sums may have no gradient.

        Args:
            rows: positions in the block, [n].
            scale: N/B.
            noise: [S, n, K], or None.
        """

    def own_scales(self) -> Sequence[Tensor]:
        """None: no quasi-Newton method runs on batches."""
        return []
