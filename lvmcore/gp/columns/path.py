"""The path to columns with likelihoods of their own: Gaussian processes and likelihoods.

Each function is the sum of a smooth one and a linear one, g(x) = h(x) + Σ_q w_q s_q x_q with
h ~ GP(0, RBF-ARD) and w ~ N(0, I): the kernel is k(x, x') + Σ_q s_q² x_q x'_q. The logarithms of
the odds of ordered levels are linear in a position, and would ask an RBF kernel for a lengthscale
that is too short for the other columns. The weights w have a q like V, so the whitened features of
a point are a = (L⁻¹ k(Z, x), s ∘ x), [M + Q].

Notation: lvmcore/README.md; F functions, of which a category has one for each level.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lvmcore.gp.columns.decoder import ColumnDecoder
from lvmcore.gp.columns.likelihood_path import LikelihoodPath
from lvmcore.gp.minibatch.function_path import StochasticFunctionPath
from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.numerics.linalg import cholesky, solve_upper

__all__ = ["ColumnPath"]

# Initial sd of the linear functions.
START_SLOPE = 0.5


class ColumnPath(StochasticFunctionPath, LikelihoodPath):
    """F Gaussian processes with a shared kernel, and the likelihoods of the columns.

    Args:
        Z: initial inducing inputs, [M, Q] (float64).
        likelihood: of all columns, at its initial parameters.
    """

    def __init__(self, Z: Tensor, likelihood: MixedLikelihood) -> None:
        super().__init__(Z, likelihood.n_functions, sum(Z.shape))
        self.likelihood = likelihood
        self.log_slopes = nn.Parameter(Z.new_full((Z.shape[1],), math.log(START_SLOPE)))
        # The scales of the functions stand for the variance of the kernel.
        self.log_variance = nn.Parameter(Z.new_zeros(()), requires_grad=False)

    @property
    def slopes(self) -> Tensor:
        """s, [Q]."""
        return self.log_slopes.exp()

    def project(self, X: Tensor) -> Tensor:
        """a of points X [n, Q], [M + Q, n]."""
        return torch.cat([super().project(X), (X * self.slopes).T])

    def values(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of g_f at points of features a [M + Q, n], each [n, F]."""
        return self.functions(a, self.rbf.variance)

    @property
    def n_basis(self) -> int:
        """M."""
        return len(self.Z)

    @property
    def inducing_inputs(self) -> dict[str, Tensor]:
        """Z."""
        return {"data": self.Z}

    @property
    def relevance(self) -> Tensor:
        """α of the smooth and the linear functions, v/ℓ_q² + s_q², [Q]."""
        return self.rbf.relevance * self.rbf.variance + self.slopes.square()

    @torch.no_grad()
    def column_decoder(self) -> ColumnDecoder:
        """The fitted path."""
        q = self.fitted_weights(self.Z)
        kernel = self.rbf.detached()
        Z = self.Z.detach().clone()
        L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the inducing inputs")
        return ColumnDecoder(
            kernel,
            Z=Z,
            whitening=solve_upper(L, torch.eye(len(Z)).to(L)).to(Z),
            slopes=self.slopes.detach().clone(),
            weights=q.mean,
            basis=q.basis,
            spread=q.spread,
            likelihood=q.likelihood,
        )
