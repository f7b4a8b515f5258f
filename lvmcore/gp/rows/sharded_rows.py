"""q(X) of a fit whose rows are in shards."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.distributed.row_sums import row_sums
from lvmcore.distributed.sharded_state import ShardedParameterState
from lvmcore.distributed.sharded_vectors import ShardedVectors
from lvmcore.distributed.shards import Shards
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.rows.latent_rows import LatentRows, PsiPath
from lvmcore.kernels.psi_statistics import PsiSums
from lvmcore.results import Posterior
from lvmcore.training.parameter_state import ParameterState, ParameterVectors
from lvmcore.training.snapshots import thinned

__all__ = ["ShardedRows"]


class ShardedRows(LatentRows):
    """q(X) whose means and variances stay in the shards; it has no parameters here.

    ``psi_sums`` asks the shards for all their sums; ``kl``, ``moments`` and ``further`` are of the
    same evaluation, so they follow it.

    Args:
        shards: shards of ``LatentBlock``s.
        shared: the modules of the blocks' shared parameters, in their order.
        shape: N and Q.

    Attributes:
        further: sums of the last evaluation beside those of ``LatentBlock``.
        facts: what the shards need for the next evaluation beside the shared parameters.
    """

    is_sharded: ClassVar[bool] = True

    def __init__(self, shards: Shards, shared: Sequence[nn.Module], shape: tuple[int, int]) -> None:
        nn.Module.__init__(self)
        self._shards, self._shape = shards, shape
        self._shared = list(nn.ModuleList(shared).parameters())
        self._moments: tuple[Tensor, Tensor] | None = None
        self.further: tuple[Tensor, ...] = ()
        self.facts: Any = None
        weakref.finalize(self, shards.close)

    @property
    def shape(self) -> tuple[int, int]:
        """N and Q."""
        return self._shape

    def posterior(self) -> Posterior:
        """q(X) as arrays, gathered from the shards."""
        mean, logs = self._take(np.arange(self._shape[0]))
        return Posterior(np.asarray(mean, float), np.exp(np.asarray(logs, float)))

    def means_of(self, rows: NDArray[np.intp]) -> Tensor:
        """Means of some rows in ascending order, [n, Q]."""
        return torch.from_numpy(self._take(rows)[0])

    def _take(self, rows: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Means and logarithms of variances of some rows in ascending order, [n, Q] each."""
        mean, logs = zip(*self._shards.ask("block.take", rows), strict=True)
        return np.concatenate(mean), np.concatenate(logs)

    def psi_sums(self, path: PsiPath, Y: Tensor) -> PsiSums:
        """Psi statistics of all rows, which the shards hold."""
        del path, Y
        facts, self.facts = self.facts, None
        sums = row_sums(self._shards, self._shared, facts)
        psi0, psi1Y, psi2, logs, squares, *further = sums
        self._moments, self.further = (logs, squares), tuple(further)
        return PsiSums(psi0, psi1Y, psi2)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Σ log variance and Σ (mean² + variance) of the last evaluation, [] each."""
        assert self._moments is not None
        return self._moments

    def kl(self) -> Tensor:
        """KL(q(X) ‖ N(0, I)) of the last evaluation, []."""
        logs, squares = self.moments()
        return 0.5 * (squares - logs - self._shape[0] * self._shape[1])

    def scales(self) -> dict[nn.Parameter, Tensor]:
        """None here: the shards have those of their rows."""
        return {}

    # ---- relocation ----------------------------------------------------------------------------

    def find_moves(self, decoder: DataDecoder, Y: Tensor, observed: Tensor | None) -> bool:
        """Find the position, of at most 2000 rows, where each row fits best."""
        del Y, observed
        rows = thinned(self._shape[0])
        mean, logs = self._take(rows)
        return any(self._shards.ask("block.find_moves", decoder.arrays(), rows, mean, logs))

    def move(self) -> None:
        """Move each row to the position that was found."""
        self._shards.tell("block.move")

    def move_back(self) -> None:
        """Move each row back."""
        self._shards.tell("block.move_back")

    # ---- optimisers ----------------------------------------------------------------------------

    def parameter_state(
        self, parameters: Sequence[nn.Parameter], others: Sequence[Tensor]
    ) -> ParameterState:
        """The shared parameters here, those of q(X) in the shards."""
        assert not others
        return ShardedParameterState(parameters, self._shards, [self._shape] * 2)

    def parameter_vectors(self, parameters: Sequence[nn.Parameter]) -> ParameterVectors:
        """The shared parameters here, those of q(X) in the shards, in one vector."""
        return ShardedVectors(parameters, self._shards, [self._shape] * 2)
