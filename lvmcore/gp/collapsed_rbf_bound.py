"""The collapsed bound of an RBF kernel in one function, from q(X) to its gradient.

It equals ``psi_sums``, the kernel matrix and ``collapsed_bound`` in turn. Value and gradient are
computed together: a step needs both, and most of its time beside the exponentials of the psi
statistics and their matrix products would go to the many small operations between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.gp.bounds import (
    KUU,
    CollapsedSlopes,
    column_noise_bound,
    column_noise_slopes,
    kernel_eigensystem,
    matrix_gradients,
)
from lvmcore.kernels.grid_psi_sums import GridPsiSums
from lvmcore.kernels.psi_exponents import full_from_pairs, symmetric_pairs
from lvmcore.kernels.psi_statistics import PsiSums
from lvmcore.kernels.rbf_psi_sums import Gradients, RBFPsiSums
from lvmcore.kernels.stationary import RBF
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper

__all__ = ["collapsed_rbf_bound", "collapsed_sums_bound", "column_noises", "one_noise"]


def collapsed_rbf_bound(
    kernel: RBF,
    mean: Float[Tensor, "N Q"],
    variance: Float[Tensor, "N Q"],
    points: Float[Tensor, "P Q"],
    Y: Float[Tensor, "N D"],
    noise: Float[Tensor, "K"],
    squares: Float[Tensor, "D"],
    *,
    grid: bool = False,
) -> Float64[Tensor, ""]:
    """F(q(X)), the bound on log p(Y | q(X)) with q(U) at its optimum, KL_X not included.

    Its equation is that of ``lvmcore.gp.bounds.collapsed_bound``; Y and its squares are constants.

    Args:
        kernel: RBF.
        mean: means of q(X), [N, Q].
        variance: variances of q(X), [N, Q].
        points: inducing inputs, [M, Q], or the nodes of their grid, [m, 2].
        Y: data, [N, D].
        noise: σ² of each column, [D], or of all, [1].
        squares: ‖y_d‖² of each column, [D].
        grid: whether the inducing inputs are on a grid of two dimensions.

    Raises:
        NumericalError: a matrix cannot be factorised.
    """
    tensors = (mean, variance, points, kernel.lengthscales, kernel.variance, noise)
    value: Tensor = _CollapsedRBF.apply(  # type: ignore[no-untyped-call]
        torch.is_grad_enabled(), grid, Y.double(), squares.double(), *(t.double() for t in tensors)
    )
    return value


class _FreeSums:
    """Psi statistics and kernel matrix of inducing inputs without structure.

    Arguments as ``RBFPsiSums``.

    Attributes:
        psi1Y: [M, D].
        psi2: [M, M].
    """

    def __init__(
        self,
        mean: Tensor,
        variance: Tensor,
        Z: Tensor,
        lengthscales: Tensor,
        amplitude: Tensor,
        Y: Tensor,
        *,
        keeps: bool,
    ) -> None:
        sums = RBFPsiSums(mean, variance, Z, lengthscales, amplitude, Y, keeps=keeps)
        self._sums = sums
        M = len(sums.psi1Y)
        self.psi1Y, self.psi2 = sums.psi1Y, full_from_pairs(sums.psi2, M)
        self._pairs = (sums.distance * -0.5).exp_().mul_(sums.amplitude)

    @property
    def covariance(self) -> Tensor:
        """The kernel matrix of the inducing inputs, [M, M]."""
        return full_from_pairs(self._pairs, len(self.psi1Y))

    def gradients(self, by_first: Tensor, by_second: Tensor, by_covariance: Tensor) -> Gradients:
        """Gradients by the mean, S, Z, ℓ and v, from those by the sums and ``covariance``."""
        by_pairs = symmetric_pairs(torch.stack((by_second, by_covariance)))
        pull = by_pairs[1].mul_(self._pairs)
        *others, amplitude = self._sums.gradients(by_first, by_pairs[0], pull * -0.5)
        mean, variance, Z, lengthscales = others
        return mean, variance, Z, lengthscales, amplitude + pull.sum() / self._sums.amplitude


class _CollapsedRBF(torch.autograd.Function):
    """The bound, whose gradient is computed with it."""

    @staticmethod
    def forward(
        ctx: Any, keeps: bool, grid: bool, Y: Tensor, squares: Tensor, *tensors: Tensor
    ) -> Tensor:
        mean, variance, points, lengthscales, amplitude, noise = tensors
        keeps = keeps and any(ctx.needs_input_grad)
        layout = GridPsiSums if grid else _FreeSums
        sums = layout(mean, variance, points, lengthscales, amplitude, Y, keeps=keeps)
        N = len(Y)
        psi = PsiSums(N * amplitude, sums.psi1Y, sums.psi2)
        value, slopes = bound_of_sums(psi, sums.covariance, noise, squares, N, keeps=keeps)
        if slopes is None:
            return value
        *others, by_amplitude = sums.gradients(slopes.psi1Y, slopes.psi2, slopes.Kuu)
        by_amplitude = torch.add(by_amplitude, slopes.psi0, alpha=N)
        ctx.save_for_backward(*others, by_amplitude, slopes.noise)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (cotangents[0] * gradient for gradient in ctx.saved_tensors)
        return None, None, None, None, *gradients


@dataclass(frozen=True)
class SumsSlopes:
    """Gradients of the collapsed bound by the sums, the kernel matrix and the noise.

    Attributes:
        psi0: [].
        psi1Y: [M, D].
        psi2: [M, M].
        Kuu: [M, M].
        noise: [D] or [1].
    """

    psi0: Tensor
    psi1Y: Tensor
    psi2: Tensor
    Kuu: Tensor
    noise: Tensor


def bound_of_sums(
    sums: PsiSums, Kuu: Tensor, noise: Tensor, squares: Tensor, n_rows: int, *, keeps: bool
) -> tuple[Tensor, SumsSlopes | None]:
    """The bound from the sums over rows, and its gradients where these are wanted.

    Args:
        sums: psi statistics summed over rows, float64.
        Kuu: kernel matrix of the inducing inputs, [M, M].
        noise: σ² of each column, [D], or of all, [1].
        squares: ‖y_d‖² of each column, [D].
        n_rows: N.
        keeps: whether the gradients are computed.
    """
    M = len(Kuu)
    L, jitter = cholesky(Kuu, KUU)
    half = solve_lower(L, torch.cat((sums.psi2, sums.psi1Y), 1))
    G, P = solve_lower(L, half[:, :M].T), half[:, M:]
    G = (G + G.T).mul_(0.5)
    rest = squares + sums.psi0 - G.diagonal().sum()
    find = one_noise if len(noise) == 1 else column_noises
    value, T, G, P, slopes = find(L, G, P, rest, noise, n_rows)
    if not keeps:
        return value, None
    by_psi2, by_Kuu = matrix_gradients(T, G, P, slopes, jitter)
    by_psi0 = -0.5 * noise.reciprocal().sum() * (len(squares) / len(noise))
    return value, SumsSlopes(by_psi0, T @ slopes.P, by_psi2, by_Kuu, slopes.noise)


def collapsed_sums_bound(
    sums: PsiSums, Kuu: Tensor, noise: Tensor, squares: Tensor, n_rows: int
) -> Float64[Tensor, ""]:
    """``collapsed_rbf_bound`` from sums over rows that were computed elsewhere.

    Args:
        sums: psi statistics summed over rows.
        Kuu: kernel matrix of the inducing inputs, [M, M].
        noise: σ² of each column, [D], or of all, [1].
        squares: ‖y_d‖² of each column, [D].
        n_rows: N.

    Raises:
        NumericalError: a matrix cannot be factorised.
    """
    tensors = (sums.psi0, sums.psi1Y, sums.psi2, Kuu, noise)
    value: Tensor = _CollapsedSums.apply(  # type: ignore[no-untyped-call]
        torch.is_grad_enabled(), n_rows, squares.double(), *(t.double() for t in tensors)
    )
    return value


class _CollapsedSums(torch.autograd.Function):
    """The bound from sums over rows, whose gradient is computed with it."""

    @staticmethod
    def forward(ctx: Any, keeps: bool, n_rows: int, squares: Tensor, *tensors: Tensor) -> Tensor:
        *parts, Kuu, noise = tensors
        keeps = keeps and any(ctx.needs_input_grad)
        value, slopes = bound_of_sums(PsiSums(*parts), Kuu, noise, squares, n_rows, keeps=keeps)
        if slopes is not None:
            ctx.save_for_backward(*vars(slopes).values())
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (cotangents[0] * gradient for gradient in ctx.saved_tensors)
        return None, None, None, *gradients


# Largest diagonal entry of σ² B⁻¹ for which B's Cholesky factor is used; without rounding it is 1.
LARGEST_INVERSE = 1.05

#: The bound, the basis T, G and P in it, and the gradients by them.
Found = tuple[Tensor, Tensor, Tensor, Tensor, CollapsedSlopes]


def column_noises(L: Tensor, G: Tensor, P: Tensor, rest: Tensor, noise: Tensor, N: int) -> Found:
    """By the eigenvectors of G, which serve every noise."""
    values, vectors = kernel_eigensystem(G)
    P = vectors.T @ P
    value, R = column_noise_bound(values, P, rest, noise, N)
    slopes = column_noise_slopes(values, P, R, rest, noise, N)
    return value, solve_upper(L, vectors), values, P, slopes


def one_noise(L: Tensor, G: Tensor, P: Tensor, rest: Tensor, noise: Tensor, N: int) -> Found:
    """By the Cholesky factor of B = σ² I + G, which takes less time than its eigenvectors.

    With R = B⁻¹ P, dG = ½ (D I/σ² − D B⁻¹ − R Rᵀ/σ²) and dP = R/σ².
    """
    M, D = P.shape
    variance = float(noise)
    B = G.clone()
    B.diagonal().add_(variance)
    C, info = torch.linalg.cholesky_ex(B)
    inverse = torch.cholesky_inverse(C)
    # B⁻¹ is at most I/σ². Where it is not, rounding errors gave G eigenvalues below 0, which only
    # the eigenvectors can correct. The comparison fails for numbers that are not finite, too.
    if int(info) != 0 or not float(inverse.diagonal().max()) * variance < LARGEST_INVERSE:
        value, T, values, P, slopes = column_noises(L, G, P, rest, noise.expand(D), N)
        return value, T, values, P, replace(slopes, noise=slopes.noise.sum(0, keepdim=True))
    R = torch.cholesky_solve(P, C)
    p = R / variance
    total, trace = float(rest.sum()) / variance, variance * float(inverse.trace())
    fit, square = float((P * p).sum()), float((R * R).sum())
    log_det = 2 * float(C.diagonal().log().sum()) + (N - M) * math.log(variance)
    bound = 0.5 * (fit - total - D * (log_det + N * LOG_2PI))
    by_G = torch.addmm(inverse, p, R.T, beta=-0.5 * D, alpha=-0.5)
    by_G.diagonal().add_(0.5 * D / variance)
    # Σ_m λ_m/(λ_m + σ²) = M − σ² tr B⁻¹
    by_noise = 0.5 * (D * (M - trace - N) - fit - square + total) / variance
    eye = torch.eye(M, dtype=L.dtype, device=L.device)
    slopes = CollapsedSlopes(by_G, p, noise.new_tensor([by_noise]))
    return noise.new_tensor(bound), solve_upper(L, eye), G, P, slopes
