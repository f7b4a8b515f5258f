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
from lvmcore.gp.minibatch.function_path import StochasticFunctionPath
from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.numerics.linalg import cholesky, solve_upper

__all__ = ["ColumnPath"]

# Initial sd of the linear functions.
START_SLOPE = 0.5


class ColumnPath(StochasticFunctionPath):
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

    def expected_log_likelihood(
        self, X: Tensor, Y: Tensor, observed: Tensor | None, scale: float
    ) -> Tensor:
        """scale · Σ_nd E log p(y_nd | f_d(x_n)) over the observed cells, mean over the samples, [].

        Args:
            X: samples of the rows' positions, [S, n, Q].
            Y: standardised rows, 0 where a cell is missing, [n, D].
            observed: True where a cell is observed, [n, D]; None where every one is.
            scale: N/n.
        """
        draws = len(X)
        a = self.project(X.reshape(-1, X.shape[-1]))
        mean, variance = self.functions(a, self.rbf.variance)
        mask = None if observed is None else observed.repeat(draws, 1)
        cells = self.likelihood.expected_log(Y.repeat(draws, 1), mask, mean, variance)
        total = scale / draws * cells.sum()
        self.keep(total, mean, variance, a)
        return total

    @property
    def relevance(self) -> Tensor:
        """α of the smooth and the linear functions, v/ℓ_q² + s_q², [Q]."""
        return self.rbf.relevance * self.rbf.variance + self.slopes.square()

    @torch.no_grad()
    def column_decoder(self) -> ColumnDecoder:
        """The fitted path."""
        mean, R = self.moments()
        kernel = self.rbf.detached()
        Z = self.Z.detach().clone()
        L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the inducing inputs")
        covariances = R.mT @ R
        _, vectors = torch.linalg.eigh(covariances.mean(0))
        diagonal = ((vectors.mT @ covariances) * vectors.mT).sum(-1).T
        text, arrays = self.likelihood.text, self.likelihood.arrays()
        return ColumnDecoder(
            kernel,
            Z=Z,
            whitening=solve_upper(L, torch.eye(len(Z)).to(L)).to(Z),
            slopes=self.slopes.detach().clone(),
            weights=mean.T.clone(),
            basis=vectors.to(Z),
            spread=diagonal.to(Z),
            likelihood=MixedLikelihood.from_arrays(text, arrays, Z),
        )
