"""Probabilistic principal components of a table with missing cells.

y_nd = w_d · x_n + μ_d + ε, x_n ~ N(0, I), ε ~ N(0, σ²), the likelihood being that of the observed
cells alone (Tipping and Bishop 1999; with missing cells by expectation maximisation, Ilin and
Raiko 2010). It also initialises other models on such a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from lvmcore.numerics.linalg import cholesky_batch

__all__ = [
    "NOISE_FLOOR",
    "ExpectedSums",
    "LinearGaussian",
    "LinearPosterior",
    "expected_sums",
    "fit_linear_gaussian",
    "maximise_likelihood",
]

LOG_2PI = math.log(2 * math.pi)
# Smallest noise variance on standardised data: a table of exact rank Q keeps a density.
NOISE_FLOOR = 1e-8
# Cells in the second moments of a block of rows; bounds memory, does not change results.
CHUNK_CELLS = 1 << 22
# Least initial variance of a component and of the noise: one of 0 would stay 0.
MIN_INITIAL_VARIANCE = 1e-2
_POSTERIOR = "The matrix of a row's position"


@dataclass(frozen=True)
class LinearPosterior:
    """The exact p(x_n | observed cells of row n), and the density of these cells.

    Attributes:
        mean: [N, Q].
        covariance: [N, Q, Q].
        log_density: log p(observed cells), 0 for a row without observed cells, [N].
    """

    mean: Tensor
    covariance: Tensor
    log_density: Tensor


class _LinearModel(Protocol):
    """A linear model: its weights, [D, Q], and the posterior of rows."""

    @property
    def weights(self) -> Tensor:
        """W, [D, Q]."""

    def infer(self, Y: Tensor, observed: Tensor) -> LinearPosterior:
        """Posterior of rows from their observed cells."""


_Model = TypeVar("_Model", bound=_LinearModel)


@dataclass(frozen=True)
class LinearGaussian:
    """The model's parameters.

    Attributes:
        weights: W, [D, Q].
        offset: μ, [D].
        noise: σ², [].
    """

    weights: Tensor
    offset: Tensor
    noise: Tensor

    def __post_init__(self) -> None:
        """Make the weights contiguous, as in a file: the layout affects the rounding of sums."""
        object.__setattr__(self, "weights", self.weights.contiguous())

    def infer(self, Y: Tensor, observed: Tensor) -> LinearPosterior:
        """Infer the latent positions of rows from their observed cells.

        With W_O the observed columns' rows of W and A = W_OᵀW_O + σ² I: mean A⁻¹W_Oᵀ(y − μ)_O,
        covariance σ²A⁻¹, and log p(y_O) by the determinant and inversion lemmas.

        Args:
            Y: any value for missing cells, [N, D].
            observed: mask of observed cells, [N, D].
        """
        D, Q = self.weights.shape
        seen = observed.to(Y)
        outer = (self.weights[:, :, None] * self.weights[:, None, :]).reshape(D, Q * Q)
        eye = torch.eye(Q).to(Y)
        # A = W_OᵀW_O + σ² I of every row
        factor = cholesky_batch((seen @ outer).reshape(-1, Q, Q) + self.noise * eye, _POSTERIOR)
        away = torch.where(observed, Y - self.offset, 0.0)
        projected = away @ self.weights
        mean = torch.cholesky_solve(projected[:, :, None], factor)[:, :, 0]
        # log|W_O W_Oᵀ + σ²I| = log|A| + (n_O − Q) log σ²
        log_det = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(1)
        log_det = log_det + (seen.sum(1) - Q) * self.noise.log()
        # (y − μ)_Oᵀ (W_O W_Oᵀ + σ²I)⁻¹ (y − μ)_O
        square = (away.square().sum(1) - (projected * mean).sum(1)) / self.noise
        log_density = -0.5 * (seen.sum(1) * LOG_2PI + log_det + square)
        return LinearPosterior(mean, self.noise * torch.cholesky_inverse(factor), log_density)

    def rotated(self) -> LinearGaussian:
        """The model with orthogonal columns of W, longest first, largest entries positive."""
        U, lengths, _ = torch.linalg.svd(self.weights, full_matrices=False)
        W = U * lengths
        largest = W.abs().argmax(0)
        signs = torch.sign(W[largest, torch.arange(W.shape[1], device=W.device)])
        return LinearGaussian(W * torch.where(signs == 0, 1.0, signs), self.offset, self.noise)


def fit_linear_gaussian(
    Y: Tensor,
    observed: Tensor,
    n_components: int,
    *,
    max_iter: int,
    tolerance: float,
    callback: Callable[[int, float], bool] | None = None,
) -> tuple[LinearGaussian, bool]:
    """Maximise the exact likelihood of the observed cells by expectation maximisation.

    The latent covariance is a parameter too and is absorbed into W after each step: no step lowers
    the likelihood, and far fewer are needed (parameter expansion: Liu, Rubin and Wu 1998).

    Args:
        Y: standardised, 0 for missing cells, [N, D].
        observed: mask of observed cells, [N, D]; at least one in each column.
        n_components: Q, at most D.
        max_iter: steps at most.
        tolerance: nats per cell; a smaller gain ends the iteration.
        callback: called with each step and the log likelihood before it; True stops.

    Returns:
        The model, rotated, and whether it converged.
    """
    rows = observed.any(1)
    Y, observed = Y[rows].double(), observed[rows]
    cells = int(observed.sum())
    model, converged = maximise_likelihood(
        _initial_model(Y, observed, n_components),
        Y,
        observed,
        lambda sums: _maximise(sums, cells),
        max_iter=max_iter,
        tolerance=tolerance,
        callback=callback,
    )
    return model.rotated(), converged


def maximise_likelihood(
    model: _Model,
    Y: Tensor,
    observed: Tensor,
    update: Callable[[ExpectedSums], _Model],
    *,
    max_iter: int,
    tolerance: float,
    callback: Callable[[int, float], bool] | None,
) -> tuple[_Model, bool]:
    """Expectation maximisation from a model.

    Args:
        model: the start.
        Y: 0 for missing cells, [N, D].
        observed: mask of observed cells, [N, D].
        update: the model at the maximum for the expectations of a step.
        max_iter: steps at most.
        tolerance: nats per cell; a smaller gain ends the iteration.
        callback: called with each step and the log likelihood before it; True stops.

    Returns:
        The model, and whether it converged.
    """
    cells, before = int(observed.sum()), -math.inf
    for iteration in range(max_iter):
        sums = expected_sums(model, Y, observed)
        log_likelihood = float(sums.log_likelihood)
        stopped = callback is not None and callback(iteration, log_likelihood)
        if log_likelihood - before < tolerance * cells:
            return model, True
        if stopped:
            break
        before, model = log_likelihood, update(sums)
    return model, False


def _initial_model(Y: Tensor, observed: Tensor, Q: int) -> LinearGaussian:
    """Principal components with 0, the mean, for missing cells, scaled by the share observed."""
    values, vectors = torch.linalg.eigh(Y.T @ Y / observed.double().sum(0).mean())
    values, vectors = values.flip(0), vectors.flip(1)[:, :Q]
    noise = values[Q:].mean() if len(values) > Q else values.mean() * MIN_INITIAL_VARIANCE
    noise = noise.clamp_min(MIN_INITIAL_VARIANCE)
    weights = vectors * (values[:Q] - noise).clamp_min(MIN_INITIAL_VARIANCE).sqrt()
    return LinearGaussian(weights, Y.new_zeros(Y.shape[1]), noise)


@dataclass(frozen=True)
class ExpectedSums:
    """Expected sufficient statistics of a step, summed over rows, x̃ = (x, 1).

    Attributes:
        second: Σ_n E x̃x̃ᵀ over the rows observed in each column, [D, Q+1, Q+1].
        first: Σ_n y_nd E x̃_n, [D, Q+1].
        squares: Σ y² over the observed cells, [].
        total: Σ_n E x̃x̃ᵀ over all rows, [Q+1, Q+1].
        log_likelihood: of the observed cells, [].
    """

    second: Tensor
    first: Tensor
    squares: Tensor
    total: Tensor
    log_likelihood: Tensor

    def absorbed(self, both: Tensor) -> tuple[Tensor, Tensor]:
        """W and μ for a standard normal latent space.

        Args:
            both: (W, μ) for the latent space of the expectations, [D, Q+1].
        """
        weights, offset = both[:, :-1], both[:, -1]
        moments = self.total / self.total[-1, -1]
        centre = moments[-1, :-1]
        covariance = moments[:-1, :-1] - centre[:, None] * centre
        spread = cholesky_batch(covariance[None], "The covariance of the map")[0]
        return weights @ spread, offset + weights @ centre


def expected_sums(model: _LinearModel, Y: Tensor, observed: Tensor) -> ExpectedSums:
    """The expectations of a step, over all rows Y [N, D] with a mask of observed cells."""
    D, P = Y.shape[1], model.weights.shape[1] + 1
    second, first = Y.new_zeros(D, P * P), Y.new_zeros(D, P)
    total, log_likelihood = Y.new_zeros(P * P), Y.new_zeros(())
    for block in torch.split(torch.arange(len(Y), device=Y.device), max(1, CHUNK_CELLS // P**2)):
        rows = model.infer(Y[block], observed[block])
        x = torch.cat([rows.mean, torch.ones_like(rows.mean[:, :1])], 1)
        outer = x[:, :, None] * x[:, None, :]
        outer[:, :-1, :-1] += rows.covariance
        flat = outer.reshape(-1, P * P)
        second += observed[block].to(Y).T @ flat
        first += Y[block].T @ x
        total += flat.sum(0)
        log_likelihood += rows.log_density.sum()
    shape = (P, P)
    return ExpectedSums(
        second.reshape(D, *shape), first, Y.square().sum(), total.reshape(shape), log_likelihood
    )


def _maximise(sums: ExpectedSums, cells: int) -> LinearGaussian:
    """W, μ and σ² at the maximum, for a standard normal latent space."""
    factor = cholesky_batch(sums.second, "The matrix of a column's expected positions")
    both = torch.cholesky_solve(sums.first[:, :, None], factor)[:, :, 0]  # (w_d, μ_d)
    noise = ((sums.squares - (both * sums.first).sum()) / cells).clamp_min(NOISE_FLOOR)
    return LinearGaussian(*sums.absorbed(both), noise)
