"""Constants and Kullback-Leibler divergences of Gaussian distributions."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

LOG_2PI = math.log(2 * math.pi)


def kl_standard_normal(
    mean: Float[Tensor, "*N Q"], variance: Float[Tensor, "*N Q"]
) -> Float[Tensor, "*N"]:
    """KL(N(mean, diag variance) ‖ N(0, I)) of each row, [N], for mean, variance [N, Q]."""
    return 0.5 * (mean.square() + variance - variance.log() - 1).sum(-1)


def kl_whitened(mean: Float[Tensor, "C M"], factor: Float[Tensor, "C M M"]) -> Float[Tensor, ""]:
    """Σ_c KL(N(mean_c, factor_c factor_cᵀ) ‖ N(0, I)), [].

    Args:
        mean: [C, M].
        factor: lower-triangular, [C, M, M].
    """
    C, M = mean.shape
    log_det = factor.diagonal(dim1=-2, dim2=-1).abs().log().sum()
    return 0.5 * (factor.square().sum() + mean.square().sum() - C * M) - log_det
