"""Fixed quasi-random draws: what is averaged over them is the same at every call."""

from __future__ import annotations

import torch
from scipy.stats import norm, qmc
from torch import Tensor

__all__ = ["mirrored_draws", "standard_draws"]


def standard_draws(n: int, Q: int, like: Tensor) -> Tensor:
    """Fixed quasi-random (scrambled Sobol) draws from N(0, I), [n, Q]; the same at every call."""
    uniform = qmc.Sobol(Q, seed=0).random(n)
    return torch.as_tensor(norm.ppf(uniform.clip(1e-12, 1 - 1e-12))).to(like)


def mirrored_draws(n: int, Q: int, like: Tensor) -> Tensor:
    """Half of n such draws, of mean square 1 in each dimension, and their opposites, [n, Q].

    Averages over them are right for every function up to third order that has no products.
    """
    half = standard_draws(n // 2, Q, like)
    half = half / half.square().mean(0).sqrt().clamp_min(1e-6)
    return torch.cat([half, -half])
