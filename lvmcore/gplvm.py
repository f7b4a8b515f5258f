"""What Gaussian-process latent variable models share: start, inference, decoding, storage."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import kmeans_plusplus
from torch import Tensor

from lvmcore.base import LatentVariableModel, Problem
from lvmcore.cells import ObservedCells
from lvmcore.checks import to_numpy
from lvmcore.counts import Cells
from lvmcore.decoding import DataDecoder
from lvmcore.draws import standard_draws
from lvmcore.errors import NumericalError
from lvmcore.inference import infer_rows
from lvmcore.intervals import FillingDecoder, Settled, fill_rows, held_out, interval_scale
from lvmcore.layers import DataPath, LatentRows
from lvmcore.parameters import Advised
from lvmcore.relevance import leading_dimensions, shares
from lvmcore.results import Posterior, Snapshot
from lvmcore.rows import HeldRows
from lvmcore.training import Outcome
from lvmcore.variational import LOG_2PI

__all__ = [
    "LONG_TABLE",
    "DataTerm",
    "GPLatentVariableModel",
    "SparseDecoder",
    "SparseGPModel",
    "advised_components",
    "advised_inducing",
    "advised_likelihood",
    "advised_noise",
    "advised_steps",
    "log_marginal",
    "long_table_steps",
    "snapshot_of",
    "spread_points",
    "thinned",
]

START_VARIANCE = 0.1
START_NOISE = 0.1
SNAPSHOT_ROWS = 2000
# Steps in which a fit may forget cells that are held out, a tenth of its own at most.
SETTLING_STEPS = 30
# From so many rows on, the suggested number of steps keeps a fit within two minutes on two cores.
LONG_TABLE = 20_000
LONG_TABLE_ROW_STEPS = 12_000_000
# From more columns than this on, label-aware models are advised one noise for all of them.
WIDE_TABLE = 30
# Draws from q(x), from the widened q(x), and from the prior.
DENSITY_DRAWS = (128, 64, 64)
# Draws × rows × columns held at a time: bounds memory, changes no result.
CELLS_AT_A_TIME = 1 << 23


class PathDecoder(FillingDecoder, Protocol):
    """A fitted data path: what is left of it once the fit is over."""

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of y at points X [N, Q], each [N, D]."""

    def doubt(self, X: Tensor) -> Tensor:
        """The share of the prior's variance that is left at points X [N, Q], [N]."""

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """log p(y_n | x_sn) of the cells that are not NaN, at points X [S, N, Q], [S, N]."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it, for a file."""


class SparseDecoder(PathDecoder, Protocol):
    """A fitted data path that has a noise for each column, and slopes."""

    @property
    def noise(self) -> Tensor:
        """σ_d², [D]."""

    def metric(self, X: Tensor) -> Tensor:
        """Σ_d E[∂f_d ∂f_dᵀ] at points X [N, Q], [N, Q, Q]."""


class GPLatentVariableModel(LatentVariableModel):
    """Base of the models whose data path is a set of Gaussian processes."""

    learning_rate: float
    max_iter: int

    _decoder: PathDecoder
    _interval_scale: Tensor | None = None

    @property
    def interval_scale_(self) -> NDArray[np.float64]:
        """Factor of the sd of filled cells of the columns that vary, by cells held out, [D].

        1 where the fit had no cell to fill.
        """
        if self._interval_scale is None:
            return np.ones(int((~self._standardiser.constant).sum()))
        return to_numpy(self._interval_scale)

    def _keep_rows(self, rows: LatentRows) -> None:
        self.embedding_ = Posterior(to_numpy(rows.mean), to_numpy(rows.variance))

    def _fitted_rows(self) -> tuple[Tensor, Tensor]:
        return self._to_tensor(self.embedding_.mean), self._to_tensor(self.embedding_.variance)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return infer_rows(self._decoder, Y, *self._fitted_rows())

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            return self._decoder.decode(X)

    def _doubt(self, X: Tensor) -> Tensor:
        return self._decoder.doubt(X)

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments of y = f(x) + ε, the sd widened by ``interval_scale_``."""
        with torch.no_grad():
            mean, variance, noise = fill_rows(self._decoder, Y, *self._fitted_rows())
            if self._interval_scale is not None:
                variance = variance * self._interval_scale.square()
            return mean, variance, noise

    def _calibrate(
        self, problem: Problem, outcome: Outcome, measure: Callable[[torch.Generator], Tensor]
    ) -> None:
        """Find how wide intervals of filled cells have to be, where the fit had cells to fill.

        Args:
            problem: what was fitted.
            outcome: how that ended.
            measure: gives ``interval_scale`` by cells held out at random.
        """
        self._interval_scale = None
        if problem.table.complete:
            return
        if outcome.stopped:
            self._note(
                "The fit was stopped before the intervals of filled cells could be checked: they "
                "may be too narrow."
            )
            return
        try:
            generator = torch.Generator().manual_seed(problem.generator.initial_seed())
            self._interval_scale = measure(generator)
        except NumericalError as error:
            self._note(f"The intervals of filled cells could not be checked. {error}")

    def _calibrate_by_steps(
        self, problem: Problem, outcome: Outcome, go_on: Callable[[Problem, int], Settled]
    ) -> None:
        """``_calibrate``, the fit going on without the cells held out.

        Args:
            problem: what was fitted.
            outcome: how that ended.
            go_on: fits fewer cells for so many steps, from where the fit ended.
        """

        def measure(generator: torch.Generator) -> Tensor:
            Y, observed = problem.table.take(slice(None))
            assert observed is not None
            held = held_out(observed, generator)
            fewer = replace(
                problem,
                table=HeldRows(Y.masked_fill(held, 0.0), observed & ~held),
                generator=generator,
                callback=None,
                checkpoint=None,
            )
            settled = go_on(fewer, min(SETTLING_STEPS, len(outcome.history) // 10))
            return interval_scale(settled, Y.to(settled.mean), observed, held)

        self._calibrate(problem, outcome, measure)

    def _log_density(self, Y: Tensor) -> Tensor:
        mean, variance = self._posterior(Y)
        with torch.no_grad():
            return log_marginal(self._decoder.log_density, Y, mean, variance)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = self._decoder.arrays()
        if self._interval_scale is not None:
            arrays["intervals.scale"] = to_numpy(self._interval_scale)
        return arrays, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del facts
        self._restore_data(arrays, self._to_tensor(np.zeros(1)))

    @abstractmethod
    def _read_decoder(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> PathDecoder:
        """The data path of a file, in the dtype and on the device of ``like``."""

    def _restore_data(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> None:
        """Take over the data path, in the dtype and on the device of ``like``."""
        self._decoder = self._read_decoder(arrays, like)
        scale = arrays.get("intervals.scale")
        self._interval_scale = None if scale is None else torch.as_tensor(scale.copy()).to(like)


class SparseGPModel(GPLatentVariableModel):
    """Base of the models whose data path has inducing inputs."""

    n_inducing: int
    noise: str

    _decoder: SparseDecoder

    def _inducing_count(self, n_rows: int) -> int:
        """M, at most one inducing input a row."""
        if self.n_inducing > n_rows:
            self._note(
                f"n_inducing reduced from {self.n_inducing} to {n_rows}: the table has "
                f"{n_rows} rows."
            )
        return min(self.n_inducing, n_rows)

    @property
    def noise_variance_(self) -> NDArray[np.float64]:
        """σ_d² of the columns that vary, standardised units, [D]."""
        return to_numpy(self._decoder.noise)

    def _start_noise(self, problem: Problem) -> Tensor:
        columns = problem.table.n_columns if self.noise == "column" else 1
        return problem.table.like.new_full((columns,), START_NOISE)

    def _metric(self, X: Tensor) -> Tensor:
        return self._decoder.metric(X)

    def _read_decoder(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> SparseDecoder:
        return DataDecoder.from_arrays(arrays, like)


def log_marginal(
    log_density: Callable[[Tensor, Tensor], Tensor], Y: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    """log p(y) = log E_r [p(y | x) p(x) / r(x)] by importance sampling, [N].

    The proposal r is a mixture of q(x), of q(x) at three times its sd, and of the prior, with fixed
    quasi-random draws, each weighed by the density of the whole mixture. The estimate errs
    downwards where a row's posterior has a mode that none of them finds.

    Args:
        log_density: (rows Y [n, D], points X [S, n, Q]) → log p(y_n | x_sn), [S, n].
        Y: rows, [N, D].
        mean: means of q(x), [N, Q].
        variance: their variances, [N, Q].
    """
    Z = standard_draws(sum(DENSITY_DRAWS), mean.shape[1], mean)
    draws = torch.split(Z, [*DENSITY_DRAWS])
    rows = max(1, CELLS_AT_A_TIME // (len(Z) * Y.shape[1]))

    def some(Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        means = (mean, mean, torch.zeros_like(mean))
        sds = (variance.sqrt(), 3 * variance.sqrt(), torch.ones_like(mean))
        X = torch.cat([m + s * z[:, None] for m, s, z in zip(means, sds, draws, strict=True)])
        log_r = torch.stack(
            [
                math.log(n / len(Z)) + _log_normal((X - m) / s) - s.log().sum(-1)
                for m, s, n in zip(means, sds, DENSITY_DRAWS, strict=True)
            ]
        ).logsumexp(0)
        log_weight = log_density(Y, X) + _log_normal(X) - log_r
        return log_weight.logsumexp(0) - math.log(len(X))

    parts = zip(*(torch.split(part, rows) for part in (Y, mean, variance)), strict=True)
    return torch.cat([some(*part) for part in parts])


def _log_normal(z: Tensor) -> Tensor:
    """log N(z | 0, I) over the last dimension."""
    return -0.5 * (z.square().sum(-1) + z.shape[-1] * LOG_2PI)


def long_table_steps(n_rows: int) -> int:
    """Steps that suit a table longer than ``LONG_TABLE``: the longer it is, the fewer."""
    return min(300, max(100, LONG_TABLE_ROW_STEPS // n_rows))


def advised_steps(n_rows: int) -> Advised:
    """The steps that suit a table longer than ``LONG_TABLE``, and why."""
    return Advised(
        long_table_steps(n_rows),
        f"each step uses all {n_rows:,} rows, and so many end in about two minutes on two cores",
    )


def advised_likelihood(cells: Cells) -> dict[str, Advised]:
    """The likelihood that the cells of a table ask for, where it is none of numbers, and why."""
    if cells == "counts":
        return {"likelihood": Advised("negative_binomial", "every cell is a count")}
    if cells == "binary":
        return {"likelihood": Advised("bernoulli", "every cell is 0 or 1")}
    return {}


def advised_inducing(count: int, n_rows: int, n_classes: int) -> Advised:
    """So many inducing inputs for a long table, or for many classes, and why."""
    what = f"{n_rows:,} rows hold" if n_rows > 1000 else f"{n_classes} classes make for"
    return Advised(count, f"{what} more structure than fewer places can remember")


def advised_noise(n_columns: int) -> Advised:
    """One noise for all columns of a wide table, and why."""
    return Advised(
        "shared",
        f"some of {n_columns:,} columns hardly vary, and with a noise of its own a rare spike in "
        "one would outweigh the others",
    )


def advised_components(n_columns: int, n_classes: int) -> Advised:
    """More dimensions for many classes in a wide table, and why."""
    return Advised(
        20, f"{n_classes} classes in {n_columns:,} columns need more dimensions to part in"
    )


class DataTerm:
    """The data in a fit's objective: all cells, or those that are observed.

    Args:
        problem: what is fitted.
    """

    def __init__(self, problem: Problem) -> None:
        Y, observed = problem.Y, problem.observed
        self.Y = Y.double()
        self.squares = self.Y.square().sum(0)
        self.cells = None if observed is None else ObservedCells.of(observed, Y)

    @property
    def count(self) -> int:
        """How many cells the bound sums over."""
        return self.Y.numel() if self.cells is None else int(self.cells.counts.sum())

    def bound(self, path: DataPath, rows: LatentRows) -> Tensor:
        """The collapsed bound without KL_X, []."""
        if self.cells is not None:
            return path.masked_bound(rows, self.Y, self.squares, self.cells)
        return path.bound(rows, self.Y, self.squares)[0]

    @torch.no_grad()
    def decoder(self, path: DataPath, rows: LatentRows) -> DataDecoder:
        """The path frozen at the optimal q(V)."""
        if self.cells is not None:
            return path.decoder(path.masked_optimum(rows, self.Y, self.cells))
        return path.decoder(path.bound(rows, self.Y, self.squares)[1])


def spread_points(X: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """A k-means++ pick of rows of X [N, Q] as inducing inputs, [count, Q]."""
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    chosen, _ = kmeans_plusplus(to_numpy(X), count, random_state=seed)
    return torch.as_tensor(chosen).to(X)


def thinned(n_rows: int) -> NDArray[np.intp]:
    """Positions of the rows that a snapshot shows: evenly spaced, at most 2000."""
    return np.arange(0, n_rows, max(1, -(-n_rows // SNAPSHOT_ROWS)))


def snapshot_of(
    mean: Tensor, relevance: dict[str, Tensor], rows: NDArray[np.intp] | None = None
) -> Snapshot:
    """A snapshot on the two dimensions that matter most.

    Args:
        mean: latent means of all rows, or of ``rows``, [N, Q].
        relevance: α of each path, [Q] each.
        rows: which rows ``mean`` holds; all of them, to be thinned, where not given.
    """
    found = shares({path: to_numpy(alpha) for path, alpha in relevance.items()})
    first, vertical = leading_dimensions(found)
    second = first if vertical is None else vertical
    shown = to_numpy(mean)
    if rows is None:
        rows = thinned(len(mean))
        shown = shown[rows]
    return Snapshot(shown[:, [first, second]], rows, (first, second), found)
