"""The term of the columns in a bound that is fitted by mini-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lvmcore.gp.minibatch.cell_sums import CellSums
from lvmcore.gp.minibatch.data_path import BatchedDataPath
from lvmcore.kernels.psi_statistics import psi1
from lvmcore.neural.latent_batch import LatentBatch
from lvmcore.neural.networks import clip_to_range
from lvmcore.training.objective import Term

__all__ = ["MinibatchDataTerm", "TableBatch", "WholeTable"]


@dataclass(frozen=True)
class TableBatch(LatentBatch):
    """A batch with its rows of the table.

    Attributes:
        Y: the rows, 0 where a cell is missing, [B, D].
        observed: True where a cell is observed, [B, D]; None where every one is.
    """

    Y: Tensor
    observed: Tensor | None


@dataclass(frozen=True)
class WholeTable:
    """q(X) of all rows and their psi statistics, at one state of the parameters.

    Attributes:
        mean: of q(x), [N, Q], float64.
        variance: of q(x), [N, Q], float64.
        sums: psi statistics of all rows, as returned by ``BatchedDataPath.sums``.
    """

    mean: Tensor
    variance: Tensor
    sums: Any


class MinibatchDataTerm(Term[TableBatch]):
    """The bound of the columns, less KL(q(V)), estimated from a batch.

    Args:
        path: the path to the columns; q(V) and the noise are updated with each batch.
        exact_psi: whether the psi statistics are in closed form, or at samples of q(x).
    """

    name = "data fit"

    def __init__(self, path: BatchedDataPath, *, exact_psi: bool) -> None:
        self.path, self.exact_psi = path, exact_psi

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """The noise variances."""
        return [self.path.log_noise]

    def value(self, sample: TableBatch) -> Tensor:
        """The estimate before q(V) and the noise are updated, []."""
        Y, observed = sample.Y, sample.observed
        sums = (
            self.totals(sample)
            if self.exact_psi
            else self.path.drawn_sums(sample.X[0], Y, observed)
        )
        return self.path.batch_bound(sums, Y, self.excess(sample), observed)

    def totals(self, sample: TableBatch) -> Any:
        """Psi statistics of the rows, in a form in which those of several blocks add up."""
        Y, observed = sample.Y, sample.observed
        if self.exact_psi:
            return self.path.sums(sample.mean, sample.variance, Y, observed)
        return self.path.drawn_totals(sample.X[0], Y, observed)

    def value_of_sums(self, sums: Any, cells: CellSums, excess: Tensor) -> Tensor:
        """``value`` from ``totals``, sums over cells and ``excess`` of a whole batch, []."""
        return self.path.bound_of_sums(sums, cells, excess if bool(excess.any()) else None)

    def excess(self, sample: TableBatch) -> Tensor | None:
        """psi1ᵀ times the part of the cells beyond the encoder's range, [M, D]; None without."""
        Y = sample.Y
        beyond = Y - clip_to_range(Y)
        if not bool(beyond.any()):
            return None
        with torch.no_grad():
            expected = psi1(self.path.kernel, sample.mean, sample.variance, self.path.Z)
            return expected.T @ beyond.double()
