"""Likelihoods of a Gaussian-process value f, and their expectations under Gaussians."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from scipy.special import ndtr, owens_t
from torch import Tensor

__all__ = ["bernoulli_probit_expectation", "probit_mean", "probit_variance"]

GAUSS_HERMITE_NODES = 20


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
    nodes, weights = _nodes(mean.dtype, mean.device)
    f = mean.unsqueeze(-1) + variance.sqrt().unsqueeze(-1) * nodes
    log_phi: Tensor = torch.special.log_ndtr(sign.unsqueeze(-1) * f)
    return log_phi @ weights


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
