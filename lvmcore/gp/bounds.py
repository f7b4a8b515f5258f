"""Variational bounds of sparse Gaussian processes with uncertain inputs.

Notation: lvmcore/README.md. The inducing outputs are whitened throughout: U = L V, Kuu = L Lᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.errors import NumericalError
from lvmcore.kernels.psi_statistics import PsiSums
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper


@dataclass(frozen=True)
class OptimalInducing:
    """The optimal q(V) of every column, in the basis that diagonalises all its covariances.

    With G = L⁻¹ psi2 L⁻ᵀ = V diag(λ) Vᵀ, column d has covariance V diag(σ_d²/(σ_d² + λ)) Vᵀ.
    With missing cells there is one such basis for each set of observed rows.

    Attributes:
        basis: T = L⁻ᵀ V, so that b = k(x, Z) T is whitened and diagonal, [M, M]; or [K, M, M].
        mean: mean of each column in its basis, [M, D].
        shrinkage: λ_m/(σ_d² + λ_m), 1 where the data dominate and 0 where the prior does, [M, D].
        groups: index of each column's basis among the K, [D]; None for a single basis.
    """

    basis: Tensor
    mean: Tensor
    shrinkage: Tensor
    groups: Tensor | None = None

    @property
    def weights(self) -> Tensor:
        """W with E f(x) = k(x, Z) W, [M, D]."""
        if self.groups is None:
            return self.basis @ self.mean
        weights = torch.empty_like(self.mean)
        for k, basis in enumerate(self.basis):
            columns = self.groups == k
            weights[:, columns] = basis @ self.mean[:, columns]
        return weights


def collapsed_bound(
    sums: PsiSums, Kuu: Tensor, noise: Tensor, squares: Tensor, n_rows: int
) -> tuple[Tensor, OptimalInducing]:
    """The bound on log p(Y | q(X)) with q(U) at its optimum, KL_X not included.

    With G = L⁻¹ psi2 L⁻ᵀ and P = L⁻¹ psi1ᵀ Y, summed over columns:
    F_d = −½N log 2πσ_d² − ½ log|I + G/σ_d²| − (‖y_d‖² + psi0 − tr G)/(2σ_d²)
    + ½ P_dᵀ (σ_d² I + G)⁻¹ P_d / σ_d².
    Source: Titsias and Lawrence 2010, eq. 14, whitened; all columns share one eigendecomposition of
    G, whatever their noise.

    Args:
        sums: psi statistics summed over rows.
        Kuu: kernel matrix of the inducing inputs, [M, M].
        noise: σ² of each column, [D].
        squares: ‖y_d‖² of each column, [D].
        n_rows: N.

    Returns:
        F (float64, []) and the optimal q(V), detached.

    Raises:
        NumericalError: a matrix cannot be factorised.
    """
    value, basis, mean, shrinkage = _Collapsed.apply(  # type: ignore[no-untyped-call]
        n_rows, *(t.double() for t in (sums.psi0, sums.psi1Y, sums.psi2, Kuu, noise, squares))
    )
    return value, OptimalInducing(basis, mean, shrinkage)


def kernel_eigensystem(G: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, clamped at 0, and eigenvectors of a symmetric matrix.

    Raises:
        NumericalError: the matrix is not finite.
    """
    try:
        values, vectors = torch.linalg.eigh(G)
    except RuntimeError as error:  # torch.linalg's own error type derives from it
        raise NumericalError(
            "The sums of the kernel over the rows could not be decomposed: they are not finite. "
            "Try a lower learning rate or another seed, and look for extreme values."
        ) from error
    return values.clamp_min(0), vectors


class _Collapsed(torch.autograd.Function):
    """The collapsed bound with its gradient in closed form, in the basis T = L⁻ᵀ V.

    In this basis G is diag(λ) and P is ρ = Tᵀ psi1ᵀY. With R_d = ρ_d/(σ_d² + λ) and p_d = R_d/σ_d²,
    the gradient in G is g = ½ Σ_d [I/σ_d² − diag 1/(σ_d² + λ) − R_d R_dᵀ/σ_d²], and
    dpsi2 = T g Tᵀ, dpsi1ᵀY = T p, dKuu = −½ T [g diag(λ) + diag(λ) g + ½ (p ρᵀ + ρ pᵀ)] Tᵀ. The
    bound is the same for every root of Kuu, so the differential of L may be ½ L (L⁻¹ dKuu L⁻ᵀ).
    No derivative of an eigenvector is needed, so repeated eigenvalues are no problem.
    """

    @staticmethod
    def forward(ctx: Any, n_rows: int, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        psi0, psi1Y, psi2, Kuu, noise, squares = tensors
        L, ctx.jitter = cholesky(Kuu, "The kernel matrix of the inducing inputs")
        G = solve_lower(L, solve_lower(L, psi2).T)
        values, vectors = kernel_eigensystem(0.5 * (G + G.T))
        basis = solve_upper(L, vectors)
        rotated = basis.T @ psi1Y
        eigenvalues = values[:, None]
        total = eigenvalues + noise
        R = rotated / total
        left = squares + psi0 - G.diagonal().sum()
        gain = rotated * R / noise - torch.log1p(eigenvalues / noise)
        value = 0.5 * (gain.sum() - (n_rows * (LOG_2PI + noise.log()) + left / noise).sum())
        ctx.n_rows = n_rows
        ctx.save_for_backward(basis, values, rotated, R, left, noise)
        shrinkage = eigenvalues / total
        ctx.mark_non_differentiable(basis, R, shrinkage)
        return value, basis, R, shrinkage

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        basis, values, rotated, R, left, noise = ctx.saved_tensors
        half = 0.5 * cotangents[0]
        precision = noise.reciprocal()
        p = R * precision
        over = (values[:, None] + noise).reciprocal()
        g = (precision.sum() - over.sum(1)).diag() - p @ R.T
        cross = g * values + p @ rotated.T
        d_psi2 = basis @ g @ basis.T
        d_Kuu = -0.5 * basis @ (cross + cross.T) @ basis.T
        # The jitter is a share of the mean of Kuu's diagonal.
        d_Kuu.diagonal().add_(ctx.jitter * d_Kuu.diagonal().mean())
        d_noise = precision * (
            (values[:, None] * over - rotated * p - R.square()).sum(0)
            - ctx.n_rows
            + left * precision
        )
        d_squares = -precision
        gradients = (d_squares.sum(), 2 * basis @ p, d_psi2, d_Kuu, d_noise, d_squares)
        return None, *(half * gradient for gradient in gradients)


def stochastic_bound(
    sums: PsiSums,
    L: Tensor,
    mean: Tensor,
    covariance: Tensor,
    noise: Tensor,
    squares: Tensor,
    n_rows: int,
) -> Tensor:
    """E log p(Y | F) under any Gaussian q(V), without the KL term, [].

    E f = psi1 L⁻ᵀ m_d and E f² = k + tr[psi2 L⁻ᵀ (m_d m_dᵀ + cov_d − I) L⁻¹], summed over rows.
    At the optimal q(V), this less Σ_d KL(q(V_d) ‖ N(0, I)) equals the collapsed bound.

    Args:
        sums: psi statistics summed over rows.
        L: factor of Kuu, [M, M].
        mean: m, [M, D].
        covariance: cov of each column, [D, M, M].
        noise: σ², [D].
        squares: ‖y_d‖², [D].
        n_rows: N.
    """
    G = solve_lower(L, solve_lower(L, sums.psi2).T)
    eye = torch.eye(len(L)).to(L)
    second = mean.T[:, :, None] * mean.T[:, None, :] + covariance - eye
    expected = (
        squares
        - 2 * (solve_lower(L, sums.psi1Y) * mean).sum(0)
        + sums.psi0
        + (second * G).sum((1, 2))
    )
    return -0.5 * (n_rows * (LOG_2PI + noise.log()) + expected / noise).sum()
