"""Gaussian processes of a mini-batch fit whose q(V) is updated by natural gradients.

Every term of the bound but KL(q(V) ‖ p) is a sum over rows, so a batch of B rows, scaled by N/B,
estimates it without bias. q(V) follows by the natural-gradient steps of ``NaturalGradientWeights``.
(lvmcore/gp/minibatch/data_path.py is the counterpart for Gaussian columns.)

Notation: lvmcore/README.md; a = L⁻¹ k(Z, x).
"""

from __future__ import annotations

import torch
from torch import Tensor

from lvmcore.gp.data_decoder import FunctionDecoder
from lvmcore.gp.minibatch.natural_gradients import NaturalGradientWeights
from lvmcore.gp.paths import KernelPath
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.expression_kernel import ExpressionKernel
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper

__all__ = ["StochasticFunctionPath"]


class StochasticFunctionPath(KernelPath, NaturalGradientWeights):
    """Gaussian processes with a shared kernel, whose q(V) is updated by natural gradients.

    q(V_c) = N(Λ_c⁻¹ h_c, Λ_c⁻¹), whitened.

    Args:
        Z: initial inducing inputs, [M, Q] (float64).
        n_functions: C.
        n_features: length of a; by default M.
        expression: of the kernel; None for the RBF kernel.
    """

    def __init__(
        self,
        Z: Tensor,
        n_functions: int,
        n_features: int | None = None,
        expression: KernelExpression | None = None,
    ) -> None:
        super().__init__(Z, expression)
        self.start_weights(n_functions, len(Z) if n_features is None else n_features, Z)

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
        mean, spread = self.weighted(a)
        # k(x, x) − aᵀa, a of the inducing inputs
        left = (prior - a[: len(self.Z)].square().sum(0)).clamp_min(0)
        return mean, (left[:, None] + spread).clamp_min(1e-12)

    def latent_function(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c(x) at points X [n, Q], each [n, C]."""
        return self.functions(self.project(X), self.prior_variance(X))

    def decoder(self) -> FunctionDecoder:
        """The fitted path."""
        with torch.no_grad():
            kernel = self.kernel.detached()
            Z = self.Z.detach().clone()
            L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the inducing inputs")
            mean, R = self.moments()
            half = solve_upper(L, torch.eye(len(Z)).to(L) - R.mT @ R)
            return FunctionDecoder(kernel, Z, solve_upper(L, mean.T), solve_upper(L, half.mT))
