"""The Poisson likelihood of counts, y ~ Poisson(exp ψ), and its Gaussian sites.

E log p(y | ψ) has a closed form under a normal ψ, so q(h) needs no auxiliary variable. The site of
a cell is exp(κψ − ½ωψ²); the bound is maximal at ω = E exp ψ and κ = y − E exp ψ + ω E ψ, and a
natural-gradient step averages old and new sites (Khan and Lin 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lvmcore.likelihoods.polya_gamma import (
    MAX_LOG_MEAN,
    MIN_CURVATURE_SHARE,
    log_normal_moments,
)
from lvmcore.likelihoods.quadrature import log_expected_density

__all__ = ["PoissonLikelihood", "poisson_sites"]


@dataclass(frozen=True)
class PoissonLikelihood:
    """Counts of mean exp ψ.

    Attributes:
        size: ones, [D]; the other likelihoods have a parameter for each column.
    """

    size: Tensor

    def log_probability(self, Y: Tensor, psi: Tensor) -> Tensor:
        """log p(y | ψ) of cells, the shape of ψ."""
        return Y * psi - psi.clamp_max(MAX_LOG_MEAN).exp() - torch.lgamma(Y + 1)

    def log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E p(y | ψ), ψ ~ N(mean, variance), by quadrature; the shape of ``mean``."""
        return log_expected_density(lambda psi: self.log_probability(Y, psi), mean, variance)

    def expected_log(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | ψ); the shape of ``mean``."""
        rate = (mean + 0.5 * variance).clamp_max(MAX_LOG_MEAN).exp()  # E exp ψ
        return Y * mean - rate - torch.lgamma(Y + 1)

    def expected_log_quadrature(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """``expected_log``, which is exact here."""
        return self.expected_log(Y, mean, variance)

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and noise variance E Var(y | ψ) of y, for ψ ~ N(mean, variance)."""
        first, spread = log_normal_moments(mean, variance)
        return first, first + spread, first

    def mean_slope(self, psi: Tensor) -> Tensor:
        """∂E(y | ψ)/∂ψ."""
        return psi.clamp_max(MAX_LOG_MEAN).exp()

    def draw(self, psi: Tensor, rng: np.random.Generator) -> np.ndarray:
        """y ~ p(y | ψ), the shape of ψ."""
        rate = psi.detach().cpu().double().clamp_max(MAX_LOG_MEAN).exp().numpy()
        return np.asarray(rng.poisson(np.minimum(rate, 1e18)), dtype=np.float64)

    def select_columns(self, some: Tensor | slice) -> PoissonLikelihood:
        """The likelihood of a subset of the columns."""
        return PoissonLikelihood(self.size[some])

    def to(self, like: Tensor) -> PoissonLikelihood:
        """In the dtype and on the device of a tensor."""
        return PoissonLikelihood(self.size.detach().to(like))


def poisson_sites(
    Y: Tensor, mean: Tensor, variance: Tensor, *, damped: bool
) -> tuple[Tensor, Tensor]:
    """Optimal ω and κ of cells Y for ψ ~ N(mean, variance), the shape of ``mean`` each.

    Far below its count the Poisson log likelihood has little curvature in ψ, and a step overshoots.
    With ``damped``, ω is at least half the curvature at the count's optimal ψ, which is y.
    """
    rate = (mean + 0.5 * variance).clamp_max(MAX_LOG_MEAN).exp()  # E exp ψ
    omega = torch.maximum(rate, MIN_CURVATURE_SHARE * Y) if damped else rate
    return omega, Y - rate + omega * mean
