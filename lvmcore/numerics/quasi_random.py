"""Quasi-random draws that are the same at every call, and standard normal draws."""

from __future__ import annotations

import torch
from jaxtyping import Float
from scipy.stats import norm, qmc
from torch import Tensor

__all__ = ["antithetic_draws", "matched_draws", "sobol_draws"]


def sobol_draws(n: int, Q: int, like: Tensor) -> Float[Tensor, "{n} {Q}"]:
    """Fixed quasi-random (scrambled Sobol) draws from N(0, I), [n, Q]; the same at every call."""
    uniform = qmc.Sobol(Q, seed=0).random(n)
    return torch.as_tensor(norm.ppf(uniform.clip(1e-12, 1 - 1e-12))).to(like)


def antithetic_draws(n: int, Q: int, like: Tensor) -> Float[Tensor, "2*({n}//2) {Q}"]:
    """n/2 quasi-random draws with mean square 1 in each dimension, and their negatives, [n, Q].

    Averages over them are exact for polynomials up to third order without mixed terms.
    """
    half = sobol_draws(n // 2, Q, like)
    half = half / half.square().mean(0).sqrt().clamp_min(1e-6)
    return torch.cat([half, -half])


def matched_draws(n: int, Q: int, like: Tensor) -> Float[Tensor, "{n} {Q}"]:
    """n/2 quasi-random draws with mean ε εᵀ = I, and their negatives, [n, Q]; n/2 ≥ Q is even.

    Averages over them are exact for all polynomials up to third order.
    """
    half = sobol_draws(n // 2, Q, like)
    factor = torch.linalg.cholesky(half.mT @ half / len(half))
    half = torch.linalg.solve_triangular(factor, half.mT, upper=False).mT
    return torch.cat([half, -half])


def standard_normal(
    shape: tuple[int, ...], like: Tensor, generator: torch.Generator
) -> Float[Tensor, "..."]:
    """Independent draws from N(0, 1), in the dtype and on the device of ``like``."""
    drawn = torch.randn(shape, generator=generator, dtype=like.dtype, device=generator.device)
    return drawn.to(like)
