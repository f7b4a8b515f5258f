"""Variational steps of latent Dirichlet allocation, and their bound.

θ_n ~ Dirichlet(α), β_k ~ Dirichlet(η), each of row n's counts in column d with probability
Σ_k θ_nk β_kd (Blei, Ng and Jordan 2003, the smoothed model of section 5.4). With
q(θ_n) = Dirichlet(γ_n), q(β_k) = Dirichlet(λ_k), s_nk = exp E log θ_nk and w_kd = exp E log β_kd
the responsibilities are at their optimum φ_ndk = s_nk w_kd / (s w)_nd, and the bound on the log
probability of the counts, each by itself and given how many there are, is
Σ_nd y_nd log (s w)_nd − Σ_n KL(q(θ_n) ‖ p) − Σ_k KL(q(β_k) ‖ p).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = ["TopicPosterior"]

# Added to what is divided by.
TINY = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class TopicPosterior:
    """q(β) of the topics, with the priors; float64.

    Attributes:
        concentration: λ, [Q, D].
        topic_prior: α.
        column_prior: η.
    """

    concentration: Tensor
    topic_prior: float
    column_prior: float

    @property
    def mean(self) -> Tensor:
        """E β, [Q, D]."""
        return self.concentration / self.concentration.sum(1, keepdim=True)

    def place(
        self, Y: Tensor, start: Tensor | None = None, *, rounds: int, settled: float
    ) -> Tensor:
        """γ of rows of counts Y [N, D], each at its own optimum for these topics, [N, Q].

        γ_nk = α + Σ_d y_nd φ_ndk over and over, every round uphill, until no concentration of the
        row changes by more than a share ``settled`` of their sum.

        Args:
            Y: counts, [N, D].
            start: γ to begin with, [N, Q]; 1 where none is given.
            rounds: at most.
            settled: see above.
        """
        weights = _geometric(self.concentration)
        gamma = Y.new_ones(len(Y), len(weights)) if start is None else start.clone()
        moving = torch.arange(len(Y), device=Y.device)
        for _ in range(rounds):
            before = gamma[moving]
            share = _geometric(before)
            after = self.topic_prior + share * (Y[moving] / (share @ weights + TINY) @ weights.T)
            gamma[moving] = after
            change = (after - before).abs().amax(1)
            moving = moving[change > settled * after.sum(1)]
            if not len(moving):
                break
        return gamma

    def follow(self, Y: Tensor, gamma: Tensor) -> TopicPosterior:
        """The topics at their optimum for rows at γ: λ_kd = η + Σ_n y_nd φ_ndk."""
        weights, share = _geometric(self.concentration), _geometric(gamma)
        counts = weights * (share.T @ (Y / (share @ weights + TINY)))
        return replace(self, concentration=self.column_prior + counts)

    def bound(self, Y: Tensor, gamma: Tensor) -> float:
        """The bound of rows of counts at γ, in nats."""
        expected = _geometric(gamma) @ _geometric(self.concentration) + TINY
        fit = torch.xlogy(Y, expected).sum()
        rows = _divergence(gamma, self.topic_prior)
        return float(fit - rows - _divergence(self.concentration, self.column_prior))


def _expected_log(concentration: Tensor) -> Tensor:
    """E log of a Dirichlet's parts, the parts along the last dimension."""
    return concentration.digamma() - concentration.sum(-1, keepdim=True).digamma()


def _geometric(concentration: Tensor) -> Tensor:
    return _expected_log(concentration).exp()


def _divergence(concentration: Tensor, prior: float) -> Tensor:
    """Σ KL(Dirichlet(concentration) ‖ Dirichlet(prior, …, prior)) over the rows, []."""
    parts = concentration.shape[1]
    own = concentration.sum(1).lgamma().sum() - concentration.lgamma().sum()
    theirs = len(concentration) * (math.lgamma(parts * prior) - parts * math.lgamma(prior))
    crossed = ((concentration - prior) * _expected_log(concentration)).sum()
    return own - theirs + crossed
