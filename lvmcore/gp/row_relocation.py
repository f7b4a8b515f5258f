"""Relocation of rows: jumps of q(x_n) to the positions of other rows, where the bound is higher.

Gradients move a row through its surroundings only. A row that begins among others that it does not
resemble stays there where the way out leads through positions of low density. With q(U) fixed the
bound is a sum over rows, so every row can be tried at the position of every other one, and all can
move at once: the bound does not fall, nor does it when q(U) is then at its optimum for q(X).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.numerics.gaussians import kl_standard_normal

__all__ = ["best_positions"]

# Numbers in the largest array of a block of rows: 32 MB in float64.
BLOCK_CELLS = 1 << 22


@torch.no_grad()
def best_positions(
    decoder: DataDecoder,
    Y: Float[Tensor, "N D"],
    observed: Float[Tensor, "N D"] | None,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    candidates: Int[Tensor, "K"],
) -> Int[Tensor, "N"]:
    """The row whose q(x) fits each row best: its own, or that of a candidate that fits better.

    Row n at the position of row c contributes to the bound, up to terms without c,

        Σ_d (y_nd E f_d(x_c) − ½ E f_d(x_c)²)/σ_d² − KL(q(x_c) ‖ N(0, I)),

    with the sum over the observed cells of row n: two matrix products give all pairs.

    Args:
        decoder: the data path with q(U) at its optimum.
        Y: rows, standardised, 0 where a cell is missing, [N, D].
        observed: 1 where a cell is observed, 0 elsewhere, [N, D]; None if all are.
        mean: means of q(X), [N, Q].
        variance: variances of q(X), [N, Q].
        candidates: the rows whose positions are tried, [K].

    Returns:
        [N].
    """
    M = len(decoder.Z)
    size = max(1, BLOCK_CELLS // max(Y.shape[1], M * (M + 1) // 2, len(candidates)))
    everywhere = torch.split(torch.arange(len(Y), device=Y.device), size)
    parts = [_moments(decoder, mean[rows], variance[rows]) for rows in everywhere]
    first, second, cost = (torch.cat(part) for part in zip(*parts, strict=True))
    precision, found = 1 / decoder.noise, []
    for rows in everywhere:
        known = torch.ones_like(Y[rows]) if observed is None else observed[rows]
        linear, square = Y[rows] * precision, -0.5 * known * precision
        own = (linear * first[rows] + square * second[rows]).sum(1) - cost[rows]
        scores = linear @ first[candidates].T - cost[candidates]
        value, best = scores.addmm_(square, second[candidates].T).max(1)
        found.append(torch.where(value > own, candidates[best], rows))
    return torch.cat(found)


def _moments(decoder: DataDecoder, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """E f_d and E f_d² of each position, [n, D] each, and KL(q(x) ‖ N(0, I)), [n]."""
    first, total, noise = decoder.moments(mean, variance)
    return first, total - noise + first.square(), kl_standard_normal(mean, variance)
