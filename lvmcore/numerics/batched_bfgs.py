"""Batched BFGS for many small problems, each with its own step length and stopping rule."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

#: (values [n, P], positions [n]) → values [n].
Objective = Callable[[Float[Tensor, "n P"], Int[Tensor, "n"]], Float[Tensor, "n"]]


def minimise_rows(
    objective: Objective,
    start: Float[Tensor, "N P"],
    *,
    max_iter: int,
    tolerance: float = 1e-3,
    scale: Float[Tensor, "N P"] | None = None,
) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N"]]:
    """Minimise many independent functions of few variables by BFGS, with batched evaluations.

    Each evaluation tries one step for every active row. A row whose value decreases enough (Armijo)
    takes the step and updates its inverse Hessian; the others shorten their step. A row is finished
    when its gradient is below ``tolerance`` or no step lowers its value.

    Args:
        objective: (x [n, P], positions [n]) → values [n]; row i may depend on x_i alone.
        start: initial points, [N, P].
        max_iter: evaluations per row at most.
        tolerance: on the largest entry of a row's gradient, times ``scale``.
        scale: one over the root of the expected curvature, [N, P]; None for 1.

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


def polish_rows(
    objective: Objective, x: Float[Tensor, "n P"], rows: Int[Tensor, "n"], *, max_iter: int = 6
) -> Float[Tensor, "n P"]:
    """Newton steps on near-minimisers, by gradients only.

    Gradients are exact where differences of values are lost in rounding, so the steps determine the
    digits that would otherwise depend on the order of sums. A row takes a step only if its Hessian
    is positive definite and its gradient decreases.

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
        step = torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]
        trial = x - step
        value, trial_gradient = _evaluate(objective, trial, rows)
        better = (failed == 0) & torch.isfinite(value)
        better &= trial_gradient.abs().amax(1) < 0.5 * gradient.abs().amax(1)
        if not bool(better.any()):
            break
        x = torch.where(better[:, None], trial, x)
        gradient = torch.where(better[:, None], trial_gradient, gradient)
    return x


def _hessian(
    objective: Objective, x: Float[Tensor, "n P"], rows: Int[Tensor, "n"]
) -> Float[Tensor, "n P P"]:
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
    objective: Objective, x: Float[Tensor, "n P"], rows: Int[Tensor, "n"]
) -> tuple[Float[Tensor, "n"], Float[Tensor, "n P"]]:
    """Values [n] and gradients [n, P]; a value that is not finite counts as infinitely high."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        value = objective(x, rows)
        (gradient,) = torch.autograd.grad(value.sum(), x)
    broken = ~(torch.isfinite(value) & torch.isfinite(gradient).all(1))
    value = value.detach().masked_fill(broken, torch.inf)
    return value, gradient.masked_fill(broken[:, None], 0.0)


def _bfgs_update(
    H: Float[Tensor, "n P P"],
    s: Float[Tensor, "n P"],
    change: Float[Tensor, "n P"],
    taken: Bool[Tensor, "n"],
    fresh: Bool[Tensor, "n"],
) -> None:
    """Update inverse Hessians [n, P, P] in place after steps s with gradient changes [n, P].

    Rows without an accepted step, or without convexity along it, keep theirs.
    """
    curvature = (s * change).sum(1)
    convex = taken & (curvature > 1e-12 * s.norm(dim=1) * change.norm(dim=1))
    first = torch.nonzero(fresh & convex)[:, 0]
    if len(first):  # still the identity: rescale it to the curvature of this step
        H[first] *= (curvature / change.square().sum(1))[first, None, None]
    rho = torch.where(convex, 1 / curvature.clamp_min(1e-300), 0.0)[:, None]
    Hy = (H @ change[:, :, None])[:, :, 0]
    yHy = (change * Hy).sum(1, keepdim=True)
    left = torch.stack([s, Hy], 2)
    right = torch.stack([rho * ((1 + rho * yHy) * s - Hy), -rho * s], 1)
    H.baddbmm_(left, right)
