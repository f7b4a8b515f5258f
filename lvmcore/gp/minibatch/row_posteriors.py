"""q(x_n) of the rows of a mini-batch fit: the output of an encoder, or parameters of each row."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lvmcore.base.fit_problem import FitProblem
from lvmcore.neural.networks import Encoder
from lvmcore.preprocessing.table_rows import TableRows
from lvmcore.training.row_adam import RowAdam

__all__ = ["EncodedRows", "LocalRows", "encoded_rows"]

# Initial variance of q(x_n) with parameters of its own, and the learning rate of these. Measured on
# curved tables, bound in nats a cell by that rate. Learning rate of the other parameters 0.02:
# 600 x 6 in batches of 128, 0.02 -0.697, 0.06 -0.680, 0.2 -0.680, 0.5 -0.686; 3000 x 20, 0.06
# -0.374, 0.1 -0.373; 10,000 x 10 with 5 % of the cells missing, 0.1 -0.453. Learning rate 0.15: the
# last table, 0.15 -0.445, 0.45 -0.516.
START_VARIANCE, RATE = 0.1, 0.1


class EncodedRows(nn.Module):
    """q(X) from an encoder.

    Args:
        encoder: of the inputs of rows.
        inputs: of standardised rows, [B, D] → [B, D]; by default the rows themselves.
    """

    def __init__(self, encoder: Encoder, inputs: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self._inputs = inputs

    def place(self, rows: Tensor, Y: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Means and variances of q(x) of some rows, [B, Q] each, float64.

        Args:
            rows: row numbers, [B].
            Y: the rows, standardised, 0 where a cell is missing, [B, D].
            observed: True where a cell is observed, [B, D]; None where every one is.
        """
        del rows
        return self.encode(Y, observed)

    def encode(self, Y: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Means and variances of q(x) of any rows, as of ``place``."""
        if self._inputs is not None:
            Y = self._inputs(Y)
            if observed is not None:
                Y = Y * observed
        mean, log_variance = self.encoder(Y, observed)
        return mean.double(), log_variance.double().exp()

    def step(self, rate: float) -> None:
        """Nothing: the encoder's parameters belong to all rows."""


class LocalRows(nn.Module):
    """q(X) with a mean and a variance of its own for each row, updated by the batches of the row.

    They are local variational parameters: a step moves those of the rows of its batch, by Adam with
    moments of each row, and no others (``RowAdam``). A row without observed cells has the prior,
    from which nothing moves it.

    Args:
        X: initial means, [N, Q].
        table: the rows.
        learning_rate: of the shared parameters; that of the rows falls as it does in a fit, and is
            else independent of it.
    """

    def __init__(self, X: Tensor, table: TableRows, learning_rate: float) -> None:
        super().__init__()
        self.speed = RATE / learning_rate
        logs = torch.full_like(X, math.log(START_VARIANCE))
        parameters, begin = torch.cat([X, logs], 1), 0
        for Y, observed in () if table.complete else table.blocks():
            if observed is not None:
                parameters[begin : begin + len(Y)] *= observed.any(1, keepdim=True)
            begin += len(Y)
        self.parameters_by_row = RowAdam(parameters)

    def place(self, rows: Tensor, Y: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Means and variances of q(x) of some distinct rows, as of ``EncodedRows.place``."""
        del Y, observed
        mean, log_variance = self.parameters_by_row.take(rows).double().chunk(2, 1)
        return mean, log_variance.exp()

    def all_rows(self) -> tuple[Tensor, Tensor]:
        """Means and variances of q(x) of all rows, [N, Q] each, float64; no gradient."""
        mean, log_variance = self.parameters_by_row.values.double().chunk(2, 1)
        return mean.contiguous(), log_variance.exp()

    def step(self, rate: float) -> None:
        """Update the rows that were placed last, by the gradient that reached them.

        Args:
            rate: learning rate of the shared parameters in this step.
        """
        self.parameters_by_row.step(self.speed * rate)

    def relocate(self, rows: Tensor, sources: Tensor) -> None:
        """Copy the parameters of some rows from others, [n] each; their moments begin anew."""
        self.parameters_by_row.copy(rows, sources)


def encoded_rows(
    problem: FitProblem,
    X: Tensor,
    n_hidden: int,
    *,
    table: TableRows | None = None,
    inputs: Callable[[Tensor], Tensor] | None = None,
) -> EncodedRows:
    """q(X) from an encoder that begins at an initial map.

    Args:
        problem: the problem to fit.
        X: initial map, [N, Q].
        n_hidden: hidden units of the encoder.
        table: the inputs of the rows of the problem; by default the rows themselves.
        inputs: of standardised rows, as of ``EncodedRows``.
    """
    rows = problem.table
    encoder = Encoder(
        rows.n_columns,
        n_hidden,
        problem.n_components,
        rows.like,
        problem.generator,
        masked=not rows.complete,
    )
    encoder.start(rows if table is None else table, X)
    return EncodedRows(encoder, inputs)
