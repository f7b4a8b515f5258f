"""Terms of the columns in the objective of random features: their base class, and numbers."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.bounds import OptimalInducing, collapsed_bound
from lvmcore.gp.model import START_NOISE
from lvmcore.gp.paths import NOISE_FLOOR
from lvmcore.kernels.psi_statistics import PsiSums
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky, solve_lower
from lvmcore.random_features.decoder import FeatureDecoder, pooled_moments
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.fourier_sums import averaged_feature_sums, feature_sums
from lvmcore.random_features.gaussian_decoder import GaussianFeatureDecoder
from lvmcore.random_features.weight_posterior import column_posteriors, weighted_evidence
from lvmcore.training.objective import Term

__all__ = ["FeatureSample", "FeatureTerm", "GaussianTerm"]

# Draws of the latent positions that the final q(h) averages over.
FINAL_DRAWS = 16
# Products N × D × R² in a step beyond which missing cells are filled in.
MOST_PRODUCTS = 2e8


@dataclass(frozen=True)
class FeatureSample:
    """A sample of the spectral points and of the latent positions of all rows.

    Attributes:
        points: spectral points w, [L, Q].
        X: latent positions, [N, Q].
        step: whether an optimisation step is made, in which the term's state is updated.
        amplitudes: of the points, relative to equal ones, [L]; None for equal ones.
    """

    points: Tensor
    X: Tensor
    step: bool
    amplitudes: Tensor | None = None


class FeatureTerm(nn.Module, Term[FeatureSample]):
    """The bound on log p(Y | X, W), the weights h integrated out.

    Args:
        problem: the table.
        offset: value of the last feature, a constant; 0 for none.

    Attributes:
        mixed: whether the products of a step are in single precision.
    """

    name = "data fit"

    def __init__(self, problem: FitProblem, offset: float) -> None:
        super().__init__()
        self.Y, self.observed = problem.Y, problem.observed
        self.offset, self.mixed = offset, problem.mixed
        self.log_scale = nn.Parameter(self.Y.new_zeros(()))

    def features(self, points: Tensor, amplitudes: Tensor | None = None) -> RandomFourierFeatures:
        """φ at the current scale, of points with equal amplitudes or others, [L]."""
        scale = self.log_scale.exp()
        if amplitudes is not None:
            scale = scale * amplitudes
        return RandomFourierFeatures(points, scale, self.offset)

    @property
    def count(self) -> int:
        """Number of observed cells, over which the bound sums."""
        return self.Y.numel() if self.observed is None else int(self.observed.sum())

    def state(self) -> list[Tensor]:
        """Tensors other than parameters that a step changes in place."""
        return []

    @property
    def at_a_time(self) -> int:
        """Number of columns in a step."""
        return self.Y.shape[1]

    @property
    def final_draws(self) -> int:
        """Number of draws of the latent positions over which the final q(h) is averaged."""
        return FINAL_DRAWS

    def value(self, sample: FeatureSample) -> Tensor:
        """The bound at a sample of W and X, []."""
        features = self.features(sample.points, sample.amplitudes)
        return self.bound(features(sample.X), step=sample.step)

    @abstractmethod
    def warm_start_from(self, fitted: FeatureDecoder, X: Tensor) -> None:
        """Initialise from another fit to the same columns, with latent positions X [N, Q]."""

    @abstractmethod
    def bound(self, Phi: Tensor, *, step: bool) -> Tensor:
        """The bound on log p(Y | X, W), [].

        Args:
            Phi: features of the rows, [N, R].
            step: whether this is an optimisation step, in which the state is updated.
        """

    @abstractmethod
    def decoder(self, features: RandomFourierFeatures, X: Tensor) -> FeatureDecoder:
        """The decoder with the optimal q(h) for draws X of the latent positions, [S, N, Q]."""

    @abstractmethod
    def expected_log_likelihood(self, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y_nd | f_nd) of every cell, f_nd ~ N(mean, variance), [N, D] each."""

    @abstractmethod
    def weights_decoder(
        self,
        features: RandomFourierFeatures,
        mean: Tensor,
        factors: Tensor,
        second: Tensor,
        *,
        exactly: bool,
    ) -> FeatureDecoder:
        """The decoder with q(h_d) = N(mean_d, F_d F_dᵀ).

        Args:
            features: φ.
            mean: [R, D].
            factors: F, [D, R, R].
            second: mean of φφᵀ over the rows, [R, R].
            exactly: whether rows are inferred from E log p(y | f), where that is not closed.
        """

    @abstractmethod
    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """The noise or dispersion, if it is learned."""


class GaussianTerm(FeatureTerm):
    """log N(y_d | 0, ΦΦᵀ + σ_d² I) of the observed cells.

    With missing cells the exact term needs an R × R matrix for every column. If that is too
    expensive and the columns share a noise, missing cells are filled in: under
    q(y_nd) = N(μ_nd, τ_n²), with K = ΦΦᵀ + σ²I, the bound is log N(y_d | 0, K) at the filled-in
    columns, plus ½ log 2π − ½ log (K⁻¹)_nn for every missing cell, at the optimal
    τ_n² = 1/(K⁻¹)_nn. Every step sets μ to φ(x_n)ᵀE h_d, which increases the bound.

    Args:
        problem: the table.
        n_features: R, which decides whether missing cells are filled in.
        shared: one σ² for all columns.
    """

    def __init__(self, problem: FitProblem, *, n_features: int, shared: bool) -> None:
        super().__init__(problem, 0.0)
        self.n_features, self.shared = n_features, shared
        cost = self.Y.numel() * n_features**2
        fills = self.observed is not None and shared and cost > MOST_PRODUCTS
        self.filled = self.Y.clone() if fills else None
        columns = 1 if shared else self.Y.shape[1]
        self.log_noise = nn.Parameter(self.Y.new_full((columns,), math.log(START_NOISE)))

    @property
    def noise(self) -> Tensor:
        """σ² of every column, [D]."""
        return (self.log_noise.exp() + NOISE_FLOOR).expand(self.Y.shape[1])

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """The noise."""
        return [self.log_noise]

    @torch.no_grad()
    def warm_start_from(self, fitted: FeatureDecoder, X: Tensor) -> None:
        """See ``FeatureTerm.warm_start_from``."""
        assert isinstance(fitted, GaussianFeatureDecoder)
        self.log_scale.copy_(fitted.features.scale.log().squeeze())
        noise = fitted.noise[: len(self.log_noise)]
        self.log_noise.copy_((noise - NOISE_FLOOR).clamp_min(NOISE_FLOOR).log())
        if self.filled is not None:
            assert self.observed is not None
            mean = fitted.functions(X.double())[0].to(self.Y)
            self.filled = torch.where(self.observed, self.Y, mean)

    def value(self, sample: FeatureSample) -> Tensor:
        """The bound at a sample of W and X, []; for a complete table by blocks of rows."""
        if self.observed is not None:
            return super().value(sample)
        features = self.features(sample.points, sample.amplitudes)
        return self._complete_bound(
            *feature_sums(features, sample.X, self.row_factor, single=self.mixed)
        )

    def bound(self, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``FeatureTerm.bound``, by the R × R form."""
        if self.filled is not None:
            return self._filled_bound(Phi, self.filled, step=step)
        if self.observed is None:
            return self._complete_bound(Phi.T @ Phi, Phi.T @ self.row_factor)
        omega, kappa = self._weights()
        value, _, _ = weighted_evidence(Phi, omega, kappa, single=self.mixed)
        rest = self.observed * (LOG_2PI + self.noise.log()) + kappa * self.Y
        return value - 0.5 * rest.double().sum()

    def _complete_bound(self, G: Tensor, first: Tensor) -> Tensor:
        """The bound of a complete table from ΦᵀΦ and ΦᵀZ, Z the ``row_factor``."""
        Z = self.row_factor
        squares = self.all_squares if Z is self.Y else self._squares(Z)
        bound = self._collapsed(G, first, squares)[0]
        n_zero = self.Y.shape[1] - Z.shape[1]
        if n_zero:  # Z has D columns in the bound, the last ones 0
            zero = squares.new_zeros(1)
            bound = bound + n_zero * self._collapsed(G, first[:, :1] * 0, zero)[0]
        return bound

    @cached_property
    def all_squares(self) -> Tensor:
        """‖y_d‖² of every column, [D]."""
        return self._squares(self.Y)

    @staticmethod
    def _squares(Y: Tensor) -> Tensor:
        return Y.square().sum(0, dtype=torch.float64)

    def summed_bound(self, G: Tensor, first: Tensor) -> Tensor:
        """The bound of a complete table from ΦᵀΦ [R, R] and ΦᵀY [R, D] of its rows, []."""
        return self._collapsed(G, first, self.all_squares)[0]

    def summed_decoder(
        self, features: RandomFourierFeatures, G: Tensor, first: Tensor
    ) -> FeatureDecoder:
        """``decoder`` of a complete table; arguments as of ``summed_bound``."""
        q = self._collapsed(G, first, self.all_squares)[1]
        second = G.double() / len(self.Y)
        return self._decoder(features, q.weights, q.basis, 1 - q.shrinkage, second)

    def _filled_bound(self, Phi: Tensor, filled: Tensor, *, step: bool) -> Tensor:
        """The bound with missing cells filled in; a step updates their values μ."""
        assert self.observed is not None
        used = filled.clone() if step else filled  # the gradient needs the values before the step
        G, first = Phi.T @ Phi, Phi.T @ used
        value, q = self._collapsed(G, first, used.double().square().sum(0))
        noise = self.noise[0].double()
        # A = ΦᵀΦ + σ²I, and the leverage φ_nᵀA⁻¹φ_n = 1 − σ²(K⁻¹)_nn of each row
        A = G.double() + noise * torch.eye(len(G)).to(noise)
        L, _ = cholesky(A, "The features of the rows", exact=True)
        leverage = solve_lower(L, Phi.double().T).square().sum(0)
        missing = (~self.observed).sum(1)
        # log 2π − log (K⁻¹)_nn
        rest = LOG_2PI - (((1 - leverage).clamp_min(1e-12)) / noise).log()
        if step:
            with torch.no_grad():
                torch.matmul(Phi, q.weights.to(Phi), out=filled)
                torch.where(self.observed, self.Y, filled, out=filled)
        return value + 0.5 * (missing * rest).sum()

    @property
    def final_draws(self) -> int:
        """See ``FeatureTerm.final_draws``; fewer with missing cells filled in."""
        return FINAL_DRAWS if self.filled is None else FINAL_DRAWS // 4

    def with_problem(self, problem: FitProblem) -> GaussianTerm:
        """A term of other cells with a copy of the current parameters."""
        term = GaussianTerm(problem, n_features=self.n_features, shared=self.shared)
        term.load_state_dict(self.state_dict())
        term.fill_from(self)
        return term

    def fill_from(self, other: GaussianTerm) -> None:
        """Initialise missing cells as filled in by another fit, unless they are observed here."""
        if self.filled is not None and other.filled is not None and other.observed is not None:
            both = torch.where(other.observed, self.Y, other.filled)
            self.filled.copy_(both)

    def state(self) -> list[Tensor]:
        """The table with missing cells filled in."""
        return [] if self.filled is None else [self.filled]

    def _weights(self) -> tuple[Tensor, Tensor]:
        """1/σ_d² and y/σ_d² of the observed cells, 0 elsewhere, [N, D] each."""
        assert self.observed is not None
        omega = self.observed / self.noise
        return omega, omega * self.Y

    def expected_log_likelihood(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``FeatureTerm.expected_log_likelihood``."""
        square = (self.Y - mean).square() + variance
        return -0.5 * (LOG_2PI + self.noise.log() + square / self.noise)

    @cached_property
    def row_factor(self) -> Tensor:
        """Z with Z Zᵀ = Y Yᵀ and at most N columns: a bound with shared noise depends on Y Yᵀ."""
        if not self.shared or self.observed is not None or self.Y.shape[1] <= len(self.Y):
            return self.Y
        values, vectors = torch.linalg.eigh(self.Y.double() @ self.Y.double().T)
        root: Tensor = vectors * values.clamp_min(0).sqrt()
        return root.to(self.Y)

    def _collapsed(
        self, G: Tensor, first: Tensor, squares: Tensor
    ) -> tuple[Tensor, OptimalInducing]:
        """The bound of columns with Φᵀy = ``first`` and ‖y‖² = ``squares``, and q(h) of each."""
        sums = PsiSums(G.diagonal().sum(), first, G)
        eye = torch.eye(len(G), dtype=torch.float64, device=G.device)
        noise = self.noise[:1].expand(len(squares)) if len(self.log_noise) == 1 else self.noise
        return collapsed_bound(sums, eye, noise, squares, len(self.Y))

    @torch.no_grad()
    def decoder(self, features: RandomFourierFeatures, X: Tensor) -> FeatureDecoder:
        """See ``FeatureTerm.decoder``; for a complete table by blocks of rows."""
        if self.observed is None:
            return self.summed_decoder(features, *averaged_feature_sums(features, X, self.Y))
        parts = list(features(X))
        G = sum((P.T @ P for P in parts), self.Y.new_zeros(())) / len(parts)
        mean, basis = column_posteriors(parts, *self._weights())
        second = G.double() / len(self.Y)
        return self.weights_decoder(features, mean, basis, second, exactly=True)

    def weights_decoder(
        self,
        features: RandomFourierFeatures,
        mean: Tensor,
        factors: Tensor,
        second: Tensor,
        *,
        exactly: bool,
    ) -> FeatureDecoder:
        """See ``FeatureTerm.weights_decoder``; E log p(y | f) is closed."""
        del exactly
        return self._decoder(features, mean, factors, torch.ones_like(mean), second)

    def _decoder(
        self,
        features: RandomFourierFeatures,
        mean: Tensor,
        basis: Tensor,
        spread: Tensor,
        second: Tensor,
    ) -> FeatureDecoder:
        noise = self.noise.double()
        weights = pooled_moments(mean, basis, spread, 1 / noise, second)
        return GaussianFeatureDecoder(features.to(noise), weights.to(noise), noise)
