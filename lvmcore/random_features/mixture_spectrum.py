"""Learned spectrum with spectral points drawn from the mixture itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from lvmcore.numerics.linalg import cholesky_batch
from lvmcore.random_features.spectrum import MIN_VARIANCE, LearnedSpectrum

__all__ = ["MixtureSpectrum"]

# Temperature of the Gumbel–softmax.
TEMPERATURE = 0.5


class MixtureSpectrum(LearnedSpectrum):
    """q(w | z) = p(w | z): spectral points are draws from the mixture itself.

    ``kind="mixture"`` draws a component for each point, by straight-through Gumbel–softmax, and
    the objective is a bound. ``kind="moment"`` draws from the Gaussian with the mean and covariance
    of the point's mixture, Σ_k q_k μ_k and Σ_k q_k (Σ_k + (μ_k − mean)(μ_k − mean)ᵀ): its
    divergence is omitted, so the objective is no bound. With frozen noise every step uses the same
    draws, and the objective is optimistic: ``fresh`` evaluates new draws.

    Args:
        kind: see above.
        frozen: whether the noise is drawn once.
        n_points: L.
        n_dimensions: Q.
        n_components: K.
        like: a tensor of the dtype and on the device to use.
        generator: of the initial values and the noise.
    """

    def __init__(
        self,
        kind: Literal["mixture", "moment"],
        frozen: bool,
        n_points: int,
        n_dimensions: int,
        n_components: int,
        like: Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__(n_points, n_dimensions, n_components, like, generator)
        self.kind, self.frozen = kind, frozen
        self.logits = nn.Parameter(0.1 * self.normal(n_points, n_components))
        self.centres = nn.Parameter(self.reach * self.normal(n_components, n_dimensions))
        root = self.reach * torch.eye(n_dimensions).to(like)
        self.roots = nn.Parameter(root.repeat(n_components, 1, 1))
        self.noise = self.normal(n_points, n_dimensions)
        self.gumbel = self._gumbel()
        self.update()

    @property
    def shares(self) -> Tensor:
        """q(z), [L, K]."""
        return self.logits.softmax(1)

    @property
    def covariances(self) -> Tensor:
        """Σ_k = root rootᵀ + 1e-6 I, [K, Q, Q]."""
        root = self.roots.tril()
        return root @ root.mT + MIN_VARIANCE * torch.eye(root.shape[-1]).to(root)

    def draw(self) -> Tensor:
        """See ``Spectrum.draw``."""
        return self._points(self.noise, self.gumbel) if self.frozen else self.fresh()

    def fresh(self) -> Tensor:
        """See ``Spectrum.fresh``."""
        return self._points(self.normal(*self.size), self._gumbel())

    def points(self) -> Tensor:
        """See ``Spectrum.points``: with the fixed noise."""
        return self._points(self.noise, self.gumbel)

    def kl(self) -> Tensor:
        """See ``Spectrum.kl``; the points have no divergence."""
        return self._kl_of_shares(self.shares) + self.sticks.kl()

    def update(self) -> None:
        """Update q(v) and q(α); the gradient updates the rest."""
        self.sticks.update(self.shares.detach())

    @property
    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """See ``LearnedSpectrum.components``."""
        return self.centres, self.covariances, self.shares

    def tensors(self) -> Iterable[Tensor]:
        """See ``Spectrum.tensors``."""
        return [*self.sticks.tensors(), self.noise, self.gumbel]

    def _gumbel(self) -> Tensor:
        """Standard Gumbel draws, [L, K]."""
        uniform = torch.rand(self.logits.shape, generator=self.generator, dtype=torch.float64)
        return -(-uniform.clamp_min(1e-12).log()).clamp_min(1e-12).log().to(self.like)

    def _points(self, noise: Tensor, gumbel: Tensor) -> Tensor:
        if self.kind == "moment":
            shares = self.shares
            mean = shares @ self.centres
            # Σ_k q_k (Σ_k + (μ_k − mean)(μ_k − mean)ᵀ)
            away = self.centres - mean[:, None, :]
            spread = torch.einsum("lk,lkq,lkr->lqr", shares, away, away)
            covariance = torch.einsum("lk,kqr->lqr", shares, self.covariances) + spread
            return mean + (_root(covariance) @ noise[:, :, None])[:, :, 0]
        soft = ((self.logits.log_softmax(1) + gumbel) / TEMPERATURE).softmax(1)
        # Straight-through: the value of the hard choice, the gradient of the soft one
        hard = nn.functional.one_hot(soft.argmax(1), soft.shape[1]).to(soft)
        chosen = hard - soft.detach() + soft
        return chosen @ self.centres + torch.einsum(
            "lk,kqr,lr->lq", chosen, _root(self.covariances), noise
        )


def _root(covariance: Tensor) -> Tensor:
    """Cholesky factors, [..., Q, Q], in the dtype of the covariances."""
    flat = covariance.reshape(-1, *covariance.shape[-2:]).double()
    return (
        cholesky_batch(flat, "A spectral point's covariance")
        .reshape(covariance.shape)
        .to(covariance)
    )
