"""Full-batch objectives of sparse Gaussian process latent variable models.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.model import PathDecoder
from lvmcore.gp.paths import DataPath, KernelPath, LabelPath, LatentRows, named_paths
from lvmcore.gp.rows.label_draws import drawn_rows
from lvmcore.gp.rows.labelled_block import ShardedLabelTerm, label_facts
from lvmcore.gp.rows.sharded_rows import ShardedRows
from lvmcore.preprocessing.class_labels import label_column_names
from lvmcore.preprocessing.observed_cells import ObservedCells
from lvmcore.training.label_term import LabelTerm
from lvmcore.training.objective import KLTerm, Objective, Term
from lvmcore.training.parameter_state import ParameterState, ParameterVectors

__all__ = ["DataTerm", "GPLVMObjective", "LDGDObjective", "LatentSample", "SparseGPLVMObjective"]


@dataclass(frozen=True)
class LatentSample:
    """q(X) of all rows, and the number of its samples in the sampled terms.

    Attributes:
        rows: q(X).
        draws: number of samples of q(X).
        generator: generator of the samples.
        positions: samples of each labelled row per draw, for the label terms.
    """

    rows: LatentRows
    draws: int
    generator: torch.Generator
    positions: int = 1

    def labelled_positions(self, term: LabelTerm) -> Iterator[tuple[Tensor, Tensor, float]]:
        """Samples of the labelled rows; of more than 20 000, of a random subset in each draw."""
        drawn = drawn_rows(term.rows, self.draws, self.positions, self.generator)
        for rows, samples, scale in drawn:
            yield rows, self.rows.draw(samples, rows, self.generator), scale


class DataTerm(Term[LatentSample]):
    """F(q(X)): the collapsed bound on log p(Y | X) of the observed cells.

    Args:
        path: kernel, inducing inputs and noise.
        problem: the table.
    """

    name = "data fit"

    def __init__(self, path: DataPath, problem: FitProblem) -> None:
        Y, observed = problem.Y, problem.observed
        self.path = path
        self.Y = Y.double()
        self.squares = self.Y.square().sum(0)
        self.cells = None if observed is None else ObservedCells.from_mask(observed, Y)

    def in_double(self) -> Self:
        """A copy whose path is in double, for predictions."""
        found = copy(self)
        found.path = self.path.in_double()
        return found

    @property
    def count(self) -> int:
        """Number of cells in the bound."""
        return self.Y.numel() if self.cells is None else int(self.cells.counts.sum())

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """The noise variances."""
        return [self.path.log_noise]

    def value(self, sample: LatentSample) -> Tensor:
        """The collapsed bound without KL(q(X)), []."""
        if self.cells is not None:
            return self.path.masked_bound(sample.rows, self.Y, self.squares, self.cells)
        return self.path.bound(sample.rows, self.Y, self.squares)

    @torch.no_grad()
    def decoder(self, rows: LatentRows) -> DataDecoder:
        """The path at the optimal q(V) for q(X), in double."""
        path = self.path.in_double()
        if self.cells is not None:
            return path.decoder(path.masked_optimum(rows, self.Y, self.cells))
        return path.decoder(path.optimal_inducing(rows, self.Y, self.squares))


class SparseGPLVMObjective(Objective[LatentSample]):
    """Base of the objectives of q(X) and Gaussian processes from the latent space to the columns.

    Args:
        rows: q(X).
        data: the data term.
        problem: the problem to fit; its generator draws the samples of q(X).
        further: the other terms.
        modules: modules whose parameters are optimised with those of ``rows`` and the data path.
    """

    def __init__(
        self,
        rows: LatentRows,
        data: DataTerm,
        problem: FitProblem,
        further: Sequence[Term[LatentSample]],
        modules: Sequence[nn.Module] = (),
    ) -> None:
        super().__init__([rows, data.path, *modules], [data, *further])
        self.rows, self.data, self.generator = rows, data, problem.generator

    @property
    def path(self) -> DataPath:
        """The Gaussian processes to the columns."""
        return self.data.path

    @property
    def latent_path(self) -> KernelPath:
        """The Gaussian processes whose inputs are the map: their kernel and inducing inputs."""
        return self.path

    def parameter_state(self) -> ParameterState:
        """The parameters as the loop holds them, those of the rows where the rows are."""
        return self.rows.parameter_state(list(self.parameters()), list(self.state()))

    def parameter_vectors(self) -> ParameterVectors:
        """The parameters in one vector, its parts where the parameters are."""
        return self.rows.parameter_vectors(list(self.parameters()))

    def draw_sample(self, draws: int) -> LatentSample:
        """q(X) and the number of its samples."""
        return LatentSample(self.rows, draws, self.generator)

    @property
    def n_rows(self) -> int:
        """N."""
        return self.rows.shape[0]

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """Means of q(x) of some rows, [n, Q]."""
        return self.rows.means_of(rows)

    @torch.no_grad()
    def relocate_rows(self) -> None:
        """Move each row to the position of the row, of at most 2000, where it fits best.

        The moves are taken back unless the bound rises, as it need not where the prior of X is no
        product over rows, or where there are terms beside that of the columns.
        """
        rows, cells, Y = self.rows, self.data.cells, self.data.Y.double()
        observed = None if cells is None else cells.mask.to(Y)
        if not rows.find_moves(self.data.decoder(rows), Y, observed):
            return
        bound = self.bound()
        rows.move()
        if not self.bound() > bound:
            rows.move_back()

    @torch.no_grad()
    def parameter_scales(self) -> list[Tensor]:
        """The expected scale of each parameter, in the shape of ``parameters``.

        Those of q(X) are ``LatentRows.scales``. At an optimum the curvature by a parameter shared
        by n values is n/2 or more. Each of M inducing inputs, in lengthscales where these are
        short, concerns N/M rows.
        """
        path, N = self.path, self.n_rows
        reach = path.kernel.lengthscales.clamp_max(1) * (2 * len(path.points) / N) ** 0.5
        noise = (2 * len(path.log_noise) / self.data.count) ** 0.5
        scales = {
            **self.rows.scales(),
            path.points: reach.expand_as(path.points),
            path.log_noise: torch.full_like(path.log_noise, noise),
        }
        rest = (2 / N) ** 0.5
        return [scales.get(p, torch.full_like(p, rest)) for p in self.parameters()]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of the kernel over the latent space, [Q]."""
        del mean
        return {"data": self.latent_path.kernel.relevance}

    def decoder(self) -> PathDecoder:
        """The fitted path to the columns, q(V) at its optimum."""
        return self.data.decoder(self.rows)

    @abstractmethod
    def with_problem(self, problem: FitProblem) -> SparseGPLVMObjective:
        """The objective of another problem with a copy of the current parameters."""


class GPLVMObjective(SparseGPLVMObjective):
    """F(q(X)) − KL(q(X) ‖ N(0, I)).

    Args:
        rows: initial q(X).
        path: initial kernel, inducing inputs and noise.
        problem: the problem to fit.
    """

    def __init__(self, rows: LatentRows, path: DataPath, problem: FitProblem) -> None:
        super().__init__(rows, DataTerm(path, problem), problem, [KLTerm("KL of the map", [rows])])

    def with_problem(self, problem: FitProblem) -> GPLVMObjective:
        """The objective of another problem with a copy of the current parameters."""
        return GPLVMObjective(deepcopy(self.rows), deepcopy(self.path), problem)


class LDGDObjective(SparseGPLVMObjective):
    """F(q(X)) + Σ_l w · E log P(labels_l) − KL(q(X) ‖ N(0, I)) − Σ_l KL(q(U^l) ‖ p).

    Args:
        rows: initial q(X).
        path: initial kernel, inducing inputs and noise of the columns.
        label_paths: initial Gaussian processes of each label column.
        problem: the problem to fit.
        weights: w of each row, by label column, [N] each.
        samples: samples of each row's position per step, for the label terms.
    """

    def __init__(
        self,
        *,
        rows: LatentRows,
        path: DataPath,
        label_paths: Sequence[LabelPath],
        problem: FitProblem,
        weights: Sequence[ArrayLike],
        samples: int,
    ) -> None:
        self.label_paths = [label_path.to(problem.Y.device) for label_path in label_paths]
        self.columns, self.weights, self.samples = problem.labels, weights, samples
        names = label_column_names("label fit", self.columns)
        parts = zip(names, self.label_paths, self.columns, weights, strict=True)
        self.labels = [
            ShardedLabelTerm(rows, i, *part, problem.Y)
            if isinstance(rows, ShardedRows)
            else LabelTerm(*part, problem.Y)
            for i, part in enumerate(parts)
        ]
        further: list[Term[LatentSample]] = [
            *self.labels,
            KLTerm("KL of the map", [rows]),
            KLTerm("KL of the label functions", self.label_paths),
        ]
        super().__init__(rows, DataTerm(path, problem), problem, further, self.label_paths)

    def draw_sample(self, draws: int) -> LatentSample:
        """q(X) and the number of its samples."""
        if isinstance(self.rows, ShardedRows):
            Q = self.rows.shape[1]
            self.rows.facts = label_facts(self.labels, draws, self.samples, Q, self.generator)
        return LatentSample(self.rows, draws, self.generator, self.samples)

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of each path, [Q]."""
        del mean
        paths = named_paths(self.path, self.label_paths, self.columns)
        return {name: path.kernel.relevance for name, path in paths.items()}

    def with_problem(self, problem: FitProblem) -> Self:
        """The objective of another problem with a copy of the current parameters."""
        return type(self)(
            rows=deepcopy(self.rows),
            path=deepcopy(self.path),
            label_paths=deepcopy(self.label_paths),
            problem=problem,
            weights=self.weights,
            samples=self.samples,
        )
