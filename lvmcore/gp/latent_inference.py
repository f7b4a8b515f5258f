"""Placing rows on the map of a fitted model: many small optimisations at once, none sharing a step.

With everything but q(x*) fixed, q(U) at its optimum included, each row maximises
Σ_d E log p(y*_d | x*) − KL(q(x*) ‖ N(0, I)). Rows are independent problems, so they are solved as
a batch of quasi-Newton iterations in which every row has its own curvature, step length and
stopping rule: what a row gets does not depend on which rows come with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from lvmcore.numerics.batched_bfgs import Objective, minimise_rows, polish_rows
from lvmcore.numerics.gaussians import kl_standard_normal

#: (positions [n], means [n, Q], variances [n, Q]) → E log p(row | x), [n].
Fit = Callable[[Tensor, Tensor, Tensor], Tensor]


class InferredRows(Protocol):
    """Rows as a function of where they lie."""

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(observed cells | x) of ``rows`` for x ~ N(mean, diag variance), [n]."""


class RowDecoder(Protocol):
    """A fitted data path, as far as it places rows."""

    @property
    def complete_row_size(self) -> int:
        """How many numbers a complete row takes in an evaluation; bounds memory."""

    @property
    def incomplete_row_size(self) -> int:
        """How many numbers a row with missing cells takes; bounds memory."""

    def reconstruct(self, X: Tensor) -> Tensor:
        """Rows at points X [N, Q], on the scale of ``distance_features``, [N, D]."""

    def distance_features(self, Y: Tensor) -> Tensor:
        """Rows [B, D] on a scale on which distances mean something; NaN stays."""

    def complete_rows(self, Y: Tensor) -> InferredRows:
        """Complete rows Y [B, D] as functions of their places."""

    def observed_rows(self, Y: Tensor) -> InferredRows:
        """The same of rows with missing cells, NaN."""


# log variances of q(x*) stay in this range.
LOG_VARIANCE = (-18.0, 3.0)
# Numbers in the matrices of rows with missing cells, which each have one; bounds memory.
MASKED_CELLS = 1 << 23
# Numbers in an evaluation of complete rows; likewise.
WHOLE_CELLS = 1 << 24
# Distances from new rows to those of the fit that are held at a time; bounds memory.
DISTANCES = 1 << 24
# Optima nearer to one another than this, squared and in their own sd, are one.
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
    """q(x*) of rows from their columns alone.

    Each row starts from the ``starts`` fitted rows whose reconstruction is nearest to it, in the
    cells that it has, and keeps the best optimum. A row without any cell gets the prior.

    Args:
        decoder: the fitted data path.
        Y: rows, standardised, NaN where a cell is missing, [B, D].
        mean: means of the fitted rows, [N, Q].
        variance: their variances, [N, Q].
        starts: optimisations a row.
        max_iter: evaluations a row at most.

    Returns:
        Means and variances, [B, Q] each.
    """
    fitted = _Fitted(mean, variance, decoder.reconstruct(mean), min(starts, len(mean)), max_iter)
    gaps = torch.isnan(Y)
    complete = ~gaps.any(1)
    x = Y.new_zeros(len(Y), 2 * mean.shape[1])  # mean 0 and log variance 0: the prior
    if bool(complete.any()):
        for block in torch.split(
            torch.nonzero(complete)[:, 0], _whole_rows(decoder, fitted.starts)
        ):
            nearest = fitted.nearest(decoder.distance_features(Y[block]))
            x[block] = fitted.place(decoder.complete_rows(Y[block]).expected_log_density, nearest)
    some = torch.nonzero(~complete & ~gaps.all(1))[:, 0]
    for block in torch.split(some, _rows_with_gaps(decoder)) if len(some) else ():
        observed = decoder.observed_rows(Y[block])
        nearest = fitted.nearest(decoder.distance_features(Y[block]))
        x[block] = fitted.place(observed.expected_log_density, nearest)
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
    """All places that the observed cells of rows leave open, as a mixture of Gaussians.

    The optima of ``starts`` optimisations a row as in ``infer_rows``, weighted by their bounds.

    Args:
        decoder: the fitted data path.
        Y: rows, standardised, NaN where a cell is missing, [B, D].
        mean: means of the fitted rows, [N, Q].
        variance: their variances, [N, Q].
        starts: optimisations a row.
        max_iter: evaluations a row at most.

    Returns:
        Means and variances, [B, k, Q] each, and weights, [B, k]: 0 where an optimum was reached
        before.
    """
    fitted = _Fitted(mean, variance, decoder.reconstruct(mean), min(starts, len(mean)), max_iter)
    Q, k = mean.shape[1], fitted.starts
    x, weights = Y.new_zeros(len(Y), k, 2 * Q), Y.new_zeros(len(Y), k)
    weights[:, 0] = 1  # a row without any cell has the prior
    some = torch.nonzero(~torch.isnan(Y).all(1))[:, 0]
    for block in torch.split(some, _rows_with_gaps(decoder)) if len(some) else ():
        observed = decoder.observed_rows(Y[block])
        nearest = fitted.nearest(decoder.distance_features(Y[block]))
        x[block], weights[block] = fitted.modes(observed.expected_log_density, nearest)
    return x[:, :, :Q], x[:, :, Q:].clamp(*LOG_VARIANCE).exp(), weights


def _rows_with_gaps(decoder: RowDecoder) -> int:
    """How many rows with missing cells are placed at a time."""
    return max(1, MASKED_CELLS // decoder.incomplete_row_size)


def _whole_rows(decoder: RowDecoder, starts: int) -> int:
    """How many complete rows are placed at a time, from so many starts each."""
    return max(1, WHOLE_CELLS // (starts * decoder.complete_row_size))


def _distances(Y: Tensor, reconstruction: Tensor) -> Tensor:
    """Distances over the cells of Y [B, D] that are not NaN, [B, N]; squared where some are."""
    observed = ~torch.isnan(Y)
    if bool(observed.all()):
        return torch.cdist(Y, reconstruction)
    known = torch.where(observed, Y, 0.0)
    away = known.square().sum(1, keepdim=True) - 2 * known @ reconstruction.T
    return away + observed.to(Y) @ reconstruction.square().T


@dataclass(frozen=True)
class _Fitted:
    """The rows of the fit, from which new ones start.

    Attributes:
        mean: [N, Q].
        variance: [N, Q].
        reconstruction: what they decode to, [N, D].
        starts: optimisations a new row.
        max_iter: evaluations of each at most.
    """

    mean: Tensor
    variance: Tensor
    reconstruction: Tensor
    starts: int
    max_iter: int

    def nearest(self, Y: Tensor) -> Tensor:
        """The fitted rows that new ones Y [B, D] are nearest to in the cells they have, [B, k]."""
        some_rows = torch.split(Y, max(1, DISTANCES // len(self.mean)))
        distances = (_distances(some, self.reconstruction) for some in some_rows)
        parts = [away.topk(self.starts, dim=1, largest=False).indices for away in distances]
        return torch.cat(parts)

    def place(self, fit: Fit, nearest: Tensor) -> Tensor:
        """Means and log variances of new rows, [B, 2Q].

        Args:
            fit: (rows, means, variances) → E log p(row | x), of some of the new rows, [n].
            nearest: the fitted rows that they start from, [B, k].
        """
        objective, x, value = self._optima(fit, nearest)
        k = self.starts
        best = value.reshape(-1, k).argmin(1) + k * torch.arange(len(nearest)).to(x.device)
        return polish_rows(objective, x[best], best)

    def modes(self, fit: Fit, nearest: Tensor) -> tuple[Tensor, Tensor]:
        """Every optimum, [B, k, 2Q], and the weights of those that differ, [B, k].

        Among mixtures of Gaussians that hardly overlap, weights in proportion to the exponential
        of each one's bound give the highest bound. The same optimum reached twice counts once.
        """
        _, x, found = self._optima(fit, nearest, tolerance=1e-5)
        value = found.reshape(-1, self.starts)
        order = value.argsort(1)
        x = x.reshape(*value.shape, -1).gather(1, order[:, :, None].expand(-1, -1, x.shape[1]))
        value = value.gather(1, order)
        return x, torch.softmax(-value.masked_fill(self._repeated(x), torch.inf), 1)

    def _repeated(self, x: Tensor) -> Tensor:
        """Which optima [B, k, 2Q] lie within an earlier one that is none itself, [B, k]."""
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
        self, fit: Fit, nearest: Tensor, *, tolerance: float = 1e-3
    ) -> tuple[Objective, Tensor, Tensor]:
        """The objective of ``starts`` optimisations a row, where they end, and how high."""
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
    """Improve q(x*) of rows on a first answer, such as a network's; no row loses by it.

    Args:
        decoder: the fitted data path.
        Y: rows, standardised, NaN where a cell is missing, [B, D].
        mean: first means, [B, Q].
        variance: first variances, [B, Q].
        max_iter: evaluations a row at most.

    Returns:
        Means and variances, [B, Q] each.
    """
    Q, target = mean.shape[1], Y.to(mean)
    x = torch.cat([mean, variance.log().clamp(*LOG_VARIANCE)], 1)
    gaps = torch.isnan(target).any(1)

    def improve(rows: Tensor, fit: Fit) -> None:
        def objective(x: Tensor, rows: Tensor) -> Tensor:
            mu, spread = x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE).exp()
            return kl_standard_normal(mu, spread) - fit(rows, mu, spread)

        if len(rows):
            x[rows], _ = minimise_rows(objective, x[rows], max_iter=max_iter)

    whole = torch.nonzero(~gaps)[:, 0]
    for block in torch.split(whole, _whole_rows(decoder, 1)):
        improve(block, decoder.complete_rows(target[block]).expected_log_density)
    for block in torch.split(torch.nonzero(gaps)[:, 0], _rows_with_gaps(decoder)):
        improve(block, decoder.observed_rows(target[block]).expected_log_density)
    return x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE).exp()


def _scale(logs: Tensor) -> Tensor:
    """How far means and log variances are likely to be off, given the latter, [n, Q] → [n, 2Q].

    At an optimum the mean's curvature is one over the variance, and that of its logarithm ½.
    """
    return torch.cat([(0.5 * logs).exp(), torch.full_like(logs, 2**0.5)], 1)
