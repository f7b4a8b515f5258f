"""Quadratic forms with a matrix of their own for every row, read as seldom as can be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["quadratics"]

# Numbers in the matrices that are gathered at a time: so few stay in a cache.
CACHED = 1 << 18


def quadratics(vectors: Tensor, matrices: Tensor, rows: Tensor) -> Tensor:
    """Σ_s v_nsᵀ A_r(n) v_ns, twice differentiable in the vectors.

    Reading the matrices takes more time than the products. So they are read once for the value and
    the gradient together, and once for vectors that follow one another with the same matrix.

    Args:
        vectors: v, [n, S, R].
        matrices: A, symmetric, no gradient, [B, R, R].
        rows: r, which matrix is each one's, at least one, [n].

    Returns:
        [n].
    """
    value: Tensor = _Quadratics.apply(vectors, matrices, rows)  # type: ignore[no-untyped-call]
    return value


def _products(vectors: Tensor, matrices: Tensor, rows: Tensor) -> Tensor:
    """A_r(n) v_ns, [n, S, R]."""
    used, group, count = torch.unique_consecutive(rows, return_inverse=True, return_counts=True)
    place = torch.arange(len(rows), device=rows.device) - (count.cumsum(0) - count)[group]
    padded = vectors.new_zeros(len(used), int(count.max()), *vectors.shape[1:])
    padded[group, place] = vectors
    flat = padded.reshape(len(used), -1, vectors.shape[2])
    if len(used) == len(matrices) and torch.equal(used, torch.arange(len(used)).to(used)):
        return (flat @ matrices).reshape(padded.shape)[group, place]
    size = max(1, CACHED // matrices.shape[1] ** 2)
    for begin in range(0, len(used), size):
        some = slice(begin, begin + size)
        flat[some] = flat[some] @ matrices[used[some]]
    return flat.reshape(padded.shape)[group, place]


class _Products(torch.autograd.Function):
    """See ``_products``; its own adjoint, as the matrices are symmetric."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, matrices: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(matrices, rows)
        return _products(vectors, matrices, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None, None]:
        return _products(cotangents[0], *ctx.saved_tensors), None, None


class _Quadratics(torch.autograd.Function):
    """See ``quadratics``."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, matrices: Tensor, rows: Tensor) -> Tensor:
        turned = _products(vectors, matrices, rows)
        ctx.save_for_backward(vectors, turned, matrices, rows)
        return (turned * vectors).sum((1, 2))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None, None]:
        vectors, turned, matrices, rows = ctx.saved_tensors
        if torch.is_grad_enabled():  # differentiated once more
            turned = _Products.apply(vectors, matrices, rows)  # type: ignore[no-untyped-call]
        return 2 * cotangents[0][:, None, None] * turned, None, None
