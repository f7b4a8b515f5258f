"""The counts' part in a fit by random features: the logistic family, and Poisson."""

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
from lvmcore.random_features.gaussian_term import FINAL_PLACES, ColumnTerm
from lvmcore.random_features.weight_posterior import column_posteriors, weighted_evidence
from lvmcore.training.batches import Batches

__all__ = ["LARGE_COUNTS", "CountTerm", "LargeCountTerm", "LogisticTerm", "PoissonTerm"]

# Prior sd of a column's own level.
OFFSET = 5.0
# Rounds in which what stands for the counts settles for draws that are not a step's own.
SETTLING = 3
# Mean count from which on a negative binomial goes by sites.
LARGE_COUNTS = 50.0
# How far sites go to where they would be best.
SITE_STEP = 0.5
# Products N × D × R² that a step takes at most, and columns that it takes at least.
MOST_PRODUCTS = 5e8
FEWEST_COLUMNS = 16

#: Some columns: their positions, or all.
Columns = Tensor | slice
ALL = slice(None)


class CountTerm(ColumnTerm):
    """What counts share: a level of their own, and the q(h) that they end with.

    Given X and W the bound is a sum over columns, each with an R × R matrix of its own. Where all
    of them cost too much, a step takes B columns, scaled by D/B: an unbiased estimate of the bound
    and of its gradient. What stands for the counts of the others stays as it was.

    Args:
        problem: what is fitted; the columns in their own units.
        n_features: R, which decides how many columns a step takes.
    """

    def __init__(self, problem: FitProblem, n_features: int) -> None:
        super().__init__(problem, OFFSET)
        D = self.Y.shape[1]
        share = MOST_PRODUCTS / (self.Y.numel() * n_features**2)
        size = D if share >= 1 else max(FEWEST_COLUMNS, math.ceil(share * D))
        self.batches = Batches(D, size, problem.generator)

    # Whether rows are placed by the likelihood's own average, not by a bound on it.
    exactly = False

    @property
    def at_a_time(self) -> int:
        """See ``ColumnTerm.at_a_time``."""
        return self.batches.size

    @property
    def places(self) -> int:
        """Fewer where a step does not take all columns."""
        return FINAL_PLACES if self.batches.whole else FINAL_PLACES // 4

    def bound(self, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``ColumnTerm.bound``; of a step, by some of the columns where all cost too much."""
        if not step or self.batches.whole:
            return self.bound_of(ALL, Phi, step=step)
        columns = self.batches.next().to(Phi.device)
        return self.Y.shape[1] / len(columns) * self.bound_of(columns, Phi, step=True)

    def state(self) -> list[Tensor]:
        """What stands for the counts, and where the order of the columns is."""
        return [*self.sites_state(), *self.batches.buffers()]

    @torch.no_grad()
    def warm_start_from(self, fitted: FeatureDecoder, X: Tensor) -> None:
        """See ``ColumnTerm.begin_from``."""
        assert isinstance(fitted, CountFeatureDecoder)
        self.log_scale.copy_(fitted.features.scale.log().squeeze())
        for log_size in self.frozen_in_warm_up():
            log_size.copy_(unbounded_log_size(fitted.family.size))
        self.stand_for(*(part.to(self.Y) for part in fitted.functions(X.double())))

    @abstractmethod
    def stand_for(self, mean: Tensor, variance: Tensor) -> None:
        """Begin with what stands for the counts best where ψ ~ N(mean, variance), [N, D] each."""

    @abstractmethod
    def bound_of(self, columns: Columns, Phi: Tensor, *, step: bool) -> Tensor:
        """What some columns add to ``bound``."""

    @abstractmethod
    def sites_state(self) -> list[Tensor]:
        """What stands for the counts and follows the steps, [N, D] each."""

    def masked(self, cells: Tensor, columns: Columns = ALL) -> Tensor:
        """Cells [N, B] of some columns, 0 where missing."""
        return cells if self.observed is None else cells * self.observed[:, columns]

    def means(self) -> Tensor:
        """Of the observed cells of each column, [D]."""
        if self.observed is None:
            return self.Y.mean(0)
        return self.masked(self.Y).sum(0) / self.observed.sum(0)

    def start_size(self, mean: Tensor) -> Tensor:
        """Ten times r by the columns' moments, mean²/(variance − mean), [D]."""
        away = self.masked((self.Y - mean).square())
        counts = len(away) if self.observed is None else self.observed.sum(0)
        more = (away.sum(0) / counts - mean).clamp_min(1e-3)
        # So large that the noise starts small, as that of numbers does.
        return (10 * mean.square() / more).clamp(0.1, 500.0)

    @abstractmethod
    def sites(self, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        """ω and κ of every cell, settled for some draws of φ(X), [N, R] each."""

    @property
    @abstractmethod
    def family(self) -> CountFamily:
        """The likelihood."""

    @torch.no_grad()
    def decoder(self, features: RandomFourierFeatures, X: Tensor) -> FeatureDecoder:
        """See ``ColumnTerm.decoder``."""
        parts = list(features(X))
        mean, basis = column_posteriors(parts, *self.sites(parts[:SETTLING]))
        second = sum((P.T @ P for P in parts), self.Y.new_zeros(())).double()
        second = second / (len(parts) * len(self.Y))
        weights = pooled_moments(
            mean, basis, torch.ones_like(mean), mean.new_ones(mean.shape[1]), second
        )
        family = self.family.to(mean)
        return CountFeatureDecoder(
            features.to(mean), weights.to(mean), family, exactly=self.exactly
        )


class LogisticTerm(CountTerm):
    """The Pólya–gamma bound of a likelihood of the logistic family, q(h) at its optimum.

    Args:
        problem: what is fitted; the columns in their own units.
        n_features: R.
        kind: the likelihood.
        trials: of the binomial, [D].
    """

    def __init__(
        self, problem: FitProblem, n_features: int, kind: Family, trials: Tensor | None = None
    ) -> None:
        super().__init__(problem, n_features)
        self.kind: Family = kind
        # Trials, which no step changes; the negative binomial learns its r instead.
        self.trials = self.Y.new_ones(self.Y.shape[1]) if trials is None else trials
        size, mean = self.trials, self.means()
        if kind == "negative_binomial":
            size = self.start_size(mean)
        self.log_size = nn.Parameter(size.log(), requires_grad=kind == "negative_binomial")
        # c of every cell, at first that of the column's own level.
        odds = (mean + 0.1) / (size if kind == "negative_binomial" else size + 0.2 - mean)
        self.c = odds.log().abs().expand_as(self.Y).clone()

    @property
    def family(self) -> LogisticLikelihood:
        """The likelihood at the current dispersion."""
        if self.kind != "negative_binomial":
            return LogisticLikelihood(self.kind, self.trials)
        return LogisticLikelihood(self.kind, bounded_size(self.log_size))

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """The dispersion, where it is learned."""
        return [self.log_size] if self.log_size.requires_grad else []

    def sites_state(self) -> list[Tensor]:
        """The Pólya–gamma variables' c."""
        return [self.c]

    @torch.no_grad()
    def stand_for(self, mean: Tensor, variance: Tensor) -> None:
        """See ``CountTerm.stand_for``."""
        self.c = (mean.square() + variance).sqrt()

    def bound_of(self, columns: Columns, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``CountTerm.bound_of``; c is held in the gradient, and follows every step."""
        c, family = self.c[:, columns], self.family.select_columns(columns)
        for _ in range(0 if step else SETTLING):
            c = self._settled(Phi, c, columns)
        value, mean, variance = weighted_evidence(Phi, *self._weights(c, columns))
        Y = self.Y[:, columns]
        rest = family.log_coefficient(Y) + family.trials(Y) * polya_gamma_constant(c)
        if step:
            self.c[:, columns] = (mean.square() + variance).sqrt()
        return value + self.masked(rest, columns).double().sum()

    def _settled(self, Phi: Tensor, c: Tensor, columns: Columns = ALL) -> Tensor:
        with torch.no_grad():
            _, mean, variance = weighted_evidence(Phi, *self._weights(c, columns))
            return (mean.square() + variance).sqrt()

    def _weights(self, c: Tensor, columns: Columns = ALL) -> tuple[Tensor, Tensor]:
        """E ω and κ of the cells that are observed, 0 elsewhere."""
        family, Y = self.family.select_columns(columns), self.Y[:, columns]
        omega, kappa = family.trials(Y) * expected_precision(c), family.kappa(Y)
        return self.masked(omega, columns), self.masked(kappa, columns)

    def sites(self, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        """See ``CountTerm.sites``."""
        c = self.c
        for _ in range(SETTLING):
            squares = torch.zeros_like(c)
            for Phi in parts:
                squares += self._settled(Phi, c).square() / len(parts)
            c = squares.sqrt()
        return self._weights(c)


class SiteTerm(CountTerm):
    """Counts under an explicit q(h), cell by cell exp(κψ − ½ωψ²) times the prior.

    With log Z the normaliser of q(h), the bound is
    Σ_nd [E log p(y | ψ) − κ E ψ + ½ω E ψ²] + log Z, whatever ω and κ are; they are held in the
    gradient, which is exact where they are at their best, and follow every step half the way,
    damped. The final bound and the decoder go by those that are best.

    Args:
        problem: what is fitted; the columns in their own units.
        n_features: R.
    """

    omega: Tensor
    kappa: Tensor

    @abstractmethod
    def best_sites(
        self, columns: Columns, mean: Tensor, variance: Tensor, *, damped: bool
    ) -> tuple[Tensor, Tensor]:
        """ω and κ of some columns that are best where ψ ~ N(mean, variance), [N, B] each.

        ``damped`` ones bend more where a cell is far from its count, for steps that begin there.
        """

    @abstractmethod
    def expected(self, columns: Columns, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(y | ψ) of every cell of some columns, [N, B]."""

    @torch.no_grad()
    def stand_for(self, mean: Tensor, variance: Tensor) -> None:
        """See ``CountTerm.stand_for``."""
        omega, kappa = self.best_sites(ALL, mean, variance, damped=True)
        self.omega, self.kappa = self.masked(omega).clone(), self.masked(kappa).clone()

    def sites_state(self) -> list[Tensor]:
        """ω and κ."""
        return [self.omega, self.kappa]

    def bound_of(self, columns: Columns, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``CountTerm.bound_of``."""
        omega, kappa = self.omega[:, columns].clone(), self.kappa[:, columns].clone()
        for _ in range(0 if step else SETTLING):
            omega, kappa = self._settled([Phi], omega, kappa, columns)
        value, mean, variance = weighted_evidence(Phi, omega, kappa)
        second = mean.square() + variance
        expected = self.masked(self.expected(columns, mean, variance), columns)
        cells = expected - kappa * mean + 0.5 * omega * second
        if step:
            with torch.no_grad():
                best = self.best_sites(columns, mean, variance, damped=True)
                for old, wanted in zip((self.omega, self.kappa), best, strict=True):
                    new = old[:, columns].lerp(self.masked(wanted, columns), SITE_STEP)
                    old[:, columns] = new
        return value + cells.double().sum()

    def sites(self, parts: list[Tensor]) -> tuple[Tensor, Tensor]:
        """See ``CountTerm.sites``."""
        omega, kappa = self.omega, self.kappa
        for _ in range(SETTLING):
            omega, kappa = self._settled(parts, omega, kappa)
        return omega, kappa

    @torch.no_grad()
    def _settled(
        self, parts: list[Tensor], omega: Tensor, kappa: Tensor, columns: Columns = ALL
    ) -> tuple[Tensor, Tensor]:
        """A step of ω and κ for some draws together."""
        best = torch.zeros_like(torch.stack([omega, kappa]))
        for Phi in parts:
            _, mean, variance = weighted_evidence(Phi, omega, kappa)
            found = self.best_sites(columns, mean, variance, damped=False)
            best += torch.stack(found) / len(parts)
        return (
            omega.lerp(self.masked(best[0], columns), SITE_STEP),
            kappa.lerp(self.masked(best[1], columns), SITE_STEP),
        )


class PoissonTerm(SiteTerm):
    """Poisson counts.

    Args:
        problem: what is fitted; the columns in their own units.
        n_features: R.
    """

    def __init__(self, problem: FitProblem, n_features: int) -> None:
        super().__init__(problem, n_features)
        psi = (self.Y + 0.5).log()
        self.stand_for(psi, torch.zeros_like(psi))

    @property
    def family(self) -> PoissonLikelihood:
        """The likelihood."""
        return PoissonLikelihood(self.Y.new_ones(self.Y.shape[1]))

    def frozen_in_warm_up(self) -> list[nn.Parameter]:
        """Nothing."""
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
    """Negative binomial counts so large that Pólya–gamma variables hold ψ in place.

    A count tells of ψ with a precision below r, E ω is about (y + r)/(2ψ): under the mean-field
    bound q(X) and q(h) get far narrower than the posterior, and r small. Sites have the precision
    of the count.

    Args:
        problem: what is fitted; the columns in their own units.
        n_features: R.
    """

    exactly = True

    def __init__(self, problem: FitProblem, n_features: int) -> None:
        super().__init__(problem, n_features)
        self.log_size = nn.Parameter(self.start_size(self.means()).log())
        psi = (self.Y + 0.5).log() - self.log_size.detach()
        self.stand_for(psi, torch.zeros_like(psi))

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
