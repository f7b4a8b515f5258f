"""Terms of count columns in the objective of random features: the logistic family, and Poisson."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.likelihoods.poisson import PoissonLikelihood, poisson_sites
from lvmcore.likelihoods.polya_gamma import (
    Family,
    LogisticLikelihood,
    bounded_size,
    expected_precision,
    polya_gamma_constant,
    unbounded_log_size,
)
from lvmcore.random_features.count_decoder import CountFamily, CountFeatureDecoder
from lvmcore.random_features.decoder import FeatureDecoder, pooled_moments
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.gaussian_term import FINAL_DRAWS, FeatureTerm
from lvmcore.random_features.weight_posterior import column_posteriors, weighted_evidence
from lvmcore.training.batches import Batches

__all__ = ["LARGE_COUNTS", "CountTerm", "LargeCountTerm", "LogisticTerm", "PoissonTerm"]

# Prior sd of a column's level.
OFFSET = 5.0
# Fixed-point rounds of the sites for draws other than those of a step.
SETTLING = 3
# Least mean count for which a negative binomial uses Gaussian sites.
LARGE_COUNTS = 50.0
# Step of the sites towards their optimum, as a share of the distance.
SITE_STEP = 0.5
# Most products N × D × R² in a step, and least number of columns.
MOST_PRODUCTS = 5e8
FEWEST_COLUMNS = 16

#: Some columns: their positions, or all.
Columns = Tensor | slice
ALL = slice(None)


class CountTerm(FeatureTerm):
    """Base class of the terms of counts: a level per column, Gaussian sites, and the final q(h).

    Given X and W the bound is a sum over columns, each with an R × R matrix of its own. If all of
    them are too expensive, a step uses B columns, scaled by D/B: an unbiased estimate of the bound
    and of its gradient. The sites of the other columns are not changed.

    Args:
        problem: the table, in its own units.
        n_features: R, which decides the number of columns in a step.
    """

    def __init__(self, problem: FitProblem, n_features: int) -> None:
        super().__init__(problem, OFFSET)
        D = self.Y.shape[1]
        share = MOST_PRODUCTS / (self.Y.numel() * n_features**2)
        size = D if share >= 1 else max(FEWEST_COLUMNS, math.ceil(share * D))
        self.batches = Batches(D, size, problem.generator)

    # Whether rows are inferred from E log p(y | ψ) itself, not from a bound on it.
    exactly = False

    @property
    def at_a_time(self) -> int:
        """See ``FeatureTerm.at_a_time``."""
        return self.batches.size

    @property
    def final_draws(self) -> int:
        """See ``FeatureTerm.final_draws``; fewer if a step does not use all columns."""
        return FINAL_DRAWS if self.batches.whole else FINAL_DRAWS // 4

    def bound(self, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``FeatureTerm.bound``; a step may estimate it from a batch of columns."""
        if not step or self.batches.whole:
            return self.bound_of(ALL, Phi, step=step)
        columns = self.batches.next().to(Phi.device)
        return self.Y.shape[1] / len(columns) * self.bound_of(columns, Phi, step=True)

    def state(self) -> list[Tensor]:
        """The sites, and the order of the batches of columns."""
        return [*self.sites_state(), *self.batches.buffers()]

    @torch.no_grad()
    def warm_start_from(self, fitted: FeatureDecoder, X: Tensor) -> None:
        """See ``FeatureTerm.warm_start_from``."""
        assert isinstance(fitted, CountFeatureDecoder)
        self.log_scale.copy_(fitted.features.scale.log().squeeze())
        for log_size in self.frozen_in_warm_up():
            log_size.copy_(unbounded_log_size(fitted.family.size))
        self.initialise_sites(*(part.to(self.Y) for part in fitted.functions(X.double())))

    @abstractmethod
    def initialise_sites(self, mean: Tensor, variance: Tensor) -> None:
        """Set the sites to their optimum for ψ ~ N(mean, variance), [N, D] each."""

    @abstractmethod
    def bound_of(self, columns: Columns, Phi: Tensor, *, step: bool) -> Tensor:
        """The part of ``bound`` of some columns."""

    @abstractmethod
    def sites_state(self) -> list[Tensor]:
        """The parameters of the sites, which steps update in place, [N, D] each."""

    def masked(self, cells: Tensor, columns: Columns = ALL) -> Tensor:
        """Cells [N, B] of some columns, 0 where missing."""
        return cells if self.observed is None else cells * self.observed[:, columns]

    def means(self) -> Tensor:
        """Means of the observed cells of each column, [D]."""
        if self.observed is None:
            return self.Y.mean(0)
        return self.masked(self.Y).sum(0) / self.observed.sum(0)

    def initial_size(self, mean: Tensor) -> Tensor:
        """Ten times the moment estimate of r, mean²/(variance − mean), [D]."""
        squares = self.masked((self.Y - mean).square())
        counts = len(squares) if self.observed is None else self.observed.sum(0)
        excess = (squares.sum(0) / counts - mean).clamp_min(1e-3)  # variance − mean
        # A large r gives a small initial noise, as for numeric columns.
        return (10 * mean.square() / excess).clamp(0.1, 500.0)

    @abstractmethod
    def sites(self, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        """ω and κ of every cell after fixed-point rounds at draws of φ(X), [N, R] each."""

    @property
    @abstractmethod
    def family(self) -> CountFamily:
        """The likelihood."""

    @torch.no_grad()
    def decoder(self, features: RandomFourierFeatures, X: Tensor) -> FeatureDecoder:
        """See ``FeatureTerm.decoder``."""
        parts = list(features(X))
        mean, basis = column_posteriors(parts, *self.sites(parts[:SETTLING]))
        second = sum((P.T @ P for P in parts), self.Y.new_zeros(())).double()
        second = second / (len(parts) * len(self.Y))
        return self.weights_decoder(features, mean, basis, second, exactly=self.exactly)

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
        precision = mean.new_ones(mean.shape[1])
        q = pooled_moments(mean, factors, torch.ones_like(mean), precision, second)
        family = self.family.to(mean)
        return CountFeatureDecoder(features.to(mean), q.to(mean), family, exactly=exactly)

    def expected_log_likelihood(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``FeatureTerm.expected_log_likelihood``, by quadrature where it is not closed."""
        return self.family.expected_log_quadrature(self.Y, mean, variance)


class LogisticTerm(CountTerm):
    """The Pólya–gamma bound of a likelihood of the logistic family, q(h) at its optimum.

    Args:
        problem: the table, in its own units.
        n_features: R.
        kind: the likelihood.
        trials: of the binomial, [D].
    """

    def __init__(
        self, problem: FitProblem, n_features: int, kind: Family, trials: Tensor | None = None
    ) -> None:
        super().__init__(problem, n_features)
        self.kind: Family = kind
        # Trials are fixed; the negative binomial has the learned r in their place.
        self.trials = self.Y.new_ones(self.Y.shape[1]) if trials is None else trials
        size, mean = self.trials, self.means()
        if kind == "negative_binomial":
            size = self.initial_size(mean)
        self.log_size = nn.Parameter(size.log(), requires_grad=kind == "negative_binomial")
        # c of every cell, initially |log-odds| of the column's mean.
        odds = (mean + 0.1) / (size if kind == "negative_binomial" else size + 0.2 - mean)
        self.c = odds.log().abs().expand_as(self.Y).clone()

    @property
    def family(self) -> LogisticLikelihood:
        """The likelihood at the current dispersion."""
        if self.kind != "negative_binomial":
            return LogisticLikelihood(self.kind, self.trials)
        return LogisticLikelihood(self.kind, bounded_size(self.log_size))

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """The dispersion, if it is learned."""
        return [self.log_size] if self.log_size.requires_grad else []

    def sites_state(self) -> list[Tensor]:
        """The Pólya–gamma variables' c."""
        return [self.c]

    @torch.no_grad()
    def initialise_sites(self, mean: Tensor, variance: Tensor) -> None:
        """See ``CountTerm.initialise_sites``."""
        self.c = (mean.square() + variance).sqrt()

    def bound_of(self, columns: Columns, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``CountTerm.bound_of``; c is constant in the gradient, and updated at every step."""
        c, family = self.c[:, columns], self.family.select_columns(columns)
        for _ in range(0 if step else SETTLING):
            c = self._updated_c(Phi, c, columns)
        weights = self._weights(c, columns)
        value, mean, variance = weighted_evidence(Phi, *weights, single=self.mixed)
        Y = self.Y[:, columns]
        rest = family.log_coefficient(Y) + family.trials(Y) * polya_gamma_constant(c)
        if step:
            self.c[:, columns] = (mean.square() + variance).sqrt()
        return value + self.masked(rest, columns).double().sum()

    def _updated_c(self, Phi: Tensor, c: Tensor, columns: Columns = ALL) -> Tensor:
        """c = √E ψ² under the q(h) that is optimal for the given c, [N, B]."""
        with torch.no_grad():
            weights = self._weights(c, columns)
            _, mean, variance = weighted_evidence(Phi, *weights, single=self.mixed)
            return (mean.square() + variance).sqrt()

    def _weights(self, c: Tensor, columns: Columns = ALL) -> tuple[Tensor, Tensor]:
        """E ω and κ of the observed cells, 0 elsewhere, [N, B] each."""
        family, Y = self.family.select_columns(columns), self.Y[:, columns]
        omega, kappa = family.trials(Y) * expected_precision(c), family.kappa(Y)
        return self.masked(omega, columns), self.masked(kappa, columns)

    def sites(self, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        """See ``CountTerm.sites``."""
        c = self.c
        for _ in range(SETTLING):
            squares = torch.zeros_like(c)
            for Phi in parts:
                squares += self._updated_c(Phi, c).square() / len(parts)
            c = squares.sqrt()
        return self._weights(c)


class SiteTerm(CountTerm):
    """Counts with Gaussian sites: q(h) is the prior times exp(κψ − ½ωψ²) of every cell.

    With log Z the normaliser of q(h), the bound is
    Σ_nd [E log p(y | ψ) − κ E ψ + ½ω E ψ²] + log Z for any ω and κ. They are constant in the
    gradient, which is exact at their optimum, and every step moves them half the way to a damped
    optimum. The final bound and the decoder use the optimum itself.

    Args:
        problem: the table, in its own units.
        n_features: R.
    """

    omega: Tensor
    kappa: Tensor

    @abstractmethod
    def best_sites(
        self, columns: Columns, mean: Tensor, variance: Tensor, *, damped: bool
    ) -> tuple[Tensor, Tensor]:
        """Optimal ω and κ of some columns for ψ ~ N(mean, variance), [N, B] each.

        With ``damped``, ω is larger where ψ is far from its count, for stable first steps.
        """

    @abstractmethod
    def expected(self, columns: Columns, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | ψ) of every cell of some columns, [N, B]."""

    @torch.no_grad()
    def initialise_sites(self, mean: Tensor, variance: Tensor) -> None:
        """See ``CountTerm.initialise_sites``."""
        omega, kappa = self.best_sites(ALL, mean, variance, damped=True)
        self.omega, self.kappa = self.masked(omega).clone(), self.masked(kappa).clone()

    def sites_state(self) -> list[Tensor]:
        """ω and κ."""
        return [self.omega, self.kappa]

    def bound_of(self, columns: Columns, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``CountTerm.bound_of``."""
        omega, kappa = self.omega[:, columns].clone(), self.kappa[:, columns].clone()
        for _ in range(0 if step else SETTLING):
            omega, kappa = self._updated_sites([Phi], omega, kappa, columns)
        value, mean, variance = weighted_evidence(Phi, omega, kappa, single=self.mixed)
        second = mean.square() + variance
        expected = self.masked(self.expected(columns, mean, variance), columns)
        cells = expected - kappa * mean + 0.5 * omega * second
        if step:
            with torch.no_grad():
                best = self.best_sites(columns, mean, variance, damped=True)
                for old, optimum in zip((self.omega, self.kappa), best, strict=True):
                    new = old[:, columns].lerp(self.masked(optimum, columns), SITE_STEP)
                    old[:, columns] = new
        return value + cells.double().sum()

    def sites(self, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        """See ``CountTerm.sites``."""
        omega, kappa = self.omega, self.kappa
        for _ in range(SETTLING):
            omega, kappa = self._updated_sites(parts, omega, kappa)
        return omega, kappa

    @torch.no_grad()
    def _updated_sites(
        self, parts: list[Tensor], omega: Tensor, kappa: Tensor, columns: Columns = ALL
    ) -> tuple[Tensor, Tensor]:
        """ω and κ after a step towards their optimum, averaged over draws of φ(X), [N, B] each."""
        best = torch.zeros_like(torch.stack([omega, kappa]))
        for Phi in parts:
            _, mean, variance = weighted_evidence(Phi, omega, kappa, single=self.mixed)
            found = self.best_sites(columns, mean, variance, damped=False)
            best += torch.stack(found) / len(parts)
        return (
            omega.lerp(self.masked(best[0], columns), SITE_STEP),
            kappa.lerp(self.masked(best[1], columns), SITE_STEP),
        )


class PoissonTerm(SiteTerm):
    """Poisson counts.

    Args:
        problem: the table, in its own units.
        n_features: R.
    """

    def __init__(self, problem: FitProblem, n_features: int) -> None:
        super().__init__(problem, n_features)
        psi = (self.Y + 0.5).log()
        self.initialise_sites(psi, torch.zeros_like(psi))

    @property
    def family(self) -> PoissonLikelihood:
        """The likelihood."""
        return PoissonLikelihood(self.Y.new_ones(self.Y.shape[1]))

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """No parameters."""
        return []

    def best_sites(
        self, columns: Columns, mean: Tensor, variance: Tensor, *, damped: bool
    ) -> tuple[Tensor, Tensor]:
        """See ``SiteTerm.best_sites``."""
        return poisson_sites(self.Y[:, columns], mean, variance, damped=damped)

    def expected(self, columns: Columns, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``SiteTerm.expected``."""
        return self.family.select_columns(columns).expected_log(self.Y[:, columns], mean, variance)


class LargeCountTerm(SiteTerm):
    """Negative binomial counts so large that the Pólya–gamma bound is too loose.

    The Fisher information of a count about ψ is below r, while E ω is about (y + r)/(2ψ): under the
    mean-field Pólya–gamma bound q(X) and q(h) are far narrower than the posterior, and r is small.
    Gaussian sites have the curvature of the count itself.

    Args:
        problem: the table, in its own units.
        n_features: R.
    """

    exactly = True

    def __init__(self, problem: FitProblem, n_features: int) -> None:
        super().__init__(problem, n_features)
        self.log_size = nn.Parameter(self.initial_size(self.means()).log())
        psi = (self.Y + 0.5).log() - self.log_size.detach()
        self.initialise_sites(psi, torch.zeros_like(psi))

    @property
    def family(self) -> LogisticLikelihood:
        """The likelihood at the current dispersion."""
        return LogisticLikelihood("negative_binomial", bounded_size(self.log_size))

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """The dispersion."""
        return [self.log_size]

    def best_sites(
        self, columns: Columns, mean: Tensor, variance: Tensor, *, damped: bool
    ) -> tuple[Tensor, Tensor]:
        """See ``SiteTerm.best_sites``."""
        family = self.family.select_columns(columns)
        return family.sites(self.Y[:, columns], mean, variance, damped=damped)

    def expected(self, columns: Columns, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``SiteTerm.expected``."""
        Y, family = self.Y[:, columns].double(), self.family.select_columns(columns)
        return family.expected_log_quadrature(Y, mean.double(), variance.double())
