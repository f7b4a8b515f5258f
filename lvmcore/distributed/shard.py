"""A shard: a block of rows with its part of the optimisers, as a server of commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.distributed.block_vectors import BlockVectors
from lvmcore.distributed.row_block import RowBlock
from lvmcore.training.parameter_state import ParameterState

__all__ = ["Array", "Command", "Shard"]

Array = NDArray[np.float64]
#: Name of a method of ``Shard``, of its ``vectors`` ("vectors.dot") or of its block
#: ("block.take"), and its arguments.
Command = tuple[str, tuple[Any, ...]]


class Shard:
    """Answers commands on a block of rows; arguments and answers are numbers and NumPy arrays.

    Args:
        block: the rows.
        threads: threads of torch's operations; None leaves them.

    Attributes:
        state: Adam and the copies of the block's parameters.
        vectors: vectors of LBFGS, in the block's parameters.
    """

    def __init__(self, block: RowBlock, threads: int | None = None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.block = block
        self.state = ParameterState(block.own_parameters)
        self.vectors = BlockVectors(block.own_parameters)
        self._sums: tuple[Tensor, ...] = ()

    def execute(self, commands: Sequence[Command]) -> Any:
        """Execute commands in turn; the answer to the last one."""
        answer = None
        for name, arguments in commands:
            owner, _, method = name.rpartition(".")
            answer = getattr(getattr(self, owner) if owner else self, method)(*arguments)
        return answer

    def evaluate(self, shared: Sequence[Array], facts: Any, keeps: bool) -> list[Array]:
        """The block's sums at the shared parameters.

        Args:
            shared: values of the shared parameters.
            facts: as of ``RowBlock.sums``.
            keeps: whether ``pull_back`` will be called.
        """
        self._sums = ()
        self.block.set_shared([torch.from_numpy(value.copy()) for value in shared])
        with torch.set_grad_enabled(keeps):
            found = self.block.sums(facts)
        if keeps:
            self._sums = found
        return [total.detach().double().numpy() for total in found]

    def pull_back(self, slopes: Sequence[Array | None]) -> list[Array]:
        """Gradients by the shared parameters; those by the block's own stay here, as ``grad``.

        Args:
            slopes: gradients by the sums of all blocks; None for one that has none.
        """
        pairs = zip(self._gradients(slopes), self.block.shared_parameters, strict=True)
        found = [torch.zeros_like(p) if g is None else g for g, p in pairs]
        return [gradient.double().numpy() for gradient in found]

    def pull_back_all(
        self, slopes: Sequence[Array | None]
    ) -> tuple[list[Array | None], list[Array]]:
        """``pull_back``, None for parameters without a gradient, and those by the block's own."""
        shared = self._gradients(slopes)
        own = [parameter.grad for parameter in self.block.own_parameters]
        return (
            [None if gradient is None else gradient.double().numpy() for gradient in shared],
            [gradient.double().numpy() for gradient in own if gradient is not None],
        )

    def _gradients(self, slopes: Sequence[Array | None]) -> list[Tensor | None]:
        """Gradients by the shared parameters; those by the block's own are stored as ``grad``."""
        used = [
            (total, torch.from_numpy(slope.copy()).to(total).view_as(total))
            for total, slope in zip(self._sums, slopes, strict=True)
            if slope is not None and total.requires_grad
        ]
        shared, own = self.block.shared_parameters, self.block.own_parameters
        found = torch.autograd.grad(
            [total for total, _ in used],
            [*shared, *own],
            [slope for _, slope in used],
            allow_unused=True,
        )
        self._sums = ()
        for parameter, gradient in zip(own, found[len(shared) :], strict=True):
            parameter.grad = torch.zeros_like(parameter) if gradient is None else gradient
        return list(found[: len(shared)])

    def step(self, rate: float) -> None:
        """Adam's step of the block's parameters."""
        self.state.step(rate)

    def store_gradient(self, key: int) -> None:
        """Store the gradient as a vector."""
        gradients = [parameter.grad for parameter in self.block.own_parameters]
        self.vectors.store(key, [gradient for gradient in gradients if gradient is not None])

    def store_scales(self, key: int) -> None:
        """Store the scales of the block's parameters as a vector."""
        self.vectors.store(key, self.block.own_scales())

    def own_values(self) -> list[Array]:
        """Values of the block's parameters."""
        return [parameter.detach().double().numpy() for parameter in self.block.own_parameters]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The block's state for a checkpoint."""
        return self.state.arrays()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state of ``arrays``."""
        self.state.restore(arrays)
