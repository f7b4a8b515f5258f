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
# Rounds before the first extrapolation: where a row is far away its steps tell little of its end.
PLAIN_ROUNDS = 5
# How far the first extrapolation may go; the step of a round is 1.
SHORTEST = 2.0
# Steps in a line, by the cosine between two, and the second longer by no more than this: from a row
# that turns or gathers speed an extrapolation could lead to another, lower optimum.
STRAIGHT, STEADY = 0.99, 1.1


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
        row changes by more than a share ``settled`` of their sum. After the first few, every third
        round begins at an extrapolation (`_extrapolate`), kept where it lies no lower: a row needs
        a quarter of the rounds, many times fewer where they crept. Where a row's bound has several
        optima, it may come to another than by the plain rounds.

        Args:
            Y: counts, [N, D].
            start: γ to begin with, [N, Q]; 1 where none is given.
            rounds: at most, but for two.
            settled: see above.
        """
        weights = _geometric(self.concentration)
        gamma = Y.new_ones(len(Y), len(weights)) if start is None else start.clone()
        moving = torch.arange(len(Y), device=Y.device)
        reach = Y.new_full((len(Y), 1), SHORTEST)
        done = 0
        while done < rounds and len(moving):
            rows, before = Y[moving], gamma[moving]
            after = self._round(rows, before, weights)[0]
            moves = (after - before).abs().amax(1) > settled * after.sum(1)
            done += 1
            if done <= PLAIN_ROUNDS:
                gamma[moving] = after
                moving = moving[moves]
                continue
            # A row that has settled stays where it was found to be settled.
            moving, done = moving[moves], done + 2
            gamma[moving], reach[moving] = self._leap(
                rows[moves], (before[moves], after[moves]), reach[moving], weights
            )
        return gamma

    def _round(self, Y: Tensor, gamma: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """γ after one round, [N, Q], and (s w) before it, [N, D]."""
        share = _geometric(gamma)
        expected = share @ weights + TINY
        return self.topic_prior + share * (Y / expected @ weights.T), expected

    def _row_bounds(self, Y: Tensor, gamma: Tensor, expected: Tensor) -> Tensor:
        """Each row's part of the bound, but for what no γ changes, [N, 1]."""
        fit = (Y * expected.log()).sum(1)
        crossed = ((self.topic_prior - gamma) * _expected_log(gamma)).sum(1)
        return (fit + crossed + gamma.lgamma().sum(1) - gamma.sum(1).lgamma())[:, None]

    def _leap(
        self, Y: Tensor, trail: tuple[Tensor, Tensor], reach: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """γ two rounds after the last of the trail, the second from an extrapolation.

        An extrapolation that lies lower than the trail is thrown away, and the row is where one
        round leads. How far one may go doubles where it went as far as it may, and is halved where
        it was thrown away.

        Args:
            Y: counts of rows that move, [N, D].
            trail: γ before and after a round, [N, Q] each.
            reach: how far each row may go, [N, 1].
            weights: of the topics, [Q, D].

        Returns:
            γ, [N, Q], and the new reach, [N, 1].
        """
        third, expected = self._round(Y, trail[1], weights)
        bound = self._row_bounds(Y, trail[1], expected)
        far, length = _extrapolate(*trail, third, reach)
        far = far.clamp_min(self.topic_prior)
        leapt, expected = self._round(Y, far, weights)
        reached = self._row_bounds(Y, far, expected)
        # Rounding alone does not make it lower.
        kept = reached >= bound - 64 * TINY * bound.abs()
        longer = torch.where(length >= reach, 2 * reach, reach)
        reach = torch.where(kept, longer, (reach / 2).clamp_min(1))
        return torch.where(kept, leapt, third), reach

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


def _extrapolate(
    first: Tensor, second: Tensor, third: Tensor, reach: Tensor
) -> tuple[Tensor, Tensor]:
    """Where rows that go from γ to γ to γ are bound for, [N, Q], and the lengths taken, [N, 1].

    With z = log γ, r = z₂ − z₁ and v = (z₃ − z₂) − r: z₁ + 2ar + a²v, a = ‖r‖/‖v‖ within 1 and
    ``reach`` (Varadhan and Roland 2008, their scheme S3). a = 1 is z₃, taken where the two steps
    are not in a line.
    """
    start = first.log()
    step = second.log() - start
    bend = third.log() - second.log() - step
    sizes = [part.norm(dim=1, keepdim=True) for part in (step, step + bend, bend)]
    along = (step * (step + bend)).sum(1, keepdim=True)
    straight = (along > STRAIGHT * sizes[0] * sizes[1]) & (sizes[1] < STEADY * sizes[0])
    length = torch.where(sizes[2] > 0, sizes[0] / sizes[2], 1.0).clamp_min(1).minimum(reach)
    length = torch.where(straight, length, 1.0)
    return (start + 2 * length * step + length**2 * bend).exp(), length


def _divergence(concentration: Tensor, prior: float) -> Tensor:
    """Σ KL(Dirichlet(concentration) ‖ Dirichlet(prior, …, prior)) over the rows, []."""
    parts = concentration.shape[1]
    own = concentration.sum(1).lgamma().sum() - concentration.lgamma().sum()
    theirs = len(concentration) * (math.lgamma(parts * prior) - parts * math.lgamma(prior))
    crossed = ((concentration - prior) * _expected_log(concentration)).sum()
    return own - theirs + crossed
