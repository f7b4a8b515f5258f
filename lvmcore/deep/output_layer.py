"""The last layer of a deep Gaussian process: its kernel, and q of its whitened values.

Every q is stored by its natural parameters in whitened coordinates, the precision Λ and the shift
h = Λ m. A row whose likelihood has gradient g and curvature β at its mean μ adds β a aᵀ and a (g +
β μ) to them, for a row of a batch (`GaussianSites` follow batches by natural gradients) and for a
row of a subset with its target (`OutputLayer.posterior`).

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py; P outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.deep.hidden_layer import InducingValues, KernelLayer
from lvmcore.deep.layer_kernel import LayerKernel, whitened_moments
from lvmcore.deep.likelihoods import GaussianNoise, QExponentialNoise, SoftmaxClasses
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.stationary import StationaryName
from lvmcore.numerics.linalg import cholesky_batch
from lvmcore.qep.blocks import block_kl, block_weight

__all__ = [
    "GaussianSites",
    "InducingPosterior",
    "OutputLayer",
    "ProjectedRows",
    "Sums",
    "leave_one_out_means",
]

#: Σ β a aᵀ [..., G, M, M] and Σ a (g + β μ) [..., P, M]: contributions of rows to Λ and h.
Sums = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class ProjectedRows:
    """Rows at the last layer, for each draw of their inputs.

    Attributes:
        k: k(Z, x), [..., M, B]; None for the inducing inputs themselves.
        variance: k(x, x), [..., 1, B] or []; None likewise.
        Y: targets, [B, P].
        weight: number of rows of the table that each represents.
        precision: weight w of each row in a q of closed form, where its noise is σ²/w, [..., B];
            None if all are 1.
    """

    k: Float[Tensor, "... M B"] | None
    variance: Float[Tensor, "..."] | None
    Y: Float[Tensor, "B P"]
    weight: float = 1.0
    precision: Float[Tensor, "... B"] | None = None

    @classmethod
    def of_inputs(
        cls,
        layer_kernel: LayerKernel,
        X: Float[Tensor, "... B H"],
        Y: Float[Tensor, "B P"],
        weight: float = 1.0,
    ) -> Self:
        """Rows with inputs X of the last layer, [..., B, H]."""
        return cls(layer_kernel.cross(X), layer_kernel.diagonal(X), Y, weight)

    @classmethod
    def of_inducing_inputs(cls, Y: Float[Tensor, "M P"]) -> Self:
        """The inducing inputs themselves, with targets Y."""
        return cls(None, None, Y)

    def combined(self, logs: Float[Tensor, "... B"]) -> Float[Tensor, "... R"]:
        """The term of each row of the table from E log p(y | f) of the rows here."""
        return logs

    def whitened(self, layer_kernel: LayerKernel) -> Float[Tensor, "... M B"]:
        """a = C⁻¹ k(Z, x), [..., M, B]; carries no gradient."""
        with torch.no_grad():
            return layer_kernel.C.mT if self.k is None else layer_kernel.whitened(self.k).to(self.k)


@dataclass(frozen=True)
class InducingPosterior:
    """N(m_p, V_p) of the whitened values, V = RᵀR, for each draw or shared by all draws.

    Attributes:
        mean: m, [..., P, M].
        root: R, lower triangular, [..., G, M, M]; G is P, or 1 where the outputs share V.
    """

    mean: Float[Tensor, "... P M"]
    root: Float[Tensor, "... G M M"]

    @classmethod
    def from_natural_parameters(
        cls, precision: Float[Tensor, "... G M M"], shift: Float[Tensor, "... P M"]
    ) -> InducingPosterior:
        """From Λ [..., G, M, M] and h = Λ m [..., P, M]."""
        flat = precision.reshape(-1, *precision.shape[-2:])
        factor = cholesky_batch(flat, "The precision of a layer's values").reshape(precision.shape)
        eye = torch.eye(precision.shape[-1]).to(precision)
        root = torch.linalg.solve_triangular(factor, eye, upper=False)  # R = L⁻¹, Λ = L Lᵀ
        mean = root.mT @ (root @ shift[..., None])
        return cls(mean[..., 0], root)

    def moments(
        self,
        layer_kernel: LayerKernel,
        k: Float[Tensor, "... M B"] | None,
        variance: Float[Tensor, "..."] | None,
    ) -> tuple[Float[Tensor, "... B P"], Float[Tensor, "... B G"]]:
        """Mean [..., B, P] and variance [..., B, G] of f(x), arguments as of ``ProjectedRows``.

        With a = C⁻¹k: aᵀm_p and k(x, x) − aᵀ(I − V_g)a.
        """
        if k is None or variance is None:
            # diag C V Cᵀ
            spread = (self.root @ layer_kernel.C.mT.unsqueeze(-3)).square().sum(-2)
            return layer_kernel.C @ self.mean.mT, spread.mT.clamp_min(1e-12)
        mean, reduction = whitened_moments(layer_kernel, k, self.mean, self.root)
        return mean.mT, (variance - reduction).mT.clamp_min(1e-12)

    def square(self) -> Float[Tensor, "..."]:
        """E ‖v‖² of all outputs, [...]."""
        per_root = self.mean.shape[-2] / self.root.shape[-3]
        return per_root * self.root.square().sum((-1, -2, -3)) + self.mean.square().sum((-1, -2))

    def kl(self, exponent: float = 2.0) -> Float[Tensor, ""]:
        """Σ_p KL(N(m_p, V_p) ‖ N(0, I)), or the bound of a block, averaged over draws, [].

        Args:
            exponent: q of the prior, one q-exponential block of all P M values.
        """
        outputs, M = self.mean.shape[-2:]
        per_root = outputs / self.root.shape[-3]
        log_det = self.root.diagonal(dim1=-2, dim2=-1).log().sum((-1, -2))  # ½ log|V|
        square = self.square()
        gaussian = 0.5 * (square - outputs * M) - per_root * log_det
        return block_kl(gaussian, square, outputs * M, exponent).mean()


class GaussianSites(nn.Module):
    """Natural parameters as running sums over rows: Λ = w I + Σ β a aᵀ, h = Σ a (g + β μ).

    w is 1 for N(0, I), and the weight of the tangent at the previous q for a q-exponential prior.

    Args:
        n_inducing: M.
        n_outputs: P.
        like: dtype and device.
        shared: whether the outputs share Λ, as with one Gaussian noise.
        step: ρ, the length of a natural-gradient step, 1/t in early steps t, which averages all
            batches. 0 for fixed sites.
        exponent: q of the prior, one q-exponential block of all P M values; 2 for N(0, I).
    """

    curvature: Float[Tensor, "G M M"]
    shift: Float[Tensor, "P M"]
    steps: Tensor
    prior: Float[Tensor, ""]

    def __init__(
        self,
        n_inducing: int,
        n_outputs: int,
        like: Tensor,
        *,
        shared: bool,
        step: float,
        exponent: float = 2.0,
    ) -> None:
        super().__init__()
        groups = 1 if shared else n_outputs
        self.step, self.exponent = step, exponent
        self.register_buffer("prior", like.new_ones(()), persistent=False)
        self.register_buffer("curvature", like.new_zeros(groups, n_inducing, n_inducing))
        self.register_buffer("shift", like.new_zeros(n_outputs, n_inducing))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def natural_parameters(
        self,
        site_scale: Float[Tensor, ""],
        sums: Sums | None = None,
        prior: Float[Tensor, "*S"] | None = None,
    ) -> tuple[Float[Tensor, "... G M M"], Float[Tensor, "... P M"]]:
        """Λ [..., G, M, M] and h [..., P, M], of ``sums`` or of the running sums.

        Args:
            site_scale: σ² of a Gaussian, or 1.
            sums: over rows.
            prior: w of each draw, [...], in place of the running one.
        """
        eye = torch.eye(self.curvature.shape[-1]).to(self.curvature)
        own = self.prior.clone() if prior is None else prior
        curvature, shift = sums or (self.curvature.clone(), self.shift.clone())
        return own[..., None, None, None] * eye + curvature / site_scale, shift / site_scale

    @torch.no_grad()
    def update(
        self, curvature: Float[Tensor, "... G M M"], shift: Float[Tensor, "... P M"]
    ) -> None:
        """A natural-gradient step to sums over rows, averaged over draws."""
        if self.step == 0:
            return
        curvature, shift = _average_draws(curvature, 3), _average_draws(shift, 2)
        rho = max(self.step, 1.0 / (1 + int(self.steps)))
        self.curvature.lerp_(0.5 * (curvature + curvature.mT), rho)
        self.shift.lerp_(shift, rho)
        self.steps += 1


class OutputLayer(KernelLayer):
    """P Gaussian processes with one kernel, zero mean, and the likelihood of the targets.

    Args:
        n_inputs: H.
        likelihood: of the targets.
        q: of the values: ``GaussianSites``, or ``InducingValues`` optimised by Adam.
        variance: initial v.
        kernel: see ``KernelLayer``.
    """

    def __init__(
        self,
        n_inputs: int,
        likelihood: GaussianNoise | SoftmaxClasses,
        q: GaussianSites | InducingValues,
        *,
        variance: float = 1.0,
        kernel: StationaryName | CompositeKernel = "rbf",
    ) -> None:
        like = q.shift if isinstance(q, GaussianSites) else q.mean
        super().__init__(n_inputs, like, variance=variance, kernel=kernel)
        self.likelihood, self.q = likelihood, q

    @property
    def closed_form(self) -> bool:
        """Whether the optimal q has a closed form, as for numeric targets."""
        return isinstance(self.likelihood, GaussianNoise)

    def posterior(
        self,
        layer_kernel: LayerKernel,
        targets: Float[Tensor, "M P"] | None = None,
        sums: Sums | None = None,
        prior: Float[Tensor, "*S"] | None = None,
    ) -> InducingPosterior:
        """q of the whitened values, for each draw of the inducing inputs if these differ.

        With targets y_S of the inducing inputs themselves q̂ ∝ q(v) N(y_S | C v, σ²I):
        Λ̂ = Λ + CᵀC/σ², ĥ = h + Cᵀy_S/σ².

        Args:
            layer_kernel: of this layer.
            targets: y_S, [M, P]; only of a Gaussian likelihood.
            sums: over rows, in place of the running sums of the sites.
            prior: w of each draw, in place of the running one.
        """
        unit = self.likelihood.site_scale
        q = self.q
        precision, shift = (
            q.natural_parameters(unit, sums, prior)
            if isinstance(q, GaussianSites)
            else q.natural_parameters()
        )
        if targets is not None:
            precision = precision + (layer_kernel.C.mT @ layer_kernel.C / unit).unsqueeze(-3)
            shift = shift + (layer_kernel.C.mT @ targets).mT / unit
        return InducingPosterior.from_natural_parameters(precision, shift)

    def expected_log_likelihood(
        self, layer_kernel: LayerKernel, posterior: InducingPosterior, rows: ProjectedRows
    ) -> tuple[Tensor, ...]:
        """Σ_n E log p(y_n | f(x_n)) averaged over draws, []; and mean and variance of f."""
        mean, variance = posterior.moments(layer_kernel, rows.k, rows.variance)
        logs = rows.combined(self.likelihood.expectation(rows.Y, mean, variance))
        return rows.weight * logs.sum() / math.prod(mean.shape[:-2]), mean, variance

    @property
    def uses_weights(self) -> bool:
        """Whether the closed-form q depends on weights of the prior and the rows."""
        return isinstance(self.likelihood, QExponentialNoise) or self.q.exponent < 2

    @torch.no_grad()
    def prior_weight(self, posterior: InducingPosterior) -> Float[Tensor, "..."]:
        """w of the prior's tangent at a q, of each draw, [...]."""
        return block_weight(
            posterior.square(), math.prod(posterior.mean.shape[-2:]), self.q.exponent
        )

    @torch.no_grad()
    def row_precision(
        self,
        Y: Float[Tensor, "B P"],
        mean: Float[Tensor, "*S B P"],
        variance: Float[Tensor, "... B G"],
        *,
        shared: bool,
    ) -> Float[Tensor, "... B"] | None:
        """w of rows of a numeric target at moments of f, [..., B]; shared by all draws, [B]."""
        assert isinstance(self.likelihood, GaussianNoise)
        square = self.likelihood.square(Y, mean, variance)
        square = square.reshape(-1, len(Y)).mean(0) if shared else square
        return self.likelihood.precision(square, Y.shape[1])

    @torch.no_grad()
    def weighted_rows(
        self,
        layer_kernel: LayerKernel,
        posterior: InducingPosterior,
        rows: ProjectedRows,
        *,
        shared: bool = False,
    ) -> ProjectedRows:
        """Rows with their precision at a q, of each draw or shared by all draws."""
        moments = posterior.moments(layer_kernel, rows.k, rows.variance)
        return replace(rows, precision=self.row_precision(rows.Y, *moments, shared=shared))

    @torch.no_grad()
    def gaussian_sums(self, layer_kernel: LayerKernel, rows: ProjectedRows) -> Sums:
        """Σ w a aᵀ [..., 1, M, M] and Σ w a y [..., P, M] of each draw: σ² times the sums."""
        a = rows.whitened(layer_kernel)
        weighted = a if rows.precision is None else a * rows.precision.unsqueeze(-2)  # w a
        return rows.weight * (weighted @ a.mT).unsqueeze(-3), rows.weight * (weighted @ rows.Y).mT

    def label_sums(
        self,
        layer_kernel: LayerKernel,
        rows: ProjectedRows,
        fit: Tensor,
        mean: Tensor,
        variance: Tensor,
    ) -> Sums:
        """Σ β a aᵀ [P, M, M] and Σ a (g + β μ) [P, M] of a ``fit``, averaged over draws."""
        slope, by_variance = torch.autograd.grad(fit, (mean, variance), retain_graph=True)
        with torch.no_grad():
            draws = math.prod(mean.shape[:-2])
            beta = (-2 * by_variance).clamp_min(0)  # g and β, both over the number of draws
            a, step = rows.whitened(layer_kernel), slope + beta * mean
            P, M = mean.shape[-1], a.shape[-2]
            curvature, shift = a.new_zeros(P * M, M), a.new_zeros(M, P)
            # One draw at a time, so that it stays in the cache.
            a = a.expand(draws, M, -1) if a.dim() < 3 else a
            for own, b, f in zip(
                a, beta.reshape(draws, -1, P), step.reshape(draws, -1, P), strict=True
            ):
                curvature.addmm_((b.T[:, None, :] * own).flatten(0, 1), own.T)
                shift.addmm_(own, f)
            return curvature.view(P, M, M), shift.T

    def label_sums_of_posterior(
        self, layer_kernel: LayerKernel, posterior: InducingPosterior, rows: ProjectedRows
    ) -> Sums:
        """``label_sums`` at a q."""
        with torch.no_grad():
            mean, variance = posterior.moments(layer_kernel, rows.k, rows.variance)
        with torch.enable_grad():
            mean.requires_grad_()
            variance.requires_grad_()
            logs = self.likelihood.expectation(rows.Y, mean, variance)
            fit = rows.weight * logs.sum() / math.prod(mean.shape[:-2])
            return self.label_sums(layer_kernel, rows, fit, mean, variance)


def _average_draws(sums: Tensor, n_dimensions: int) -> Tensor:
    """The mean over draws, if the tensor has a dimension of draws."""
    return sums.mean(0) if sums.dim() > n_dimensions else sums


def leave_one_out_means(sums: Sums) -> Sums:
    """The mean of each draw's sums over all draws but itself, [S, ...].

    They define a shared q without this draw: it does not lag behind the parameters, as a running
    mean does, and it does not depend on the draw that the bound is evaluated on.
    """
    curvature, shift = sums
    others = len(curvature) - 1
    return (curvature.sum(0) - curvature) / others, (shift.sum(0) - shift) / others
