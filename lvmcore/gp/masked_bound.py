"""The collapsed bound with missing cells: one covariance of q(V) for each set of rows.

A missing cell only drops out of the likelihood: the term of column d uses psi2, psi1ᵀy, psi0 and
‖y‖² summed over its observed rows. Each column therefore has its own matrix σ_d² I + G_d, and the
matrices are factorised in batches. Notation: lvmcore/README.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.gp.bounds import OptimalInducing, kernel_eigensystem
from lvmcore.kernels.psi_exponents import full_from_pairs
from lvmcore.kernels.psi_statistics import MaskedPsiSums, pair_weights
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky, cholesky_batch, solve_lower, solve_upper

__all__ = ["column_blocks", "masked_bound", "masked_optimum", "whitened", "whitened_optimum"]

# Numbers in the matrices of a block of columns: 2 MB in float64.
CHUNK_CELLS = 1 << 18
_KUU = "The kernel matrix of the inducing inputs"
_B = "The kernel matrix of a column's observed rows"


def masked_bound(
    sums: MaskedPsiSums, Kuu: Tensor, noise: Tensor, squares: Tensor, counts: Tensor
) -> Tensor:
    """The bound on log p(observed cells | q(X)) with q(U) at its optimum, KL_X not included.

    With G_d = L⁻¹ psi2_d L⁻ᵀ and P_d = L⁻¹ psi1ᵀ y_d over the n_d rows observed in column d, the
    sum over columns of
    F_d = −½n_d log 2πσ_d² − ½ log|I + G_d/σ_d²| − (‖y_d‖² + psi0_d − tr G_d)/(2σ_d²)
    + ½ P_dᵀ (σ_d² I + G_d)⁻¹ P_d / σ_d².
    Without missing cells it equals ``collapsed_bound``.

    Args:
        sums: psi statistics summed over the observed rows of each column.
        Kuu: kernel matrix of the inducing inputs, [M, M].
        noise: σ² of each column, [D].
        squares: ‖y_d‖² of the observed cells, [D].
        counts: n_d, [D].

    Returns:
        F, float64, [].

    Raises:
        NumericalError: a matrix cannot be factorised.
    """
    L, _ = cholesky(Kuu, _KUU)
    noise = noise.double()
    gain: Tensor = _Gain.apply(sums.psi2, sums.psi1Y, L, noise, sums.groups)  # type: ignore[no-untyped-call]
    rest = counts * (LOG_2PI + noise.log()) + (squares.double() + sums.psi0) / noise
    return gain - 0.5 * rest.sum()


@torch.no_grad()
def masked_optimum(sums: MaskedPsiSums, Kuu: Tensor, noise: Tensor) -> OptimalInducing:
    """The optimal q(V) of every column, with one basis for each set of rows.

    Args:
        sums: as in ``masked_bound``.
        Kuu: kernel matrix of the inducing inputs, [M, M].
        noise: σ² of each column, [D].

    Raises:
        NumericalError: a matrix cannot be factorised.
    """
    L, _ = cholesky(Kuu, _KUU)
    parts = torch.split(sums.psi2, 1, dim=1)
    G = (whitened(psi2, L)[0] for psi2 in parts)
    return whitened_optimum(G, solve_lower(L, sums.psi1Y), L, noise.double(), sums.groups)


@torch.no_grad()
def whitened_optimum(
    G: Iterable[Tensor], P: Tensor, L: Tensor, noise: Tensor, groups: Tensor
) -> OptimalInducing:
    """The optimal q(V) of every column for whitened statistics.

    Args:
        G: L⁻¹ psi2 L⁻ᵀ of each of the K sets of rows, [M, M] each.
        P: L⁻¹ psi1ᵀY, [M, D].
        L: Kuu = L Lᵀ, [M, M].
        noise: σ² of each column, [D], float64.
        groups: set of rows of each column, [D].
    """
    basis, mean, shrinkage = [], torch.empty_like(P), torch.empty_like(P)
    for k, rows in enumerate(G):
        columns = torch.nonzero(groups == k)[:, 0]
        values, vectors = kernel_eigensystem(rows)
        total = values[:, None] + noise[columns]
        basis.append(solve_upper(L, vectors))
        mean[:, columns] = vectors.T @ P[:, columns] / total
        shrinkage[:, columns] = values[:, None] / total
    return OptimalInducing(torch.stack(basis), mean, shrinkage, groups)


def whitened(psi2: Tensor, L: Tensor) -> Tensor:
    """G = L⁻¹ psi2 L⁻ᵀ of each set of rows, [K, M, M], from its pairs [P, K]."""
    M, K = len(L), psi2.shape[1]
    full = full_from_pairs(psi2, M)  # [M, M, K]
    half = solve_lower(L, full.reshape(M, M * K)).reshape(M, M, K)
    G = solve_lower(L, half.transpose(0, 1).reshape(M, M * K)).reshape(M, M, K).permute(2, 0, 1)
    return 0.5 * (G + G.mT)


def column_blocks(groups: Tensor, M: int) -> Iterator[tuple[Tensor, int, int]]:
    """Blocks of columns to factorise, with the first and one past the last of their groups."""
    order = torch.argsort(groups, stable=True)
    for columns in torch.split(order, max(1, CHUNK_CELLS // M**2)):
        yield columns, int(groups[columns[0]]), int(groups[columns[-1]]) + 1


class _Gain(torch.autograd.Function):
    """Σ_d ½ P_dᵀ B_d⁻¹ P_d/σ_d² − ½ log|B_d/σ_d²| + ½ tr G_d/σ_d², B_d = σ_d² I + G_d.

    With R_d = B_d⁻¹ P_d the gradient is in closed form: dG_d = ½ (I/σ_d² − B_d⁻¹ − R_d R_dᵀ/σ_d²),
    dP_d = R_d/σ_d²; and as G = L⁻¹ psi2 L⁻ᵀ and P = L⁻¹ psi1ᵀY, dpsi2 = L⁻ᵀ dG L⁻¹,
    dpsi1ᵀY = L⁻ᵀ dP and dL = −L⁻ᵀ (2 Σ dG G + dP Pᵀ), its lower triangle. The gradient is computed
    with the value, by blocks of columns, so only the sums themselves have size D × M².
    """

    @staticmethod
    def forward(
        ctx: Any, psi2: Tensor, psi1Y: Tensor, L: Tensor, noise: Tensor, groups: Tensor
    ) -> Tensor:
        value = noise.new_zeros(())
        d_psi2, inner = torch.zeros_like(psi2), torch.zeros_like(L)
        d_first, d_noise = torch.empty_like(psi1Y), torch.empty_like(noise)
        for columns, first, last in column_blocks(groups, len(L)):
            G = whitened(psi2[:, first:last], L)
            P = solve_lower(L, psi1Y[:, columns])
            group, variance = groups[columns] - first, noise[columns]
            gain, dG, R, d_noise[columns] = _columns(G[group], P, variance)
            value += gain
            dP = R / variance
            summed = torch.zeros_like(G).index_add_(0, group, dG)
            inner += 2 * (summed @ G).sum(0) + dP @ P.T
            d_first[:, columns] = solve_upper(L, dP)
            d_psi2[:, first:last] += pair_weights(_unwhitened(summed, L)).T
        ctx.save_for_backward(d_psi2, d_first, -solve_upper(L, inner).tril(), d_noise)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        g = cotangents[0]
        return (*(g * gradient for gradient in ctx.saved_tensors), None)


def _columns(G: Tensor, P: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gain of some columns, its gradients in G [c, M, M] and σ² [c], and R [M, c]."""
    M = len(P)
    eye = torch.eye(M).to(G)
    factor = cholesky_batch(G + noise[:, None, None] * eye, _B)
    inverse = torch.cholesky_inverse(factor)
    R = torch.cholesky_solve(P.T[:, :, None], factor)[:, :, 0]
    fit = (P.T * R).sum(1)
    trace = G.diagonal(dim1=1, dim2=2).sum(1)
    log_det = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(1) - M * noise.log()
    gain = 0.5 * ((fit + trace) / noise - log_det).sum()
    dG = -0.5 * (inverse + R[:, :, None] * (R / noise[:, None])[:, None, :])
    dG += (0.5 / noise)[:, None, None] * eye
    d_noise = 0.5 * (
        M / noise
        - inverse.diagonal(dim1=1, dim2=2).sum(1)
        - (fit + trace) / noise.square()
        - R.square().sum(1) / noise
    )
    return gain, dG, R.T, d_noise


def _unwhitened(dG: Tensor, L: Tensor) -> Tensor:
    """L⁻ᵀ dG L⁻¹ of each set of rows, [K, M, M]."""
    K, M, _ = dG.shape
    half = solve_upper(L, dG.permute(1, 2, 0).reshape(M, M * K)).reshape(M, M, K)
    full = solve_upper(L, half.transpose(0, 1).reshape(M, M * K)).reshape(M, M, K)
    return full.permute(2, 0, 1)
