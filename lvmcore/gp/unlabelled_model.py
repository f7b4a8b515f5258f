"""Base class of Gaussian process latent variable models without labels, fitted to full batches."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lvmcore.base.advice import LONG_TABLE, advised_inducing, advised_steps
from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.imputation_intervals import ConditionedRows, scale_by_steps
from lvmcore.gp.inducing_points import inducing_count, spread_points
from lvmcore.gp.model import START_VARIANCE, GPLatentVariableModel, start_noise
from lvmcore.gp.objective import GPLVMObjective, SparseGPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.gp.restarts import fit_from_starts
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import (
    Advised,
    Components,
    Inducing,
    LearningRate,
    MaxIter,
    Noise,
    Restarts,
    Start,
)
from lvmcore.preprocessing.cell_types import Cells
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule

__all__ = ["UnsupervisedGPLVM"]


@estimator_dataclass
class UnsupervisedGPLVM(GPLatentVariableModel):
    """Fit of q(X), kernel, inducing inputs and noise to the columns from an initial map."""

    n_components: Components = None
    n_inducing: Inducing = 25
    max_iter: MaxIter = 900
    noise: Noise = "column"
    learning_rate: LearningRate = 0.1
    start: Start = "pca"
    n_restarts: Restarts = 1

    final_draws: ClassVar[int] = 1  # samples in the final bound, where it is estimated by sampling

    @classmethod
    def advise(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Advised]:
        """More inducing inputs for longer tables; for very long ones fewer steps."""
        del n_columns, cells
        if n_rows > LONG_TABLE:
            return {"max_iter": advised_steps(n_rows)}
        return {"n_inducing": advised_inducing(50, n_rows, n_classes)} if n_rows > 1000 else {}

    def _objective(
        self, rows: LatentRows, path: DataPath, problem: FitProblem
    ) -> SparseGPLVMObjective:
        """The objective."""
        return GPLVMObjective(rows, path, problem)

    def _schedule(self, cells: int) -> Schedule:
        """The optimisation schedule for a number of cells."""
        return Schedule(self.max_iter, self.learning_rate, cells, finishes=True)

    def _fit(self, problem: FitProblem) -> FitOutcome:
        return fit_from_starts(self, problem)

    def _fit_start(self, problem: FitProblem, X: Tensor) -> FitOutcome:
        """Fit from the initial map X, [N, Q]."""
        M = inducing_count(self.n_inducing, len(X), self._note)
        Z = spread_points(X, M, problem.generator)
        gaps = problem.observed is not None
        path = DataPath(Z, start_noise(problem, self.noise), pooled=gaps)
        fit = self._objective(LatentRows(X, START_VARIANCE), path, problem)
        schedule = self._schedule(fit.data.count)
        outcome = train(
            fit,
            schedule,
            problem.callback,
            draws=self.final_draws,
            checkpoint=problem.checkpoint,
        )
        self._store_fit(fit)

        def continue_fit(fewer: FitProblem, steps: int) -> ConditionedRows:
            on = fit.with_problem(fewer)
            train(on, Schedule.cooling_only(steps, self.learning_rate, on.data.count), None)
            return ConditionedRows.of(on.decoder(), on.rows)

        steps = len(outcome.history)
        self._calibrate(problem, outcome, lambda g: scale_by_steps(problem, g, steps, continue_fit))
        return outcome

    def _store_fit(self, fit: SparseGPLVMObjective) -> None:
        """Store the fitted parameters."""
        self._decoder = fit.decoder()
        self.embedding_ = fit.rows.posterior()
        self.relevance_ = {"data": to_numpy(fit.latent_path.kernel.relevance)}
        self.inducing_inputs_ = {"data": to_numpy(fit.latent_path.Z)}
