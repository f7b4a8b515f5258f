"""Placing rows on the map of a fitted model: many small optimisations at once, none sharing a step.

With everything but q(x*) fixed, q(U) at its optimum included, each row maximises
Σ_d E log p(y*_d | x*) − KL(q(x*) ‖ N(0, I)). Rows are independent problems, so they are solved as
a batch of quasi-Newton iterations in which every row has its own curvature, step length and
stopping rule: what a row gets does not depend on which rows come with it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lvmcore.layers import DataDecoder
from lvmcore.variational import kl_standard_normal

__all__ = ["infer_rows", "minimise_rows", "polish_rows", "refine_rows"]

# log variances of q(x*) stay in this range.
LOG_VARIANCE = (-18.0, 3.0)


def infer_rows(
    decoder: DataDecoder,
    Y: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    starts: int = 3,
    max_iter: int = 200,
) -> tuple[Tensor, Tensor]:
    """q(x*) of rows from their columns alone.

    Each row starts from the ``starts`` fitted rows whose reconstruction is nearest to it, and
    keeps the best optimum.

    Args:
        decoder: the fitted data path.
        Y: rows, standardised, [B, D].
        mean: means of the fitted rows, [N, Q].
        variance: their variances, [N, Q].
        starts: optimisations a row.
        max_iter: evaluations a row at most.

    Returns:
        Means and variances, [B, Q] each.
    """
    Q = mean.shape[1]
    k = min(starts, len(mean))
    reconstruction, _ = decoder.predict(mean)
    nearest = torch.cdist(Y, reconstruction).topk(k, dim=1, largest=False).indices.reshape(-1)
    target = Y.repeat_interleave(k, 0)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        mu, log_variance = x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE)
        fit = decoder.expected_log_density(target[rows], mu, log_variance.exp())
        return kl_standard_normal(mu, log_variance.exp()) - fit

    start = torch.cat([mean[nearest], variance[nearest].log().clamp(*LOG_VARIANCE)], 1)
    x, value = minimise_rows(objective, start, max_iter=max_iter)
    best = value.reshape(-1, k).argmin(1) + k * torch.arange(len(Y), device=Y.device)
    x = polish_rows(objective, x[best], best)
    return x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE).exp()


def refine_rows(
    decoder: DataDecoder, Y: Tensor, mean: Tensor, variance: Tensor, *, max_iter: int
) -> tuple[Tensor, Tensor]:
    """Improve q(x*) of rows on a first answer, such as a network's; no row loses by it.

    Args:
        decoder: the fitted data path.
        Y: rows, standardised, [B, D].
        mean: first means, [B, Q].
        variance: first variances, [B, Q].
        max_iter: evaluations a row at most.

    Returns:
        Means and variances, [B, Q] each.
    """
    Q, target = mean.shape[1], Y.to(mean)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        mu, log_variance = x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE)
        fit = decoder.expected_log_density(target[rows], mu, log_variance.exp())
        return kl_standard_normal(mu, log_variance.exp()) - fit

    start = torch.cat([mean, variance.log().clamp(*LOG_VARIANCE)], 1)
    x, _ = minimise_rows(objective, start, max_iter=max_iter)
    return x[:, :Q], x[:, Q:].clamp(*LOG_VARIANCE).exp()


def minimise_rows(
    objective: Callable[[Tensor, Tensor], Tensor],
    start: Tensor,
    *,
    max_iter: int,
    tolerance: float = 1e-3,
) -> tuple[Tensor, Tensor]:
    """Minimise many independent functions of few variables: BFGS, one batch an evaluation.

    Each evaluation tries one step for every row not yet finished. A row whose value fell enough
    (Armijo) takes the step and updates its inverse Hessian; another shortens its step and tries
    again. A row is finished when its gradient is below ``tolerance`` or no step lowers its value.

    Args:
        objective: (x [n, P], positions [n]) → values [n]; row i may depend on x_i alone.
        start: [N, P].
        max_iter: evaluations a row at most.
        tolerance: on the largest entry of a row's gradient.

    Returns:
        The minimisers [N, P] and their values [N].
    """
    best, values = start.clone(), start.new_empty(len(start))
    rows = torch.arange(len(start), device=start.device)
    x = start.clone()
    value, gradient = _evaluate(objective, x, rows)
    eye = torch.eye(x.shape[1]).to(x)
    H = eye.repeat(len(x), 1, 1)
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
        H = torch.where(taken[:, None, None], _bfgs_update(H, s, change, fresh, eye), H)
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


def polish_rows(
    objective: Callable[[Tensor, Tensor], Tensor], x: Tensor, rows: Tensor, *, max_iter: int = 6
) -> Tensor:
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


def _hessian(objective: Callable[[Tensor, Tensor], Tensor], x: Tensor, rows: Tensor) -> Tensor:
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


def _evaluate(
    objective: Callable[[Tensor, Tensor], Tensor], x: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Values [n] and gradients [n, P]; a value that is not finite counts as infinitely high."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        value = objective(x, rows)
        (gradient,) = torch.autograd.grad(value.sum(), x)
    broken = ~(torch.isfinite(value) & torch.isfinite(gradient).all(1))
    value = value.detach().masked_fill(broken, torch.inf)
    return value, gradient.masked_fill(broken[:, None], 0.0)


def _bfgs_update(H: Tensor, s: Tensor, change: Tensor, fresh: Tensor, eye: Tensor) -> Tensor:
    """Inverse Hessians [n, P, P] after steps s with gradient changes; skipped where not convex."""
    curvature = (s * change).sum(1)
    convex = curvature > 1e-12 * s.norm(dim=1) * change.norm(dim=1)
    rho = torch.where(convex, 1 / curvature.clamp_min(1e-300), 0.0)[:, None, None]
    # A first update rescales the identity to the curvature just seen.
    scale = curvature / change.square().sum(1).clamp_min(1e-300)
    H = torch.where((fresh & convex)[:, None, None], scale[:, None, None] * eye, H)
    s, change = s[:, :, None], change[:, :, None]
    Hy = H @ change
    yHy = change.mT @ Hy
    return H + rho * ((1 + rho * yHy) * (s @ s.mT) - Hy @ s.mT - s @ Hy.mT)
