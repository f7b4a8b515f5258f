"""The objective of a fit by batches: a network places the rows, paths lead to columns and labels.

Notation: lvmcore/README.md; the bound is that of ``FastLDGD``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any, Protocol

import torch
from torch import Tensor

from lvmcore.base import Problem
from lvmcore.cells import ObservedCells
from lvmcore.gplvm import snapshot_of, spread_points, thinned
from lvmcore.intervals import HELD_ROWS, Settled, held_out, interval_scale
from lvmcore.labelled import named_paths
from lvmcore.labels import ClassLabels, Weighting, names_of_columns, row_weights
from lvmcore.likelihoods import Link
from lvmcore.networks import Encoder, within_reach
from lvmcore.psi import MaskedPsiSums, masked_psi_sums, psi1
from lvmcore.results import Snapshot
from lvmcore.rows import ROWS_AT_A_TIME
from lvmcore.starts import pca_start
from lvmcore.stochastic import (
    LONGEST_LABEL_STEP,
    ROWS_PER_INDUCING,
    Batches,
    StochasticLabelPath,
    step_length,
)
from lvmcore.stochastic_columns import BatchedDataPath, StochasticDataPath
from lvmcore.stochastic_masked import MaskedStochasticDataPath
from lvmcore.variational import kl_standard_normal

__all__ = ["BatchFit", "BatchSettings"]

# Beyond so many inducing inputs a batch's psi statistics are drawn, not computed in closed form.
MOST_PSI_INDUCING = 32


class BatchSettings(Protocol):
    """What of a model's settings the objective goes by."""

    n_hidden: int
    batch_size: int
    likelihood: Link
    label_weight: float
    class_weight: Weighting


class _LabelTerm:
    """One label column in the objective.

    Args:
        path: to it from the map.
        labels: its classes and codes.
        settings: of the model: how much the labels count.
        step: length of a natural-gradient step of q(V).
    """

    def __init__(
        self, path: StochasticLabelPath, labels: ClassLabels, settings: BatchSettings, step: float
    ) -> None:
        self.path, self.step = path, step
        device = path.precision.device
        self.codes, self.n_classes = torch.as_tensor(labels.codes).to(device), len(labels.classes)
        weights = settings.label_weight * row_weights(labels.codes, settings.class_weight)
        self.weights = torch.as_tensor(weights).to(device)

    def fit(self, rows: Tensor, X: Tensor, scale: float) -> Tensor:
        """Σ_n w_n E log p(label_n | f(x_n)) of some rows placed at X [S, n, Q], scaled, []."""
        weights = scale * self.weights[rows]
        known = torch.nonzero(weights)[:, 0]
        # Made of the batch alone: of all rows they would take classes times the space of a column.
        codes = self.codes[rows][known]
        signs = 2 * torch.nn.functional.one_hot(codes, self.n_classes).double() - 1
        return self.path.batch_fit(X[:, known], signs, weights[known], self.step)


class BatchFit:
    """The objective: data term, label terms and the divergences, from all rows or from a batch.

    Args:
        settings: of the model.
        problem: what is fitted.
        noise: noise variances to start from, [D] or [1].
        n_inducing: M of every path.
    """

    def __init__(
        self, settings: BatchSettings, problem: Problem, noise: Tensor, n_inducing: int
    ) -> None:
        table, generator = problem.table, problem.generator
        self.table, self.generator = table, generator
        start = pca_start(problem)
        Q = problem.n_components
        self.encoder = Encoder(
            table.n_columns,
            settings.n_hidden,
            Q,
            table.like,
            generator,
            masked=not table.complete,
        )
        self.encoder.start(table, start)
        X, _ = self.encode()
        # Kernels, inducing inputs and sums are in float64 whatever the network computes in.
        columns = StochasticDataPath if table.complete else MaskedStochasticDataPath
        self.data: BatchedDataPath = columns(
            spread_points(X, n_inducing, generator),
            noise.double(),
            table,
        )
        self.batches = Batches(len(table), settings.batch_size, generator)
        self.known = problem.labels
        step = step_length(self.batches.size, n_inducing, most=LONGEST_LABEL_STEP)
        self.labels = []
        for column in problem.labels:
            Z = spread_points(X, n_inducing, generator)
            path = StochasticLabelPath(Z, len(column.classes), settings.likelihood).to(X.device)
            self.labels.append(_LabelTerm(path, column, settings, step))
        self.exact_psi = self.batches.whole or n_inducing <= MOST_PSI_INDUCING
        self._prime(n_inducing)

    def _prime(self, n_inducing: int) -> None:
        """Start q(V) of the data from as many rows as its running mean will hold."""
        wanted = max(self.batches.size, ROWS_PER_INDUCING * n_inducing)
        rows = torch.randperm(len(self.table), generator=self.generator)[:wanted]
        with torch.no_grad():
            Y, observed = self.table.take(rows)
            sums = self.data.sums(*self._place(Y, observed), Y, observed)
            self.data.prime(sums, Y, observed)

    def _place(self, Y: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """q(x) of rows, float64."""
        mean, log_variance = self.encoder(Y, observed)
        return mean.double(), log_variance.double().exp()

    def encode(self) -> tuple[Tensor, Tensor]:
        """q(x) of all rows, float64; no gradient."""
        Q = self.encoder.n_components
        placed = self.table.collect(lambda *block: torch.cat(self._place(*block), 1), 2 * Q)
        return placed[:, :Q].contiguous(), placed[:, Q:].contiguous()

    @torch.no_grad()
    def all_sums(self, mean: Tensor, variance: Tensor) -> Any:
        """Psi statistics of all rows, placed at q(x)."""
        means, variances = (torch.split(part, ROWS_AT_A_TIME) for part in (mean, variance))
        blocks = zip(means, variances, self.table.blocks(), strict=True)
        return reduce(add, (self.data.sums(some, spread, *block) for some, spread, block in blocks))

    @torch.no_grad()
    def interval_scale(self, sums: MaskedPsiSums, generator: torch.Generator) -> Tensor:
        """How wide intervals of filled cells have to be; see ``lvmcore.intervals``.

        The cells held out are taken out of the sums over all rows, so that q(V) knows nothing of
        them. Kernels and network do, but share that with all other cells.

        Args:
            sums: psi statistics of all rows.
            generator: of the cells held out.
        """
        rows = torch.randperm(len(self.table), generator=generator)[:HELD_ROWS]
        Y, observed = self.table.take(rows)
        assert observed is not None
        mean, variance = self._place(Y, observed)
        held, Y = held_out(observed, generator), Y.double()
        cells = ObservedCells.of(held, Y)
        data = self.data
        known = masked_psi_sums(data.kernel, mean, variance, data.Z, Y.masked_fill(~held, 0), cells)
        settled = Settled(data.decoder(data.optimum(sums.without(known))), mean, variance)
        return interval_scale(settled, Y, observed, held)

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """What Adam moves: the network, kernels, inducing inputs and the noise."""
        return [p for part in self._parts() for p in part.parameters()]

    def state(self) -> Iterable[Tensor]:
        """What else a checkpoint keeps: running statistics and where the batches stand."""
        return [
            *(tensor for part in self._parts() for tensor in part.buffers()),
            *self.batches.buffers(),
        ]

    @property
    def label_paths(self) -> list[StochasticLabelPath]:
        """The path to each label column."""
        return [term.path for term in self.labels]

    def _parts(self) -> list[torch.nn.Module]:
        return [self.encoder, self.data, *self.label_paths]

    def held(self) -> Iterable[torch.nn.Parameter]:
        """What the warm-up leaves as it is: the noise."""
        return [self.data.log_noise]

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms of the bound, estimated from the next batch, which q(V) then follows."""
        rows = self.batches.next()
        Y, observed = self.table.take(rows)
        mean, variance = self._place(Y, observed)
        scale = len(self.table) / len(Y)
        label_kl = self._label_kl()
        X = self._draw(mean, variance, 1)
        if self.exact_psi:
            sums = self.data.sums(mean, variance, Y, observed)
        else:
            sums = self.data.drawn_sums(X[0], Y, observed)
        return {
            "data fit": self.data.batch_bound(sums, Y, self._excess(mean, variance, Y), observed),
            **self._label_fits(rows.to(X.device), X, scale),
            "KL of the map": -scale * kl_standard_normal(mean, variance).sum(),
            "KL of the label functions": -label_kl,
        }

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of the bound of all rows, q(V) of the columns at its optimum."""
        with torch.no_grad():
            mean, variance = self.encode()
            rows = torch.arange(len(mean), device=mean.device)
            fits: dict[str, Tensor] = {}
            for some in torch.split(rows, ROWS_AT_A_TIME):
                X = self._draw(mean[some], variance[some], draws)
                found = self._label_fits(some, X, 1.0)
                fits = {name: fits.get(name, 0.0) + fit for name, fit in found.items()}
            return {
                "data fit": self.data.best_bound(self.all_sums(mean, variance)),
                **fits,
                "KL of the map": -kl_standard_normal(mean, variance).sum(),
                "KL of the label functions": -self._label_kl(),
            }

    def _excess(self, mean: Tensor, variance: Tensor, Y: Tensor) -> Tensor | None:
        """psi1ᵀ times what cells are further out than the network sees, [M, D]; mostly none is."""
        beyond = Y - within_reach(Y)
        if not bool(beyond.any()):
            return None
        with torch.no_grad():
            return psi1(self.data.kernel, mean, variance, self.data.Z).T @ beyond.double()

    def _draw(self, mean: Tensor, variance: Tensor, draws: int) -> Tensor:
        """Places of rows drawn from q(x), [draws, n, Q]."""
        noise = torch.randn((draws, *mean.shape), generator=self.generator, dtype=torch.float64)
        return mean + variance.sqrt() * noise.to(mean)

    def _label_fits(self, rows: Tensor, X: Tensor, scale: float) -> dict[str, Tensor]:
        fits = [term.fit(rows, X, scale) for term in self.labels]
        return dict(zip(names_of_columns("label fit", self.known), fits, strict=True))

    def _label_kl(self) -> Tensor:
        return torch.stack([path.kl() for path in self.label_paths]).sum()

    def snapshot(self) -> Snapshot:
        """The map as it stands, of at most 2000 rows."""
        paths = named_paths(self.data, self.label_paths, self.known)
        relevance = {name: path.kernel.relevance for name, path in paths.items()}
        rows = thinned(len(self.table))
        with torch.no_grad():
            mean, _ = self._place(*self.table.take(torch.as_tensor(rows)))
        return snapshot_of(mean, relevance, rows)
