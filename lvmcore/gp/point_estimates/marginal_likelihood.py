"""log p(Y | X) of Gaussian processes with known inputs: exact, and by inducing inputs.

With Q = K_fu K_uu⁻¹ K_uf and noise σ² the covariance of a column is (Quiñonero-Candela and
Rasmussen 2005; Lawrence 2007; Titsias 2009)

- exact: K + σ² I;
- dtc: Q + σ² I;
- fitc: Q + diag(K − Q) + σ² I;
- vfe: that of dtc, and −tr(K − Q)/(2σ²) is added for each column, which makes it a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

from lvmcore.kernels.expression_kernel import MapKernel
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper

__all__ = [
    "Approximation",
    "FunctionPosterior",
    "exact_log_likelihood",
    "exact_posterior",
    "sparse_log_likelihood",
    "sparse_posterior",
]

#: Covariance of the columns: exact, or by inducing inputs.
Approximation = Literal["exact", "dtc", "fitc", "vfe"]
# Eigenvalues of K below this share of the noise are left out of the variance: it changes by at
# most so many times k(x, x).
NEGLIGIBLE = 1e-9
_NAME = "The covariance matrix of the rows"


@dataclass(frozen=True)
class FunctionPosterior:
    """f | Y of functions that share kernel, inputs and noise, at inputs ``Z`` of the process.

    Attributes:
        basis: T, b = k(x, Z) T, [M, m].
        shrinkage: s, Var f(x) = k(x, x) − Σ_m b_m² s_m, [m].
        weights: W, E f(x) = k(x, Z) W, [M, D].
    """

    basis: Float64[Tensor, "M m"]
    shrinkage: Float64[Tensor, "m"]
    weights: Float64[Tensor, "M D"]


def exact_log_likelihood(
    K: Float64[Tensor, "N N"], noise: Float64[Tensor, ""], Y: Float64[Tensor, "N D"]
) -> Float64[Tensor, ""]:
    """Σ_d log N(y_d | 0, K + σ² I), [].

    Its gradient by K is ½ (A⁻¹YYᵀA⁻¹ − D A⁻¹), A = K + σ² I, in closed form.

    Raises:
        NumericalError: A cannot be factorised.
    """
    value: Tensor = _ExactLogLikelihood.apply(K, noise, Y)  # type: ignore[no-untyped-call]
    return value


class _ExactLogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, K: Tensor, noise: Tensor, Y: Tensor) -> Tensor:
        N, D = Y.shape
        L, _ = cholesky(K + noise * torch.eye(N).to(K), _NAME, exact=True)
        explained = torch.cholesky_solve(Y, L)  # A⁻¹ Y
        if any(ctx.needs_input_grad[:2]):
            slope = torch.cholesky_inverse(L).mul_(-0.5 * D)
            slope.addmm_(explained, explained.T, alpha=0.5)
            ctx.save_for_backward(slope)
        log_det = 2 * L.diagonal().log().sum()
        return -0.5 * (N * D * LOG_2PI + D * log_det + (Y * explained).sum())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, None]:
        (slope,) = ctx.saved_tensors
        return slope * cotangent, slope.diagonal().sum() * cotangent, None


def exact_posterior(
    K: Float64[Tensor, "N N"], noise: Float64[Tensor, ""], Y: Float64[Tensor, "N D"]
) -> FunctionPosterior:
    """f | Y at the rows, Z = X; from the eigenvalues of K that count beside the noise."""
    values, vectors = torch.linalg.eigh(K)
    precision = 1 / (values.clamp_min(0) + noise)
    weights = (vectors * precision) @ (vectors.T @ Y)
    kept = values > NEGLIGIBLE * noise
    return FunctionPosterior(vectors[:, kept], precision[kept], weights)


@dataclass(frozen=True)
class _Factors:
    """Factors of a covariance by inducing inputs, Λ its diagonal beside Q.

    Attributes:
        L: Cholesky factor of K_uu, [M, M].
        LB: Cholesky factor of B = I + A Λ⁻¹ Aᵀ, A = L⁻¹ K_uf, [M, M].
        projected: L_B⁻¹ A Λ⁻¹ Y, [M, D].
        diagonal: Λ, [N].
        left: k(x, x) − Q(x, x) of the rows, [N].
    """

    L: Tensor
    LB: Tensor
    projected: Tensor
    diagonal: Tensor
    left: Tensor


def _factorise(
    kernel: MapKernel, Z: Tensor, X: Tensor, noise: Tensor, Y: Tensor, how: Approximation
) -> _Factors:
    L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the inducing inputs")
    A = solve_lower(L, kernel(Z, X))
    left = (kernel.diagonal(X) - A.square().sum(0)).clamp_min(0)
    diagonal = noise + left if how == "fitc" else noise.expand(len(X))
    scaled = A / diagonal.sqrt()
    B = torch.eye(len(Z)).to(A) + scaled @ scaled.T
    LB, _ = cholesky(B, "The matrix of the inducing outputs", exact=True)
    projected = solve_lower(LB, (A / diagonal) @ Y)
    return _Factors(L, LB, projected, diagonal, left)


def sparse_log_likelihood(
    kernel: MapKernel,
    Z: Float64[Tensor, "M Q"],
    X: Float64[Tensor, "N Q"],
    noise: Float64[Tensor, ""],
    Y: Float64[Tensor, "N D"],
    approximation: Approximation,
) -> Float64[Tensor, ""]:
    """Σ_d log N(y_d | 0, covariance by inducing inputs Z), for vfe its lower bound, [].

    Raises:
        NumericalError: a matrix cannot be factorised.
    """
    N, D = Y.shape
    parts = _factorise(kernel, Z, X, noise, Y, approximation)
    log_det = parts.diagonal.log().sum() + 2 * parts.LB.diagonal().log().sum()
    square = (Y.square().sum(1) / parts.diagonal).sum() - parts.projected.square().sum()
    value = -0.5 * (N * D * LOG_2PI + D * log_det + square)
    if approximation == "vfe":
        value = value - 0.5 * D * parts.left.sum() / noise
    return value


def sparse_posterior(
    kernel: MapKernel,
    Z: Float64[Tensor, "M Q"],
    X: Float64[Tensor, "N Q"],
    noise: Float64[Tensor, ""],
    Y: Float64[Tensor, "N D"],
    approximation: Approximation,
) -> FunctionPosterior:
    """f | Y by inducing inputs: with B = V diag(b) Vᵀ, T = L⁻ᵀ V and s = 1 − 1/b."""
    parts = _factorise(kernel, Z, X, noise, Y, approximation)
    values, vectors = torch.linalg.eigh(parts.LB @ parts.LB.T)
    weights = solve_upper(parts.L, solve_upper(parts.LB, parts.projected))
    return FunctionPosterior(solve_upper(parts.L, vectors), 1 - 1 / values.clamp_min(1), weights)
