"""Posterior and evidence of linear weights of features under Gaussian terms of each cell.

If every cell has its own precision, because cells are missing or counts have Pólya–gamma variables,
every column has its own matrix. Notation: lvmcore/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.numerics.linalg import cholesky_batch

__all__ = ["column_posteriors", "weighted_evidence"]

# Cells in the products of a block of columns; bounds memory.
CHUNK_CELLS = 1 << 22
# Operations N × D × R² beyond which products of features are computed once for many columns: half
# the arithmetic, in products of large matrices. Least number of columns for it.
MAX_COLUMN_PRODUCTS, MIN_PAIR_COLUMNS = 2e8, 32
_PRECISION = "The features of a column's rows"


def weighted_evidence(
    Phi: Tensor, omega: Tensor, kappa: Tensor, *, single: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Σ_d log ∫ exp Σ_n [κ_nd ψ_nd − ½ω_nd ψ_nd²] dN(h_d | 0, I) with ψ_nd = φ_nᵀh_d.

    It is Σ_d ½ b_dᵀA_d⁻¹b_d − ½ log|A_d| with A_d = I + Φᵀdiag(ω_d)Φ and b_d = Φᵀκ_d. Under
    N(A_d⁻¹b_d, A_d⁻¹), the posterior of h_d, ψ has the mean and variance that are returned. The
    gradient has a closed form and is computed with the value, in blocks of columns: dΦ = Σ_d κ_d
    m_dᵀ − diag(ω_d)Φ(A_d⁻¹ + m_d m_dᵀ), dω = −½E ψ², dκ = E ψ.

    Args:
        Phi: features of the rows, [N, R]; the large products are in its dtype.
        omega: ω ≥ 0, [N, D].
        kappa: κ, [N, D].
        single: whether the large products are in single precision whatever the dtype.

    Returns:
        The value, float64, [], and mean and variance of ψ, detached, [N, D] each.

    Raises:
        NumericalError: a matrix could not be factorised.
    """
    tensors = (Phi, omega, kappa)
    if single:
        tensors = (Phi.float(), omega.float(), kappa.float())
    value, mean, variance = _Evidence.apply(*tensors)  # type: ignore[no-untyped-call]
    return value, mean.to(omega), variance.to(omega)


@torch.no_grad()
def column_posteriors(parts: list[Tensor], omega: Tensor, kappa: Tensor) -> tuple[Tensor, Tensor]:
    """The posteriors N(m_d, F_d F_dᵀ) of the weights in ``weighted_evidence``, A_d⁻¹ = F_d F_dᵀ.

    Args:
        parts: features of the rows at several draws of their positions, averaged over, [N, R] each.
        omega: [N, D].
        kappa: [N, D].

    Returns:
        m, [R, D], and F, [D, R, R], both float64.
    """
    R, D = parts[0].shape[1], omega.shape[1]
    # b_d = Φᵀκ_d and A_d = I + Φᵀdiag(ω_d)Φ, averaged over the draws; m_d = A_d⁻¹b_d, F_d = L⁻ᵀ
    b = sum((Phi.T @ kappa for Phi in parts), parts[0].new_zeros(R, D)).double() / len(parts)
    means, factors = b.new_empty(R, D), b.new_empty(D, R, R)
    pairs = _uses_pairs(parts[0], D)
    for columns in _blocks(parts[0], D):
        some = omega[:, columns]
        products = (_products(Phi, some, pairs=pairs) for Phi in parts)
        total = sum(products, parts[0].new_zeros(()))
        L = _factor(total / len(parts))
        means[:, columns] = torch.cholesky_solve(b.T[columns][:, :, None], L)[:, :, 0].T
        eye = torch.eye(R).to(L).expand_as(L)
        factors[columns] = torch.linalg.solve_triangular(L, eye, upper=False).mT
    return means, factors


def _blocks(Phi: Tensor, n_columns: int) -> Iterator[slice]:
    """Blocks of columns."""
    N, R = Phi.shape
    return _slices(n_columns, R * R if _uses_pairs(Phi, n_columns) else max(N * R, R * R))


def _slices(count: int, numbers: int) -> Iterator[slice]:
    """Slices of 0 … count − 1 for entries of ``numbers`` cells each."""
    size = max(1, CHUNK_CELLS // numbers)
    for begin in range(0, count, size):
        yield slice(begin, begin + size)


def _uses_pairs(Phi: Tensor, n_columns: int) -> bool:
    """Whether products of features are computed once for many columns.

    That needs few features, so that a block holds tens of columns and rows.
    """
    R = Phi.shape[1]
    wide = n_columns >= MIN_PAIR_COLUMNS and R * R * MIN_PAIR_COLUMNS <= CHUNK_CELLS
    return wide and n_columns * Phi.numel() * R > MAX_COLUMN_PRODUCTS


def _products(Phi: Tensor, omega: Tensor, *, pairs: bool) -> Tensor:
    """Φᵀ diag(ω_d) Φ of some columns, [D, R, R]."""
    R = Phi.shape[1]
    if not pairs:  # one product for all columns
        weighted = (omega[:, :, None] * Phi[:, None, :]).flatten(1)  # [N, DR]
        return (Phi.T @ weighted).reshape(R, -1, R).transpose(0, 1)
    packed = Phi.new_zeros(omega.shape[1], R * (R + 1) // 2)
    for rows in _slices(len(Phi), R * R):
        packed.addmm_(omega[rows].T, _pairs(Phi[rows]))
    return packed.index_select(1, _unpacked(R, Phi)).reshape(-1, R, R)


def _quadratic(
    Phi: Tensor, inverse: Tensor, omega: Tensor, *, pairs: bool, slope: bool
) -> tuple[Tensor, Tensor]:
    """φ_nᵀA_d⁻¹φ_n of some columns, [N, D], and Σ_d ω_nd A_d⁻¹φ_n, [N, R]; 0 without ``slope``."""
    R = Phi.shape[1]
    variance, d_Phi = torch.empty_like(omega), torch.zeros_like(Phi)
    if not pairs:
        # A_d⁻¹φ_n
        spread = (Phi @ inverse.transpose(0, 1).flatten(1)).reshape(*omega.shape, R)
        variance = (spread @ Phi[:, :, None])[..., 0]
        if slope:
            d_Phi = (omega[:, None, :] @ spread)[:, 0]
        return variance, d_Phi
    i, j = torch.triu_indices(R, R, device=Phi.device)
    packed = inverse.flatten(1).index_select(1, i * R + j)
    twice = packed * torch.where(i == j, 1.0, 2.0).to(Phi)  # each pair i < j stands for two entries
    for rows in _slices(len(Phi), R * R):
        torch.matmul(_pairs(Phi[rows]), twice.T, out=variance[rows])
        if slope:
            total = (omega[rows] @ packed).index_select(1, _unpacked(R, Phi)).reshape(-1, R, R)
            d_Phi[rows] = (total @ Phi[rows][:, :, None])[:, :, 0]
    return variance, d_Phi


def _pairs(Phi: Tensor) -> Tensor:
    """φ_ni φ_nj of all i ≤ j, [N, R(R + 1)/2]."""
    R = Phi.shape[1]
    return torch.cat([Phi[:, i : i + 1] * Phi[:, i:] for i in range(R)], 1)


def _unpacked(R: int, like: Tensor) -> Tensor:
    """Positions of the entries of a symmetric matrix among its pairs, [R²]."""
    i, j = torch.triu_indices(R, R)
    where = torch.empty(R, R, dtype=torch.int64)
    where[i, j] = where[j, i] = torch.arange(len(i))
    return where.reshape(-1).to(like.device)


def _factor(products: Tensor) -> Tensor:
    """Cholesky factors of I + products, float64."""
    A = products.double()
    return cholesky_batch(A + torch.eye(A.shape[-1]).to(A), _PRECISION)


class _Evidence(torch.autograd.Function):
    """See ``weighted_evidence``."""

    @staticmethod
    def forward(
        ctx: Any, Phi: Tensor, omega: Tensor, kappa: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        value = Phi.new_zeros((), dtype=torch.float64)
        mean, variance, d_Phi = (torch.empty_like(t) for t in (omega, omega, Phi))
        M = Phi.new_empty(Phi.shape[1], omega.shape[1])
        d_Phi.zero_()
        b = (Phi.T @ kappa).double().T
        pairs = _uses_pairs(Phi, omega.shape[1])
        for columns in _blocks(Phi, omega.shape[1]):
            some = omega[:, columns]
            L = _factor(_products(Phi, some, pairs=pairs))
            m = torch.cholesky_solve(b[columns][:, :, None], L)[:, :, 0]
            value += 0.5 * (m * b[columns]).sum() - L.diagonal(dim1=1, dim2=2).log().sum()
            M[:, columns] = m.T.to(Phi)
            inverse = torch.cholesky_inverse(L).to(Phi)
            variance[:, columns], some_slope = _quadratic(
                Phi, inverse, some, pairs=pairs, slope=ctx.needs_input_grad[0]
            )
            d_Phi -= some_slope
        torch.matmul(Phi, M, out=mean)
        d_Phi += (kappa - omega * mean) @ M.T
        ctx.save_for_backward(d_Phi, -0.5 * (variance + mean.square()), mean)
        ctx.mark_non_differentiable(mean, variance)
        return value, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        d_Phi, d_omega, d_kappa = ctx.saved_tensors
        g = cotangents[0].to(d_Phi)
        return g * d_Phi, g * d_omega, g * d_kappa
