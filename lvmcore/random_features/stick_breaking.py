"""The variational posterior of a truncated stick-breaking process and of its concentration."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["StickBreaking"]

# Shape and rate of the prior of α.
ALPHA_SHAPE, ALPHA_RATE = 1.0, 1.0


class StickBreaking:
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
        """Its tensors, which ``update`` changes in place."""
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
        """Expected weights E v_k Π_{j<k} E(1 − v_j), [K]."""
        mean = self.first / (self.first + self.second)
        one = mean.new_ones(1)
        return torch.cat([mean, one]) * torch.cat([one, (1 - mean).cumprod(0)])

    def kl(self) -> Tensor:
        """E_q(α) KL(q(v) ‖ p(v | α)) + KL(q(α) ‖ p(α)), []."""
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
        """Set q(v), then q(α) to their optima for q(z) = ``shares`` [L, K]."""
        counts = shares.double().sum(0)
        self.first.copy_(1 + counts[:-1])
        beyond = counts.flip(0).cumsum(0).flip(0)[1:]
        self.second.copy_(self.shape / self.rate + beyond)
        self.shape.fill_(ALPHA_SHAPE + len(self.first))
        self.rate.copy_(ALPHA_RATE - self.expected_logs()[1].sum())
