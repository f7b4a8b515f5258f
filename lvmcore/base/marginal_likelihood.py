"""Log marginal likelihood of new rows by importance sampling of their latent positions."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.quasi_random import sobol_draws

# Draws from q(x), from the widened q(x), and from the prior.
DENSITY_DRAWS = (128, 64, 64)
# Draws × rows × columns in a block; bounds memory, does not change results.
CELLS_AT_A_TIME = 1 << 23


def log_marginal(
    log_density: Callable[[Tensor, Tensor], Tensor], Y: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    """log p(y) = log E_r [p(y | x) p(x) / r(x)] by importance sampling, [N].

    The proposal r is a mixture of q(x), of q(x) at three times its sd, and of the prior, with fixed
    quasi-random draws, each weighted by the density of the whole mixture. The estimate is too low
    where a row's posterior has a mode without draws.

    Args:
        log_density: (rows Y [n, D], points X [S, n, Q]) → log p(y_n | x_sn), [S, n].
        Y: rows, [N, D].
        mean: means of q(x), [N, Q].
        variance: their variances, [N, Q].
    """
    Z = sobol_draws(sum(DENSITY_DRAWS), mean.shape[1], mean)
    draws = torch.split(Z, [*DENSITY_DRAWS])
    rows = max(1, CELLS_AT_A_TIME // (len(Z) * Y.shape[1]))

    def some(Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        means = (mean, mean, torch.zeros_like(mean))
        sds = (variance.sqrt(), 3 * variance.sqrt(), torch.ones_like(mean))
        X = torch.cat([m + s * z[:, None] for m, s, z in zip(means, sds, draws, strict=True)])
        log_r = torch.stack(
            [
                math.log(n / len(Z)) + _log_normal((X - m) / s) - s.log().sum(-1)
                for m, s, n in zip(means, sds, DENSITY_DRAWS, strict=True)
            ]
        ).logsumexp(0)
        log_weight = log_density(Y, X) + _log_normal(X) - log_r
        return log_weight.logsumexp(0) - math.log(len(X))

    parts = zip(*(torch.split(part, rows) for part in (Y, mean, variance)), strict=True)
    return torch.cat([some(*part) for part in parts])


def _log_normal(z: Tensor) -> Tensor:
    """log N(z | 0, I) over the last dimension."""
    return -0.5 * (z.square().sum(-1) + z.shape[-1] * LOG_2PI)
