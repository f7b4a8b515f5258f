"""Spectra of random features, and those learned as a Dirichlet-process mixture of Gaussians.

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

__all__ = ["MIN_VARIANCE", "LearnedSpectrum", "SpectralDensity", "Spectrum"]

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
        amplitudes: of the points, relative to equal ones, [R/2]; None for equal ones, which a
            learned spectrum has. That of a given kernel has no components, K = 0.
    """

    points: NDArray[np.float64]
    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    shares: NDArray[np.float64]
    amplitudes: NDArray[np.float64] | None = None

    def correlation(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        """The kernel along each dimension, 1 at distance 0: k(δ e_q)/k(0), [Q, n].

        It is Σ_l a_l² cos(w_lq δ)/Σ_l a_l².

        Args:
            distances: δ, [n].
        """
        waves = np.cos(self.points.T[:, None, :] * np.ravel(distances)[:, None])
        if self.amplitudes is None:
            return np.asarray(waves.mean(axis=2))
        return np.asarray(waves @ np.square(self.amplitudes) / np.square(self.amplitudes).sum())

    def correlation_matrix(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """The kernel between points, k(x, x')/k(0) = Σ_l a_l² cos(w_lᵀ(x − x'))/Σ_l a_l², [N, N].

        Args:
            X: the points, [N, Q].
        """
        squares = np.ones(len(self.points)) if self.amplitudes is None else self.amplitudes**2
        share, angle = squares / squares.sum(), X @ self.points.T
        sines, cosines = np.sin(angle), np.cos(angle)
        return np.asarray((sines * share) @ sines.T + (cosines * share) @ cosines.T)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Its arrays by name, for a file."""
        return {name: value for name, value in vars(self).items() if value is not None}


class Spectrum(nn.Module, ABC):
    """The distribution of spectral points, or its variational posterior, and its divergence."""

    @abstractmethod
    def draw(self) -> Tensor:
        """Spectral points for a step, differentiable, [L, Q]."""

    @abstractmethod
    def fresh(self) -> Tensor:
        """New draws of spectral points, which no step has used, [L, Q]."""

    @abstractmethod
    def points(self) -> Tensor:
        """The spectral points of the fitted model, [L, Q]."""

    def amplitudes(self) -> Tensor | None:
        """Amplitudes of the points, relative to equal ones, [L]; None for equal ones."""
        return None

    @abstractmethod
    def kl(self) -> Tensor:
        """KL of q of the spectrum, z, v and α from the prior, []."""

    @abstractmethod
    def update(self) -> None:
        """Update the factors of q with a closed-form optimum."""

    @torch.no_grad()
    def relevance(self) -> Tensor:
        """α_q = mean of w_lq², which is 1/ℓ_q² of an RBF kernel, [Q]."""
        return self.points().square().mean(0)

    @abstractmethod
    def density(self) -> SpectralDensity:
        """The spectral density."""

    @abstractmethod
    def tensors(self) -> Iterable[Tensor]:
        """The tensors that ``update`` changes in place, and fixed draws."""


class LearnedSpectrum(Spectrum):
    """The variational posterior of spectral points under the mixture.

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

    @property
    @abstractmethod
    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """μ [K, Q], Σ [K, Q, Q] and q(z) [L, K]."""

    @torch.no_grad()
    def density(self) -> SpectralDensity:
        """The learned spectral density."""
        parts = (self.points(), self.sticks.weights(), *self.components)
        return SpectralDensity(*(part.detach().double().cpu().numpy() for part in parts))

    def _kl_of_shares(self, shares: Tensor) -> Tensor:
        """Σ_l KL(q(z_l) ‖ p(z | v)), expected under q(v), []."""
        log_shares = shares.clamp_min(1e-30).log()
        return (shares * (log_shares - self.sticks.log_weights().to(shares))).sum()
