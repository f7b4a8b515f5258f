"""Inference of q(x*) for new rows of a fitted model by batched quasi-Newton optimisation.

With everything but q(x*) fixed, q(U) at its optimum included, each row maximises
Σ_d E log p(y*_d | x*) − KL(q(x*) ‖ N(0, I)). The rows are independent problems, solved in a batch
of quasi-Newton iterations with a separate curvature, step length and stopping rule for each row:
the result for a row does not depend on the other rows of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from lvmcore.numerics.batched_bfgs import Objective, minimise_rows, polish_rows
from lvmcore.numerics.block_sizes import block_cells
from lvmcore.numerics.gaussians import kl_standard_normal

#: (positions [n], means [n, Q], variances [n, Q]) → E log p(row | x), [n].
ExpectedLogDensity = Callable[[Tensor, Tensor, Tensor], Tensor]


class InferredRows(Protocol):
    """Likelihood of rows as a function of their positions."""

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(observed cells | x) of ``rows`` for x ~ N(mean, diag variance), [n]."""


class RowDecoder(Protocol):
    """A fitted data path that infers the positions of rows."""

    @property
    def complete_row_size(self) -> int:
        """Numbers held for a complete row in an evaluation; bounds memory."""

    @property
    def incomplete_row_size(self) -> int:
        """Numbers held for a row with missing cells in an evaluation; bounds memory."""

    def reconstruct(self, X: Tensor) -> Tensor:
        """Decoded rows at points X [N, Q], on the scale of ``distance_features``, [N, D]."""

    def distance_features(self, Y: Tensor) -> Tensor:
        """Rows [B, D] on a scale suited to Euclidean distances; NaN stays NaN."""

    def complete_rows(self, Y: Tensor) -> InferredRows:
        """Likelihood of complete rows Y [B, D] as a function of their positions."""

    def observed_rows(self, Y: Tensor) -> InferredRows:
        """Likelihood of rows with missing cells (NaN)."""


# Range of the log variances of q(x*).
LOG_VARIANCE = (-18.0, 3.0)
# Numbers in the matrices of a block of rows with missing cells, one matrix a row; bounds memory.
MASKED_CELLS = 1 << 23
# Numbers in an evaluation of a block of complete rows; bounds memory.
COMPLETE_CELLS = 1 << 24
# Distances in a block from new rows to rows of the fit; bounds memory.
DISTANCES = 1 << 24
# Largest squared distance, in units of their sd, between optima that count as the same.
SAME_OPTIMUM = 1.0


def infer_rows(
    decoder: RowDecoder,
    Y: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    starts: int = 3,
    max_iter: int = 200,
) -> tuple[Tensor, Tensor]:
    """q(x*) of rows, inferred from their columns alone.

    Each row starts at the ``starts`` fitted rows with the nearest reconstructions, by the distance
    over its observed cells, and keeps the best optimum. A row without observed cells has the prior.

    Args:
        decoder: the fitted data path.
        Y: rows, standardised, NaN where a cell is missing, [B, D].
        mean: means of the fitted rows, [N, Q].
        variance: their variances, [N, Q].
        starts: optimisations per row.
        max_iter: maximum evaluations per row.

    Returns:
        Means and variances, [B, Q] each.
    """
    fitted = _FittedRows(
        mean, variance, decoder.reconstruct(mean), min(starts, len(mean)), max_iter
    )
    gaps = torch.isnan(Y)
    complete = ~gaps.any(1)
    x = Y.new_zeros(len(Y), 2 * mean.shape[1])  # the prior: mean 0 and log variance 0
    if bool(complete.any()):
        for block in torch.split(
            torch.nonzero(complete)[:, 0], _complete_rows_in_block(decoder, fitted.starts)
        ):
            nearest = fitted.nearest(decoder.distance_features(Y[block]))
            x[block] = fitted.infer(decoder.complete_rows(Y[block]).expected_log_density, nearest)
    some = torch.nonzero(~complete & ~gaps.all(1))[:, 0]
    for block in torch.split(some, _incomplete_rows_in_block(decoder)) if len(some) else ():
        observed = decoder.observed_rows(Y[block])
        nearest = fitted.nearest(decoder.distance_features(Y[block]))
        x[block] = fitted.infer(observed.expected_log_density, nearest)
    Q = mean.shape[1]
    return x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE).exp()


def infer_modes(
    decoder: RowDecoder,
    Y: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    starts: int = 4,
    max_iter: int = 200,
) -> tuple[Tensor, Tensor, Tensor]:
    """Posterior of each row's position given its observed cells, as a mixture of Gaussians.

    The components are the optima of ``starts`` optimisations as in ``infer_rows``, weighted by
    their bounds.

    Args:
        decoder: the fitted data path.
        Y: rows, standardised, NaN where a cell is missing, [B, D].
        mean: means of the fitted rows, [N, Q].
        variance: their variances, [N, Q].
        starts: optimisations per row.
        max_iter: maximum evaluations per row.

    Returns:
        Means and variances, [B, k, Q] each, and weights, [B, k]: 0 where an optimum repeats an
        earlier one.
    """
    fitted = _FittedRows(
        mean, variance, decoder.reconstruct(mean), min(starts, len(mean)), max_iter
    )
    Q, k = mean.shape[1], fitted.starts
    x, weights = Y.new_zeros(len(Y), k, 2 * Q), Y.new_zeros(len(Y), k)
    weights[:, 0] = 1  # the prior, for a row without observed cells
    some = torch.nonzero(~torch.isnan(Y).all(1))[:, 0]
    for block in torch.split(some, _incomplete_rows_in_block(decoder)) if len(some) else ():
        observed = decoder.observed_rows(Y[block])
        nearest = fitted.nearest(decoder.distance_features(Y[block]))
        x[block], weights[block] = fitted.modes(observed.expected_log_density, nearest)
    return x[:, :, :Q], x[:, :, Q:].clamp(*LOG_VARIANCE).exp(), weights


def _incomplete_rows_in_block(decoder: RowDecoder) -> int:
    """Rows with missing cells in a block."""
    return max(1, block_cells(MASKED_CELLS) // decoder.incomplete_row_size)


def _complete_rows_in_block(decoder: RowDecoder, starts: int) -> int:
    """Complete rows in a block, for a number of starts each."""
    return max(1, block_cells(COMPLETE_CELLS) // (starts * decoder.complete_row_size))


def _distances(Y: Tensor, reconstruction: Tensor) -> Tensor:
    """Distances over the cells of Y [B, D] that are not NaN, [B, N]; squared if there is a NaN."""
    observed = ~torch.isnan(Y)
    if bool(observed.all()):
        return torch.cdist(Y, reconstruction)
    known = torch.where(observed, Y, 0.0)
    away = known.square().sum(1, keepdim=True) - 2 * known @ reconstruction.T
    return away + observed.to(Y) @ reconstruction.square().T


@dataclass(frozen=True)
class _FittedRows:
    """The rows of the fit, as starting points for new rows.

    Attributes:
        mean: [N, Q].
        variance: [N, Q].
        reconstruction: decoded rows, [N, D].
        starts: optimisations per new row.
        max_iter: maximum evaluations of each.
    """

    mean: Tensor
    variance: Tensor
    reconstruction: Tensor
    starts: int
    max_iter: int

    def nearest(self, Y: Tensor) -> Tensor:
        """The k fitted rows nearest to each new row of Y [B, D] over its observed cells, [B, k]."""
        some_rows = torch.split(Y, max(1, DISTANCES // len(self.mean)))
        distances = (_distances(some, self.reconstruction) for some in some_rows)
        parts = [away.topk(self.starts, dim=1, largest=False).indices for away in distances]
        return torch.cat(parts)

    def infer(self, fit: ExpectedLogDensity, nearest: Tensor) -> Tensor:
        """Means and log variances of new rows, [B, 2Q].

        Args:
            fit: (rows, means, variances) → E log p(row | x), of some of the new rows, [n].
            nearest: fitted rows at which they start, [B, k].
        """
        objective, x, value = self._optima(fit, nearest)
        k = self.starts
        best = value.reshape(-1, k).argmin(1) + k * torch.arange(len(nearest)).to(x.device)
        return polish_rows(objective, x[best], best)

    def modes(self, fit: ExpectedLogDensity, nearest: Tensor) -> tuple[Tensor, Tensor]:
        """All optima, [B, k, 2Q], and their weights, 0 for repeated ones, [B, k].

        For a mixture of Gaussians with little overlap, weights proportional to the exponential of
        each component's bound maximise the bound.
        """
        _, x, found = self._optima(fit, nearest, tolerance=1e-5)
        value = found.reshape(-1, self.starts)
        order = value.argsort(1)
        x = x.reshape(*value.shape, -1).gather(1, order[:, :, None].expand(-1, -1, x.shape[1]))
        value = value.gather(1, order)
        return x, torch.softmax(-value.masked_fill(self._repeated(x), torch.inf), 1)

    def _repeated(self, x: Tensor) -> Tensor:
        """Mask of the optima [B, k, 2Q] that repeat an earlier distinct one, [B, k]."""
        Q = self.mean.shape[1]
        mu, variance = x[:, :, :Q], x[:, :, Q:].clamp(*LOG_VARIANCE).exp()
        repeated = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        for j in range(1, x.shape[1]):
            away = (mu[:, :j] - mu[:, j : j + 1]).square() / (
                variance[:, :j] + variance[:, j : j + 1]
            )
            repeated[:, j] = ((away.sum(2) < SAME_OPTIMUM) & ~repeated[:, :j]).any(1)
        return repeated

    def _optima(
        self, fit: ExpectedLogDensity, nearest: Tensor, *, tolerance: float = 1e-3
    ) -> tuple[Objective, Tensor, Tensor]:
        """The objective of ``starts`` optimisations per row, their end points and values."""
        Q, k = self.mean.shape[1], self.starts
        nearest = nearest.reshape(-1)

        def objective(x: Tensor, rows: Tensor) -> Tensor:
            mu, variance = x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE).exp()
            new_rows = torch.div(rows, k, rounding_mode="floor")
            return kl_standard_normal(mu, variance) - fit(new_rows, mu, variance)

        logs = self.variance[nearest].log().clamp(*LOG_VARIANCE)
        start = torch.cat([self.mean[nearest], logs], 1)
        ends = minimise_rows(
            objective, start, scale=_scale(logs), max_iter=self.max_iter, tolerance=tolerance
        )
        return objective, *ends


def refine_rows(
    decoder: RowDecoder, Y: Tensor, mean: Tensor, variance: Tensor, *, max_iter: int
) -> tuple[Tensor, Tensor]:
    """Improve initial q(x*) of rows, such as an encoder's; the bound of no row falls.

    Args:
        decoder: the fitted data path.
        Y: rows, standardised, NaN where a cell is missing, [B, D].
        mean: initial means, [B, Q].
        variance: initial variances, [B, Q].
        max_iter: maximum evaluations per row.

    Returns:
        Means and variances, [B, Q] each.
    """
    Q, target = mean.shape[1], Y.to(mean)
    x = torch.cat([mean, variance.log().clamp(*LOG_VARIANCE)], 1)
    gaps = torch.isnan(target).any(1)

    def improve(rows: Tensor, fit: ExpectedLogDensity) -> None:
        def objective(x: Tensor, rows: Tensor) -> Tensor:
            mu, spread = x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE).exp()
            return kl_standard_normal(mu, spread) - fit(rows, mu, spread)

        if len(rows):
            x[rows], _ = minimise_rows(objective, x[rows], max_iter=max_iter)

    whole = torch.nonzero(~gaps)[:, 0]
    for block in torch.split(whole, _complete_rows_in_block(decoder, 1)):
        improve(block, decoder.complete_rows(target[block]).expected_log_density)
    for block in torch.split(torch.nonzero(gaps)[:, 0], _incomplete_rows_in_block(decoder)):
        improve(block, decoder.observed_rows(target[block]).expected_log_density)
    return x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE).exp()


def _scale(logs: Tensor) -> Tensor:
    """Scale of the errors of means and log variances, from the log variances, [n, Q] → [n, 2Q].

    At an optimum the curvature in the mean is 1/variance, and that in the log variance ½.
    """
    return torch.cat([(0.5 * logs).exp(), torch.full_like(logs, 2**0.5)], 1)
