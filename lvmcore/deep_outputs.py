"""The last layer of a deep Gaussian process: its kernel, and q of its whitened values.

Every q here is held by its natural parameters in whitened coordinates, the precision Λ and the
shift h = Λ m: a row whose likelihood has slope g and curvature β at its mean μ adds β a aᵀ and
a (g + β μ) to them, whether the row is one of a batch (`Sites` follow those by natural gradients)
or one of a subset that brings its target along (`LastLayer.posterior`).

Notation: lvmcore/README.md and lvmcore/deep_layers.py; P outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from lvmcore.deep_layers import KernelLayer, Values
from lvmcore.deep_layout import KernelName, Layout, row_moments
from lvmcore.deep_likelihoods import Classes, Gaussian, QExponentialNoise
from lvmcore.linalg import cholesky_batch
from lvmcore.qexponential_blocks import block_weight, divergence

__all__ = ["LastLayer", "Posterior", "Rows", "Sites", "Sums", "of_other_draws"]

#: Σ β a aᵀ [..., G, M, M] and Σ a (g + β μ) [..., P, M]: what rows add to Λ and h.
Sums = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Rows:
    """Rows at the last layer, for each draw of their inputs.

    Attributes:
        k: k(Z, x), [..., M, B]; None for the inducing inputs themselves.
        Y: targets, [B, P].
        weight: how many rows each stands for.
        precision: w by which each row counts in a q in closed form, its noise being σ²/w,
            [..., B]; None where every row's is σ².
    """

    k: Tensor | None
    Y: Tensor
    weight: float = 1.0
    precision: Tensor | None = None

    def whitened(self, layout: Layout) -> Tensor:
        """a = C⁻¹ k(Z, x), [..., M, B]; carries no gradient."""
        with torch.no_grad():
            return layout.C.mT if self.k is None else layout.inverse @ self.k


@dataclass(frozen=True)
class Posterior:
    """N(m_p, V_p) of the whitened values, V = RᵀR, for each draw or for all of them.

    Attributes:
        mean: m, [..., P, M].
        root: R, lower triangular, [..., G, M, M]; G is P, or 1 where the outputs share V.
    """

    mean: Tensor
    root: Tensor

    @classmethod
    def of(cls, precision: Tensor, shift: Tensor) -> Posterior:
        """From Λ [..., G, M, M] and h = Λ m [..., P, M]."""
        flat = precision.reshape(-1, *precision.shape[-2:])
        factor = cholesky_batch(flat, "The precision of a layer's values").reshape(precision.shape)
        eye = torch.eye(precision.shape[-1]).to(precision)
        root = torch.linalg.solve_triangular(factor, eye, upper=False)
        mean = root.mT @ (root @ shift[..., None])
        return cls(mean[..., 0], root)

    def moments(self, layout: Layout, k: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean [..., B, P] and variance [..., B, G] of f(x), k [..., M, B] as in ``Rows``.

        With a = C⁻¹k: aᵀm_p and k(x, x) − aᵀ(I − V_g)a.
        """
        if k is None:
            spread = (self.root @ layout.C.mT.unsqueeze(-3)).square().sum(-2)
            return layout.C @ self.mean.mT, spread.mT.clamp_min(1e-12)
        half = self.root @ layout.inverse.unsqueeze(-3)
        G = layout.precision.unsqueeze(-3) - half.mT @ half
        mean, reduction = row_moments(k, self.mean @ layout.inverse, G)
        return mean.mT, (layout.variance - reduction).mT.clamp_min(1e-12)

    def square(self) -> Tensor:
        """E ‖v‖² of all outputs, [...]."""
        per_root = self.mean.shape[-2] / self.root.shape[-3]
        return per_root * self.root.square().sum((-1, -2, -3)) + self.mean.square().sum((-1, -2))

    def kl(self, exponent: float = 2.0) -> Tensor:
        """Σ_p KL(N(m_p, V_p) ‖ N(0, I)), or what bounds it of a block, averaged over draws, [].

        Args:
            exponent: q of the prior, one q-exponential block of all P M values.
        """
        outputs, M = self.mean.shape[-2:]
        per_root = outputs / self.root.shape[-3]
        log_det = self.root.diagonal(dim1=-2, dim2=-1).log().sum((-1, -2))
        square = self.square()
        gaussian = 0.5 * (square - outputs * M) - per_root * log_det
        return divergence(gaussian, square, outputs * M, exponent).mean()


class Sites(nn.Module):
    """Natural parameters that follow the rows: Λ = w I + Σ β a aᵀ, h = Σ a (g + β μ).

    w is 1 for N(0, I); for a q-exponential prior it is that of its tangent at the q before.

    Args:
        n_inducing: M.
        n_outputs: P.
        like: dtype and device.
        shared: the outputs share Λ, as those with one Gaussian noise do.
        step: ρ, the length of a natural-gradient step; the first steps are as long as an average
            of all that was seen would make them. 0 keeps the sites as they are.
        exponent: q of the prior, one q-exponential block of all P M values; 2 for N(0, I).
    """

    curvature: Tensor
    shift: Tensor
    steps: Tensor
    prior: Tensor

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

    def naturals(
        self, unit: Tensor, sums: Sums | None = None, prior: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Λ [..., G, M, M] and h [..., P, M]: of the sums given, or of those that were followed.

        Args:
            unit: σ² of a Gaussian, or 1.
            sums: over rows.
            prior: w of each draw, [...], in the place of the one that was followed.
        """
        eye = torch.eye(self.curvature.shape[-1]).to(self.curvature)
        own = self.prior.clone() if prior is None else prior
        curvature, shift = sums or (self.curvature.clone(), self.shift.clone())
        return own[..., None, None, None] * eye + curvature / unit, shift / unit

    @torch.no_grad()
    def follow(self, curvature: Tensor, shift: Tensor) -> None:
        """A step towards sums over rows, [..., G, M, M] and [..., P, M], averaged over draws."""
        if self.step == 0:
            return
        curvature, shift = _average(curvature, 3), _average(shift, 2)
        rho = max(self.step, 1.0 / (1 + int(self.steps)))
        self.curvature.lerp_(0.5 * (curvature + curvature.mT), rho)
        self.shift.lerp_(shift, rho)
        self.steps += 1


class LastLayer(KernelLayer):
    """P Gaussian processes with one kernel, zero mean, and the likelihood of the targets.

    Args:
        n_inputs: H.
        likelihood: of the targets.
        q: of the values: ``Sites``, or ``Values`` that the optimiser moves.
        variance: v to start from.
        kernel: see ``Layout``.
    """

    def __init__(
        self,
        n_inputs: int,
        likelihood: Gaussian | Classes,
        q: Sites | Values,
        *,
        variance: float = 1.0,
        kernel: KernelName = "rbf",
    ) -> None:
        like = q.shift if isinstance(q, Sites) else q.mean
        super().__init__(n_inputs, like, variance=variance, kernel=kernel)
        self.likelihood, self.q = likelihood, q

    @property
    def absorbs(self) -> bool:
        """Whether q takes the targets of a subset in closed form."""
        return isinstance(self.likelihood, Gaussian)

    def posterior(
        self,
        layout: Layout,
        targets: Tensor | None = None,
        sums: Sums | None = None,
        prior: Tensor | None = None,
    ) -> Posterior:
        """q of the whitened values, for each draw of the inducing inputs where these differ.

        With targets y_S of the inducing inputs themselves q̂ ∝ q(v) N(y_S | C v, σ²I):
        Λ̂ = Λ + CᵀC/σ², ĥ = h + Cᵀy_S/σ².

        Args:
            layout: of this layer.
            targets: y_S, [M, P]; only of a Gaussian likelihood.
            sums: over rows, in the place of what the sites have followed.
            prior: w of each draw, in the place of what the sites have followed.
        """
        unit = self.likelihood.unit
        q = self.q
        precision, shift = q.naturals(unit, sums, prior) if isinstance(q, Sites) else q.naturals()
        if targets is not None:
            precision = precision + (layout.C.mT @ layout.C / unit).unsqueeze(-3)
            shift = shift + (layout.C.mT @ targets).mT / unit
        return Posterior.of(precision, shift)

    def fit(self, layout: Layout, posterior: Posterior, rows: Rows) -> tuple[Tensor, ...]:
        """Σ_n E log p(y_n | f(x_n)) averaged over draws, []; the moments it was made of."""
        mean, variance = posterior.moments(layout, rows.k)
        logs = self.likelihood.expectation(rows.Y, mean, variance)
        return rows.weight * logs.sum() / math.prod(mean.shape[:-2]), mean, variance

    @property
    def reweighs(self) -> bool:
        """Whether a q in closed form depends on weights of the prior and the rows."""
        return isinstance(self.likelihood, QExponentialNoise) or self.q.exponent < 2

    @torch.no_grad()
    def prior_under(self, posterior: Posterior) -> Tensor:
        """w of the prior's tangent at a q, of each draw, [...]."""
        return block_weight(
            posterior.square(), math.prod(posterior.mean.shape[-2:]), self.q.exponent
        )

    @torch.no_grad()
    def row_precision(
        self, Y: Tensor, mean: Tensor, variance: Tensor, *, shared: bool
    ) -> Tensor | None:
        """w of rows of a numeric target under moments of f, [..., B]; of all draws, [B]."""
        assert isinstance(self.likelihood, Gaussian)
        square = self.likelihood.square(Y, mean, variance)
        square = square.reshape(-1, len(Y)).mean(0) if shared else square
        return self.likelihood.precision(square, Y.shape[1])

    @torch.no_grad()
    def weighed(
        self, layout: Layout, posterior: Posterior, rows: Rows, *, shared: bool = False
    ) -> Rows:
        """Rows with the precision that each has under a q, of each draw or of all draws."""
        moments = posterior.moments(layout, rows.k)
        return replace(rows, precision=self.row_precision(rows.Y, *moments, shared=shared))

    @torch.no_grad()
    def gaussian_sums(self, layout: Layout, rows: Rows) -> Sums:
        """Σ w a aᵀ [..., 1, M, M] and Σ w a y [..., P, M] of each draw: σ² times what rows add."""
        a = rows.whitened(layout)
        counted = a if rows.precision is None else a * rows.precision.unsqueeze(-2)
        return rows.weight * (counted @ a.mT).unsqueeze(-3), rows.weight * (counted @ rows.Y).mT

    def label_sums(
        self, layout: Layout, rows: Rows, fit: Tensor, mean: Tensor, variance: Tensor
    ) -> Sums:
        """Σ β a aᵀ [P, M, M] and Σ a (g + β μ) [P, M] of a ``fit``, averaged over draws."""
        slope, by_variance = torch.autograd.grad(fit, (mean, variance), retain_graph=True)
        with torch.no_grad():
            draws = math.prod(mean.shape[:-2])
            beta = (-2 * by_variance).clamp_min(0)  # both over the number of draws
            a, step = rows.whitened(layout), slope + beta * mean
            P, M = mean.shape[-1], a.shape[-2]
            curvature, shift = a.new_zeros(P * M, M), a.new_zeros(M, P)
            # A draw at a time, which stays near the processor.
            a = a.expand(draws, M, -1) if a.dim() < 3 else a
            for own, b, f in zip(
                a, beta.reshape(draws, -1, P), step.reshape(draws, -1, P), strict=True
            ):
                curvature.addmm_((b.T[:, None, :] * own).flatten(0, 1), own.T)
                shift.addmm_(own, f)
            return curvature.view(P, M, M), shift.T

    def label_sums_under(self, layout: Layout, posterior: Posterior, rows: Rows) -> Sums:
        """``label_sums`` at a q."""
        with torch.no_grad():
            mean, variance = posterior.moments(layout, rows.k)
        with torch.enable_grad():
            mean.requires_grad_()
            variance.requires_grad_()
            logs = self.likelihood.expectation(rows.Y, mean, variance)
            fit = rows.weight * logs.sum() / math.prod(mean.shape[:-2])
            return self.label_sums(layout, rows, fit, mean, variance)


def _average(sums: Tensor, n_dimensions: int) -> Tensor:
    """Over the draws, where there is a dimension of them."""
    return sums.mean(0) if sums.dim() > n_dimensions else sums


def of_other_draws(sums: Sums) -> Sums:
    """The mean of each draw's sums over all draws but itself, [S, ...].

    What one q for all draws would be without this one: it does not lag behind the parameters, as a
    running mean does, nor does it know the draw that it is measured on.
    """
    curvature, shift = sums
    others = len(curvature) - 1
    return (curvature.sum(0) - curvature) / others, (shift.sum(0) - shift) / others
