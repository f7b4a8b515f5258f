"""The Poisson likelihood of counts, y ~ Poisson(exp ψ), and its Gaussian sites.

E log p(y | ψ) has a closed form under a normal ψ, so q(h) needs no further variable: cell by cell
it is exp(κψ − ½ωψ²), and the bound is highest where ω = E exp ψ and κ = y − E exp ψ + ω E ψ, a
natural-gradient step of which is an average (Khan and Lin 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lvmcore.logistic import (
    LARGEST_LOG_MEAN,
    LEAST_CURVED,
    average_density,
    log_normal_moments,
)

__all__ = ["PoissonFamily", "poisson_sites"]


@dataclass(frozen=True)
class PoissonFamily:
    """Counts of mean exp ψ.

    Attributes:
        size: ones, [D]: as the other likelihoods have a number for each column.
    """

    size: Tensor

    def log_probability(self, Y: Tensor, psi: Tensor) -> Tensor:
        """log p(y | ψ) of cells, the shape of ψ."""
        return Y * psi - psi.clamp_max(LARGEST_LOG_MEAN).exp() - torch.lgamma(Y + 1)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E p(y | ψ), ψ ~ N(mean, variance), by quadrature; the shape of ``mean``."""
        return average_density(lambda psi: self.log_probability(Y, psi), mean, variance)

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | ψ); the shape of ``mean``."""
        rate = (mean + 0.5 * variance).clamp_max(LARGEST_LOG_MEAN).exp()
        return Y * mean - rate - torch.lgamma(Y + 1)

    def average_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``expected_log``, which is no bound here."""
        return self.expected_log(Y, mean, variance)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and noise variance E Var(y | ψ) of y, for ψ ~ N(mean, variance)."""
        first, spread = log_normal_moments(mean, variance)
        return first, first + spread, first

    def mean_slope(self, psi: Tensor) -> Tensor:
        """∂E(y | ψ)/∂ψ."""
        return psi.clamp_max(LARGEST_LOG_MEAN).exp()

    def draw(self, psi: Tensor, rng: np.random.Generator) -> np.ndarray:
        """y ~ p(y | ψ), the shape of ψ."""
        rate = psi.detach().cpu().double().clamp_max(LARGEST_LOG_MEAN).exp().numpy()
        return np.asarray(rng.poisson(np.minimum(rate, 1e18)), dtype=np.float64)

    def columns(self, some: Tensor | slice) -> PoissonFamily:
        """That of some of the columns."""
        return PoissonFamily(self.size[some])

    def to(self, like: Tensor) -> PoissonFamily:
        """In the dtype and on the device of a tensor."""
        return PoissonFamily(self.size.detach().to(like))


def poisson_sites(
    Y: Tensor, mean: Tensor, variance: Tensor, *, damped: bool
) -> tuple[Tensor, Tensor]:
    """ω and κ of cells Y where ψ ~ N(mean, variance), the shape of ``mean`` each.

    Far below its count a Poisson hardly bends in ψ, and a step would go far beyond: ``damped``, ω
    is at least half of what the count tells at its own best ψ, y.
    """
    rate = (mean + 0.5 * variance).clamp_max(LARGEST_LOG_MEAN).exp()
    omega = torch.maximum(rate, LEAST_CURVED * Y) if damped else rate
    return omega, Y - rate + omega * mean
