"""Gaussian processes of a mini-batch fit whose q(V) is updated by natural gradients.

Every term of the bound but KL(q(V) ‖ p) is a sum over rows, so a batch of B rows, scaled by N/B,
estimates it without bias. q(V) is updated by natural-gradient steps (Khan and Lin 2017): with the
likelihood's slope g = E ∂ log p/∂f and curvature β = −E ∂² log p/∂f² at each row, the precision
I + Σ β a aᵀ and the shift Σ a (g + β m) of each function are running means of their estimates.
β ≥ 0, so the precision stays positive definite. (lvmcore/gp/minibatch/data_path.py is the
counterpart for Gaussian columns.)

Notation: lvmcore/README.md; a = L⁻¹ k(Z, x).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.gp.data_decoder import FunctionDecoder
from lvmcore.gp.paths import KernelPath
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.expression_kernel import ExpressionKernel
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper
from lvmcore.numerics.quadratic_forms import shared_quadratic_forms

__all__ = ["StochasticFunctionPath"]


@dataclass(frozen=True)
class _Evaluation:
    """An expected log likelihood with its graph, for the natural-gradient step that follows.

    Attributes:
        total: the expected log likelihood, [].
        mean: of f at the samples, [n, C].
        variance: likewise.
        a: L⁻¹ k(Z, x) of the samples, [M, n].
    """

    total: Tensor
    mean: Tensor
    variance: Tensor
    a: Tensor


class StochasticFunctionPath(KernelPath):
    """Gaussian processes with a shared kernel, whose q(V) is updated by natural gradients.

    q(V_c) = N(Λ_c⁻¹ h_c, Λ_c⁻¹), whitened.

    Args:
        Z: initial inducing inputs, [M, Q] (float64).
        n_functions: C.
        n_features: length of a; by default M.
        expression: of the kernel; None for the RBF kernel.
    """

    precision: Tensor
    shift: Tensor

    def __init__(
        self,
        Z: Tensor,
        n_functions: int,
        n_features: int | None = None,
        expression: KernelExpression | None = None,
    ) -> None:
        super().__init__(Z, expression)
        M = len(Z) if n_features is None else n_features
        self.register_buffer("precision", torch.eye(M).to(Z).repeat(n_functions, 1, 1))
        self.register_buffer("shift", Z.new_zeros(n_functions, M))
        self._evaluation: _Evaluation | None = None
        #: The state of q(V) for which the moments were computed, and the moments.
        self._known: tuple[tuple[int, int, int], tuple[Tensor, Tensor]] | None = None

    def moments(self) -> tuple[Tensor, Tensor]:
        """Means [C, M] and inverse factors R of Λ = C Cᵀ, cov = RᵀR, [C, M, M].

        A step needs them for the bound and for the divergence; they are computed once for each
        state of q(V).
        """
        state = self.precision._version, self.shift._version, self.precision.data_ptr()
        if self._known is not None and self._known[0] == state:
            return self._known[1]
        with torch.no_grad():
            factor = torch.linalg.cholesky(self.precision)
            eye = torch.eye(factor.shape[1]).to(factor).expand_as(factor)
            R = torch.linalg.solve_triangular(factor, eye, upper=False)
            mean = torch.cholesky_solve(self.shift[:, :, None], factor)[:, :, 0]
        self._known = state, (mean, R)
        return mean, R

    def project(self, X: Tensor) -> Tensor:
        """a = L⁻¹ k(Z, x) of points X [n, Q], [M, n]."""
        kernel = self.kernel
        L, _ = cholesky(kernel(self.Z, self.Z), "The kernel matrix of the inducing inputs")
        return solve_lower(L, kernel(self.Z, X))

    def prior_variance(self, X: Tensor) -> Tensor:
        """k(x, x) of points X [n, Q], [n]; [] where it is the same for all."""
        kernel = self.kernel
        return kernel.diagonal(X) if isinstance(kernel, ExpressionKernel) else kernel.variance

    def functions(self, a: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c at points, each [n, C].

        Args:
            a: L⁻¹ k(Z, x) of the points, [M, n].
            prior: as of ``prior_variance``.
        """
        mean, R = self.moments()
        # aᵀ Λ_c⁻¹ a
        spread = shared_quadratic_forms(a, R.mT @ R).T
        # k(x, x) − aᵀa, a of the inducing inputs
        left = (prior - a[: len(self.Z)].square().sum(0)).clamp_min(0)
        return a.T @ mean.T, (left[:, None] + spread).clamp_min(1e-12)

    def latent_function(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c(x) at points X [n, Q], each [n, C]."""
        return self.functions(self.project(X), self.prior_variance(X))

    def keep(self, total: Tensor, mean: Tensor, variance: Tensor, a: Tensor) -> None:
        """Keep an expected log likelihood for the next natural-gradient step.

        Args:
            total: the expected log likelihood, with its graph, [].
            mean: of f, [n, C].
            variance: likewise.
            a: as from ``project``, [M, n].
        """
        if total.requires_grad:
            self._evaluation = _Evaluation(total, mean, variance, a)

    def natural_gradient_step(self, rho: float) -> None:
        """Update q(V) by the expected log likelihood that was kept last.

        Λ ← (1 − ρ) Λ + ρ (I + Σ β a aᵀ), h ← (1 − ρ) h + ρ Σ a (g + β m).

        Args:
            rho: length ρ of the step.
        """
        last, self._evaluation = self._evaluation, None
        if last is None:
            return
        mean, a = last.mean, last.a
        slope, by_variance = torch.autograd.grad(
            last.total, (mean, last.variance), retain_graph=True
        )
        with torch.no_grad():
            beta = (-2 * by_variance).clamp_min(0)
            eye, transposed = torch.eye(len(a)).to(a), a.T.contiguous()
            for own, curvature in zip(self.precision, beta.T, strict=True):
                # I + Σ β a aᵀ, one class at a time: its product with β stays in the cache
                precision = torch.addmm(eye, a * curvature, transposed)
                own.lerp_(0.5 * (precision + precision.T), rho)
            self.shift.lerp_((slope + beta * mean).T @ a.T, rho)

    def kl(self) -> Tensor:
        """Σ_c KL(q(V_c) ‖ N(0, I)), []."""
        mean, R = self.moments()
        log_det = R.diagonal(dim1=-2, dim2=-1).log().sum()
        return 0.5 * (R.square().sum() + mean.square().sum() - mean.numel()) - log_det

    def decoder(self) -> FunctionDecoder:
        """The fitted path."""
        with torch.no_grad():
            kernel = self.kernel.detached()
            Z = self.Z.detach().clone()
            L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the inducing inputs")
            mean, R = self.moments()
            half = solve_upper(L, torch.eye(len(Z)).to(L) - R.mT @ R)
            return FunctionDecoder(kernel, Z, solve_upper(L, mean.T), solve_upper(L, half.mT))
