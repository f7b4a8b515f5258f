"""Learned spectrum with a Gaussian posterior for every spectral point."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from lvmcore.numerics.linalg import cholesky_batch
from lvmcore.random_features.spectrum import MIN_VARIANCE, LearnedSpectrum, SpectralDensity

__all__ = ["SampledSpectrum"]

# Sd of q(w_l) at the start.
INITIAL_SD = 0.1


class SampledSpectrum(LearnedSpectrum):
    """q(w_l) = N(m_l, diag s_l²), one Gaussian for every spectral point.

    Its divergence is Σ_lk q(z_l = k) KL(q(w_l) ‖ N(μ_k, Σ_k)) plus those of z, v and α, so the
    objective is a lower bound; q(z), μ_k and Σ_k have closed forms. If the columns need few
    spectral points, q(w_l) of the others is the Gaussian of a component, and their means coincide.
    So the fitted model uses a draw from q(w) in place of its mean.
    """

    def __init__(
        self,
        n_points: int,
        n_dimensions: int,
        n_components: int,
        like: Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__(n_points, n_dimensions, n_components, like, generator)
        self.mean = nn.Parameter(self.reach * self.normal(n_points, n_dimensions))
        self.log_sd = nn.Parameter(torch.full_like(self.mean, math.log(INITIAL_SD)))
        chosen = torch.randperm(n_points, generator=generator)[:n_components]
        chosen = chosen[torch.arange(n_components) % len(chosen)]
        self.centres = self.mean.detach()[chosen].double()
        eye = torch.eye(n_dimensions, dtype=torch.float64, device=like.device)
        self.covariances = (self.reach**2 * eye).repeat(n_components, 1, 1)
        self.shares = torch.full(
            (n_points, n_components), 1 / n_components, dtype=torch.float64, device=like.device
        )
        self.noise = self.normal(n_points, n_dimensions)
        self.update()

    @torch.no_grad()
    def resample_spectrum(self, density: SpectralDensity) -> None:
        """Initialise with spectral points drawn from a learned mixture."""
        chances = torch.as_tensor(density.weights)
        component = torch.multinomial(
            chances, len(self.mean), replacement=True, generator=self.generator
        )
        self.centres.copy_(torch.as_tensor(density.means))
        self.covariances.copy_(torch.as_tensor(density.covariances))
        L = cholesky_batch(self.covariances, "A spectral component's covariance")
        away = L[component] @ self.normal(*self.size).to(L)[:, :, None]
        self.mean.copy_(self.centres[component] + away[:, :, 0])
        self.update()

    def draw(self) -> Tensor:
        """One draw from q(w), [L, Q]."""
        return self._points(self.normal(*self.size))

    def fresh(self) -> Tensor:
        """One draw from q(w): every draw is new."""
        return self.draw()

    def points(self) -> Tensor:
        """A draw from q(w) with fixed noise, [L, Q]."""
        return self._points(self.noise)

    def _points(self, noise: Tensor) -> Tensor:
        return self.mean + self.log_sd.exp() * noise

    def kl_matrix(self) -> Tensor:
        """KL(q(w_l) ‖ N(μ_k, Σ_k)), float64, [L, K]."""
        mean, log_sd = self.mean.double(), self.log_sd.double()
        precision, log_det = self._precisions()
        # (m_l − μ_k)ᵀΣ_k⁻¹(m_l − μ_k), tr Σ_k⁻¹ diag s_l², and log|diag s_l²| + Q
        away = mean - self.centres[:, None, :]  # [K, L, Q]
        square = ((away @ precision) * away).sum(-1).T
        trace = (2 * log_sd).exp() @ precision.diagonal(dim1=1, dim2=2).T
        own = 2 * log_sd.sum(1, keepdim=True) + mean.shape[1]
        found: Tensor = 0.5 * (square + trace + log_det - own)
        return found

    def _precisions(self) -> tuple[Tensor, Tensor]:
        """Σ_k⁻¹ [K, Q, Q] and log|Σ_k| [K]."""
        L = cholesky_batch(self.covariances, "A spectral component's covariance")
        return torch.cholesky_inverse(L), 2 * L.diagonal(dim1=1, dim2=2).log().sum(1)

    def kl(self) -> Tensor:
        """See ``Spectrum.kl``."""
        return self._kl_of_points() + self._kl_of_shares(self.shares) + self.sticks.kl()

    def _kl_of_points(self) -> Tensor:
        """Σ_lk q(z_l = k) ``kl_matrix``_lk, [], with one quadratic form for each point."""
        mean, log_sd = self.mean.double(), self.log_sd.double()
        precision, log_det = self._precisions()
        pull = (precision @ self.centres[:, :, None])[:, :, 0]  # Σ_k⁻¹μ_k
        constant = (pull * self.centres).sum(1) + log_det  # μ_kᵀΣ_k⁻¹μ_k + log|Σ_k|
        # A_l = Σ_k q(z_l = k) Σ_k⁻¹, the matrix of the quadratic form in m_l
        form = (self.shares @ precision.flatten(1)).reshape(*mean.shape, -1)
        square = mean * ((form @ mean[:, :, None])[:, :, 0] - 2 * (self.shares @ pull))
        trace = (2 * log_sd).exp() * form.diagonal(dim1=1, dim2=2)
        return 0.5 * ((square + trace - 2 * log_sd - 1).sum() + (self.shares @ constant).sum())

    @torch.no_grad()
    def update(self) -> None:
        """q(z), q(v), q(α), then μ and Σ: each at its optimum given the others."""
        self.update_shares()
        self.sticks.update(self.shares)
        self.update_components()

    @torch.no_grad()
    def update_shares(self) -> None:
        """q(z_l = k) ∝ exp(E log p(z = k | v) − KL(q(w_l) ‖ N(μ_k, Σ_k)))."""
        self.shares.copy_(torch.softmax(self.sticks.log_weights() - self.kl_matrix(), 1))

    @torch.no_grad()
    def update_components(self) -> None:
        """μ_k and Σ_k as moments of their q(w_l); empty components are not changed."""
        mean, variance = self.mean.double(), (2 * self.log_sd.double()).exp()
        counts = self.shares.sum(0)
        occupied = counts > 1e-3
        share = self.shares / counts.clamp_min(1e-3)
        centres = share.T @ mean
        away = mean[:, None, :] - centres
        # Covariance of the means m_l, and mean of the covariances diag s_l²
        spread = (away * share[:, :, None]).permute(1, 2, 0) @ away.transpose(0, 1)
        own = torch.diag_embed(share.T @ variance + MIN_VARIANCE)
        self.centres.copy_(torch.where(occupied[:, None], centres, self.centres))
        self.covariances.copy_(torch.where(occupied[:, None, None], spread + own, self.covariances))

    @property
    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """See ``LearnedSpectrum.components``."""
        return self.centres, self.covariances, self.shares

    def tensors(self) -> Iterable[Tensor]:
        """See ``Spectrum.tensors``."""
        changed = [self.centres, self.covariances, self.shares]
        return [*self.sticks.tensors(), *changed, self.noise]
