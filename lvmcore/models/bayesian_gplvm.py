"""Bayesian Gaussian process latent variable model."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import ClassVar

import torch
from torch import Tensor

from lvmcore.base import Capabilities, Problem
from lvmcore.checks import to_numpy
from lvmcore.counts import Cells
from lvmcore.gplvm import (
    LONG_TABLE,
    START_VARIANCE,
    DataTerm,
    SparseGPModel,
    advised_inducing,
    advised_steps,
    snapshot_of,
    spread_points,
)
from lvmcore.intervals import Settled
from lvmcore.layers import DataPath, LatentRows
from lvmcore.parameters import (
    Advised,
    Components,
    Device,
    Dtype,
    Inducing,
    LearningRate,
    MaxIter,
    Noise,
    Restarts,
    Seed,
    Start,
)
from lvmcore.restarts import Restarting
from lvmcore.results import Snapshot
from lvmcore.training import Outcome, Schedule, train

__all__ = ["BayesianGPLVM"]


class BayesianGPLVM(Restarting, SparseGPModel):
    """Nonlinear map with uncertainty: x_n ~ N(0, I), y_nd = f_d(x_n) + ε, f_d ~ GP(0, RBF-ARD).

    Maximises the collapsed bound F(q(X)) − KL(q(X) ‖ N(0, I)), q(X) = ∏_n N(mean_n, diag var_n),
    with M inducing inputs whose outputs are integrated out at their optimum (Titsias and Lawrence
    2010, eq. 14). The relevance α_q = 1/ℓ_q² shows which dimensions the data need. A missing cell
    leaves the bound and nothing else; where there is one, no column's noise falls below half of
    the columns' average. Once such a fit is over it goes on for some steps without a tenth of the
    cells of some rows, and the intervals of filled cells are widened to hold those.

    Attributes:
        relevance_: ``data`` holds α, [Q].
        inducing_inputs_: ``data`` holds Z, [M, Q].
        noise_variance_: σ_d² of the columns that vary, standardised units, [D].
        interval_scale_: factor of the standard deviation of filled cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None after a single one.
    """

    key: ClassVar[str] = "bayesian_gplvm"
    title: ClassVar[str] = "Bayesian GPLVM"
    summary: ClassVar[str] = (
        "A curved map with uncertainty that finds how many dimensions the data need; no labels."
    )
    paper: ClassVar[str] = "Titsias and Lawrence 2010"
    order: ClassVar[int] = 10
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True
    )

    def __init__(
        self,
        *,
        n_components: Components = None,
        n_inducing: Inducing = 25,
        max_iter: MaxIter = 500,
        noise: Noise = "column",
        learning_rate: LearningRate = 0.1,
        start: Start = "pca",
        n_restarts: Restarts = 1,
        device: Device = "auto",
        dtype: Dtype = "float64",
        random_state: Seed = 0,
    ) -> None:
        self.n_components = n_components
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.noise = noise
        self.learning_rate = learning_rate
        self.start = start
        self.n_restarts = n_restarts
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @classmethod
    def advise(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Advised]:
        """More inducing inputs for longer tables; for very long ones fewer steps instead."""
        del n_columns, cells
        if n_rows > LONG_TABLE:
            return {"max_iter": advised_steps(n_rows)}
        return {"n_inducing": advised_inducing(50, n_rows, n_classes)} if n_rows > 1000 else {}

    def _fit_start(self, problem: Problem, X: Tensor) -> Outcome:
        Z = spread_points(X, self._inducing_count(len(X)), problem.generator)
        gaps = problem.observed is not None
        path = DataPath(Z, self._start_noise(problem), pooled=gaps)
        fit = _Fit(LatentRows(X, START_VARIANCE), path, DataTerm(problem))
        schedule = Schedule(self.max_iter, self.learning_rate, fit.data.count)
        outcome = train(fit, schedule, problem.callback, checkpoint=problem.checkpoint)
        self._decoder = fit.data.decoder(fit.path, fit.rows)
        self._keep_rows(fit.rows)
        self.relevance_ = {"data": to_numpy(fit.path.kernel.relevance)}
        self.inducing_inputs_ = {"data": to_numpy(fit.path.Z)}

        def go_on(fewer: Problem, steps: int) -> Settled:
            on = _Fit(deepcopy(fit.rows), deepcopy(fit.path), DataTerm(fewer))
            train(on, Schedule.to_settle(steps, self.learning_rate, on.data.count), None)
            return Settled.of(on.data.decoder(on.path, on.rows), on.rows)

        self._calibrate_by_steps(problem, outcome, go_on)
        return outcome


class _Fit:
    """The objective: collapsed bound less KL_X."""

    def __init__(self, rows: LatentRows, path: DataPath, data: DataTerm) -> None:
        self.rows, self.path, self.data = rows, path, data

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        return [*self.rows.parameters(), *self.path.parameters()]

    def held(self) -> Iterable[torch.nn.Parameter]:
        return [self.path.log_noise]

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        del draws
        bound = self.data.bound(self.path, self.rows)
        return {"data fit": bound, "KL of the map": -self.rows.kl()}

    def snapshot(self) -> Snapshot:
        return snapshot_of(self.rows.mean, {"data": self.path.kernel.relevance})
