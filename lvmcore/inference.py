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

from lvmcore.variational import kl_standard_normal

__all__ = [
    "Placed",
    "RowDecoder",
    "infer_modes",
    "infer_rows",
    "minimise_rows",
    "polish_rows",
    "refine_rows",
]

#: (values [n, P], positions [n]) → values [n].
Objective = Callable[[Tensor, Tensor], Tensor]
#: (positions [n], means [n, Q], variances [n, Q]) → E log p(row | x), [n].
Fit = Callable[[Tensor, Tensor, Tensor], Tensor]


class Placed(Protocol):
    """Rows as a function of where they lie."""

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(observed cells | x) of ``rows`` for x ~ N(mean, diag variance), [n]."""


class RowDecoder(Protocol):
    """A fitted data path, as far as it places rows."""

    @property
    def row_numbers(self) -> int:
        """How many numbers a complete row takes in an evaluation; bounds memory."""

    @property
    def gap_numbers(self) -> int:
        """How many numbers a row with missing cells takes; bounds memory."""

    def reconstruct(self, X: Tensor) -> Tensor:
        """Rows at points X [N, Q], on the scale of ``comparable``, [N, D]."""

    def comparable(self, Y: Tensor) -> Tensor:
        """Rows [B, D] on a scale on which distances mean something; NaN stays."""

    def whole(self, Y: Tensor) -> Placed:
        """Complete rows Y [B, D] as functions of their places."""

    def observe(self, Y: Tensor) -> Placed:
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
            nearest = fitted.nearest(decoder.comparable(Y[block]))
            x[block] = fitted.place(decoder.whole(Y[block]).expected_log_density, nearest)
    some = torch.nonzero(~complete & ~gaps.all(1))[:, 0]
    for block in torch.split(some, _rows_with_gaps(decoder)) if len(some) else ():
        observed = decoder.observe(Y[block])
        nearest = fitted.nearest(decoder.comparable(Y[block]))
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
        observed = decoder.observe(Y[block])
        nearest = fitted.nearest(decoder.comparable(Y[block]))
        x[block], weights[block] = fitted.modes(observed.expected_log_density, nearest)
    return x[:, :, :Q], x[:, :, Q:].clamp(*LOG_VARIANCE).exp(), weights


def _rows_with_gaps(decoder: RowDecoder) -> int:
    """How many rows with missing cells are placed at a time."""
    return max(1, MASKED_CELLS // decoder.gap_numbers)


def _whole_rows(decoder: RowDecoder, starts: int) -> int:
    """How many complete rows are placed at a time, from so many starts each."""
    return max(1, WHOLE_CELLS // (starts * decoder.row_numbers))


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
        improve(block, decoder.whole(target[block]).expected_log_density)
    for block in torch.split(torch.nonzero(gaps)[:, 0], _rows_with_gaps(decoder)):
        improve(block, decoder.observe(target[block]).expected_log_density)
    return x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE).exp()


def _scale(logs: Tensor) -> Tensor:
    """How far means and log variances are likely to be off, given the latter, [n, Q] → [n, 2Q].

    At an optimum the mean's curvature is one over the variance, and that of its logarithm ½.
    """
    return torch.cat([(0.5 * logs).exp(), torch.full_like(logs, 2**0.5)], 1)


def minimise_rows(
    objective: Objective,
    start: Tensor,
    *,
    max_iter: int,
    tolerance: float = 1e-3,
    scale: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Minimise many independent functions of few variables: BFGS, one batch an evaluation.

    Each evaluation tries one step for every row not yet finished. A row whose value fell enough
    (Armijo) takes the step and updates its inverse Hessian; another shortens its step and tries
    again. A row is finished when its gradient is below ``tolerance`` or no step lowers its value.

    Args:
        objective: (x [n, P], positions [n]) → values [n]; row i may depend on x_i alone.
        start: [N, P].
        max_iter: evaluations a row at most.
        tolerance: on the largest entry of a row's gradient, times ``scale``.
        scale: one over the root of the curvature that is expected, [N, P]; 1 where None.

    Returns:
        The minimisers [N, P] and their values [N].
    """
    if scale is not None:

        def scaled(z: Tensor, rows: Tensor) -> Tensor:
            return objective(start[rows] + scale[rows] * z, rows)

        z, values = minimise_rows(
            scaled, torch.zeros_like(start), max_iter=max_iter, tolerance=tolerance
        )
        return start + scale * z, values
    best, values = start.clone(), start.new_empty(len(start))
    rows = torch.arange(len(start), device=start.device)
    x = start.clone()
    value, gradient = _evaluate(objective, x, rows)
    H = torch.eye(x.shape[1]).to(x).repeat(len(x), 1, 1)
    fresh = torch.ones(len(x), dtype=torch.bool, device=x.device)
    step = 1 / gradient.norm(dim=1).clamp_min(1)
    for _ in range(max_iter):
        direction = -(H @ gradient[:, :, None])[:, :, 0]
        slope = (direction * gradient).sum(1)
        uphill = slope >= 0
        direction = torch.where(uphill[:, None], -gradient, direction)
        slope = torch.where(uphill, -gradient.square().sum(1), slope)
        trial = x + step[:, None] * direction
        trial_value, trial_gradient = _evaluate(objective, trial, rows)
        taken = trial_value <= value + 1e-4 * step * slope
        s, change = trial - x, trial_gradient - gradient
        _bfgs_update(H, s, change, taken, fresh)
        fresh &= ~taken
        stuck = ~taken & (step * direction.abs().amax(1) < 1e-10)
        x = torch.where(taken[:, None], trial, x)
        value = torch.where(taken, trial_value, value)
        gradient = torch.where(taken[:, None], trial_gradient, gradient)
        step = torch.where(taken, torch.ones_like(step), 0.3 * step)
        done = stuck | (gradient.abs().amax(1) < tolerance)
        if bool(done.any()):
            best[rows[done]], values[rows[done]] = x[done], value[done]
            keep = ~done
            rows, x, value, gradient = rows[keep], x[keep], value[keep], gradient[keep]
            H, fresh, step = H[keep], fresh[keep], step[keep]
        if not len(rows):
            break
    best[rows], values[rows] = x, value
    return best, values


def polish_rows(objective: Objective, x: Tensor, rows: Tensor, *, max_iter: int = 6) -> Tensor:
    """Newton steps on near-minimisers, which rounding of the values cannot mislead.

    Gradients are exact where differences of values have drowned in rounding, so this fixes the
    digits that would otherwise depend on the order of the sums. A row takes a step only where its
    Hessian is positive definite and its gradient shrinks.

    Args:
        objective: (x [n, P], positions [n]) → values [n]; row i may depend on x_i alone.
        x: near-minimisers, [n, P].
        rows: their positions, [n].
        max_iter: steps at most.

    Returns:
        The polished minimisers, [n, P].
    """
    _, gradient = _evaluate(objective, x, rows)
    for _ in range(max_iter):
        factor, failed = torch.linalg.cholesky_ex(_hessian(objective, x, rows))
        factor = torch.where((failed == 0)[:, None, None], factor, torch.eye(x.shape[1]).to(x))
        move = torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]
        trial = x - move
        value, trial_gradient = _evaluate(objective, trial, rows)
        better = (failed == 0) & torch.isfinite(value)
        better &= trial_gradient.abs().amax(1) < 0.5 * gradient.abs().amax(1)
        if not bool(better.any()):
            break
        x = torch.where(better[:, None], trial, x)
        gradient = torch.where(better[:, None], trial_gradient, gradient)
    return x


def _hessian(objective: Objective, x: Tensor, rows: Tensor) -> Tensor:
    """Hessians, [n, P, P]."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(objective(x, rows).sum(), x, create_graph=True)
        columns = [
            torch.autograd.grad(gradient[:, p].sum(), x, retain_graph=True)[0]
            for p in range(x.shape[1])
        ]
    H = torch.stack(columns, 1)
    return 0.5 * (H + H.mT)


def _evaluate(objective: Objective, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Values [n] and gradients [n, P]; a value that is not finite counts as infinitely high."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        value = objective(x, rows)
        (gradient,) = torch.autograd.grad(value.sum(), x)
    broken = ~(torch.isfinite(value) & torch.isfinite(gradient).all(1))
    value = value.detach().masked_fill(broken, torch.inf)
    return value, gradient.masked_fill(broken[:, None], 0.0)


def _bfgs_update(H: Tensor, s: Tensor, change: Tensor, taken: Tensor, fresh: Tensor) -> None:
    """Update inverse Hessians [n, P, P] in place after steps s with gradient changes [n, P].

    Rows whose step was not taken keep theirs, and those whose function is not convex there.
    """
    curvature = (s * change).sum(1)
    convex = taken & (curvature > 1e-12 * s.norm(dim=1) * change.norm(dim=1))
    first = torch.nonzero(fresh & convex)[:, 0]
    if len(first):  # still the identity: rescaled to the curvature just seen
        H[first] *= (curvature / change.square().sum(1))[first, None, None]
    rho = torch.where(convex, 1 / curvature.clamp_min(1e-300), 0.0)[:, None]
    Hy = (H @ change[:, :, None])[:, :, 0]
    yHy = (change * Hy).sum(1, keepdim=True)
    left = torch.stack([s, Hy], 2)
    right = torch.stack([rho * ((1 + rho * yHy) * s - Hy), -rho * s], 1)
    H.baddbmm_(left, right)
