"""The parameters of a fit whose rows are in shards, as the training loop holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from lvmcore.distributed.shards import Shards
from lvmcore.training.parameter_state import ParameterState

__all__ = ["ShardedParameterState"]


class ShardedParameterState(ParameterState):
    """The shared parameters here, the others in the shards.

    A checkpoint is that of the same fit on one machine: its first tensors are those of the rows.

    Args:
        parameters: the shared parameters.
        shards: the shards.
        shapes: of the parameters of all rows, [N, …] each.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        shards: Shards,
        shapes: Sequence[tuple[int, ...]],
    ) -> None:
        self._shards, self._shapes = shards, list(shapes)
        super().__init__(parameters)

    @property
    def sizes(self) -> list[int]:
        """Numbers in each tensor, in the order of a checkpoint."""
        return [*(int(np.prod(shape)) for shape in self._shapes), *super().sizes]

    def step(self, rate: float) -> None:
        """Adam's step here and in the shards."""
        super().step(rate)
        self._shards.tell("step", rate)

    def copy(self) -> None:
        """Copy the tensors here and in the shards."""
        super().copy()
        self._shards.tell("state.copy")

    def restore_copies(self) -> None:
        """Set the tensors here and in the shards to their last copies."""
        super().restore_copies()
        self._shards.tell("state.restore_copies")

    def forget_moments(self) -> None:
        """Forget Adam's moments here and in the shards."""
        super().forget_moments()
        self._shards.tell("state.forget_moments")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state for a checkpoint, the blocks of each tensor of the rows put together."""
        parts = self._shards.ask("arrays")
        found = {
            name: array if _is_count(name) else np.concatenate([part[name] for part in parts])
            for name, array in parts[0].items()
        }
        return found | _renumbered(super().arrays(), len(self._shapes))

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state of ``arrays``, of a fit with any number of shards."""
        first = len(self._shapes)
        super().restore(_renumbered(arrays, -first))
        own = {name: array for name, array in arrays.items() if _number(name) in range(first)}
        shaped = {
            name: array if _is_count(name) else array.reshape(self._shapes[_number(name)])
            for name, array in own.items()
        }
        self._shards.tell_each(
            "restore",
            [
                ({name: a if _is_count(name) else a[rows] for name, a in shaped.items()},)
                for rows in self._shards.rows
            ],
        )


def _is_count(name: str) -> bool:
    """Whether an array of a checkpoint is Adam's count of steps, the same in all shards."""
    return name.endswith(".step")


def _number(name: str) -> int:
    """The number of the tensor that an array of a checkpoint belongs to; −1 for none."""
    kind, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return int(number) if kind in ("parameter", "sound", "adam") and number.isdecimal() else -1


def _renumbered(arrays: Mapping[str, NDArray[Any]], by: int) -> dict[str, NDArray[Any]]:
    """The arrays of tensors whose numbers plus ``by`` are not negative, under these numbers."""
    found = {}
    for name, array in arrays.items():
        number = _number(name)
        if number >= 0 and number + by >= 0:
            kind, _, rest = name.partition(".")
            _, dot, tail = rest.partition(".")
            found[f"{kind}.{number + by}{dot}{tail}"] = array
    return found
