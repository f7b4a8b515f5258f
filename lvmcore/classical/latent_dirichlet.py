"""Variational steps of latent Dirichlet allocation, and their bound.

θ_n ~ Dirichlet(α), β_k ~ Dirichlet(η), each of row n's counts in column d with probability
Σ_k θ_nk β_kd (Blei, Ng and Jordan 2003, the smoothed model of section 5.4). With
q(θ_n) = Dirichlet(γ_n), q(β_k) = Dirichlet(λ_k), s_nk = exp E log θ_nk and w_kd = exp E log β_kd
the optimal responsibilities are φ_ndk = s_nk w_kd / (s w)_nd, and the bound on the log probability
of the words of each row, given their number, is
Σ_nd y_nd log (s w)_nd − Σ_n KL(q(θ_n) ‖ p) − Σ_k KL(q(β_k) ‖ p).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = ["TopicPosterior"]

# Added to denominators.
TINY = torch.finfo(torch.float64).eps
# Rounds before the first extrapolation, which is unreliable far from the optimum.
PLAIN_ROUNDS = 5
# Largest length of the first extrapolation; the step of a round is 1.
MIN_REACH = 2.0
# Least cosine between two steps, and largest ratio of their lengths: from steps that turn or grow
# an extrapolation could lead to another, lower optimum.
MIN_COSINE, MAX_GROWTH = 0.99, 1.1


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

    def infer(
        self, Y: Tensor, start: Tensor | None = None, *, rounds: int, settled: float
    ) -> Tensor:
        """Optimal γ of rows of counts Y [N, D] for these topics, [N, Q].

        Iterates γ_nk = α + Σ_d y_nd φ_ndk, which never lowers the bound, until no concentration of
        a row changes by more than a share ``settled`` of their sum. After the first rounds every
        third one starts from an extrapolation (`_extrapolate`), accepted if it does not lower the
        bound: a row needs a quarter of the rounds, far fewer where convergence is slow. If a row's
        bound has several optima, it may converge to another one than without extrapolation.

        Args:
            Y: counts, [N, D].
            start: initial γ, [N, Q]; None for 1.
            rounds: at most, up to two more.
            settled: see above.
        """
        weights = _geometric_weights(self.concentration)
        gamma = Y.new_ones(len(Y), len(weights)) if start is None else start.clone()
        moving = torch.arange(len(Y), device=Y.device)
        reach = Y.new_full((len(Y), 1), MIN_REACH)
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
            # A converged row is not updated further.
            moving, done = moving[moves], done + 2
            gamma[moving], reach[moving] = self._extrapolated_round(
                rows[moves], (before[moves], after[moves]), reach[moving], weights
            )
        return gamma

    def _round(self, Y: Tensor, gamma: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """γ after one round, [N, Q], and (s w) before it, [N, D]."""
        share = _geometric_weights(gamma)
        expected = share @ weights + TINY
        return self.topic_prior + share * (Y / expected @ weights.T), expected

    def _row_bounds(self, Y: Tensor, gamma: Tensor, expected: Tensor) -> Tensor:
        """Each row's part of the bound up to a constant in γ, [N, 1]."""
        fit = (Y * expected.log()).sum(1)
        crossed = ((self.topic_prior - gamma) * _expected_log(gamma)).sum(1)
        return (fit + crossed + gamma.lgamma().sum(1) - gamma.sum(1).lgamma())[:, None]

    def _extrapolated_round(
        self, Y: Tensor, trail: tuple[Tensor, Tensor], reach: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """γ after two more rounds, the second from an extrapolation.

        An extrapolation that lowers the bound is rejected, and the row gets the result of one
        round. The largest length doubles where the extrapolation used it, and halves where it was
        rejected.

        Args:
            Y: counts of rows that have not converged, [N, D].
            trail: γ before and after a round, [N, Q] each.
            reach: largest length of each row's extrapolation, [N, 1].
            weights: of the topics, [Q, D].

        Returns:
            γ, [N, Q], and the new reach, [N, 1].
        """
        third, expected = self._round(Y, trail[1], weights)
        bound = self._row_bounds(Y, trail[1], expected)
        far, length = _extrapolate(*trail, third, reach)
        far = far.clamp_min(self.topic_prior)
        extrapolated, expected = self._round(Y, far, weights)
        new_bound = self._row_bounds(Y, far, expected)
        # With a tolerance for rounding.
        accepted = new_bound >= bound - 64 * TINY * bound.abs()
        longer = torch.where(length >= reach, 2 * reach, reach)
        reach = torch.where(accepted, longer, (reach / 2).clamp_min(1))
        return torch.where(accepted, extrapolated, third), reach

    def update_topics(self, Y: Tensor, gamma: Tensor) -> TopicPosterior:
        """The optimal topics for rows at γ: λ_kd = η + Σ_n y_nd φ_ndk."""
        weights, share = _geometric_weights(self.concentration), _geometric_weights(gamma)
        counts = weights * (share.T @ (Y / (share @ weights + TINY)))
        return replace(self, concentration=self.column_prior + counts)

    def bound(self, Y: Tensor, gamma: Tensor) -> float:
        """The bound of rows of counts at γ, in nats."""
        expected = _geometric_weights(gamma) @ _geometric_weights(self.concentration) + TINY
        fit = torch.xlogy(Y, expected).sum()
        rows = _divergence(gamma, self.topic_prior)
        return float(fit - rows - _divergence(self.concentration, self.column_prior))


def _expected_log(concentration: Tensor) -> Tensor:
    """E log of the entries of a Dirichlet variable, along the last dimension."""
    return concentration.digamma() - concentration.sum(-1, keepdim=True).digamma()


def _geometric_weights(concentration: Tensor) -> Tensor:
    return _expected_log(concentration).exp()


def _extrapolate(
    first: Tensor, second: Tensor, third: Tensor, reach: Tensor
) -> tuple[Tensor, Tensor]:
    """Extrapolation of three successive γ, [N, Q], and the lengths used, [N, 1].

    With z = log γ, r = z₂ − z₁ and v = (z₃ − z₂) − r: z₁ + 2ar + a²v, a = ‖r‖/‖v‖ within 1 and
    ``reach`` (Varadhan and Roland 2008, their scheme S3). a = 1 gives z₃, for steps that are not
    aligned.
    """
    start = first.log()
    step = second.log() - start
    bend = third.log() - second.log() - step
    sizes = [part.norm(dim=1, keepdim=True) for part in (step, step + bend, bend)]
    along = (step * (step + bend)).sum(1, keepdim=True)
    straight = (along > MIN_COSINE * sizes[0] * sizes[1]) & (sizes[1] < MAX_GROWTH * sizes[0])
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
