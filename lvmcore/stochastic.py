"""Bounds from mini-batches: paths whose q(V) follows by natural gradients.

Every term of the bound but the divergences of q(V) is a sum over rows, so a batch of B rows, scaled
by N/B, estimates it without bias. q(V) has no parameters that a step size could be wrong for:

* data: a running mean of the sufficient statistics, lvmcore/stochastic_columns.py.
* labels: the same with the likelihood's local slope g = E ∂ log p/∂f and curvature
  β = −E ∂² log p/∂f² at each row (Khan and Lin 2017): the precision I + Σ β a aᵀ and the shift
  Σ a (g + β m) of each class follow their estimates. β ≥ 0, so the precision stays positive
  definite.

Notation: lvmcore/README.md; a = L⁻¹ k(Z, x).
"""

from __future__ import annotations

import torch
from torch import Tensor

from lvmcore.kernels import RBF
from lvmcore.layers import KernelPath, LabelDecoder
from lvmcore.likelihoods import Link, label_expectation
from lvmcore.linalg import cholesky, solve_lower, solve_upper

__all__ = [
    "LONGEST_LABEL_STEP",
    "Batches",
    "StochasticLabelPath",
    "step_length",
]

# Rows an inducing input wants in the running means.
ROWS_PER_INDUCING = 30
# The longest natural-gradient step of the label path, whose likelihood is not Gaussian.
LONGEST_LABEL_STEP = 0.7


class Batches:
    """Rows in shuffled order, some at a time; a new order when all have been seen.

    Args:
        n_rows: N.
        size: rows in a batch, B; a last batch smaller than that is left out of the pass.
        generator: of the orders.
    """

    def __init__(self, n_rows: int, size: int, generator: torch.Generator) -> None:
        self.n_rows, self.size, self.generator = n_rows, min(size, n_rows), generator
        self.order = torch.arange(n_rows)
        self.position = torch.full((1,), n_rows)

    @property
    def whole(self) -> bool:
        """Whether every batch holds all rows."""
        return self.size == self.n_rows

    def next(self) -> Tensor:
        """Positions of the next batch's rows, [B]."""
        if self.whole:
            return self.order
        begin = int(self.position)
        if begin + self.size > self.n_rows:
            self.order.copy_(torch.randperm(self.n_rows, generator=self.generator))
            begin = 0
        self.position.fill_(begin + self.size)
        return self.order[begin : begin + self.size].clone()

    def buffers(self) -> list[Tensor]:
        """Where the order stands."""
        return [] if self.whole else [self.order, self.position]


def step_length(size: float, n_inducing: int, *, most: float = 1.0) -> float:
    """ρ for batches of so many rows: the means run over about 30 rows an inducing input."""
    return min(most, size / (size + ROWS_PER_INDUCING * n_inducing))


class StochasticLabelPath(KernelPath):
    """Classification Gaussian processes, one a class, whose q(V) follows the batches.

    q(V_c) = N(Λ_c⁻¹ h_c, Λ_c⁻¹), whitened.

    Args:
        Z: inducing inputs to start from, [M, Q] (float64).
        n_classes: C.
        link: how the class values become probabilities.
    """

    precision: Tensor
    shift: Tensor

    def __init__(self, Z: Tensor, n_classes: int, link: Link) -> None:
        super().__init__(Z)
        self.link = link
        M = len(Z)
        self.register_buffer("precision", torch.eye(M).to(Z).repeat(n_classes, 1, 1))
        self.register_buffer("shift", Z.new_zeros(n_classes, M))

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Means [C, M] and inverse factors R of Λ = C Cᵀ, cov = RᵀR, [C, M, M]."""
        with torch.no_grad():
            factor = torch.linalg.cholesky(self.precision)
            eye = torch.eye(factor.shape[1]).to(factor).expand_as(factor)
            R = torch.linalg.solve_triangular(factor, eye, upper=False)
            mean = torch.cholesky_solve(self.shift[:, :, None], factor)[:, :, 0]
        return mean, R

    def _project(self, X: Tensor) -> Tensor:
        """a = L⁻¹ k(Z, x) of points X [n, Q], [M, n]."""
        kernel = self.kernel
        L, _ = cholesky(kernel(self.Z, self.Z), "The kernel matrix of the label inducing inputs")
        return solve_lower(L, kernel(self.Z, X))

    def _functions(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c where a [M, n] is known, each [n, C]."""
        mean, R = self._moments()
        spread = (R @ a).square().sum(1).T
        left = (self.kernel.variance - a.square().sum(0)).clamp_min(0)
        return a.T @ mean.T, (left[:, None] + spread).clamp_min(1e-12)

    def latent_function(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c(x) at points X [n, Q], each [n, C]."""
        return self._functions(self._project(X))

    def batch_fit(self, X: Tensor, signs: Tensor, weights: Tensor, rho: float) -> Tensor:
        """Σ_n w_n E log p(label_n | f(x_n)) of a batch; q(V) then follows it, [].

        Where no gradient is recorded, q(V) stays as it is.

        Args:
            X: samples of the labelled rows, [S, n, Q].
            signs: +1 for a row's class and −1 otherwise, [n, C].
            weights: w of each row, the scale N/B in it, [n].
            rho: length of the natural-gradient step.
        """
        a = self._project(X.reshape(-1, X.shape[-1]))
        mean, variance = self._functions(a)
        repeated = signs.repeat(len(X), 1)
        w = weights.repeat(len(X)) / len(X)
        terms = w * label_expectation(self.link, repeated, mean, variance)
        total = terms.sum()
        if total.requires_grad:
            slope, by_variance = torch.autograd.grad(total, (mean, variance), retain_graph=True)
            with torch.no_grad():
                beta = -2 * by_variance
                eye = torch.eye(len(a)).to(a)
                precision = eye + (a * beta.T[:, None, :]) @ a.T
                self.precision.lerp_(0.5 * (precision + precision.mT), rho)
                self.shift.lerp_((slope + beta * mean).T @ a.T, rho)
        return total

    def kl(self) -> Tensor:
        """Σ_c KL(q(V_c) ‖ N(0, I)), []."""
        mean, R = self._moments()
        log_det = R.diagonal(dim1=-2, dim2=-1).log().sum()
        return 0.5 * (R.square().sum() + mean.square().sum() - mean.numel()) - log_det

    def decoder(self) -> LabelDecoder:
        """Freeze the path."""
        with torch.no_grad():
            kernel = RBF(self.kernel.variance.detach(), self.kernel.lengthscales.detach())
            Z = self.Z.detach().clone()
            L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the label inducing inputs")
            mean, R = self._moments()
            half = solve_upper(L, torch.eye(len(Z)).to(L) - R.mT @ R)
            return LabelDecoder(kernel, Z, solve_upper(L, mean.T), solve_upper(L, half.mT))
