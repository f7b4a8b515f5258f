"""Quadratic forms with few passes over matrices and vectors, and explicit gradients."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["quadratic_forms", "shared_quadratic_forms"]

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


def shared_quadratic_forms(
    vectors: Float[Tensor, "M n"], matrices: Float[Tensor, "C M M"]
) -> Float[Tensor, "C n"]:
    """a_nᵀ A_c a_n of all vectors and matrices, once differentiable in both.

    The products A_c a_n serve value and gradient. For the gradient g by the forms, that by the
    vectors is 2 Σ_c g_cn A_c a_n and that by A_c is Σ_n g_cn a_n a_nᵀ: two thirds of the matrix
    products of a sum of squares of A_c's root times a_n, without an array of all vectors and
    matrices.

    Args:
        vectors: a, one a column, [M, n].
        matrices: A, symmetric, [C, M, M].

    Returns:
        The quadratic forms, [C, n].
    """
    value: Tensor = _SharedQuadraticForms.apply(vectors, matrices)  # type: ignore[no-untyped-call]
    return value


class _SharedQuadraticForms(torch.autograd.Function):
    """See ``shared_quadratic_forms``."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, matrices: Tensor) -> Tensor:
        forms = vectors.new_empty(len(matrices), vectors.shape[1])
        products = []
        for A, form in zip(matrices, forms, strict=True):
            product = torch.empty_like(vectors)
            for some in _cached_columns(vectors):
                torch.mm(A, vectors[:, some], out=product[:, some])
                torch.sum(product[:, some] * vectors[:, some], 0, out=form[some])
            products.append(product)
        ctx.save_for_backward(vectors, *products)
        return forms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, Tensor | None]:
        vectors, *products = ctx.saved_tensors
        M, (g,) = len(vectors), cotangents
        by_vectors = torch.zeros_like(vectors)
        by_matrices = vectors.new_zeros(len(g), M, M) if ctx.needs_input_grad[1] else None
        for some in _cached_columns(vectors):
            for c, product in enumerate(products):
                by_vectors[:, some].addcmul_(product[:, some], g[c, some], value=2)
                if by_matrices is not None:
                    by_matrices[c].addmm_(vectors[:, some] * g[c, some], vectors[:, some].T)
        return by_vectors, by_matrices


def _cached_columns(vectors: Float[Tensor, "M n"]) -> list[slice]:
    """Parts of the columns that stay in the cache."""
    size = max(1, CACHE_CELLS // len(vectors))
    return [slice(begin, begin + size) for begin in range(0, vectors.shape[1], size)]
