"""The objective of a map whose columns have likelihoods of their own.

Each step estimates the bound

Σ_n [Σ_d E log p(y_nd | f_nd) + w E log p(label_n | f) − KL(q(x_n) ‖ N(0, I))] − KL(q(V) ‖ p),

d over the observed cells of row n, without bias from a batch of rows and one sample of each q(x_n)
(Lalchand, Ravuri and Lawrence 2022), less the divergences of what else a path has. q(V) follows by
natural gradients, everything else by Adam.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.fit_problem import FitProblem
from lvmcore.gp.columns.likelihood_path import LikelihoodPath
from lvmcore.gp.minibatch.data_term import TableBatch
from lvmcore.gp.minibatch.label_terms import LabelSettings, label_terms
from lvmcore.gp.minibatch.row_posteriors import EncodedRows, LocalRows
from lvmcore.gp.paths import LatentRows
from lvmcore.neural.latent_batch import LatentKLTerm, draw_positions
from lvmcore.numerics.row_blocks import BLOCK_ROWS
from lvmcore.preprocessing.class_labels import label_column_names
from lvmcore.training.batches import LONGEST_LABEL_STEP, Batches, step_length
from lvmcore.training.objective import KLTerm, Objective, Term

__all__ = ["ColumnObjective", "FreeRows"]

# Natural-gradient steps of q(V) before the first step of Adam, and steps over their length once the
# features are fixed: a share e^-3 of the last q(V) is left.
FIRST_STEPS, FIXED_STEPS = 5, 3.0


class FreeRows(LatentRows):
    """q(X) with parameters of its own for each row, of which a step updates all."""

    def place(self, rows: Tensor, Y: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """The parameters of the rows."""
        del Y, observed
        return self.mean[rows].double(), self.log_variance[rows].double().exp()

    def step(self, rate: float) -> None:
        """Nothing: Adam updates all rows."""


class ColumnTermOfBound(Term[TableBatch]):
    """Σ E log p(y_nd | f_nd) of the columns.

    Args:
        path: the path to the columns; its q(V) is updated with each batch.
        step: length of the natural-gradient steps.
    """

    name = "data fit"

    def __init__(self, path: LikelihoodPath, step: float) -> None:
        self.path, self.step = path, step

    def value(self, sample: TableBatch) -> Tensor:
        """The estimate, []."""
        return self.path.expected_log_likelihood(sample.X, sample.Y, sample.observed, sample.scale)

    def update(self) -> None:
        """The natural-gradient step for the last batch."""
        self.path.natural_gradient_step(self.step)


class ColumnObjective(Objective[TableBatch]):
    """The bound of a map whose columns have likelihoods of their own.

    Args:
        rows: q(X).
        path: the path to the columns.
        problem: the problem to fit.
        batch_size: rows in a batch.
        label_settings: settings of the label terms; None without labels.
        X: initial map, [N, Q] (float64).
    """

    def __init__(
        self,
        rows: FreeRows | LocalRows | EncodedRows,
        path: LikelihoodPath,
        problem: FitProblem,
        *,
        batch_size: int,
        label_settings: LabelSettings | None,
        X: Tensor,
    ) -> None:
        self.table, self.generator, self.columns = problem.table, problem.generator, problem.labels
        self.rows, self.path = rows, path
        M = path.n_basis
        self.batches = Batches(len(self.table), batch_size, self.generator)
        self.labels = label_terms(
            label_settings, problem, X, n_inducing=M, batch_size=self.batches.size
        )
        self.label_paths = [term.path for term in self.labels]
        step = step_length(self.batches.size, M, most=LONGEST_LABEL_STEP)
        self.data = ColumnTermOfBound(path, step)
        self.kl_terms = path.divergences()
        if self.labels:
            self.kl_terms.append(KLTerm("KL of the label functions", self.label_paths))
        super().__init__(
            [rows, path, *self.label_paths],
            [self.data, *self.labels, LatentKLTerm(), *self.kl_terms],
        )
        self._follow(FIRST_STEPS)

    def _follow(self, steps: int) -> None:
        """Natural-gradient steps of q(V) of the columns alone."""
        for _ in range(steps):
            batch = self._batch(self.batches.next())
            with torch.enable_grad():
                self.data.value(batch)
            self.data.update()

    def fix_features(self) -> None:
        """Fix the features of the columns at those of the fitted model, where they are sampled."""
        if self.path.fix_features():
            self._follow(math.ceil(FIXED_STEPS / self.data.step))

    def _batch(self, rows: Tensor | slice, draws: int = 1) -> TableBatch:
        """Some rows with their cells and samples of their positions."""
        Y, observed = self.table.take(rows)
        some = torch.arange(len(self.table))[rows].to(Y.device)
        Y = Y.double()
        mean, variance = self.rows.place(some, Y.to(self.table.like), observed)
        X = draw_positions(mean, variance.sqrt(), draws, self.generator)
        return TableBatch(some, mean, variance, X, len(self.table) / len(Y), Y, observed)

    def state(self) -> Iterable[Tensor]:
        """q(V), what rows have of their own, the order of the batches, and tensors of the path."""
        return [
            *(tensor for module in self.modules for tensor in module.buffers()),
            *self.batches.buffers(),
            *self.path.tensors(),
        ]

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms estimated from the next batch; q(V) is then updated."""
        self.path.begin_step()
        terms = self.values(self._batch(self.batches.next()))
        for term in self.summands:
            term.update()
        return terms

    def step_rows(self, rate: float) -> None:
        """Update q(x) of the rows of the last batch, where that is left to the batches."""
        self.rows.step(rate)

    @torch.no_grad()
    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of all rows, at the current q(V)."""
        found: dict[str, Tensor] = {}
        for begin in range(0, len(self.table), BLOCK_ROWS):
            batch = self._batch(slice(begin, begin + BLOCK_ROWS), draws)
            share = len(batch.Y) / len(self.table)
            for term in self.summands:
                if term not in self.kl_terms:
                    value = share * term.value(batch)  # the scale of a batch is 1/share
                    found[term.name] = found[term.name] + value if term.name in found else value
        return found | {term.name: term.value(None) for term in self.kl_terms}

    @torch.no_grad()
    def all_rows(self) -> tuple[Tensor, Tensor]:
        """Means and variances of q(x) of all rows, [N, Q] each, float64."""
        parts = []
        for begin in range(0, len(self.table), BLOCK_ROWS):
            some = slice(begin, begin + BLOCK_ROWS)
            Y, observed = self.table.take(some)
            rows = torch.arange(len(self.table))[some].to(Y.device)
            parts.append(self.rows.place(rows, Y, observed))
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return mean, variance

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.table)

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """Means of q(x) of some rows, [n, Q]."""
        some = torch.as_tensor(rows)
        Y, observed = self.table.take(some)
        return self.rows.place(some.to(Y.device), Y, observed)[0]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of each path, [Q]."""
        del mean
        names = label_column_names("labels", self.columns)
        labels = zip(names, self.label_paths, strict=True)
        return {"data": self.path.relevance} | {
            name: path.kernel.relevance for name, path in labels
        }
