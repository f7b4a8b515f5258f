"""Positions of new rows under a fitted path: the optimum of each, and a Gaussian about it.

Each row maximises log p(y* | x*) + log N(x* | 0, I), with y*_d ~ N(E f_d(x*), Var f_d(x*) + σ²).
The rows are independent problems, so that a row's position does not depend on the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.numerics.batched_bfgs import minimise_rows, polish_rows
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.quasi_random import matched_draws

__all__ = [
    "PlacementOptima",
    "component_weights",
    "decode_gaussians",
    "gaussian_factors",
    "place_rows",
]

# Numbers in an evaluation of a block of rows; bounds memory, does not change results.
CELLS_AT_A_TIME = 1 << 23
# Step of the slopes of the decoded mean, which are differences.
STEP = 1e-5
# Largest squared distance, in units of the sum of their sds, between optima that are the same.
SAME_OPTIMUM = 1.0
# Draws about each position at which a row is decoded.
DRAWS = 32


@dataclass(frozen=True)
class PlacementOptima:
    """Optima of the position of each row, best first.

    Attributes:
        mean: [B, k, Q].
        value: log p(y*, x*) at each, [B, k].
    """

    mean: Tensor
    value: Tensor


def place_rows(
    decoder: DataDecoder, Y: Tensor, X: Tensor, *, starts: int = 3, max_iter: int = 100
) -> PlacementOptima:
    """Optima of the positions of rows, from their observed cells.

    Each row starts at the ``starts`` rows of the fit where it is most likely. A row without an
    observed cell has position 0.

    Args:
        decoder: the fitted path, in float64.
        Y: standardised rows, NaN where a cell is missing, [B, D].
        X: positions of the rows of the fit, [N, Q].
        starts: optimisations of a row.
        max_iter: evaluations of each at most.
    """
    k, Q = min(starts, len(X)), X.shape[1]
    mean = Y.new_zeros(len(Y), k, Q)
    value = Y.new_full((len(Y), k), -0.5 * Q * LOG_2PI)
    fitted = _Moments.at(decoder, X)
    some = torch.nonzero(~torch.isnan(Y).all(1))[:, 0]
    size = max(1, CELLS_AT_A_TIME // (k * len(decoder.Z)))
    for block in torch.split(some, size) if len(some) else ():
        nearest = fitted.log_density(Y[block], X).topk(k, dim=1).indices
        mean[block], value[block] = _optima(decoder, Y[block], X[nearest], max_iter)
    return PlacementOptima(mean, value)


@dataclass(frozen=True)
class _Moments:
    """Decoded mean and variance, noise included, at the rows of the fit, [N, D] each."""

    mean: Tensor
    variance: Tensor

    @classmethod
    def at(cls, decoder: DataDecoder, X: Tensor) -> _Moments:
        mean, variance, _ = decoder.decode(X)
        return cls(mean, variance)

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """log p(y_b, x_n) of each row at each position but for a constant, [B, N]."""
        seen = ~torch.isnan(Y)
        known, precision = torch.where(seen, Y, 0.0), 1 / self.variance
        square = known.square() @ precision.T - 2 * known @ (self.mean * precision).T
        rest = seen.to(Y) @ (self.mean.square() * precision + self.variance.log()).T
        return -0.5 * (square + rest + X.square().sum(1))


def _optima(decoder: DataDecoder, Y: Tensor, start: Tensor, max_iter: int) -> tuple[Tensor, Tensor]:
    """Optima from starts [B, k, Q] and log p(y*, x*) there, best first."""
    B, k, Q = start.shape
    seen = ~torch.isnan(Y)
    known = torch.where(seen, Y, 0.0)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        new_rows = torch.div(rows, k, rounding_mode="floor")
        mean, variance, _ = decoder.decode(x)
        cells = LOG_2PI + variance.log() + (known[new_rows] - mean).square() / variance
        cells = torch.where(seen[new_rows], cells, 0.0)
        return 0.5 * (cells.sum(1) + x.square().sum(1) + Q * LOG_2PI)

    flat = start.reshape(B * k, Q)
    scale = torch.full_like(flat, 0.1)
    x, value = minimise_rows(objective, flat, scale=scale, max_iter=max_iter)
    order = value.reshape(B, k).argsort(1)
    first = order[:, 0] + k * torch.arange(B, device=order.device)
    x[first] = polish_rows(objective, x[first], first)
    x = x.reshape(B, k, Q).gather(1, order[:, :, None].expand(-1, -1, Q))
    return x, -value.reshape(B, k).gather(1, order)


def gaussian_factors(decoder: DataDecoder, Y: Tensor, X: Tensor) -> Tensor:
    """Lower-triangular factors of the covariance of x* about positions X [B, Q], [B, Q, Q].

    The covariance is (I + Σ_d J_d J_dᵀ/Var y_d)⁻¹, J_d the slope of the decoded mean of an observed
    column (Laplace's approximation without the second derivatives of the mean).

    Args:
        decoder: the fitted path.
        Y: rows, NaN where a cell is missing, [B, D].
        X: their positions, [B, Q].
    """
    B, Q = X.shape
    seen = ~torch.isnan(Y)
    steps = STEP * torch.eye(Q).to(X)
    J = X.new_zeros(B, Q, Y.shape[1])
    for q, step in enumerate(steps):
        ahead, behind = (
            decoder.kernel(X + sign * step, decoder.Z) @ decoder.weights for sign in (1.0, -1.0)
        )
        J[:, q] = (ahead - behind) / (2 * STEP)
    _, variance, _ = decoder.decode(X)
    weight = torch.where(seen, 1 / variance, 0.0)
    precision = torch.eye(Q).to(X) + (J * weight[:, None, :]) @ J.mT
    factor: Tensor = torch.linalg.cholesky(torch.linalg.inv(precision))
    return factor


def decode_gaussians(
    decoder: DataDecoder, mean: Tensor, factor: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance with noise and noise variance of the columns under mixtures of Gaussians.

    Each expectation is a mean over fixed draws of each component.

    Args:
        decoder: the fitted path.
        mean: [B, k, Q].
        factor: of the covariances, [B, k, Q, Q].
        weights: of the components, [B, k].
    """
    B, k, Q = mean.shape
    size = max(DRAWS, 1 << (4 * Q - 1).bit_length())
    points = mean[:, :, None] + matched_draws(size, Q, mean) @ factor.mT
    parts = torch.split(points.reshape(-1, Q), max(1, CELLS_AT_A_TIME // len(decoder.Z)))
    found = zip(*(decoder.predict(part) for part in parts), strict=True)
    f, variance = (torch.cat(part).reshape(B, k, size, -1) for part in found)
    share = weights[:, :, None]
    middle = (share * f.mean(2)).sum(1)
    second = (share * (f.square() + variance).mean(2)).sum(1)
    noise = decoder.noise.expand_as(middle)
    return middle, (second - middle.square()).clamp_min(0) + noise, noise


def component_weights(placed: PlacementOptima, factor: Tensor) -> Tensor:
    """Weights of the optima of each row by their evidence, 0 for repeated ones, [B, k].

    The evidence of an optimum is p(y*, x*) |covariance|^½ (Laplace's approximation).

    Args:
        placed: the optima, best first.
        factor: of the covariances, [B, k, Q, Q].
    """
    sd = factor.square().sum(-1).sqrt()
    repeated = torch.zeros(placed.value.shape, dtype=torch.bool, device=sd.device)
    for j in range(1, repeated.shape[1]):
        away = (placed.mean[:, :j] - placed.mean[:, j : j + 1]) / (sd[:, :j] + sd[:, j : j + 1])
        repeated[:, j] = ((away.square().sum(2) < SAME_OPTIMUM) & ~repeated[:, :j]).any(1)
    evidence = placed.value + factor.diagonal(dim1=2, dim2=3).log().sum(2)
    return torch.softmax(evidence.masked_fill(repeated, -torch.inf), 1)
