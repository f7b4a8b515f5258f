"""The batches of a map whose rows are in shards, as the process of the fit sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lvmcore.distributed.batch_sums import BatchSums
from lvmcore.distributed.choice import open_shards, shard_count
from lvmcore.distributed.row_sums import total_of
from lvmcore.distributed.shards import Shards
from lvmcore.errors import ConfigError
from lvmcore.gp.minibatch.batch_rows import MapBatchBlock, Whole
from lvmcore.gp.minibatch.cell_sums import CellSums
from lvmcore.gp.minibatch.data_term import MinibatchDataTerm, WholeTable
from lvmcore.gp.minibatch.label_terms import NaturalGradientLabelTerm
from lvmcore.gp.minibatch.row_posteriors import EncodedRows, LocalRows
from lvmcore.gp.rows.label_draws import standard_noise
from lvmcore.neural.latent_batch import LatentKLTerm
from lvmcore.preprocessing.table_rows import TableRows

__all__ = ["Opener", "ShardedBatches"]

Opener = Callable[[Callable[[slice], MapBatchBlock], int], Shards]


class ShardedBatches:
    """The terms of a batch from the sums of shards, each of which has some of the rows.

    The batches and the random numbers are those of one process, so the terms are too, up to the
    order of sums. The process of the fit keeps q(V), the noise, the optimiser, and the q(x) that
    have parameters of their own.

    Args:
        table: all rows.
        rows: their q(x).
        data: the term of the columns.
        labels: those of the label columns.
        opened: makes the shards from the maker of a block and N; None for those that were chosen
            for this process.
    """

    def __init__(
        self,
        table: TableRows,
        rows: EncodedRows | LocalRows,
        data: MinibatchDataTerm,
        labels: Sequence[NaturalGradientLabelTerm],
        opened: Opener | None = None,
    ) -> None:
        self.table, self.rows, self.data, self.labels = table, rows, data, list(labels)
        encoder = rows if isinstance(rows, EncodedRows) else None
        placed: list[nn.Module] = [] if encoder is None else [encoder]

        def block(part: slice) -> MapBatchBlock:
            own = [term.part(part) for term in labels]
            return MapBatchBlock(table.part(part), encoder, data, own)

        self._sums = BatchSums(
            (opened or open_shards)(block, len(table)),
            [*placed, data.path, *(term.path for term in labels)],
            [part for term in labels for part in term.path.natural_parameters],
        )

    @classmethod
    def chosen(
        cls,
        table: TableRows,
        rows: EncodedRows | LocalRows,
        data: MinibatchDataTerm,
        labels: Sequence[NaturalGradientLabelTerm],
    ) -> ShardedBatches | None:
        """Those of the shards that were chosen for this process; None without.

        Raises:
            ConfigError: the table is on a device on which shards do not compute.
        """
        if not shard_count():
            return None
        if table.like.device.type != "cpu":
            raise ConfigError(
                "The rows of this fit cannot be in shards, because they compute on CPUs, and the "
                f"device is {table.like.device}: set device='cpu'."
            )
        return cls(table, rows, data, labels)

    def batch_terms(self, rows: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """The terms of a batch but the divergences of q(V), which then follows the batch.

        Args:
            rows: of the batch, [B].
            generator: of the positions that are drawn.
        """
        B, n_labels = len(rows), len(self.labels)
        scale, inputs = len(self.table) / B, None
        Q = self.data.path.Z.shape[1]
        noise = standard_noise(1, B, Q, generator)  # drawn in any case, as by one process
        if isinstance(self.rows, LocalRows):
            inputs = self.rows.parameters_by_row.take(rows)
        drawn = bool(self.labels) or not self.data.exact_psi
        psi0, psi1Y, psi2, kl, *others = self._sums.of_batch(
            rows, scale, noise if drawn else None, inputs
        )
        values, (squares, counts, excess, *followed) = others[:n_labels], others[n_labels:]
        sums = self.data.path.as_sums(psi0, psi1Y, psi2)
        terms = {
            self.data.name: self.data.value_of_sums(sums, CellSums(B, squares, counts), excess)
        }
        for i, (term, value) in enumerate(zip(self.labels, values, strict=True)):
            terms[term.name] = value
            if value.requires_grad:
                curvature, shift = followed[2 * i : 2 * i + 2]
                term.path.follow_sums(curvature, shift, term.step)
        return terms | {LatentKLTerm.name: -scale * kl}

    def whole_table(self, places: tuple[Tensor, Tensor] | None) -> WholeTable:
        """q(X) and psi statistics of all rows.

        Args:
            places: means and variances of q(x) that have parameters of their own, [N, Q] each.
        """
        own = [
            (None if places is None else tuple(part[rows].numpy() for part in places),)
            for rows in self._sums.rows
        ]
        found: list[Whole] = self._sums.of_all_rows("whole", own)
        mean, variance, parts = zip(*found, strict=True)
        totals = [total_of(some) for some in zip(*parts, strict=True)]
        return WholeTable(
            torch.from_numpy(np.concatenate(mean)),
            torch.from_numpy(np.concatenate(variance)),
            self.data.path.as_sums(*totals),
        )
