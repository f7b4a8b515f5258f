"""Learned spectra: spectral points under a Dirichlet-process mixture of Gaussians.

z_l = k with the stick-breaking weights of v_k ~ Beta(1, α), α ~ Gamma(α0, β0), truncated at K
components, and w_l | z_l = k ~ N(μ_k, Σ_k). q is a product of q(z_l), q(v_k) = Beta and
q(α) = Gamma; μ_k and Σ_k are point estimates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.random_features.stick_breaking import StickBreaking

__all__ = ["MIN_VARIANCE", "SpectralDensity", "Spectrum"]

# Sd of wᵀx at the start, where x ~ N(0, I).
INITIAL_REACH = math.sqrt(2)
# Added to a component's covariance, so that it can be factorised.
MIN_VARIANCE = 1e-6


@dataclass(frozen=True)
class SpectralDensity:
    """The spectral density of a learned kernel.

    Attributes:
        points: the spectral points of the fit, [R/2, Q].
        weights: expected weights of the mixture's components, [K].
        means: μ of the components, [K, Q].
        covariances: Σ of the components, [K, Q, Q].
        shares: responsibilities of the components for each point, [R/2, K].
    """

    points: NDArray[np.float64]
    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    shares: NDArray[np.float64]


class Spectrum(nn.Module, ABC):
    """The variational posterior of spectral points, and its divergence.

    Args:
        n_points: L.
        n_dimensions: Q.
        n_components: K.
        like: a tensor of the dtype and on the device to use.
        generator: of the initial points and draws.
    """

    def __init__(
        self,
        n_points: int,
        n_dimensions: int,
        n_components: int,
        like: Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.like, self.generator = like, generator
        self.size = (n_points, n_dimensions)
        # Sd of a spectral point, such that correlations of rows do not depend on Q.
        self.reach = INITIAL_REACH / math.sqrt(n_dimensions)
        self.sticks = StickBreaking(n_components, like.device)

    def normal(self, *shape: int) -> Tensor:
        """Draws from N(0, 1)."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(self.like)

    @abstractmethod
    def draw(self) -> Tensor:
        """Spectral points for a step, differentiable, [L, Q]."""

    @abstractmethod
    def fresh(self) -> Tensor:
        """New draws of spectral points, which no step has used, [L, Q]."""

    @abstractmethod
    def points(self) -> Tensor:
        """The spectral points of the fitted model, [L, Q]."""

    @abstractmethod
    def kl(self) -> Tensor:
        """KL of q of the spectrum, z, v and α from the prior, []."""

    @abstractmethod
    def update(self) -> None:
        """Update the factors of q with a closed-form optimum."""

    @property
    @abstractmethod
    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """μ [K, Q], Σ [K, Q, Q] and q(z) [L, K]."""

    @torch.no_grad()
    def density(self) -> SpectralDensity:
        """The learned spectral density."""
        parts = (self.points(), self.sticks.weights(), *self.components)
        return SpectralDensity(*(part.detach().double().cpu().numpy() for part in parts))

    @abstractmethod
    def tensors(self) -> Iterable[Tensor]:
        """The tensors that ``update`` changes in place, and fixed draws."""

    def _kl_of_shares(self, shares: Tensor) -> Tensor:
        """Σ_l KL(q(z_l) ‖ p(z | v)), expected under q(v), []."""
        log_shares = shares.clamp_min(1e-30).log()
        return (shares * (log_shares - self.sticks.log_weights().to(shares))).sum()
