"""Log densities of hidden numbers and counts, under the likelihoods of their columns."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lvmcore.gp.columns.likelihood_decoder import MOMENT_DRAWS, LikelihoodDecoder
from lvmcore.gp.latent_inference import infer_modes
from lvmcore.numerics.quasi_random import antithetic_draws

__all__ = ["hidden_log_density"]


@torch.no_grad()
def hidden_log_density(
    decoder: LikelihoodDecoder, Y: Tensor, hidden: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    """log p(y_nd | the cells of row n that are not hidden), [B, D]; NaN for levels of a category.

    The position of a row is inferred without its hidden cells, q(x) = Σ_k w_k N(μ_k, diag v_k), and
    p(y_nd) = E_q(x) E p(y_nd | f(x)) is an average over the draws of the decoded moments. It is a
    probability of a count, and a density of a number in the data's units.

    Args:
        decoder: the fitted path.
        Y: standardised rows, NaN where a cell is missing, [B, D].
        hidden: True where a cell is hidden, [B, D].
        mean: means of the fitted rows, [N, Q].
        variance: their variances, [N, Q].
    """
    left = torch.where(hidden, torch.nan, Y)
    means, variances, weights = infer_modes(decoder, left, mean, variance)
    cells = torch.nan_to_num(Y)
    draws = antithetic_draws(MOMENT_DRAWS, means.shape[-1], means)
    total = torch.full_like(cells, -math.inf)
    for k in range(weights.shape[1]):
        weight = weights[:, k : k + 1].log() - math.log(len(draws))
        for draw in draws:
            functions = decoder.functions(means[:, k] + variances[:, k].sqrt() * draw)
            found = decoder.likelihood.number_log_predictive(cells, *functions)
            total = torch.logaddexp(total, weight + found)
    return total
