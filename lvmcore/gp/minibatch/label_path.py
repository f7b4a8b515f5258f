"""Label path of a mini-batch fit: classification Gaussian processes by natural gradients.

Every term of the bound but KL(q(V) ‖ p) is a sum over rows, so a batch of B rows, scaled by N/B,
estimates it without bias. q(V) is updated by natural-gradient steps (Khan and Lin 2017): with the
likelihood's slope g = E ∂ log p/∂f and curvature β = −E ∂² log p/∂f² at each row, the precision
I + Σ β a aᵀ and the shift Σ a (g + β m) of each class are running means of their estimates. β ≥ 0,
so the precision stays positive definite. (lvmcore/gp/minibatch/data_path.py is the counterpart for
the columns.)

Notation: lvmcore/README.md; a = L⁻¹ k(Z, x).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.gp.paths import KernelPath, LabelDecoder
from lvmcore.kernels.stationary import RBF
from lvmcore.likelihoods.classification import Link, label_expectation
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper
from lvmcore.numerics.quadratic_forms import shared_quadratic_forms


@dataclass(frozen=True)
class _Evaluation:
    """An expected log likelihood with its graph, for the natural-gradient step that follows.

    Attributes:
        total: the expected log likelihood, [].
        mean: of f at the samples, [S n, C].
        variance: likewise.
        a: L⁻¹ k(Z, x) of the samples, [M, S n].
    """

    total: Tensor
    mean: Tensor
    variance: Tensor
    a: Tensor


class StochasticLabelPath(KernelPath):
    """Classification Gaussian processes, one a class, whose q(V) is updated by natural gradients.

    q(V_c) = N(Λ_c⁻¹ h_c, Λ_c⁻¹), whitened.

    Args:
        Z: initial inducing inputs, [M, Q] (float64).
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
        self._evaluation: _Evaluation | None = None
        #: The state of q(V) for which the moments were computed, and the moments.
        self._known: tuple[tuple[int, int, int], tuple[Tensor, Tensor]] | None = None

    def _moments(self) -> tuple[Tensor, Tensor]:
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

    def _project(self, X: Tensor) -> Tensor:
        """a = L⁻¹ k(Z, x) of points X [n, Q], [M, n]."""
        kernel = self.kernel
        L, _ = cholesky(kernel(self.Z, self.Z), "The kernel matrix of the label inducing inputs")
        return solve_lower(L, kernel(self.Z, X))

    def _functions(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c at points with a = L⁻¹ k(Z, x) [M, n], each [n, C]."""
        mean, R = self._moments()
        # aᵀ Λ_c⁻¹ a
        spread = shared_quadratic_forms(a, R.mT @ R).T
        # k(x, x) − aᵀa
        left = (self.kernel.variance - a.square().sum(0)).clamp_min(0)
        return a.T @ mean.T, (left[:, None] + spread).clamp_min(1e-12)

    def latent_function(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c(x) at points X [n, Q], each [n, C]."""
        return self._functions(self._project(X))

    def expected_log_likelihood(self, X: Tensor, signs: Tensor, weights: Tensor) -> Tensor:
        """Σ_n w_n E log p(label_n | f(x_n)), averaged over the samples, [].

        Args:
            X: samples of the labelled rows' positions, [S, n, Q].
            signs: +1 for a row's class and −1 otherwise, [n, C].
            weights: w of each row, the scale N/B included, [n].
        """
        a = self._project(X.reshape(-1, X.shape[-1]))
        mean, variance = self._functions(a)
        repeated = signs.repeat(len(X), 1)
        w = weights.repeat(len(X)) / len(X)
        terms = w * label_expectation(self.link, repeated, mean, variance)
        total = terms.sum()
        if total.requires_grad:
            self._evaluation = _Evaluation(total, mean, variance, a)
        return total

    def natural_gradient_step(self, rho: float) -> None:
        """Update q(V) by the rows of the last ``expected_log_likelihood`` that has a gradient.

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
            beta = -2 * by_variance
            eye, transposed = torch.eye(len(a)).to(a), a.T.contiguous()
            for own, curvature in zip(self.precision, beta.T, strict=True):
                # I + Σ β a aᵀ, one class at a time: its product with β stays in the cache
                precision = torch.addmm(eye, a * curvature, transposed)
                own.lerp_(0.5 * (precision + precision.T), rho)
            self.shift.lerp_((slope + beta * mean).T @ a.T, rho)

    def kl(self) -> Tensor:
        """Σ_c KL(q(V_c) ‖ N(0, I)), []."""
        mean, R = self._moments()
        log_det = R.diagonal(dim1=-2, dim2=-1).log().sum()
        return 0.5 * (R.square().sum() + mean.square().sum() - mean.numel()) - log_det

    def decoder(self) -> LabelDecoder:
        """The fitted path."""
        with torch.no_grad():
            kernel = RBF(self.kernel.variance.detach(), self.kernel.lengthscales.detach())
            Z = self.Z.detach().clone()
            L, _ = cholesky(kernel(Z, Z), "The kernel matrix of the label inducing inputs")
            mean, R = self._moments()
            half = solve_upper(L, torch.eye(len(Z)).to(L) - R.mT @ R)
            return LabelDecoder(kernel, Z, solve_upper(L, mean.T), solve_upper(L, half.mT))
