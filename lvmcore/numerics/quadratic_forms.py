"""Quadratic forms with a matrix for every row, with few passes over the matrices."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["quadratic_forms"]

# Cells of the matrices that are gathered at a time, so that they stay in the cache.
CACHE_CELLS = 1 << 18


def quadratic_forms(
    vectors: Float[Tensor, "n S R"], matrices: Float[Tensor, "B R R"], rows: Int[Tensor, "n"]
) -> Float[Tensor, "n"]:
    """Σ_s v_nsᵀ A_r(n) v_ns, twice differentiable in the vectors.

    Reading the matrices takes more time than the products. They are read once for value and
    gradient together, and once for consecutive vectors with the same matrix.

    Args:
        vectors: v, [n, S, R].
        matrices: A, symmetric, no gradient, [B, R, R].
        rows: r, index of each one's matrix, n ≥ 1, [n].

    Returns:
        The quadratic forms, [n].
    """
    value: Tensor = _QuadraticForms.apply(vectors, matrices, rows)  # type: ignore[no-untyped-call]
    return value


def _products(
    vectors: Float[Tensor, "n S R"], matrices: Float[Tensor, "B R R"], rows: Int[Tensor, "n"]
) -> Float[Tensor, "n S R"]:
    """A_r(n) v_ns, [n, S, R]."""
    used, group, count = torch.unique_consecutive(rows, return_inverse=True, return_counts=True)
    position = torch.arange(len(rows), device=rows.device) - (count.cumsum(0) - count)[group]
    padded = vectors.new_zeros(len(used), int(count.max()), *vectors.shape[1:])
    padded[group, position] = vectors
    flat = padded.reshape(len(used), -1, vectors.shape[2])
    if len(used) == len(matrices) and torch.equal(used, torch.arange(len(used)).to(used)):
        return (flat @ matrices).reshape(padded.shape)[group, position]
    size = max(1, CACHE_CELLS // matrices.shape[1] ** 2)
    for begin in range(0, len(used), size):
        some = slice(begin, begin + size)
        flat[some] = flat[some] @ matrices[used[some]]
    return flat.reshape(padded.shape)[group, position]


class _Products(torch.autograd.Function):
    """``_products`` as a function of the vectors; self-adjoint, as the matrices are symmetric."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, matrices: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(matrices, rows)
        return _products(vectors, matrices, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None, None]:
        return _products(cotangents[0], *ctx.saved_tensors), None, None


class _QuadraticForms(torch.autograd.Function):
    """See ``quadratic_forms``."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, matrices: Tensor, rows: Tensor) -> Tensor:
        products = _products(vectors, matrices, rows)
        ctx.save_for_backward(vectors, products, matrices, rows)
        return (products * vectors).sum((1, 2))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None, None]:
        vectors, products, matrices, rows = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative
            products = _Products.apply(vectors, matrices, rows)  # type: ignore[no-untyped-call]
        return 2 * cotangents[0][:, None, None] * products, None, None
