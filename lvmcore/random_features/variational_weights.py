"""Weights of random features with a Gaussian q(H) of their own, in place of integrated out.

The rival of marginalisation in Li et al. 2024, appendix C.2: q(h_d) = N(m_d, T_dᵀT_d) is learned
by gradients with q(X), q(W) and the parameters. The bound on log p(Y | X, W) is

Σ_nd E log p(y_nd | f_nd) − Σ_d KL(q(h_d) ‖ N(0, I)),  f_nd ~ N(φ_nᵀm_d, ‖T_dφ_n‖²),

closed for numbers and Poisson counts, by Gauss–Hermite quadrature for the logistic family. For
numbers it is the marginalised bound less Σ_d KL(q(h_d) ‖ p(h_d | y_d, X, W)), and so at most that.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lvmcore.base.fit_problem import FitProblem
from lvmcore.errors import ConfigError
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.random_features.decoder import CHUNK_CELLS, FeatureDecoder
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.fourier_sums import feature_sums
from lvmcore.random_features.gaussian_term import FeatureSample, FeatureTerm, GaussianTerm

__all__ = ["VariationalWeightTerm", "check_variational_weights"]

# Sd of q(h) at the start, whose mean is 0: a wide q(h) would make the first counts explode.
INITIAL_SD = 0.1


def check_variational_weights(settings: Mapping[str, Any]) -> None:
    """Refuse settings with which the weights cannot have a q of their own.

    Raises:
        ConfigError: naming the setting.
    """
    if settings["weights"] == "marginal":
        return
    if settings["kernel"] == "learned" and settings["spectral"] != "free":
        raise ConfigError(
            f"spectral={settings['spectral']!r} cannot be used with weights='variational': the "
            "weights belong to spectral points, which a mixture draws anew. Set spectral='free' "
            "or weights='marginal'."
        )
    if settings["batch_size"] is not None:
        raise ConfigError(
            f"batch_size={settings['batch_size']!r} cannot be used with weights='variational': "
            "each step takes all rows. Leave batch_size out, or set weights='marginal'."
        )


class VariationalWeightTerm(FeatureTerm):
    """The bound on log p(Y | X, W) with a learned q(h_d) = N(m_d, T_dᵀT_d) of every column.

    Args:
        problem: the table.
        marginal: the term with the weights integrated out, whose likelihood, noise or dispersion
            and scale this one has.
        width: R, with the offset.
    """

    def __init__(self, problem: FitProblem, marginal: FeatureTerm, width: int) -> None:
        super().__init__(problem, marginal.offset)
        self.marginal = marginal
        self.log_scale = marginal.log_scale
        D = self.Y.shape[1]
        self.mean = nn.Parameter(self.Y.new_zeros(width, D))
        self.log_sd = nn.Parameter(self.Y.new_full((D, width), math.log(INITIAL_SD)))
        self.lower = nn.Parameter(self.Y.new_zeros(D, width, width))

    @property
    def roots(self) -> Tensor:
        """T, lower triangular with a positive diagonal, [D, R, R]."""
        return self.lower.tril(-1).diagonal_scatter(self.log_sd.exp(), 0, 1, 2)

    def with_problem(self, problem: FitProblem) -> VariationalWeightTerm:
        """A term of other cells of numbers with a copy of the current parameters."""
        assert isinstance(self.marginal, GaussianTerm)
        term = VariationalWeightTerm(
            problem, self.marginal.with_problem(problem), self.mean.shape[0]
        )
        term.load_state_dict(self.state_dict())
        return term

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """The noise or dispersion, if it is learned."""
        return self.marginal.frozen_in_warm_up()

    def warm_start_from(self, fitted: FeatureDecoder, X: Tensor) -> None:
        """See ``FeatureTerm.warm_start_from``; q(H) is of other points, and starts anew."""
        self.marginal.warm_start_from(fitted, X)

    # ---- bound ---------------------------------------------------------------------------------

    def value(self, sample: FeatureSample) -> Tensor:
        """The bound at a sample of W and X, []; for a complete table by blocks of rows."""
        if not self._sums_suffice:
            return super().value(sample)
        features = self.features(sample.points, sample.amplitudes)
        return self._summed_bound(*feature_sums(features, sample.X, self.Y))

    def bound(self, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``FeatureTerm.bound``; a step updates no state."""
        del step
        if self._sums_suffice:
            return self._summed_bound((Phi.T @ Phi).double(), (Phi.T @ self.Y).double())
        roots = self.roots
        cells = self.expected_log_likelihood(*self._functions(Phi, roots))
        if self.observed is not None:
            cells = torch.where(self.observed, cells, 0.0)
        return cells.double().sum() - self._kl(roots)

    def _kl(self, roots: Tensor) -> Tensor:
        """Σ_d KL(q(h_d) ‖ N(0, I)), float64, []."""
        squares = self.mean.square().sum().double() + roots.square().sum().double()
        return 0.5 * (squares - self.mean.numel()) - self.log_sd.double().sum()

    def _functions(self, Phi: Tensor, roots: Tensor) -> tuple[Tensor, Tensor]:
        """Mean φ_nᵀm_d and variance ‖T_dφ_n‖² of the functions, [N, D] each."""
        blocks = torch.split(roots, max(1, CHUNK_CELLS // max(1, Phi.numel())))
        if len(blocks) == 1:
            return Phi @ self.mean, _projected_squares(Phi, roots)
        # The products [d, N, R] of a block of columns are computed again in the backward pass.
        parts = [
            checkpoint(_projected_squares, Phi, some, use_reentrant=False, preserve_rng_state=False)
            for some in blocks
        ]
        return Phi @ self.mean, torch.cat(parts, 1)

    @property
    def _sums_suffice(self) -> bool:
        """Whether the bound follows from ΦᵀΦ and ΦᵀY: of complete tables of numbers."""
        return self.observed is None and isinstance(self.marginal, GaussianTerm)

    def _summed_bound(self, G: Tensor, P: Tensor) -> Tensor:
        """The bound of a complete table of numbers from ΦᵀΦ [R, R] and ΦᵀY [R, D], float64, []."""
        assert isinstance(self.marginal, GaussianTerm)
        mean, roots, noise = self.mean.double(), self.roots, self.marginal.noise.double()
        # E ‖y_d − Φh_d‖² = ‖y_d‖² − 2 m_dᵀΦᵀy_d + m_dᵀG m_d + tr T_d G T_dᵀ
        spread = ((roots @ G.to(roots)) * roots).sum((1, 2)).double()
        error = self.marginal.all_squares + ((G @ mean - 2 * P) * mean).sum(0) + spread
        cells = len(self.Y) * (LOG_2PI + noise.log()) + error / noise
        return -0.5 * cells.sum() - self._kl(roots)

    # ---- the fitted model ----------------------------------------------------------------------

    @torch.no_grad()
    def decoder(self, features: RandomFourierFeatures, X: Tensor) -> FeatureDecoder:
        """The decoder with the learned q(h), at draws X of the latent positions, [S, N, Q]."""
        width = self.mean.shape[0]
        second = self.mean.new_zeros(width, width, dtype=torch.float64)
        for Phi in map(features, X):
            second += (Phi.T @ Phi).double() / (len(X) * len(self.Y))
        return self.weights_decoder(
            features, self.mean.double(), self.roots.double().mT, second, exactly=True
        )

    def expected_log_likelihood(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``FeatureTerm.expected_log_likelihood``."""
        return self.marginal.expected_log_likelihood(mean, variance)

    def weights_decoder(
        self,
        features: RandomFourierFeatures,
        mean: Tensor,
        factors: Tensor,
        second: Tensor,
        *,
        exactly: bool,
    ) -> FeatureDecoder:
        """See ``FeatureTerm.weights_decoder``."""
        return self.marginal.weights_decoder(features, mean, factors, second, exactly=exactly)


def _projected_squares(Phi: Tensor, roots: Tensor) -> Tensor:
    """‖T_dφ_n‖² of features [N, R] and roots [D, R, R], [N, D]."""
    return (roots @ Phi.T).square().sum(1).T
