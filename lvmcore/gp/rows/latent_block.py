"""A block of rows with their q(X): what a shard of a Gaussian-process map computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.distributed.row_block import RowBlock
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.row_relocation import best_positions
from lvmcore.gp.rows.latent_rows import LatentRows, PsiPath

__all__ = ["LatentBlock"]

Array = NDArray[np.float64]


class LatentBlock(RowBlock):
    """Rows, their q(X) and a copy of the path to the columns.

    Its sums are psi0, psi1ᵀY and psi2, then Σ log variance and Σ (mean² + variance) of q(X).

    Args:
        path: the path to the columns.
        rows: q(X) of the block.
        Y: the rows, [n, D].
        first: number of the first row in the table.
        further: other modules with shared parameters.
    """

    def __init__(
        self,
        path: nn.Module,
        rows: LatentRows,
        Y: Tensor,
        first: int,
        further: Sequence[nn.Module] = (),
    ) -> None:
        super().__init__(nn.ModuleList([path, *further]), rows)
        self.rows, self.Y, self.first = rows, Y, first
        self._best: Tensor | None = None
        self._places: list[Tensor] = []

    @property
    def path(self) -> PsiPath:
        """The path to the columns."""
        found: Any = next(iter(self.shared.children()))
        path: PsiPath = found
        return path

    def sums(self, facts: Any) -> tuple[Tensor, ...]:
        """Psi statistics, and the moments of q(X)."""
        del facts
        psi = self.rows.psi_sums(self.path, self.Y)
        return psi.psi0, psi.psi1Y, psi.psi2, *self.rows.moments()

    @torch.no_grad()
    def own_scales(self) -> Sequence[Tensor]:
        """The scales of q(X)."""
        return list(self.rows.scales().values())

    @torch.no_grad()
    def take(self, rows: NDArray[np.intp]) -> tuple[Array, Array]:
        """Means and logarithms of variances of the rows of the block among some, [k, Q] each."""
        here = rows[(rows >= self.first) & (rows < self.first + len(self.Y))] - self.first
        return self.rows.mean[here].numpy(), self.rows.log_variance[here].numpy()

    # ---- relocation ----------------------------------------------------------------------------

    @torch.no_grad()
    def find_moves(
        self, decoder: Mapping[str, NDArray[Any]], rows: NDArray[np.intp], mean: Array, logs: Array
    ) -> bool:
        """As ``LatentRows.find_moves``, with candidates of all shards.

        Args:
            decoder: arrays of the data path with q(U) at its optimum.
            rows: numbers of the candidates in the table, [K].
            mean: their means, [K, Q].
            logs: logarithms of their variances, [K, Q].
        """
        n, own = len(self.Y), self.rows
        others = [torch.from_numpy(part.copy()).to(own.mean) for part in (mean, logs)]
        self._places = [torch.cat(pair) for pair in zip(own.parameters(), others, strict=True)]
        means, variances = self._places[0].double(), self._places[1].double().exp()
        at = torch.as_tensor(rows) - self.first
        # A candidate of this block is the row itself, the others are behind the block.
        candidates = torch.where((at >= 0) & (at < n), at, n + torch.arange(len(rows)))
        Y = torch.cat((self.Y.double(), self.Y.new_zeros(len(rows), self.Y.shape[1]).double()))
        found = DataDecoder.from_arrays(decoder, means)
        self._best = best_positions(found, Y, None, means, variances, candidates)[:n]
        return not bool((self._best == torch.arange(n)).all())

    @torch.no_grad()
    def move(self) -> None:
        """Move each row to the position that was found."""
        assert self._best is not None
        for parameter, place in zip(self.rows.parameters(), self._places, strict=True):
            parameter.copy_(place[self._best])

    @torch.no_grad()
    def move_back(self) -> None:
        """Move each row back."""
        for parameter, place in zip(self.rows.parameters(), self._places, strict=True):
            parameter.copy_(place[: len(self.Y)])
