"""What Gaussian-process latent variable models share: start, inference, decoding, storage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm, qmc
from sklearn.cluster import kmeans_plusplus
from torch import Tensor

from lvmcore.base import LatentVariableModel, Problem, to_numpy
from lvmcore.cells import ObservedCells
from lvmcore.decoding import DataDecoder
from lvmcore.inference import infer_modes, infer_rows
from lvmcore.layers import DataPath, LatentRows
from lvmcore.principal import fit_linear_gaussian
from lvmcore.results import Posterior, Snapshot
from lvmcore.variational import LOG_2PI

__all__ = [
    "LONG_TABLE",
    "DataTerm",
    "GPLatentVariableModel",
    "long_table_steps",
    "pca_start",
    "snapshot_of",
    "spread_points",
    "standard_draws",
]

START_VARIANCE = 0.1
START_NOISE = 0.1
SNAPSHOT_ROWS = 2000
# From so many rows on, the suggested number of steps keeps a fit within two minutes on two cores.
LONG_TABLE = 20_000
LONG_TABLE_ROW_STEPS = 15_000_000
# Draws from q(x), from the widened q(x), and from the prior.
DENSITY_DRAWS = (128, 64, 64)
# Of the start where cells are missing: steps at most, and nats per cell that are worth a step.
START_STEPS, START_TOLERANCE = 100, 1e-4


class GPLatentVariableModel(LatentVariableModel):
    """Base of the models whose data path is a set of sparse Gaussian processes."""

    n_inducing: int
    noise: str
    learning_rate: float
    max_iter: int

    _decoder: DataDecoder

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
        columns = problem.Y.shape[1] if self.noise == "column" else 1
        return problem.Y.new_full((columns,), START_NOISE)

    def _keep_rows(self, rows: LatentRows) -> None:
        self.embedding_ = Posterior(to_numpy(rows.mean), to_numpy(rows.variance))

    def _fitted_rows(self) -> tuple[Tensor, Tensor]:
        return self._to_tensor(self.embedding_.mean), self._to_tensor(self.embedding_.variance)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return infer_rows(self._decoder, Y, *self._fitted_rows())

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            mean, variance = self._decoder.predict(X)
            noise = self._decoder.noise.expand_as(mean)
            return mean, variance + noise, noise

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments of y = f(x) + ε under all places that the cells of a row leave open."""
        with torch.no_grad():
            means, variances, weights = infer_modes(self._decoder, Y, *self._fitted_rows())
            first = second = torch.zeros_like(Y)
            for k in range(weights.shape[1]):
                mean, spread = self._decoder.moments(means[:, k], variances[:, k])
                first = first + weights[:, k : k + 1] * mean
                second = second + weights[:, k : k + 1] * (spread + mean.square())
            noise = self._decoder.noise.expand_as(first)
            return first, (second - first.square()).clamp_min(0) + noise, noise

    def _log_density(self, Y: Tensor) -> Tensor:
        """log p(y) = log E_r [p(y | x) p(x) / r(x)] by importance sampling, [N].

        The proposal r is a mixture of q(x), of q(x) at three times its sd, and of the prior, with
        fixed quasi-random draws, each weighed by the density of the whole mixture. The estimate
        errs downwards where a row's posterior has a mode that none of them finds.
        """
        mean, variance = self._posterior(Y)
        with torch.no_grad():
            means = (mean, mean, torch.zeros_like(mean))
            sds = (variance.sqrt(), 3 * variance.sqrt(), torch.ones_like(mean))
            draws = torch.split(
                standard_draws(sum(DENSITY_DRAWS), mean.shape[1], mean), [*DENSITY_DRAWS]
            )
            X = torch.cat([m + s * z[:, None] for m, s, z in zip(means, sds, draws, strict=True)])
            log_r = torch.stack(
                [
                    math.log(n / sum(DENSITY_DRAWS)) + _log_normal((X - m) / s) - s.log().sum(-1)
                    for m, s, n in zip(means, sds, DENSITY_DRAWS, strict=True)
                ]
            ).logsumexp(0)
            log_weight = self._decoder.log_density(Y, X) + _log_normal(X) - log_r
            return log_weight.logsumexp(0) - math.log(len(X))

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return self._decoder.arrays(), {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del facts
        like = self._to_tensor(np.zeros(1))
        self._decoder = DataDecoder.from_arrays(arrays, like)


def _log_normal(z: Tensor) -> Tensor:
    """log N(z | 0, I) over the last dimension."""
    return -0.5 * (z.square().sum(-1) + z.shape[-1] * LOG_2PI)


def long_table_steps(n_rows: int) -> int:
    """Steps that suit a table longer than ``LONG_TABLE``: the longer it is, the fewer."""
    return min(300, max(100, LONG_TABLE_ROW_STEPS // n_rows))


class DataTerm:
    """The data in a fit's objective: all cells, or those that are observed.

    Args:
        problem: what is fitted.
    """

    def __init__(self, problem: Problem) -> None:
        self.Y = problem.Y
        self.squares = problem.Y.double().square().sum(0)
        self.cells: ObservedCells | None = None
        if problem.observed is not None:
            self.cells = ObservedCells.of(problem.observed, problem.Y)

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


def pca_start(problem: Problem) -> Tensor:
    """Principal component scores scaled to unit variance, [N, Q].

    Dimensions beyond the data's rank start as small noise. Where cells are missing, the scores are
    the posterior means of probabilistic principal components fitted to the observed cells.
    """
    Y, Q = problem.Y, problem.n_components
    if problem.observed is not None:
        model, _ = fit_linear_gaussian(
            Y, problem.observed, Q, max_iter=START_STEPS, tolerance=START_TOLERANCE
        )
        scores = model.infer(Y.double(), problem.observed).mean
        scores = scores - scores.mean(0)
        return (scores / scores.std(0, correction=0).clamp_min(1e-12)).to(Y)
    values, vectors = torch.linalg.eigh(Y.double().T @ Y.double())
    values, vectors = values.flip(0)[:Q], vectors.flip(1)[:, :Q]
    scores = Y.double() @ vectors
    sound = values > 1e-10 * values[0]
    X = scores / scores.std(0, correction=0).clamp_min(1e-12)
    noise = torch.randn((len(Y), Q), generator=problem.generator, dtype=torch.float64).to(X)
    return torch.where(sound, X, 0.1 * noise).to(Y)


def spread_points(X: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """A k-means++ pick of rows of X [N, Q] as inducing inputs, [count, Q]."""
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    chosen, _ = kmeans_plusplus(to_numpy(X), count, random_state=seed)
    return torch.as_tensor(chosen).to(X)


def standard_draws(n: int, Q: int, like: Tensor) -> Tensor:
    """Fixed quasi-random (scrambled Sobol) draws from N(0, I), [n, Q]; the same at every call."""
    uniform = qmc.Sobol(Q, seed=0).random(n)
    return torch.as_tensor(norm.ppf(uniform.clip(1e-12, 1 - 1e-12))).to(like)


def snapshot_of(mean: Tensor, relevance: dict[str, Tensor], leading: str) -> Snapshot:
    """A snapshot on the two dimensions that the path ``leading`` finds most relevant."""
    shares = {path: to_numpy(alpha / alpha.sum()) for path, alpha in relevance.items()}
    order = np.argsort(-shares[leading], kind="stable")
    first, second = int(order[0]), int(order[min(1, len(order) - 1)])
    step = max(1, -(-len(mean) // SNAPSHOT_ROWS))
    rows = np.arange(0, len(mean), step)
    return Snapshot(to_numpy(mean)[rows][:, [first, second]], rows, (first, second), shares)
