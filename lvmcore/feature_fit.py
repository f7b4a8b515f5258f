"""The objective of a fit by random features, and the columns' part in it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from lvmcore.base import Problem
from lvmcore.feature_decoding import FeatureDecoder, GaussianFeatures, LogisticFeatures, pooled
from lvmcore.features import Features
from lvmcore.gplvm import START_NOISE, snapshot_of
from lvmcore.layers import NOISE_FLOOR, LatentRows
from lvmcore.linalg import cholesky, solve_lower
from lvmcore.logistic import (
    Family,
    LogisticFamily,
    below_largest,
    expected_precision,
    polya_gamma_rest,
)
from lvmcore.psi import PsiSums
from lvmcore.results import Snapshot
from lvmcore.spectral import Spectrum
from lvmcore.variational import LOG_2PI, OptimalInducing, collapsed_bound
from lvmcore.weighted import column_posteriors, weighted_evidence

__all__ = ["ColumnTerm", "FeatureFit", "FullRows", "GaussianTerm", "LogisticTerm"]

# Prior sd of a count column's own level.
OFFSET = 5.0
# Rounds in which the Pólya–gamma variables settle for draws that are not a step's own.
SETTLING = 3
# Draws of the rows' places that the final q(h) averages over.
FINAL_PLACES = 16
# Products N × D × R² in a step beyond which missing cells are filled.
MOST_PRODUCTS = 2e8


class ColumnTerm(nn.Module, ABC):
    """What the columns add to the bound, h integrated out.

    Args:
        problem: what is fitted.
        offset: the last feature; 0 for none.
    """

    def __init__(self, problem: Problem, offset: float) -> None:
        super().__init__()
        self.Y, self.observed = problem.Y, problem.observed
        self.offset = offset
        self.log_scale = nn.Parameter(self.Y.new_zeros(()))

    def features(self, points: Tensor) -> Features:
        """φ at the current scale."""
        return Features(points, self.log_scale.exp(), self.offset)

    @property
    def count(self) -> int:
        """How many cells the bound sums over."""
        return self.Y.numel() if self.observed is None else int(self.observed.sum())

    def state(self) -> list[Tensor]:
        """What a step changes in place."""
        return []

    @property
    def places(self) -> int:
        """Draws of the rows' places that the final q(h) is the optimum for."""
        return FINAL_PLACES

    @abstractmethod
    def bound(self, Phi: Tensor, *, step: bool) -> Tensor:
        """The bound on log p(Y | X, W), [].

        Args:
            Phi: features of the rows, [N, R].
            step: one of the fit's, which the state follows.
        """

    @abstractmethod
    def decoder(self, features: Features, parts: list[Tensor]) -> FeatureDecoder:
        """What is left once q(h) is at its optimum for several draws of φ(X), [N, R] each."""

    @abstractmethod
    def held(self) -> list[nn.Parameter]:
        """What stays as it is for the first steps."""


class GaussianTerm(ColumnTerm):
    """log N(y_d | 0, ΦΦᵀ + σ_d² I), cells that are missing left out.

    Left out exactly they cost an R × R matrix for every column. Where that is too much, and the
    columns share a noise, they are filled: under q(y_nd) = N(μ_nd, τ_n²), with K = ΦΦᵀ + σ²I, the
    bound is log N(y_d | 0, K) at the filled columns, and ½ log 2π − ½ log (K⁻¹)_nn more for every
    missing cell, at the best τ_n², 1/(K⁻¹)_nn. μ follows every step to φ(x_n)ᵀE h_d, which raises
    the bound.

    Args:
        problem: what is fitted.
        n_features: R, which decides whether missing cells are filled.
        shared: one σ² for all columns.
    """

    def __init__(self, problem: Problem, *, n_features: int, shared: bool) -> None:
        super().__init__(problem, 0.0)
        self.outer = self._outer() if shared else self.Y
        self.squares = self.outer.double().square().sum(0)
        cost = self.Y.numel() * n_features**2
        fills = self.observed is not None and shared and cost > MOST_PRODUCTS
        self.filled = self.Y.clone() if fills else None
        columns = 1 if shared else self.Y.shape[1]
        self.log_noise = nn.Parameter(self.Y.new_full((columns,), math.log(START_NOISE)))

    @property
    def noise(self) -> Tensor:
        """σ² of every column, [D]."""
        return (self.log_noise.exp() + NOISE_FLOOR).expand(self.Y.shape[1])

    def held(self) -> list[nn.Parameter]:
        """The noise."""
        return [self.log_noise]

    def bound(self, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``ColumnTerm.bound``, by the R × R form."""
        if self.filled is not None:
            return self._filled_bound(Phi, self.filled, step=step)
        if self.observed is None:
            G, first = Phi.T @ Phi, Phi.T @ self.outer
            bound: Tensor = self._collapsed(G, first, self.squares)[0]
            left_out = self.Y.shape[1] - self.outer.shape[1]
            if left_out:  # each of them as a column of zeros
                none = self.squares.new_zeros(1)
                bound = bound + left_out * self._collapsed(G, first[:, :1] * 0, none)[0]
            return bound
        omega, kappa = self._weights()
        value, _, _ = weighted_evidence(Phi, omega, kappa)
        rest = self.observed * (LOG_2PI + self.noise.log()) + kappa * self.Y
        return value - 0.5 * rest.double().sum()

    def _filled_bound(self, Phi: Tensor, filled: Tensor, *, step: bool) -> Tensor:
        """The bound with missing cells filled; a step moves what they are filled with."""
        assert self.observed is not None
        used = filled.clone() if step else filled  # kept for the gradient
        G, first = Phi.T @ Phi, Phi.T @ used
        value, q = self._collapsed(G, first, used.double().square().sum(0))
        noise = self.noise[0].double()
        A = G.double() + noise * torch.eye(len(G)).to(noise)
        L, _ = cholesky(A, "The features of the rows", exact=True)
        leverage = solve_lower(L, Phi.double().T).square().sum(0)
        missing = (~self.observed).sum(1)
        rest = LOG_2PI - (((1 - leverage).clamp_min(1e-12)) / noise).log()
        if step:
            with torch.no_grad():
                filled.copy_(torch.where(self.observed, self.Y, Phi @ q.weights.to(Phi)))
        return value + 0.5 * (missing * rest).sum()

    @property
    def places(self) -> int:
        """Fewer where every column has a matrix of its own."""
        return FINAL_PLACES if self.filled is None else FINAL_PLACES // 4

    def fill_from(self, other: GaussianTerm) -> None:
        """Begin with what another fit's missing cells are filled with; its others are forgotten."""
        if self.filled is not None and other.filled is not None and other.observed is not None:
            both = torch.where(other.observed, self.Y, other.filled)
            self.filled.copy_(both)

    def state(self) -> list[Tensor]:
        """What missing cells are filled with."""
        return [] if self.filled is None else [self.filled]

    def _weights(self) -> tuple[Tensor, Tensor]:
        """1/σ_d² and y/σ_d² of the cells that are observed, 0 elsewhere."""
        assert self.observed is not None
        omega = self.observed / self.noise
        return omega, omega * self.Y

    def _outer(self) -> Tensor:
        """Z with Z Zᵀ = Y Yᵀ and no more columns than rows: one noise for all sees no more of Y."""
        if self.observed is not None or self.Y.shape[1] <= len(self.Y):
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
    def decoder(self, features: Features, parts: list[Tensor]) -> FeatureDecoder:
        """See ``ColumnTerm.decoder``."""
        second = sum((P.T @ P for P in parts), self.Y.new_zeros(())).double()
        second = second / (len(parts) * len(self.Y))
        noise = self.noise.double()
        if self.observed is None:
            G = sum((P.T @ P for P in parts), self.Y.new_zeros(())) / len(parts)
            first = sum((P.T @ self.Y for P in parts), self.Y.new_zeros(())) / len(parts)
            q = self._collapsed(G, first, self.Y.double().square().sum(0))[1]
            mean, basis, spread = q.weights, q.basis, 1 - q.shrinkage
        else:
            mean, basis = column_posteriors(parts, *self._weights())
            spread = torch.ones_like(mean)
        weights = pooled(mean, basis, spread, 1 / noise, second)
        return GaussianFeatures(features.to(noise), weights.to(noise), noise)


class LogisticTerm(ColumnTerm):
    """The Pólya–gamma bound of a likelihood of the logistic family, q(h) at its optimum.

    Args:
        problem: what is fitted; the columns in their own units.
        kind: the likelihood.
        trials: of the binomial, [D].
    """

    def __init__(self, problem: Problem, kind: Family, trials: Tensor | None = None) -> None:
        super().__init__(problem, OFFSET)
        self.kind: Family = kind
        size = self.Y.new_ones(self.Y.shape[1]) if trials is None else trials
        mean = self._means()
        if kind == "negative_binomial":
            size = self._start_size(mean)
        self.log_size = nn.Parameter(size.log(), requires_grad=kind == "negative_binomial")
        # c of every cell, at first that of the column's own level.
        odds = (mean + 0.1) / (size if kind == "negative_binomial" else size + 0.2 - mean)
        self.c = odds.log().abs().expand_as(self.Y).clone()

    @property
    def family(self) -> LogisticFamily:
        """The likelihood at the current dispersion."""
        if self.kind != "negative_binomial":
            return LogisticFamily(self.kind, self.log_size.exp().round())
        return LogisticFamily(self.kind, below_largest(self.log_size))

    def held(self) -> list[nn.Parameter]:
        """The dispersion, where it is learned."""
        return [self.log_size] if self.log_size.requires_grad else []

    def state(self) -> list[Tensor]:
        """The Pólya–gamma variables' c."""
        return [self.c]

    def bound(self, Phi: Tensor, *, step: bool) -> Tensor:
        """See ``ColumnTerm.bound``; c is held in the gradient, and follows every step."""
        c = self.c
        for _ in range(0 if step else SETTLING):
            c = self._settled(Phi, c)
        value, mean, variance = weighted_evidence(Phi, *self._weights(c))
        family = self.family
        rest = family.log_coefficient(self.Y) + family.total(self.Y) * polya_gamma_rest(c)
        if self.observed is not None:
            rest = rest * self.observed
        if step:
            self.c.copy_((mean.square() + variance).sqrt())
        return value + rest.double().sum()

    def _settled(self, Phi: Tensor, c: Tensor) -> Tensor:
        with torch.no_grad():
            _, mean, variance = weighted_evidence(Phi, *self._weights(c))
            return (mean.square() + variance).sqrt()

    def _weights(self, c: Tensor) -> tuple[Tensor, Tensor]:
        """E ω and κ of the cells that are observed, 0 elsewhere."""
        family = self.family
        omega, kappa = family.total(self.Y) * expected_precision(c), family.kappa(self.Y)
        if self.observed is None:
            return omega, kappa
        return omega * self.observed, kappa * self.observed

    @torch.no_grad()
    def decoder(self, features: Features, parts: list[Tensor]) -> FeatureDecoder:
        """See ``ColumnTerm.decoder``; ω settles for the draws together."""
        c = self.c
        for _ in range(SETTLING):
            squares = torch.zeros_like(c)
            for Phi in parts[:SETTLING]:
                squares += self._settled(Phi, c).square() / len(parts[:SETTLING])
            c = squares.sqrt()
        omega, kappa = self._weights(c)
        mean, basis = column_posteriors(parts, omega, kappa)
        second = sum((P.T @ P for P in parts), self.Y.new_zeros(())).double()
        second = second / (len(parts) * len(self.Y))
        weights = pooled(mean, basis, torch.ones_like(mean), mean.new_ones(mean.shape[1]), second)
        return LogisticFeatures(features.to(mean), weights.to(mean), self.family.to(mean))

    def _means(self) -> Tensor:
        """Of the observed cells of each column, [D]."""
        if self.observed is None:
            return self.Y.mean(0)
        return (self.Y * self.observed).sum(0) / self.observed.sum(0)

    def _start_size(self, mean: Tensor) -> Tensor:
        """r by the columns' moments: mean²/(variance − mean)."""
        away = (self.Y - mean).square()
        if self.observed is not None:
            away = away * self.observed
            variance = away.sum(0) / self.observed.sum(0)
        else:
            variance = away.mean(0)
        return (10 * mean.square() / (variance - mean).clamp_min(1e-3)).clamp(0.1, 500.0)


class FullRows(LatentRows):
    """q(X) = ∏_n N(mean_n, L_n L_nᵀ): a full covariance a row, L_n lower-triangular.

    Args:
        mean: where it starts, [N, Q].
        variance: of every dimension at the start.
    """

    def __init__(self, mean: Tensor, variance: float) -> None:
        super().__init__(mean, variance)
        N, Q = mean.shape
        self.below = nn.Parameter(mean.new_zeros(N, Q * (Q - 1) // 2))

    @property
    def factor(self) -> Tensor:
        """L, [N, Q, Q]."""
        Q = self.mean.shape[1]
        i, j = torch.tril_indices(Q, Q, -1, device=self.mean.device)
        L = torch.diag_embed((0.5 * self.log_variance).exp())
        L[:, i, j] = self.below
        return L

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariances, [N, Q]."""
        return self.factor.square().sum(-1)

    def kl(self) -> Tensor:
        """KL(q(X) ‖ N(0, I)), []."""
        square = self.log_variance.exp().sum() + self.below.square().sum()
        return 0.5 * (
            square + self.mean.square().sum() - self.log_variance.sum() - self.mean.numel()
        )

    def draw(self, samples: int, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Reparameterised samples of ``rows``, [samples, n, Q]."""
        mean = self.mean[rows]
        noise = torch.randn((samples, *mean.shape), generator=generator, dtype=torch.float64)
        drawn: Tensor = mean + (self.factor[rows] @ noise.to(mean)[..., None])[..., 0]
        return drawn


class FeatureFit:
    """The objective: the columns' bound less the divergences of the map and of the spectrum.

    Args:
        rows: q(X).
        spectrum: q of the spectral points and of their mixture.
        columns: the columns' part.
        generator: draws the places.
    """

    def __init__(
        self,
        rows: LatentRows,
        spectrum: Spectrum,
        columns: ColumnTerm,
        generator: torch.Generator,
    ) -> None:
        self.rows, self.spectrum, self.columns = rows, spectrum, columns
        self.generator = generator
        self.all = torch.arange(len(rows.mean))

    def parameters(self) -> Iterable[nn.Parameter]:
        """All that the gradient moves."""
        modules = (self.rows, self.spectrum, self.columns)
        return [p for module in modules for p in module.parameters() if p.requires_grad]

    def held(self) -> Iterable[nn.Parameter]:
        """See ``ColumnTerm.held``."""
        return self.columns.held()

    def state(self) -> Iterable[Tensor]:
        """What the updates in closed form change, and c of the Pólya–gamma variables."""
        return [*self.spectrum.tensors(), *self.columns.state()]

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms of one step: updates in closed form, then one draw of W and X."""
        self.spectrum.update()
        return self._terms(self.spectrum.draw(), step=True)

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of the bound, averaged over new draws."""
        parts = [self._terms(self.spectrum.draw(), step=False) for _ in range(draws)]
        return {name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}

    @torch.no_grad()
    def fresh_bound(self, draws: int) -> float:
        """The bound over spectral points that the fit has not seen."""
        parts = [self._terms(self.spectrum.fresh(), step=False) for _ in range(draws)]
        return math.fsum(float(term) for part in parts for term in part.values()) / draws

    def _terms(self, points: Tensor, *, step: bool) -> dict[str, Tensor]:
        X = self.rows.draw(1, self.all, self.generator)[0]
        Phi = self.columns.features(points)(X)
        return {
            "data fit": self.columns.bound(Phi, step=step),
            "KL of the map": -self.rows.kl(),
            "KL of the spectrum": -self.spectrum.kl(),
        }

    def snapshot(self) -> Snapshot:
        """The map as it stands."""
        return snapshot_of(self.rows.mean, {"data": self.relevance})

    @property
    def relevance(self) -> Tensor:
        """α_q = mean of w_lq², which is 1/ℓ_q² of an RBF kernel, [Q]."""
        with torch.no_grad():
            return self.spectrum.points().square().mean(0)

    @torch.no_grad()
    def decoder(self) -> FeatureDecoder:
        """The columns at the fit's own spectral points, q(h) at its optimum under q(X)."""
        features = self.columns.features(self.spectrum.points())
        X = self.rows.draw(self.columns.places, self.all, self.generator)
        return self.columns.decoder(features, list(features(X)))
