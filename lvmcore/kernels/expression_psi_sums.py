"""Psi statistics of kernels of an expression, as means over the fixed draws of q(X).

With K_s = k(x_s, Z) of draw s of all rows, psi1 = mean_s K_s and psi2 = mean_s K_sᵀ K_s. Long
tables are processed in blocks of rows, forwards and backwards, in memory that does not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lvmcore.kernels.expression_kernel import ExpressionKernel
from lvmcore.kernels.psi_exponents import pairs

__all__ = [
    "expression_masked_sums",
    "expression_psi_pairs",
    "expression_sums",
]

# Numbers of k(x_s, Z) in a block of rows: 512 kB in float64, which stay in the cache of a core; and
# in all blocks together at most, if they are kept for the gradient.
BLOCK_CELLS, KEPT_CELLS = 1 << 16, 1 << 22

Sums = tuple[Tensor, Tensor, Tensor]


def expression_sums(
    kernel: ExpressionKernel,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
    Y: Float[Tensor, "N D"],
) -> tuple[Float64[Tensor, ""], Float64[Tensor, "M D"], Float64[Tensor, "M M"]]:
    """psi0 [], psi1ᵀY [M, D] and psi2 [M, M], summed over rows.

    Args:
        kernel: the kernel.
        mean: means of q(X), [N, Q].
        variance: variances of q(X), [N, Q].
        Z: inducing inputs, [M, Q].
        Y: data, [N, D].
    """

    def of_rows(mean: Tensor, variance: Tensor, Z: Tensor, Y: Tensor) -> Sums:
        K, own = kernel.rows(mean, variance, Z)
        flat = K.reshape(-1, K.shape[-1])
        return own.sum(), K.mean(1).T @ Y.double(), flat.T @ flat / K.shape[1]

    found, keeps = None, len(kernel.draws) * len(mean) * len(Z) <= KEPT_CELLS
    for rows in _row_blocks(kernel, mean, Z):
        own = _block_sums(of_rows, keeps, mean[rows], variance[rows], Z, Y[rows])
        found = own if found is None else _added(found, own)
    assert found is not None
    return found


def expression_masked_sums(
    kernel: ExpressionKernel,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
    Y: Float[Tensor, "N D"],
    mask: Bool[Tensor, "N D"],
    sets: Float[Tensor, "N K"],
) -> tuple[Float64[Tensor, "D"], Float64[Tensor, "M D"], Float64[Tensor, "P K"]]:
    """psi0 [D], psi1ᵀY [M, D], and the pairs m ≤ m' of psi2 for each set of rows [P, K].

    Args:
        kernel: the kernel.
        mean: means of q(X), [N, Q].
        variance: variances of q(X), [N, Q].
        Z: inducing inputs, [M, Q].
        Y: data, 0 where missing, [N, D].
        mask: True where a cell is observed, [N, D].
        sets: 1 where the set has the row, [N, K].
    """

    def of_rows(
        mean: Tensor, variance: Tensor, Z: Tensor, Y: Tensor, mask: Tensor, sets: Tensor
    ) -> Sums:
        own, first, second = expression_psi_pairs(kernel, mean, variance, Z)
        return mask.double().T @ own, first.T @ Y.double(), second.T @ sets.double()

    found, keeps = None, len(kernel.draws) * len(mean) * len(Z) <= KEPT_CELLS
    for rows in _row_blocks(kernel, mean, Z):
        parts = (mean[rows], variance[rows], Z, Y[rows], mask[rows], sets[rows])
        own = _block_sums(of_rows, keeps, *parts)
        found = own if found is None else _added(found, own)
    assert found is not None
    return found


def expression_psi_pairs(
    kernel: ExpressionKernel,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    Z: Float[Tensor, "M Q"],
) -> tuple[Float64[Tensor, "N"], Float64[Tensor, "N M"], Float64[Tensor, "N P"]]:
    """psi0 [N], psi1 [N, M] and psi2 at its pairs m ≤ m' [N, M(M+1)/2] of each row."""
    K, own = kernel.rows(mean, variance, Z)
    i, j = pairs(len(Z), K.device)
    second = (K.mT @ K / K.shape[1])[:, i, j]
    return own, K.mean(1), second


def _row_blocks(
    kernel: ExpressionKernel, mean: Float[Tensor, "N Q"], Z: Float[Tensor, "M Q"]
) -> Iterator[slice]:
    """Blocks of rows; one empty block for no rows."""
    size = max(1, BLOCK_CELLS // (len(kernel.draws) * max(1, len(Z))))
    for begin in range(0, max(1, len(mean)), size):
        yield slice(begin, begin + size)


def _block_sums(function: Callable[..., Sums], keeps: bool, *tensors: Tensor) -> Sums:
    """The sums of a block, which are computed again for the gradient unless they are kept."""
    if keeps or not torch.is_grad_enabled():
        return function(*tensors)
    found: Sums = checkpoint(function, *tensors, use_reentrant=False, preserve_rng_state=False)
    return found


def _added(one: Sums, other: Sums) -> Sums:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]
