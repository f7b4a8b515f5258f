"""A Gaussian posterior of the weights of functions, updated by natural gradients.

The functions are f_c(x) = a(x)ᵀv_c with features a and weights v_c ~ N(0, I). With the likelihood's
slope g = E ∂ log p/∂f and curvature β = −E ∂² log p/∂f² at each row, the precision I + Σ β a aᵀ and
the shift Σ a (g + β m) of each function are running means of their estimates from batches of rows
(Khan and Lin 2017). β ≥ 0, so the precision stays positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lvmcore.numerics.quadratic_forms import shared_quadratic_forms

__all__ = ["NaturalGradientWeights"]


@dataclass(frozen=True)
class _Evaluation:
    """An expected log likelihood with its graph, for the natural-gradient step that follows.

    Attributes:
        total: the expected log likelihood, [].
        mean: of f at the samples, [n, C].
        variance: likewise.
        a: features of the samples, [M, n].
    """

    total: Tensor
    mean: Tensor
    variance: Tensor
    a: Tensor


class NaturalGradientWeights(nn.Module):
    """q(V_c) = N(Λ_c⁻¹ h_c, Λ_c⁻¹) of the weights of each function."""

    precision: Tensor
    shift: Tensor

    def start_weights(self, n_functions: int, n_features: int, like: Tensor) -> None:
        """Set q(V) to the prior.

        Args:
            n_functions: C.
            n_features: M, the number of features.
            like: dtype and device.
        """
        self.register_buffer("precision", torch.eye(n_features).to(like).repeat(n_functions, 1, 1))
        self.register_buffer("shift", like.new_zeros(n_functions, n_features))
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

    def weighted(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of aᵀv_c at points of features a [M, n], each [n, C]."""
        mean, R = self.moments()
        # aᵀ Λ_c⁻¹ a
        spread = shared_quadratic_forms(a, R.mT @ R).T
        return a.T @ mean.T, spread

    def keep(self, total: Tensor, mean: Tensor, variance: Tensor, a: Tensor) -> None:
        """Keep an expected log likelihood for the next natural-gradient step.

        Args:
            total: the expected log likelihood, with its graph, [].
            mean: of f, [n, C].
            variance: likewise.
            a: features of the points, [M, n].
        """
        if total.requires_grad:
            self._evaluation = _Evaluation(total, mean, variance, a)

    def natural_gradient_step(self, rho: float) -> None:
        """Update q(V) by the expected log likelihood that was kept last.

        Λ ← (1 − ρ) Λ + ρ (I + Σ β a aᵀ), h ← (1 − ρ) h + ρ Σ a (g + β m).

        Args:
            rho: length ρ of the step.
        """
        found = self._row_gradients()
        if found is None:
            return
        a, beta, pull = found
        with torch.no_grad():
            eye, transposed = torch.eye(len(a)).to(a), a.T.contiguous()
            for own, curvature in zip(self.precision, beta.T, strict=True):
                # I + Σ β a aᵀ, one class at a time: its product with β stays in the cache
                precision = torch.addmm(eye, a * curvature, transposed)
                own.lerp_(0.5 * (precision + precision.T), rho)
            self.shift.lerp_(pull.T @ a.T, rho)

    def natural_gradient_sums(self) -> tuple[Tensor, Tensor] | None:
        """Σ β a aᵀ [C, M, M] and Σ a (g + β m) [C, M] of the expected log likelihood kept last.

        None where none was kept since. Those of disjoint sets of rows add up.
        """
        found = self._row_gradients()
        if found is None:
            return None
        a, beta, pull = found
        transposed = a.T.contiguous()
        return torch.stack([(a * own) @ transposed for own in beta.T]), pull.T @ a.T

    @property
    def natural_parameters(self) -> tuple[Tensor, Tensor]:
        """Λ [C, M, M] and h [C, M]."""
        return self.precision, self.shift

    @torch.no_grad()
    def follow_sums(self, curvature: Tensor, shift: Tensor, rho: float) -> None:
        """``natural_gradient_step`` with the sums of ``natural_gradient_sums``."""
        eye = torch.eye(curvature.shape[-1]).to(curvature)
        self.precision.lerp_(eye + 0.5 * (curvature + curvature.mT), rho)
        self.shift.lerp_(shift, rho)

    def _row_gradients(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """a [M, n], β and g + β m [n, C] of what was kept last; None where nothing was."""
        last, self._evaluation = self._evaluation, None
        if last is None:
            return None
        slope, by_variance = torch.autograd.grad(
            last.total, (last.mean, last.variance), retain_graph=True
        )
        with torch.no_grad():
            beta = (-2 * by_variance).clamp_min(0)
            return last.a.detach(), beta, slope + beta * last.mean

    def kl(self) -> Tensor:
        """Σ_c KL(q(V_c) ‖ N(0, I)), []."""
        mean, R = self.moments()
        log_det = R.diagonal(dim1=-2, dim2=-1).log().sum()
        return 0.5 * (R.square().sum() + mean.square().sum() - mean.numel()) - log_det
