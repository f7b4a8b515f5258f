"""Fast LDGD: LDGD whose rows are placed by a network, fitted to a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base import Capabilities, Problem, to_numpy
from lvmcore.cells import ObservedCells
from lvmcore.gplvm import (
    WIDE_TABLE,
    snapshot_of,
    spread_points,
    thinned,
)
from lvmcore.inference import refine_rows
from lvmcore.intervals import HELD_ROWS, Settled, held_out, interval_scale
from lvmcore.labelled import LabelledMap, named_paths
from lvmcore.labels import ClassLabels, names_of_columns, row_weights
from lvmcore.networks import Encoder, network_arrays, restore_network, within_reach
from lvmcore.parameters import (
    Advanced,
    BatchSize,
    ClassWeight,
    Components,
    Device,
    Doc,
    Dtype,
    Hidden,
    Inducing,
    LabelLikelihood,
    LabelWeight,
    LearningRate,
    MaxIter,
    Noise,
    Range,
    Seed,
)
from lvmcore.psi import MaskedPsiSums, masked_psi_sums, psi1
from lvmcore.results import Posterior, Snapshot
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
from lvmcore.training import Outcome, Schedule, train
from lvmcore.variational import kl_standard_normal

__all__ = ["FastLDGD"]

FINAL_DRAWS = 8
SHORT_TABLE = 200
# Beyond so many inducing inputs a batch's psi statistics are drawn, not computed in closed form.
MOST_PSI_INDUCING = 32


class FastLDGD(LabelledMap):
    """LDGD with q(x_n) from a network, for long tables and for many new rows.

    The model is LDGD's: x_n ~ N(0, I) drives Gaussian processes to the columns and to the labels.
    Here q(x_n) = N(mean(y_n), diag variance(y_n)) comes from a network that sees the columns alone,
    never the label, so that a new row takes one forward pass and the number of parameters does not
    grow with the table. Each step estimates

    ELBO = Σ_n [E log p(y_n | f) + w E log p(label_n | f) − KL(q(x_n) ‖ N(0, I))] − KL(q(V) ‖ p)

    from a batch of rows, without bias. Adam moves the network, the kernels and the inducing inputs;
    both q(V) follow by natural gradients, which for the columns is their exact optimum for a
    running mean of the psi statistics, and the noise follows what they leave. A table that fits
    into one batch is fitted by the collapsed bound itself, and ``elbo_`` is the collapsed bound
    over all rows in any case. Several label columns have a path each, as in ``LDGD``.

    A missing cell leaves the sum over cells: each column follows the rows that it is observed in,
    and the network is told which cells a row has. A row with gaps that a network never told of any
    has to place, and every cell to fill, goes by the columns' Gaussian processes instead, as in
    ``LDGD``. The intervals of filled cells are widened until they hold cells that q(V) forgot.

    Attributes:
        classes_: the classes, sorted, [C].
        label_names_: names of the label columns, [L].
        relevance_: ``data`` and ``labels`` (or ``labels: NAME`` of each column) hold α = 1/ℓ² of
            each path, [Q].
        inducing_inputs_: under the same names, Z of each path, [M, Q].
        noise_variance_: σ_d² of the columns that vary, standardised units, [D].
        interval_scale_: factor of the standard deviation of filled cells, [D].
    """

    key: ClassVar[str] = "fast_ldgd"
    title: ClassVar[str] = "Fast LDGD"
    summary: ClassVar[str] = (
        "LDGD for long tables: a network places the rows, thousands of new ones a second."
    )
    paper: ClassVar[str] = "Ziaei et al. 2024"
    order: ClassVar[int] = 5
    capabilities: ClassVar[Capabilities] = Capabilities(
        labels="required",
        several_labels=True,
        missing_labels=True,
        missing_cells=True,
        sampling=True,
        uncertainty=True,
        bound=True,
        amortised=True,
    )
    label_draws: ClassVar[int] = 16

    _encoder: Encoder

    def __init__(
        self,
        *,
        n_components: Components = None,
        n_inducing: Inducing = 25,
        max_iter: MaxIter = 1000,
        label_weight: LabelWeight = 1.0,
        class_weight: ClassWeight = "equal",
        likelihood: LabelLikelihood = "probit",
        n_hidden: Hidden = 128,
        batch_size: BatchSize = 512,
        n_refinement: Annotated[
            int,
            Range(0, 1000),
            Doc("Steps by which each new row's place is improved on the network's answer."),
            Advanced(),
        ] = 0,
        noise: Noise = "column",
        learning_rate: LearningRate = 0.02,
        device: Device = "auto",
        dtype: Dtype = "float64",
        random_state: Seed = 0,
    ) -> None:
        self.n_components = n_components
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.label_weight = label_weight
        self.class_weight = class_weight
        self.likelihood = likelihood
        self.n_hidden = n_hidden
        self.batch_size = batch_size
        self.n_refinement = n_refinement
        self.noise = noise
        self.learning_rate = learning_rate
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @classmethod
    def suggest(cls, *, n_rows: int, n_columns: int, n_classes: int = 0) -> dict[str, Any]:
        """More inducing inputs, steps and hidden units for longer tables.

        In a wide table the columns share one noise (see ``LDGD.suggest``), and the labels weigh as
        much as the columns, or the network would hardly heed them. Where such a table is short, the
        network learns its few rows by heart: fewer steps place new rows better.
        """
        found: dict[str, Any] = {}
        if n_columns > WIDE_TABLE:
            weight = n_columns // max(1, n_classes)
            found = {"noise": "shared", "label_weight": float(np.clip(weight, 1, 1000))}
            if n_rows <= SHORT_TABLE:
                return found | {"max_iter": 100}
            if n_classes > 5:
                found["n_components"] = 20
        if n_rows > 5000:
            return found | {"n_inducing": 100, "max_iter": 4000, "n_hidden": 256}
        if n_rows > 1000 or n_classes > 5:
            return found | {"n_inducing": 50, "max_iter": 2000}
        return found

    def _fit(self, problem: Problem) -> Outcome:
        M = self._inducing_count(len(problem.table))
        fit = _Fit(self, problem, M)
        labelled = sum(term.signs.numel() for term in fit.labels)
        cells = fit.data.cells + round(self.label_weight * labelled)
        outcome = train(
            fit,
            Schedule.for_batches(
                self.max_iter,
                self.learning_rate,
                cells,
                n_rows=len(fit.table),
                size=fit.batches.size,
            ),
            problem.callback,
            draws=FINAL_DRAWS,
            checkpoint=problem.checkpoint,
        )
        self._encoder = fit.encoder
        mean, variance = fit.encode()
        sums = fit.all_sums(mean, variance)
        self._decoder = fit.data.decoder(fit.data.optimum(sums))
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self._keep_labels(fit.label_paths)
        self._keep_relevance(fit.data, fit.label_paths)
        self._calibrate(problem, outcome, lambda draws: fit.interval_scale(sums, draws))
        return outcome

    def _fitted_rows(self) -> tuple[Tensor, Tensor]:
        """Some of the rows of the fit, from which rows with gaps start."""
        rows = thinned(len(self.embedding_.mean))
        q = self.embedding_
        return self._to_tensor(q.mean[rows]).double(), self._to_tensor(q.variance[rows]).double()

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        seen = ~torch.isnan(Y)
        with torch.no_grad():
            mean, log_variance = self._encoder(Y.nan_to_num(0.0), seen)
        mean, variance = mean.double(), log_variance.double().exp()
        gaps = ~seen.all(1)
        if not self._encoder.masked and bool(gaps.any()):
            mean[gaps], variance[gaps] = super()._posterior(Y[gaps].double())
        if self.n_refinement:
            return refine_rows(self._decoder, Y, mean, variance, max_iter=self.n_refinement)
        return mean, variance

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super()._impute(Y.double())

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        told = {"told_of_gaps": self._encoder.masked}
        return arrays | network_arrays(self._encoder, "encoder."), facts | told

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        like = self._to_tensor(np.zeros(1))
        self._restore_data(arrays, like.double())
        self._restore_labels(arrays, like.double())
        D, Q = self._decoder.weights.shape[1], self._decoder.Z.shape[1]
        masked = bool(facts.get("told_of_gaps", False))  # files of earlier versions have no gaps
        self._encoder = Encoder(D, self.n_hidden, Q, like, torch.Generator(), masked=masked)
        restore_network(self._encoder, arrays, "encoder.")


class _LabelTerm:
    """One label column in the objective.

    Args:
        path: to it from the map.
        labels: its classes and codes.
        settings: of the model: how much the labels count.
        step: length of a natural-gradient step of q(V).
    """

    def __init__(
        self, path: StochasticLabelPath, labels: ClassLabels, settings: FastLDGD, step: float
    ) -> None:
        self.path, self.step = path, step
        codes, device = torch.as_tensor(labels.codes), path.precision.device
        one_hot = torch.nn.functional.one_hot(codes.clamp_min(0), len(labels.classes))
        self.signs = (2 * one_hot - 1).double().to(device)
        weights = settings.label_weight * row_weights(labels.codes, settings.class_weight)
        self.weights = torch.as_tensor(weights).to(device)

    def fit(self, rows: Tensor, X: Tensor, scale: float) -> Tensor:
        """Σ_n w_n E log p(label_n | f(x_n)) of some rows placed at X [S, n, Q], scaled, []."""
        weights = scale * self.weights[rows]
        known = torch.nonzero(weights)[:, 0]
        signs = self.signs[rows][known]
        return self.path.batch_fit(X[:, known], signs, weights[known], self.step)


class _Fit:
    """The objective: data term, label terms and the divergences, from all rows or from a batch."""

    def __init__(self, settings: FastLDGD, problem: Problem, n_inducing: int) -> None:
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
            settings._start_noise(problem).double(),
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
            self.data.prime(sums, len(Y))

    def _place(self, Y: Tensor, observed: Tensor | None) -> tuple[Tensor, Tensor]:
        """q(x) of rows, float64."""
        mean, log_variance = self.encoder(Y, observed)
        return mean.double(), log_variance.double().exp()

    def encode(self) -> tuple[Tensor, Tensor]:
        """q(x) of all rows, float64; no gradient."""
        with torch.no_grad():
            parts = [self._place(*block) for block in self.table.blocks()]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return mean, variance

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
        return [p for part in self._parts() for p in part.parameters()]

    def state(self) -> Iterable[Tensor]:
        return [
            *(tensor for part in self._parts() for tensor in part.buffers()),
            *self.batches.buffers(),
        ]

    @property
    def label_paths(self) -> list[StochasticLabelPath]:
        return [term.path for term in self.labels]

    def _parts(self) -> list[torch.nn.Module]:
        return [self.encoder, self.data, *self.label_paths]

    def held(self) -> Iterable[torch.nn.Parameter]:
        return [self.data.log_noise]

    def batch_terms(self) -> dict[str, Tensor]:
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
        with torch.no_grad():
            mean, variance = self.encode()
            rows = torch.arange(len(mean), device=mean.device)
            parts = [
                self._label_fits(some, self._draw(mean[some], variance[some], draws), 1.0)
                for some in torch.split(rows, ROWS_AT_A_TIME)
            ]
            return {
                "data fit": self.data.best_bound(self.all_sums(mean, variance)),
                **{name: torch.stack([part[name] for part in parts]).sum() for name in parts[0]},
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
        paths = named_paths(self.data, self.label_paths, self.known)
        relevance = {name: path.kernel.relevance for name, path in paths.items()}
        rows = thinned(len(self.table))
        with torch.no_grad():
            mean, _ = self._place(*self.table.take(torch.as_tensor(rows)))
        return snapshot_of(mean, relevance, rows)
