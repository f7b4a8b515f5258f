"""A block of rows of a mini-batch map: what a shard of GPLVM-SVI or Fast LDGD computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.distributed.batch_block import BatchBlock
from lvmcore.gp.minibatch.cell_sums import CellSums
from lvmcore.gp.minibatch.data_term import MinibatchDataTerm, TableBatch
from lvmcore.gp.minibatch.label_terms import NaturalGradientLabelTerm
from lvmcore.gp.minibatch.row_posteriors import EncodedRows
from lvmcore.numerics.gaussians import kl_standard_normal
from lvmcore.preprocessing.table_rows import TableRows

__all__ = ["MapBatchBlock", "Whole"]

Array = NDArray[np.float64]
#: Means and variances of q(x) of the rows of a block, [n, Q] each, and their psi statistics.
Whole = tuple[Array, Array, list[Array]]


class MapBatchBlock(BatchBlock):
    """Rows with copies of the encoder and of the Gaussian processes.

    Its sums are psi0, psi1ᵀY and psi2, Σ KL(q(x_n) ‖ N(0, I)), and the term of each label column;
    then, without a gradient, those of ``CellSums`` (‖y_d‖², observed cells), the excess of
    ``MinibatchDataTerm``, and for each label column those of its natural-gradient step.

    Args:
        table: the rows.
        encoder: places them; None where each q(x) has parameters of its own, which are the inputs
            of a step: means and logarithms of variances, [n, 2Q].
        data: the term of the columns.
        labels: the terms of the label columns, of these rows.
    """

    def __init__(
        self,
        table: TableRows,
        encoder: EncodedRows | None,
        data: MinibatchDataTerm,
        labels: Sequence[NaturalGradientLabelTerm],
    ) -> None:
        placed = [] if encoder is None else [encoder]
        super().__init__(nn.ModuleList([*placed, data.path, *(term.path for term in labels)]))
        self.table, self.encoder, self.data, self.labels = table, encoder, data, list(labels)

    @property
    def state(self) -> Sequence[Tensor]:
        """q(V) of the label columns; that of the columns is not needed for sums."""
        return [part for term in self.labels for part in term.path.natural_parameters]

    def _place(self, Y: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Means and variances of q(x) of the rows of a step, [n, Q] each."""
        if self.encoder is not None:
            return self.encoder.encode(Y, observed)
        assert self.inputs is not None
        mean, logs = self.inputs.chunk(2, 1)
        return mean, logs.exp()

    def batch_sums(self, rows: Tensor, scale: float, noise: Tensor | None) -> tuple[Tensor, ...]:
        """Sums over some rows; the noise is of their positions, [1, n, Q]."""
        Y, observed = self.table.take(rows)
        mean, variance = self._place(Y, observed)
        X = mean[None] if noise is None else mean + variance.sqrt() * noise
        batch = TableBatch(rows, mean, variance, X, scale, Y, observed)
        sums, cells = self.data.totals(batch), CellSums.of(Y, observed)
        excess = self.data.excess(batch)
        if excess is None:
            excess = torch.zeros_like(sums.psi1Y)
        values = [term.value(batch) for term in self.labels]
        followed = [
            part
            for term in self.labels
            for part in term.path.natural_gradient_sums()
            or (torch.zeros_like(one) for one in term.path.natural_parameters)
        ]
        kl = kl_standard_normal(mean, variance).double().sum()
        return (
            *(sums.psi0, sums.psi1Y, sums.psi2, kl, *values),
            *(cells.squares, cells.counts, excess, *followed),
        )

    @torch.no_grad()
    def whole(
        self,
        shared: Sequence[Array],
        state: Sequence[Array],
        places: tuple[Array, Array] | None,
    ) -> Whole:
        """q(x) of all rows of the block, and their psi statistics.

        Args:
            shared: values of the shared parameters.
            state: values of ``state``.
            places: means and variances of q(x), without an encoder.
        """
        self.set_shared([torch.from_numpy(value.copy()) for value in shared])
        self.set_state(state)
        means, variances, total, begin = [], [], None, 0
        for Y, observed in self.table.blocks():
            if places is None:
                mean, variance = self._place(Y, observed)
            else:
                end = begin + len(Y)
                mean, variance = (torch.from_numpy(part[begin:end].copy()) for part in places)
                begin = end
            sums = self.data.path.sums(mean, variance, Y, observed)
            total = sums if total is None else total + sums
            means.append(mean.numpy())
            variances.append(variance.numpy())
        assert total is not None
        parts = [part.numpy() for part in (total.psi0, total.psi1Y, total.psi2)]
        return np.concatenate(means), np.concatenate(variances), parts
