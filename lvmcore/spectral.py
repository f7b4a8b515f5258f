"""A kernel's spectrum, learned: spectral points under a Dirichlet-process mixture of Gaussians.

z_l = k with stick-breaking weights of v_k ~ Beta(1, α), α ~ Gamma(α0, β0), truncated at K
components, and w_l | z_l = k ~ N(μ_k, Σ_k). q is a product of q(z_l), q(v_k) = Beta and
q(α) = Gamma; μ_k and Σ_k are learned as they are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.linalg import cholesky_batch

__all__ = ["FreeSpectrum", "MixedSpectrum", "SpectralDensity", "Spectrum", "Sticks"]

# Shape and rate of the prior of α.
ALPHA_SHAPE, ALPHA_RATE = 1.0, 1.0
# Sd of wᵀx at the start, where x ~ N(0, I), and of a free spectral point.
START_REACH, START_SD = math.sqrt(2), 0.1
# Added to a component's covariance, so that it can be factorised.
SMALLEST_VARIANCE = 1e-6
TEMPERATURE = 0.5


class Sticks:
    """q(v) and q(α) of a stick-breaking process truncated at K components, float64.

    Attributes:
        first: a of q(v_k) = Beta(a, b), [K − 1].
        second: b, [K − 1].
        shape: of q(α), [].
        rate: of q(α), [].
    """

    def __init__(self, n_components: int, device: torch.device) -> None:
        size = n_components - 1
        self.first = torch.ones(size, dtype=torch.float64, device=device)
        self.second = torch.ones(size, dtype=torch.float64, device=device)
        self.shape = torch.full((), ALPHA_SHAPE + size, dtype=torch.float64, device=device)
        self.rate = torch.full((), ALPHA_RATE, dtype=torch.float64, device=device)

    def tensors(self) -> list[Tensor]:
        """All of it, changed in place by ``update``."""
        return [self.first, self.second, self.shape, self.rate]

    def expected_logs(self) -> tuple[Tensor, Tensor]:
        """E log v_k and E log(1 − v_k), [K − 1] each."""
        both = torch.digamma(self.first + self.second)
        return torch.digamma(self.first) - both, torch.digamma(self.second) - both

    def log_weights(self) -> Tensor:
        """E log p(z = k | v) = E log v_k + Σ_{j<k} E log(1 − v_j), [K]; v_K = 1."""
        log_v, log_rest = self.expected_logs()
        zero = log_v.new_zeros(1)
        return torch.cat([log_v, zero]) + torch.cat([zero, log_rest.cumsum(0)])

    def weights(self) -> Tensor:
        """E of the weights: E v_k Π_{j<k} E(1 − v_j), [K]."""
        mean = self.first / (self.first + self.second)
        one = mean.new_ones(1)
        return torch.cat([mean, one]) * torch.cat([one, (1 - mean).cumprod(0)])

    def kl(self) -> Tensor:
        """KL(q(v) ‖ p(v | α)), expected under q(α), and KL(q(α) ‖ p(α)), []."""
        log_v, log_rest = self.expected_logs()
        a, b = self.first, self.second
        log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
        entropy_part = (a - 1) * log_v + (b - 1) * log_rest - log_beta
        alpha = self.shape / self.rate
        log_alpha = torch.digamma(self.shape) - self.rate.log()
        of_sticks = (entropy_part - log_alpha - (alpha - 1) * log_rest).sum()
        q, p = (self.shape, self.rate), (self.shape.new_tensor(ALPHA_SHAPE), ALPHA_RATE)
        of_alpha = (
            (q[0] - p[0]) * torch.digamma(q[0])
            - torch.lgamma(q[0])
            + torch.lgamma(p[0])
            + p[0] * (q[1].log() - math.log(p[1]))
            + q[0] * (p[1] - q[1]) / q[1]
        )
        return of_sticks + of_alpha

    @torch.no_grad()
    def update(self, shares: Tensor) -> None:
        """q(v), then q(α) at their optima for q(z) = ``shares`` [L, K]; each raises the bound."""
        counts = shares.double().sum(0)
        self.first.copy_(1 + counts[:-1])
        beyond = counts.flip(0).cumsum(0).flip(0)[1:]
        self.second.copy_(self.shape / self.rate + beyond)
        self.shape.fill_(ALPHA_SHAPE + len(self.first))
        self.rate.copy_(ALPHA_RATE - self.expected_logs()[1].sum())


@dataclass(frozen=True)
class SpectralDensity:
    """The spectral density of a learned kernel.

    Attributes:
        points: the spectral points of the fit, [R/2, Q].
        weights: of the mixture's components, expected, [K].
        means: μ of the components, [K, Q].
        covariances: Σ of the components, [K, Q, Q].
        shares: how much of each point is each component's, [R/2, K].
    """

    points: NDArray[np.float64]
    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]
    shares: NDArray[np.float64]


class Spectrum(nn.Module, ABC):
    """The spectral points of a fit, and what they cost in the bound.

    Args:
        n_points: L.
        n_dimensions: Q.
        n_components: K.
        like: a tensor of the dtype and on the device to use.
        generator: draws the start.
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
        # Sd of a spectral point: rows are neighbours in a map of many dimensions as in one of few.
        self.reach = START_REACH / math.sqrt(n_dimensions)
        self.sticks = Sticks(n_components, like.device)

    def normal(self, *shape: int) -> Tensor:
        """Draws from N(0, 1)."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(self.like)

    @abstractmethod
    def draw(self) -> Tensor:
        """Spectral points for a step, differentiable, [L, Q]."""

    @abstractmethod
    def fresh(self) -> Tensor:
        """Spectral points that the fit cannot have known, [L, Q]."""

    @abstractmethod
    def points(self) -> Tensor:
        """Those that the fitted model uses, [L, Q]."""

    @abstractmethod
    def kl(self) -> Tensor:
        """What q of the spectrum, of z, v and α costs, []."""

    @abstractmethod
    def update(self) -> None:
        """Bring what has an optimum in closed form there."""

    @property
    @abstractmethod
    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """μ [K, Q], Σ [K, Q, Q] and q(z) [L, K]."""

    @torch.no_grad()
    def density(self) -> SpectralDensity:
        """What was learned."""
        parts = (self.points(), self.sticks.weights(), *self.components)
        return SpectralDensity(*(part.detach().double().cpu().numpy() for part in parts))

    @abstractmethod
    def tensors(self) -> Iterable[Tensor]:
        """What ``update`` changes in place, and what was drawn once."""

    def _kl_of_shares(self, shares: Tensor) -> Tensor:
        """Σ_l KL(q(z_l) ‖ p(z | v)), expected under q(v), []."""
        log_shares = shares.clamp_min(1e-30).log()
        return (shares * (log_shares - self.sticks.log_weights().to(shares))).sum()


class FreeSpectrum(Spectrum):
    """q(w_l) = N(m_l, diag s_l²), a Gaussian of its own for every spectral point.

    Its cost is Σ_lk q(z_l = k) KL(q(w_l) ‖ N(μ_k, Σ_k)) beside those of z, v and α, so the whole is
    a lower bound; q(z), μ_k and Σ_k have closed forms. Where the columns need few spectral points,
    q(w_l) of the others is a component's own Gaussian: their means coincide, as one feature, so the
    fitted model uses a draw from q(w) rather than its mean.
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
        self.log_sd = nn.Parameter(torch.full_like(self.mean, math.log(START_SD)))
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
    def begin_anew(self, density: SpectralDensity) -> None:
        """Begin with spectral points drawn from a mixture that was learned."""
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
        return self._made(self.normal(*self.size))

    def fresh(self) -> Tensor:
        """Likewise: every draw is a new one."""
        return self.draw()

    def points(self) -> Tensor:
        """A draw from q(w) by the noise that was drawn first, [L, Q]."""
        return self._made(self.noise)

    def _made(self, noise: Tensor) -> Tensor:
        return self.mean + self.log_sd.exp() * noise

    def costs(self) -> Tensor:
        """KL(q(w_l) ‖ N(μ_k, Σ_k)), float64, [L, K]."""
        mean, log_sd = self.mean.double(), self.log_sd.double()
        precision, log_det = self._precisions()
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
        """Σ_lk q(z_l = k) ``costs``_lk, []: a quadratic form for each point, not one for each k."""
        mean, log_sd = self.mean.double(), self.log_sd.double()
        precision, log_det = self._precisions()
        pull = (precision @ self.centres[:, :, None])[:, :, 0]  # Σ_k⁻¹μ_k
        apart = (pull * self.centres).sum(1) + log_det
        form = (self.shares @ precision.flatten(1)).reshape(*mean.shape, -1)
        square = mean * ((form @ mean[:, :, None])[:, :, 0] - 2 * (self.shares @ pull))
        trace = (2 * log_sd).exp() * form.diagonal(dim1=1, dim2=2)
        return 0.5 * ((square + trace - 2 * log_sd - 1).sum() + (self.shares @ apart).sum())

    @torch.no_grad()
    def update(self) -> None:
        """q(z), q(v), q(α), then μ and Σ: each at its optimum given the others."""
        self.update_shares()
        self.sticks.update(self.shares)
        self.update_components()

    @torch.no_grad()
    def update_shares(self) -> None:
        """q(z_l = k) ∝ exp(E log p(z = k | v) − KL(q(w_l) ‖ N(μ_k, Σ_k)))."""
        self.shares.copy_(torch.softmax(self.sticks.log_weights() - self.costs(), 1))

    @torch.no_grad()
    def update_components(self) -> None:
        """μ_k and Σ_k as the moments of the q(w_l) that are theirs; empty ones stay."""
        mean, variance = self.mean.double(), (2 * self.log_sd.double()).exp()
        counts = self.shares.sum(0)
        held = counts > 1e-3
        share = self.shares / counts.clamp_min(1e-3)
        centres = share.T @ mean
        away = mean[:, None, :] - centres
        spread = (away * share[:, :, None]).permute(1, 2, 0) @ away.transpose(0, 1)
        own = torch.diag_embed(share.T @ variance + SMALLEST_VARIANCE)
        self.centres.copy_(torch.where(held[:, None], centres, self.centres))
        self.covariances.copy_(torch.where(held[:, None, None], spread + own, self.covariances))

    @property
    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """See ``Spectrum.components``."""
        return self.centres, self.covariances, self.shares

    def tensors(self) -> Iterable[Tensor]:
        """See ``Spectrum.tensors``."""
        changed = [self.centres, self.covariances, self.shares]
        return [*self.sticks.tensors(), *changed, self.noise]


class MixedSpectrum(Spectrum):
    """q(w | z) = p(w | z): spectral points are draws from the mixture itself.

    ``kind="mixture"`` draws a component for each point, by straight-through Gumbel–softmax, so that
    the whole stays a bound. ``kind="moment"`` draws from the Gaussian with the mean and covariance
    of the point's mixture, Σ_k q_k μ_k and Σ_k q_k (Σ_k + (μ_k − mean)(μ_k − mean)ᵀ): its own
    divergence is left out, so what it gives is no bound. Where the noise is frozen every step uses
    the same draws, and the objective is optimistic: ``fresh`` says what others would give.

    Args:
        kind: see above.
        frozen: draw the noise once.
        n_points: L.
        n_dimensions: Q.
        n_components: K.
        like: a tensor of the dtype and on the device to use.
        generator: draws the start and the noise.
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
        """Σ_k = root rootᵀ, with a little added, [K, Q, Q]."""
        root = self.roots.tril()
        return root @ root.mT + SMALLEST_VARIANCE * torch.eye(root.shape[-1]).to(root)

    def draw(self) -> Tensor:
        """See ``Spectrum.draw``."""
        return self._made(self.noise, self.gumbel) if self.frozen else self.fresh()

    def fresh(self) -> Tensor:
        """See ``Spectrum.fresh``."""
        return self._made(self.normal(*self.size), self._gumbel())

    def points(self) -> Tensor:
        """See ``Spectrum.points``: those of the noise that was drawn first."""
        return self._made(self.noise, self.gumbel)

    def kl(self) -> Tensor:
        """See ``Spectrum.kl``; the points themselves cost nothing."""
        return self._kl_of_shares(self.shares) + self.sticks.kl()

    def update(self) -> None:
        """q(v) and q(α); the rest follows the gradient."""
        self.sticks.update(self.shares.detach())

    @property
    def components(self) -> tuple[Tensor, Tensor, Tensor]:
        """See ``Spectrum.components``."""
        return self.centres, self.covariances, self.shares

    def tensors(self) -> Iterable[Tensor]:
        """See ``Spectrum.tensors``."""
        return [*self.sticks.tensors(), self.noise, self.gumbel]

    def _gumbel(self) -> Tensor:
        uniform = torch.rand(self.logits.shape, generator=self.generator, dtype=torch.float64)
        return -(-uniform.clamp_min(1e-12).log()).clamp_min(1e-12).log().to(self.like)

    def _made(self, noise: Tensor, gumbel: Tensor) -> Tensor:
        if self.kind == "moment":
            shares = self.shares
            mean = shares @ self.centres
            away = self.centres - mean[:, None, :]
            spread = torch.einsum("lk,lkq,lkr->lqr", shares, away, away)
            covariance = torch.einsum("lk,kqr->lqr", shares, self.covariances) + spread
            return mean + (_root(covariance) @ noise[:, :, None])[:, :, 0]
        soft = ((self.logits.log_softmax(1) + gumbel) / TEMPERATURE).softmax(1)
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
