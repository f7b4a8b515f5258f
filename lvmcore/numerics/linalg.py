"""Cholesky factorisation with jitter, and triangular solves."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from lvmcore.errors import NumericalError

__all__ = ["JITTERS", "cholesky", "cholesky_batch", "solve_lower", "solve_upper"]

# Tried in turn, each relative to the mean of the diagonal.
JITTERS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


def cholesky(
    A: Float[Tensor, "M M"], name: str, *, exact: bool = False
) -> tuple[Float64[Tensor, "M M"], float]:
    """Lower Cholesky factor of A + jitter · mean(diag A) · I with the least jitter that works.

    The gradient by A includes that of the jitter's scale.

    Args:
        A: symmetric, [M, M]; computed in float64 whatever its dtype.
        name: of the matrix, for the message.
        exact: try without jitter first, for matrices such as I + A that need none.

    Returns:
        The factor [M, M] (float64) and the relative jitter used.

    Raises:
        NumericalError: the largest jitter does not suffice, or A is not finite.
    """
    A = A.double()
    scale = A.diagonal().mean().expand(len(A)).diag()
    for jitter in (0.0, *JITTERS) if exact else JITTERS:
        L, info = torch.linalg.cholesky_ex(torch.add(A, scale, alpha=jitter))
        # A row that is not finite makes its diagonal entry, a root of its squares, not finite.
        if int(info) == 0 and math.isfinite(float(L.detach().diagonal().sum())):
            return L, jitter
    raise NumericalError(
        f"{name} [{len(A)} x {len(A)}] could not be factorised, even with {JITTERS[-1]:g} of its "
        "mean diagonal added. Try fewer inducing inputs, another seed or a lower learning rate."
    )


def cholesky_batch(A: Float[Tensor, "K M M"], name: str) -> Float[Tensor, "K M M"]:
    """Lower Cholesky factors of matrices that need jitter only against rounding, [K, M, M].

    A matrix that cannot be factorised gets the least jitter that works, as in ``cholesky``; the
    others get none.

    Args:
        A: symmetric, [K, M, M].
        name: of the matrices, for the message.

    Raises:
        NumericalError: the largest jitter does not suffice, or a matrix is not finite.
    """
    L: Tensor
    L, info = torch.linalg.cholesky_ex(A)
    failed = info > 0
    added = A.new_zeros(len(A))
    for jitter in JITTERS:
        if not bool(failed.any()):
            break
        # Factorise all again: writing into a factor would break its gradient.
        added = torch.where(failed, jitter * A.diagonal(dim1=-2, dim2=-1).mean(-1), added)
        L, info = torch.linalg.cholesky_ex(A + added[:, None, None] * torch.eye(A.shape[-1]).to(A))
        failed = info > 0
    # A row that is not finite makes its diagonal entry, a sum of its squares, not finite.
    if bool(failed.any()) or not bool(torch.isfinite(L.diagonal(dim1=-2, dim2=-1)).all()):
        raise NumericalError(
            f"{name} [{A.shape[-1]} x {A.shape[-1]}] could not be factorised, even with "
            f"{JITTERS[-1]:g} of its mean diagonal added. Try fewer inducing inputs, another seed "
            "or a lower learning rate."
        )
    return L


def solve_lower(L: Float[Tensor, "M M"], B: Float[Tensor, "*B M K"]) -> Float[Tensor, "*B M K"]:
    """L⁻¹ B for lower-triangular L [M, M] and B [..., M, K]."""
    solution: Tensor = torch.linalg.solve_triangular(L, B, upper=False)
    return solution


def solve_upper(L: Float[Tensor, "M M"], B: Float[Tensor, "*B M K"]) -> Float[Tensor, "*B M K"]:
    """L⁻ᵀ B for lower-triangular L [M, M] and B [..., M, K]."""
    solution: Tensor = torch.linalg.solve_triangular(L.T, B, upper=True)
    return solution
