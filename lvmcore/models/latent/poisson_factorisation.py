"""Hierarchical Poisson factorisation (HPF) of a table of counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaincinv
from scipy.stats import qmc
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.latent_variable_model import Capabilities, FitProblem, LatentVariableModel
from lvmcore.base.settings import Components
from lvmcore.base.validation import require_labels
from lvmcore.classical.poisson_factorisation import (
    CountTable,
    GammaPrior,
    GammaWeights,
    counts_bound,
    infer_weights,
)
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, Doc, Range
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.results import Posterior
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.snapshots import snapshot_of
from lvmcore.training.sweep_history import SweepHistory

__all__ = ["HierarchicalPoissonFactorisation"]


# Random starts, of which the one with the largest bound after a few sweeps goes on: the bound has
# several optima.
STARTS, START_SWEEPS = 4, 20
# Sweeps before the priors are learned: from the random start they would be those of the start.
FIXED_SWEEPS = 5
# Shapes of the priors at the start, and in the experiments of the paper.
START_PRIOR = 0.3
# Inference of a row: largest change of a mean over their sum; most rounds.
TOLERANCE, MOST_ROUNDS = 1e-9, 5000
# Draws of a row's density, and the factor of the variance of their distribution.
DRAWS, WIDER = 128, 2.0
# Least mean of a count in a log density.
LEAST_MEAN = 1e-12
# Shape of a Gamma mean above which it is taken for certain; largest mean of a sampled count.
MOST_SHAPE, MOST_COUNT = 1e12, 1e9


@dataclass(frozen=True)
class _State:
    """q of both sides, with their priors."""

    rows: GammaWeights
    columns: GammaWeights
    row_prior: GammaPrior
    column_prior: GammaPrior

    def sweep(self, table: CountTable, *, learn: bool) -> _State:
        """One round of coordinate ascent; with ``learn`` the priors are updated too."""
        rows = self.rows.update(table, self.columns, self.row_prior)
        columns = self.columns.update(table.transposed, rows, self.column_prior)
        found = replace(self, rows=rows, columns=columns)
        if not learn:
            return found
        return replace(found, row_prior=rows.best_prior(), column_prior=columns.best_prior())

    def bound(self, table: CountTable) -> float:
        """The bound on the log probability of the observed counts, nats."""
        cells = counts_bound(table, self.rows, self.columns).sum()
        rows, columns = (
            side.divergence(prior).sum()
            for side, prior in (
                (self.rows, self.row_prior),
                (self.columns, self.column_prior),
            )
        )
        return float(cells - rows - columns)

    def factor_shares(self, table: CountTable) -> Tensor:
        """Share of each factor of all expected counts, [Q]."""
        counts = (self.rows.mean * table.exposure(self.columns.mean)).sum(0)
        return counts / counts.sum()

    def in_order(self, table: CountTable) -> _State:
        """With the factors by decreasing share, and the scale of the class's description."""
        order = self.factor_shares(table).argsort(descending=True, stable=True)
        scale = float(self.columns.mean.sum(0).mean())
        rows, columns = (
            replace(side, shape=side.shape[:, order], rate=side.rate[:, order])
            for side in (self.rows, self.columns)
        )
        return _State(
            rows.scaled(scale),
            columns.scaled(1 / scale),
            self.row_prior.scaled(scale),
            self.column_prior.scaled(1 / scale),
        )


@estimator_dataclass
class HierarchicalPoissonFactorisation(LatentVariableModel):
    """Hierarchical Poisson factorisation: counts as Poisson sums of non-negative factors.

    y_nd ~ Poisson(Σ_q θ_nq β_dq), θ_nq ~ Gamma(a, ξ_n), ξ_n ~ Gamma(e, r); β_dq ~ Gamma(c, η_d),
    η_d ~ Gamma(g, h), shape and rate (Gopalan, Hofman and Blei 2015). ξ_n is the inverse activity
    of a row and η_d that of a column, so rows and columns with large totals do not use up the
    factors. Every factor of q is Gamma; the fit is coordinate ascent, which never lowers the bound
    on log p(Y). In place of that paper's fixed shapes of 0.3 the priors' shapes and rates are
    learned by the same bound, unless ``prior_shape`` is given. Of four random starts the best after
    twenty sweeps goes on.

    The position of a row is E θ_n, with the variances of q(θ_n), at their optimum for the fitted
    q(β). Only the product of θ and β is determined: their scale is such that the columns' mean
    weights add up to 1 in the mean of the factors, so a row's weights add up to about its total.
    Factors are sorted by their share of all counts. A point with negative coordinates is set to 0
    there and decodes to Σ_q x_q E β_dq, with the Poisson noise and the variance of q(β).
    ``elbo_`` is the bound in nats of the counts. The density of a row is ∫ Π_d Poisson(y_d |
    θ·E β_d) p(θ) dθ by importance sampling around q(θ), 128 draws.

    Attributes:
        relevance_: ``data`` holds each factor's share of all expected counts, [Q].
        weights_: E β of the columns that vary, [Q, D].
        priors_: the shape a, e and the rate r of the rows, and c, g and h of the columns.
    """

    key: ClassVar[str] = "hpf"
    title: ClassVar[str] = "Poisson factors (HPF)"
    summary: ClassVar[str] = (
        "Counts as Poisson sums of factors, with an activity of each row and column: purchases, "
        "reads, words; cells may be missing."
    )
    paper: ClassVar[str] = "Gopalan, Hofman and Blei 2015"
    order: ClassVar[int] = 43
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True, cells="counts"
    )

    n_components: Components = None
    max_iter: Annotated[
        int, Range(1, 100_000), Doc("Most sweeps of the fit.", "sweeps at most")
    ] = 1000
    tol: Annotated[
        float,
        Range(1e-12, 1.0, log=True),
        Doc("Stop when a sweep gains fewer nats a count than this.", "tolerance"),
        Advanced(),
    ] = 1e-6
    prior_shape: Annotated[
        float | None,
        Range(1e-3, 100.0, log=True),
        Doc(
            "Shape of all Gamma priors: below 1 few factors a row; auto learns the priors.",
            "shape of the priors",
        ),
        Advanced(),
    ] = None

    @property
    def weights_(self) -> FloatArray:
        """E β of the columns that vary, [Q, D]."""
        return to_numpy(self._columns.mean).T

    @property
    def priors_(self) -> dict[str, GammaPrior]:
        """The priors of the rows and of the columns."""
        return {"rows": self._row_prior, "columns": self._column_prior}

    def _scaling(self, measured: Standardiser) -> Standardiser:
        return measured.unscaled()

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: FitProblem) -> FitOutcome:
        Y, observed = problem.Y.double(), problem.observed
        table = CountTable(Y, None if observed is None else observed.double())
        total, learns = max(float(Y.sum()), 1.0), self.prior_shape is None
        history = SweepHistory(problem.callback, self.max_iter)
        state, before, converged, stopped = self._start(problem, table), -math.inf, False, False
        for iteration in range(1, self.max_iter + 1):
            state = state.sweep(table, learn=learns and iteration > FIXED_SWEEPS)
            reached = state.bound(table)
            converged = iteration > FIXED_SWEEPS + 1 and reached - before < self.tol * total
            mean = state.rows.mean
            stopped = history.report(
                reached,
                {"bound": reached},
                partial(snapshot_of, mean, {"data": mean.mean(0)}),
                ends=converged,
            )
            if stopped or converged:
                break
            before = reached
        state = state.in_order(table)
        self._store(state.columns, state.row_prior, state.column_prior)
        rows = Y if observed is None else torch.where(observed, Y, math.nan)
        mean, variance = self._posterior(rows.to(problem.Y))
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self.relevance_ = {"data": to_numpy(state.factor_shares(table))}
        self.inducing_inputs_ = {}
        return FitOutcome(reached, tuple(history.steps), converged=converged, stopped=stopped)

    def _start(self, problem: FitProblem, table: CountTable) -> _State:
        """The best of some random starts after a few sweeps."""
        best: tuple[float, _State | None] = (-math.inf, None)
        shape = START_PRIOR if self.prior_shape is None else float(self.prior_shape)
        prior = GammaPrior(shape, shape, shape)
        for _ in range(STARTS):
            rows, columns = (
                GammaWeights.draw(
                    (size, problem.n_components), prior, table.counts, problem.generator
                )
                for size in table.counts.shape
            )
            level = table.counts.sum() / (rows.mean * table.exposure(columns.mean)).sum()
            state = _State(rows, columns.scaled(float(level)), prior, prior)
            for _ in range(START_SWEEPS):
                state = state.sweep(table, learn=False)
            reached = state.bound(table)
            if reached > best[0] or best[1] is None:
                best = (reached, state)
        assert best[1] is not None
        return best[1]

    def _store(self, columns: GammaWeights, rows: GammaPrior, weights: GammaPrior) -> None:
        self._columns, self._row_prior, self._column_prior = columns, rows, weights

    # ---- inference and decoding ----------------------------------------------------------------

    def _infer(self, Y: Tensor) -> GammaWeights:
        """q(θ_n) of rows, independent of other rows, for the fitted columns."""
        table = CountTable.from_rows(Y)
        return infer_weights(
            table, self._columns, self._row_prior, rounds=MOST_ROUNDS, settled=TOLERANCE
        )

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        found = self._infer(Y)
        return found.mean.to(Y), found.variance.to(Y)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inside = X.clamp_min(0).double()
        mean = inside @ self._columns.mean.T
        extra = inside.square() @ self._columns.variance.T
        return mean.to(X), (mean + extra).to(X), mean.to(X)

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moments under q(θ) q(β): Var θβ = Var θ E β² + E θ² Var β."""
        rows, columns = self._infer(Y), self._columns
        mean = rows.mean @ columns.mean.T
        spread = rows.variance @ (columns.variance + columns.mean.square()).T
        spread = spread + rows.mean.square() @ columns.variance.T
        return mean.to(Y), (mean + spread).to(Y), mean.to(Y)

    def _metric(self, X: Tensor) -> Tensor:
        """E[B Bᵀ] with B = β/sd, [Q, D], where the coordinates are positive."""
        scale = self._to_tensor(self._measured.scale[~self._measured.constant]).to(X)
        mean = self._columns.mean.to(X) / scale[:, None]
        spread = (self._columns.variance.to(X) / scale[:, None].square()).sum(0)
        inside = (X >= 0).to(X)
        return inside[:, :, None] * (mean.T @ mean + spread.diag()) * inside[:, None, :]

    def _log_density(self, Y: Tensor) -> Tensor:
        """log ∫ Π_d Poisson(y_d | θ·E β_d) p(θ) dθ, by draws around q(θ).

        p(θ) is the prior with ξ integrated. The draws of a row are quantiles of Gamma distributions
        with the means and twice the variances of q, at the same points of a Sobol sequence.
        """
        table, found = CountTable.from_rows(Y), self._infer(Y)
        shape, rate = to_numpy(found.shape) / WIDER, to_numpy(found.rate) / WIDER
        points = qmc.Sobol(shape.shape[1], seed=0).random(DRAWS)
        theta = torch.as_tensor(gammaincinv(shape[None], points[:, None]) / rate).to(found.shape)
        theta = theta.clamp_min(torch.finfo(torch.float64).tiny)
        k, b = found.shape / WIDER, found.rate / WIDER
        proposal = (k * b.log() - k.lgamma() + (k - 1) * theta.log() - b * theta).sum(2)
        weights = self._columns.mean
        fit = -(theta * table.exposure(weights)).sum(2) - table.log_factorials
        for s in range(DRAWS):
            expected = (theta[s] @ weights.T).clamp_min(LEAST_MEAN)
            fit[s] += (table.counts * expected.log()).sum(1)
        target = fit + self._row_prior.log_density(theta)
        density: Tensor = (target - proposal).logsumexp(0) - math.log(DRAWS)
        empty = table.exposure(torch.ones_like(weights[:, :1]))[:, 0] == 0
        return torch.where(empty, 0.0, density)

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> FloatArray:
        """From the prior of a row's weights, [n, Q]."""
        if label is not None:
            require_labels(self)
        prior, Q = self._row_prior, self._columns.shape.shape[1]
        rates = rng.gamma(prior.rate_shape, 1 / prior.rate_rate, (n, 1))
        return rng.gamma(prior.shape, 1.0, (n, Q)) / np.maximum(rates, np.finfo(float).tiny)

    def _sample_rows(self, latent: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Poisson counts of Gamma means with the moments of Σ_q x_q β_dq."""
        mean, variance, _ = (to_numpy(part) for part in self._decode(self._to_tensor(latent)))
        shape = mean**2 / (variance - mean).clip(np.finfo(float).tiny)
        rates = np.where(shape < MOST_SHAPE, rng.gamma(shape) * mean / shape, mean)
        drawn = rng.poisson(rates.clip(0, MOST_COUNT)).astype(np.float64)
        return self._standardiser.inverse_transform(drawn)

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        columns = self._columns
        arrays = {"shape": columns.shape, "rate": columns.rate, "rates_rate": columns.rates_rate}
        facts = {
            "rates_shape": columns.rates_shape,
            "row_prior": asdict(self._row_prior),
            "column_prior": asdict(self._column_prior),
        }
        return {name: to_numpy(value) for name, value in arrays.items()}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        shape, rate, rates_rate = (
            torch.as_tensor(arrays[name].copy(), device=self._device)
            for name in ("shape", "rate", "rates_rate")
        )
        columns = GammaWeights(shape, rate, float(facts["rates_shape"]), rates_rate)
        priors = (GammaPrior(**facts[name]) for name in ("row_prior", "column_prior"))
        self._store(columns, *priors)
