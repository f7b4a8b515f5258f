"""The mini-batch objective of a GPLVM: data term, label terms and KL terms.

Notation: lvmcore/README.md; the bound is that of ``FastLDGD``, without its label terms that of
``StochasticGPLVM``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.initial_map import pca_start
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.imputation_intervals import (
    HELD_ROWS,
    ConditionedRows,
    hold_out_cells,
    interval_scale,
)
from lvmcore.gp.inducing_points import spread_points
from lvmcore.gp.minibatch.data_path import BatchedDataPath, StochasticDataPath
from lvmcore.gp.minibatch.data_term import MinibatchDataTerm, TableBatch, WholeTable
from lvmcore.gp.minibatch.label_terms import LabelSettings, label_terms
from lvmcore.gp.minibatch.masked_path import MaskedStochasticDataPath
from lvmcore.gp.minibatch.row_posteriors import EncodedRows, LocalRows, encoded_rows
from lvmcore.gp.minibatch.sharded_batches import ShardedBatches
from lvmcore.gp.paths import named_paths
from lvmcore.gp.row_relocation import best_positions
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.psi_statistics import MaskedPsiSums, masked_psi_sums
from lvmcore.neural.latent_batch import LatentBatch, LatentKLTerm, draw_positions
from lvmcore.numerics.row_blocks import BLOCK_ROWS
from lvmcore.preprocessing.observed_cells import ObservedCells
from lvmcore.training.batches import ROWS_PER_INDUCING, Batches
from lvmcore.training.objective import KLTerm, Objective, total_values
from lvmcore.training.snapshots import thinned

__all__ = [
    "MinibatchObjective",
    "MinibatchSettings",
]

# With more inducing inputs the psi statistics of a batch are sampled, not computed in closed form.
# The noise of one sample hinders a q(x) with parameters of its own more than an encoder, which
# averages over rows: with 50 of them a curved table of 10,000 x 10 ended at -0.70 nats a cell by
# samples and at -0.45 in closed form, in about the same time.
MOST_PSI_INDUCING, MOST_LOCAL_PSI_INDUCING = 32, 100


class MinibatchSettings(Protocol):
    """The settings of a model that its objective uses."""

    n_hidden: int
    batch_size: int
    learning_rate: float


class MinibatchObjective(Objective[TableBatch]):
    """The bound with q(x_n) from an encoder or of its own, estimated from a batch of rows.

    Args:
        settings: settings of the model.
        problem: the problem to fit.
        noise: initial noise variances, [D] or [1].
        n_inducing: M of every path.
        label_settings: settings of the label terms; None without labels.
        expression: of the kernel of every path; None for the RBF kernel.
        local: whether each q(x_n) has parameters of its own, in place of the encoder's output.
    """

    def __init__(
        self,
        settings: MinibatchSettings,
        problem: FitProblem,
        noise: Tensor,
        n_inducing: int,
        label_settings: LabelSettings | None = None,
        expression: KernelExpression | None = None,
        *,
        local: bool = False,
    ) -> None:
        table, generator = problem.table, problem.generator
        self.table, self.generator, self.columns = table, generator, problem.labels
        start, self.n_components = pca_start(problem), problem.n_components
        self.rows: EncodedRows | LocalRows = (
            LocalRows(start, table, settings.learning_rate)
            if local
            else encoded_rows(problem, start, settings.n_hidden)
        )
        X, _ = self.all_rows()
        # Kernels, inducing inputs and sums are float64 whatever the network's precision.
        data_path = StochasticDataPath if table.complete else MaskedStochasticDataPath
        self.path: BatchedDataPath = data_path(
            spread_points(X, n_inducing, generator), noise.double(), table, expression=expression
        )
        self.batches = Batches(len(table), settings.batch_size, generator)
        self.relocations = Batches(len(table), settings.batch_size, generator)
        self.labels = label_terms(
            label_settings,
            problem,
            X,
            n_inducing=n_inducing,
            batch_size=self.batches.size,
            expression=expression,
        )
        self.label_paths = [term.path for term in self.labels]
        most = MOST_LOCAL_PSI_INDUCING if local else MOST_PSI_INDUCING
        exact = self.batches.whole or n_inducing <= most
        self.data = MinibatchDataTerm(self.path, exact_psi=exact)
        self.latent_kl = LatentKLTerm()
        self.label_kl = (
            [KLTerm("KL of the label functions", self.label_paths)] if self.labels else []
        )
        super().__init__(
            [self.rows, self.path, *self.label_paths],
            [self.data, *self.labels, self.latent_kl, *self.label_kl],
        )
        self._initialise_inducing_values(n_inducing)
        self._whole: WholeTable | None = None
        #: The rows in shards; None where this process computes every batch.
        self._shards = ShardedBatches.chosen(table, self.rows, self.data, self.labels)

    def _initialise_inducing_values(self, n_inducing: int) -> None:
        """Initialise q(V) of the columns from as many rows as its running means average."""
        wanted = max(self.batches.size, ROWS_PER_INDUCING * n_inducing)
        rows = torch.randperm(len(self.table), generator=self.generator)[:wanted]
        with torch.no_grad():
            Y, observed = self.table.take(rows)
            sums = self.path.sums(*self._place(rows, Y, observed), Y, observed)
            self.path.prime(sums, Y, observed)

    @property
    def is_local(self) -> bool:
        """Whether each q(x) has parameters of its own."""
        return isinstance(self.rows, LocalRows)

    def _place(self, rows: Tensor, Y: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and variance of q(x) of rows, float64."""
        return self.rows.place(rows.to(Y.device), Y, observed)

    def all_rows(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of q(x) of all rows, float64; no gradient."""
        if isinstance(self.rows, LocalRows):
            return self.rows.all_rows()
        Q, encoder = self.n_components, self.rows
        found = self.table.map_blocks(lambda *block: torch.cat(encoder.encode(*block), 1), 2 * Q)
        return found[:, :Q].contiguous(), found[:, Q:].contiguous()

    @torch.no_grad()
    def all_sums(self, mean: Tensor, variance: Tensor) -> Any:
        """Psi statistics of all rows under q(x)."""
        means, variances = (torch.split(part, BLOCK_ROWS) for part in (mean, variance))
        blocks = zip(means, variances, self.table.blocks(), strict=True)
        return reduce(add, (self.path.sums(some, spread, *block) for some, spread, block in blocks))

    def whole_table(self) -> WholeTable:
        """q(X) and psi statistics of all rows, computed once after each change of the parameters.

        The bound of all rows, which ends a fit, leaves them for the fitted model.
        """
        if self._whole is None and self._shards is not None:
            local = self.rows.all_rows() if isinstance(self.rows, LocalRows) else None
            self._whole = self._shards.whole_table(local)
        elif self._whole is None:
            mean, variance = self.all_rows()
            self._whole = WholeTable(mean, variance, self.all_sums(mean, variance))
        return self._whole

    @torch.no_grad()
    def interval_scale(self, sums: MaskedPsiSums, generator: torch.Generator) -> Tensor:
        """Interval scale of imputed cells, calibrated on held-out cells, [D].

        The held-out cells are subtracted from the sums over all rows, so that q(V) does not use
        them. Kernels and network were fitted with them. See ``lvmcore.gp.imputation_intervals``.

        Args:
            sums: psi statistics of all rows.
            generator: of the choice of held-out cells.
        """
        rows = torch.randperm(len(self.table), generator=generator)[:HELD_ROWS]
        Y, observed = self.table.take(rows)
        assert observed is not None
        mean, variance = self._place(rows, Y, observed)
        held_out, Y = hold_out_cells(observed, generator), Y.double()
        cells = ObservedCells.from_mask(held_out, Y)
        path = self.path
        own = masked_psi_sums(
            path.kernel, mean, variance, path.Z, Y.masked_fill(~held_out, 0), cells
        )
        decoder = path.decoder(path.optimum(sums.subtract(own)))
        return interval_scale(ConditionedRows(decoder, mean, variance), Y, observed, held_out)

    def state(self) -> Iterable[Tensor]:
        """Running statistics of q(V), what rows have of their own, and the order of the batches."""
        orders = [self.batches, self.relocations] if self.is_local else [self.batches]
        return [
            *(tensor for module in self.modules for tensor in module.buffers()),
            *(tensor for batches in orders for tensor in batches.buffers()),
        ]

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms estimated from the next batch; q(V) is then updated."""
        self._whole = None
        rows = self.batches.next()
        if self._shards is not None:
            kl = {term.name: term.value(None) for term in self.label_kl}  # q(V) follows next
            return self._shards.batch_terms(rows, self.generator) | kl
        Y, observed = self.table.take(rows)
        mean, variance = self._place(rows, Y, observed)
        scale = len(self.table) / len(Y)
        X = draw_positions(mean, variance.sqrt(), 1, self.generator)
        batch = TableBatch(rows.to(X.device), mean, variance, X, scale, Y, observed)
        terms = self.values(batch)
        for term in self.summands:
            term.update()
        return terms

    def step_rows(self, rate: float) -> None:
        """Update q(x) of the rows of the last batch, where these have parameters of their own."""
        self.rows.step(rate)

    @torch.no_grad()
    def relocate_rows(self) -> None:
        """Move each of the next rows to the position of one of them where it fits best.

        Rows with parameters of their own only. They are the next batch of an order of its own, and
        q(V) is the current one, of a fit to all rows at once its optimum.
        """
        if not isinstance(self.rows, LocalRows):
            return
        batch, path = self.relocations.next(), self.path
        whole = self.batches.whole
        decoder = path.decoder(path.optimum(self.whole_table().sums) if whole else path.current())
        Y, observed = self.table.take(batch)
        rows = batch.to(Y.device)
        mean, variance = self.rows.place(rows, Y, observed)
        mask = None if observed is None else observed.double()
        candidates = torch.as_tensor(thinned(len(rows)), device=Y.device)
        best = best_positions(decoder, Y.double(), mask, mean, variance, candidates)
        self.rows.relocate(rows, rows[best])
        self._whole = None

    @torch.no_grad()
    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of all rows, q(V) of the columns at its optimum."""
        self._whole = None  # the parameters may have been restored since
        whole = self.whole_table()
        mean, variance = whole.mean, whole.variance
        rows = torch.arange(len(mean), device=mean.device)
        blocks = zip(*(torch.split(x, BLOCK_ROWS) for x in (rows, mean, variance)), strict=True)
        batches = (
            LatentBatch(some, m, v, draw_positions(m, v.sqrt(), draws, self.generator), 1.0)
            for some, m, v in blocks
        )
        return {
            self.data.name: self.path.best_bound(whole.sums),
            **total_values([*self.labels, self.latent_kl], batches),
            **{term.name: term.value(None) for term in self.label_kl},
        }

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.table)

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """Means of q(x) of some rows, [n, Q]."""
        some = torch.as_tensor(rows)
        return self._place(some, *self.table.take(some))[0]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of each path, [Q]."""
        del mean
        paths = named_paths(self.path, self.label_paths, self.columns)
        return {name: path.kernel.relevance for name, path in paths.items()}
