"""Likelihoods of a Gaussian-process value f, and their expectations under Gaussians."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr, owens_t
from torch import Tensor

__all__ = ["bernoulli_probit_expectation", "probit_mean", "probit_variance"]

GAUSS_HERMITE_NODES = 20
# Bounds memory; changes no result.
CELLS_AT_A_TIME = 1 << 19
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@cache
def _nodes(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Gauss–Hermite nodes √2 x_l and weights w_l/√π, so that E g(f) ≈ Σ w g(m + s node)."""
    nodes, weights = np.polynomial.hermite.hermgauss(GAUSS_HERMITE_NODES)
    return (
        torch.as_tensor(nodes * math.sqrt(2), dtype=dtype, device=device),
        torch.as_tensor(weights / math.sqrt(math.pi), dtype=dtype, device=device),
    )


def bernoulli_probit_expectation(sign: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """E log Φ(t f) for f ~ N(mean, variance), by Gauss–Hermite with 20 nodes.

    The error is about 1e-7 at variance 2, 3e-4 at 10 and 5e-3 at 100.

    Args:
        sign: t, +1 or −1, any shape.
        mean: same shape.
        variance: same shape, positive.
    """
    expectation: Tensor = _ProbitExpectation.apply(sign, mean, variance)  # type: ignore[no-untyped-call]
    return expectation


class _ProbitExpectation(torch.autograd.Function):
    """Σ_l w_l log Φ(z_l), z_l = t (m + s √2 x_l), some nodes at a time, its gradient on the way.

    d/dm = Σ_l w_l t r(z_l) and d/ds = Σ_l w_l t r(z_l) √2 x_l with r(z) = φ(z)/Φ(z), which keeps
    no graph through rows × classes × nodes.
    """

    @staticmethod
    def forward(ctx: Any, sign: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """The expectation, and the two gradients for ``backward``."""
        nodes, weights = _nodes(mean.dtype, mean.device)
        centre, spread = (sign * mean).unsqueeze(-1), (sign * variance.sqrt()).unsqueeze(-1)
        total, by_centre, by_spread = (torch.zeros_like(mean) for _ in range(3))
        step = max(1, CELLS_AT_A_TIME // max(1, mean.numel()))
        for start in range(0, len(nodes), step):
            node, weight = nodes[start : start + step], weights[start : start + step]
            z = centre + spread * node
            log_phi = torch.special.log_ndtr(z)
            ratio = z.square_().mul_(-0.5).sub_(log_phi).sub_(_HALF_LOG_2PI).exp_()
            total += log_phi @ weight
            by_centre += ratio @ weight
            by_spread += ratio @ (weight * node)
        ctx.save_for_backward(sign * by_centre, by_spread * 0.5 * sign / variance.sqrt())
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        """Gradients by mean and variance; the sign is data."""
        by_mean, by_variance = ctx.saved_tensors
        return None, grad * by_mean, grad * by_variance


def probit_mean(mean: Tensor, variance: Tensor) -> Tensor:
    """E Φ(f) = Φ(mean / √(1 + variance)) for f ~ N(mean, variance)."""
    phi: Tensor = torch.special.ndtr(mean / (1 + variance).sqrt())
    return phi


def probit_variance(mean: Tensor, variance: Tensor) -> Tensor:
    """Var Φ(f) for f ~ N(mean, variance), exactly; carries no gradient.

    With h = m/√(1 + v): E Φ(f)² = Φ(h) − 2 T(h, 1/√(1 + 2v)), T Owen's function.
    """
    m, v = mean.detach().double().cpu().numpy(), variance.detach().double().cpu().numpy()
    h = m / np.sqrt(1 + v)
    first = ndtr(h)
    result = first - 2 * owens_t(h, 1 / np.sqrt(1 + 2 * v)) - first**2
    return torch.as_tensor(np.maximum(result, 0.0)).to(mean)
