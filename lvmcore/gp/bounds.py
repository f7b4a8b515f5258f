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

#: The matrix's name in messages.
KUU = "The kernel matrix of the inducing inputs"


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

    No derivative of an eigenvector is needed, so repeated eigenvalues are no problem.
    """

    @staticmethod
    def forward(ctx: Any, n_rows: int, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        psi0, psi1Y, psi2, Kuu, noise, squares = tensors
        L, ctx.jitter = cholesky(Kuu, KUU)
        G = solve_lower(L, solve_lower(L, psi2).T)
        values, vectors = kernel_eigensystem(0.5 * (G + G.T))
        basis = solve_upper(L, vectors)
        rotated = basis.T @ psi1Y
        left = squares + psi0 - G.diagonal().sum()
        value, R = column_noise_bound(values, rotated, left, noise, n_rows)
        ctx.n_rows = n_rows
        ctx.save_for_backward(basis, values, rotated, R, left, noise)
        shrinkage = values[:, None] / (values[:, None] + noise)
        ctx.mark_non_differentiable(basis, R, shrinkage)
        return value, basis, R, shrinkage

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        basis, values, rotated, R, left, noise = ctx.saved_tensors
        slopes = column_noise_slopes(values, rotated, R, left, noise, ctx.n_rows)
        d_psi2, d_Kuu = matrix_gradients(basis, values, rotated, slopes, ctx.jitter)
        d_squares = -0.5 * noise.reciprocal()
        by_first = basis @ slopes.P
        gradients = (d_squares.sum(), by_first, d_psi2, d_Kuu, slopes.noise, d_squares)
        return None, *(cotangents[0] * gradient for gradient in gradients)


@dataclass(frozen=True)
class CollapsedSlopes:
    """Gradients of the collapsed bound by what is left of the sums in a basis T, G = Tᵀ psi2 T.

    Attributes:
        G: by G, [M, M].
        P: by P = Tᵀ psi1ᵀY, [M, D].
        noise: by σ², [D] or [1].
    """

    G: Tensor
    P: Tensor
    noise: Tensor


def column_noise_bound(
    values: Tensor, P: Tensor, rest: Tensor, noise: Tensor, n_rows: int
) -> tuple[Tensor, Tensor]:
    """The collapsed bound in the eigenbasis of G, and R_d = P_d/(σ_d² + λ).

    Args:
        values: λ, [M].
        P: [M, D].
        rest: ‖y_d‖² + psi0 − tr G, [D].
        noise: σ², [D].
        n_rows: N.
    """
    eigenvalues = values[:, None]
    R = P / (eigenvalues + noise)
    gain = P * R / noise - torch.log1p(eigenvalues / noise)
    return 0.5 * (gain.sum() - (n_rows * (LOG_2PI + noise.log()) + rest / noise).sum()), R


def column_noise_slopes(
    values: Tensor, P: Tensor, R: Tensor, rest: Tensor, noise: Tensor, n_rows: int
) -> CollapsedSlopes:
    """Gradients of ``column_noise_bound``, with p_d = R_d/σ_d².

    dG = ½ Σ_d [I/σ_d² − diag 1/(σ_d² + λ) − R_d R_dᵀ/σ_d²], dP = p.
    """
    precision = noise.reciprocal()
    p = R * precision
    over = (values[:, None] + noise).reciprocal()
    G = 0.5 * ((precision.sum() - over.sum(1)).diag() - p @ R.T)
    d_noise = (values[:, None] * over - P * p - R.square()).sum(0) - n_rows + rest * precision
    return CollapsedSlopes(G, p, 0.5 * precision * d_noise)


def matrix_gradients(
    T: Tensor, G: Tensor, P: Tensor, slopes: CollapsedSlopes, jitter: float
) -> tuple[Tensor, Tensor]:
    """Gradients of the collapsed bound by psi2 and by Kuu, [M, M] each.

    dpsi2 = T dG Tᵀ and dKuu = −½ T [dG G + G dG + ½ (dP Pᵀ + P dPᵀ)] Tᵀ. The bound is the same for
    every root of Kuu, so the differential of L may be ½ L (L⁻¹ dKuu L⁻ᵀ).

    Args:
        T: basis, Tᵀ (Kuu + jitter) T = I, [M, M].
        G: Tᵀ psi2 T, [M, M], or its diagonal where it has no other entries, [M].
        P: Tᵀ psi1ᵀY, [M, D].
        slopes: gradients by G and P.
        jitter: share of the mean of Kuu's diagonal that was added to it.
    """
    cross = slopes.G * G if G.ndim == 1 else slopes.G @ G
    cross = torch.addmm(cross, slopes.P, P.T, alpha=0.5)
    by_psi2 = T @ slopes.G @ T.T
    by_Kuu = (T @ (cross + cross.T) @ T.T).mul_(-0.5)
    by_Kuu.diagonal().add_(by_Kuu.diagonal().sum(), alpha=jitter / len(by_Kuu))
    return by_psi2, by_Kuu


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
