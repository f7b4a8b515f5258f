"""Base class of Gaussian process latent variable models without labels, fitted to full batches."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from lvmcore.base.advice import (
    LONG_TABLE,
    InducingLayout,
    advised_map,
    advised_steps,
    map_inducing,
)
from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.initial_map import start_map
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.base.settings import (
    Dimensions,
    InducingOrAuto,
    LearningRate,
    MaxIter,
    NoiseOrAuto,
    Restarts,
    StartOrAuto,
)
from lvmcore.base.table_size import TableSize
from lvmcore.errors import ConfigError, NumericalError
from lvmcore.gp.imputation_intervals import ConditionedRows, scale_by_steps
from lvmcore.gp.inducing_points import grid_nodes, grid_side, inducing_count, spread_points
from lvmcore.gp.model import START_VARIANCE, GPLatentVariableModel, chosen_kernel, start_noise
from lvmcore.gp.objective import SparseGPLVMObjective
from lvmcore.gp.paths import DataPath, GridDataPath
from lvmcore.gp.rows.latent_rows import LatentRows
from lvmcore.gp.rows.placement import placed_rows
from lvmcore.gp.starts.restarts import fit_from_starts
from lvmcore.gp.subset_start import subset_start_objective
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised, is_array
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule

__all__ = ["UnsupervisedGPLVM"]

# Steps after which the bounds of two starts are compared, and most inducing inputs in them; the
# least gain of t-SNE over principal components in nats a cell, and the fewest rows for t-SNE.
EARLY_STEPS, EARLY_INDUCING, START_GAIN, FEWEST_FOR_TSNE = 60, 25, 0.02, 30


# Dimensions of a map whose inducing inputs can be on a grid, and rows up to which free ones are
# advised: on a grid they are also where there are no rows.
GRID_DIMENSIONS, FEW_ROWS = 2, 500

# Sizes of the nested subsets of rows with which a fit to a long table with missing cells starts.
# Not to shorter ones: the structure of a subset can be another optimum. A curved table of 20,000
# rows ended at -1.117 nats a cell from subsets of 2000 or 8000, and in 2.4 times the time with all
# rows at -1.073; a smooth one at -0.814 and -0.813.
SUBSET_SIZES = (8000, 2000)


@estimator_dataclass
class UnsupervisedGPLVM(GPLatentVariableModel):
    """Fit of q(X), kernel, inducing inputs and noise to the columns from an initial map."""

    n_components: Dimensions = None  # type: ignore[assignment] # the base class has no "ard"
    n_inducing: InducingOrAuto = None
    max_iter: MaxIter = 900
    noise: NoiseOrAuto = None
    learning_rate: LearningRate = 0.1
    start: StartOrAuto = "auto"
    n_restarts: Restarts = 1

    final_draws: ClassVar[int] = 1  # samples in the final bound, where it is estimated by sampling
    #: Whether the model has the setting ``inducing_layout``.
    has_layouts: ClassVar[bool] = False

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """Two dimensions and one noise, unless cells are missing; inducing inputs by the rows.

        Measured on nine tables of 4 to 128 columns, the two leading of ten dimensions with a noise
        for each column keep fewer neighbours than principal components on five of them, two
        dimensions with one noise on none; but ten dimensions predict missing cells better.
        """
        found = advised_map(size)
        if cls.has_layouts:
            wide = size.n_columns >= GRID_DIMENSIONS
            grid = wide and not size.incomplete and size.n_rows > FEW_ROWS
            layout: InducingLayout = "grid" if grid else "free"
            M = map_inducing(layout, size.n_rows, incomplete=size.incomplete)
            found |= {"inducing_layout": Advised(layout), "n_inducing": Advised(M)}
        if size.n_rows > LONG_TABLE:
            found["max_iter"] = advised_steps(size.n_rows)
        return found

    def _objective(
        self, rows: LatentRows, path: DataPath, problem: FitProblem
    ) -> SparseGPLVMObjective:
        """The objective; of a long table with missing cells, one that starts with subsets."""
        n, subsets = rows.shape[0], list[Tensor]()
        long = problem.observed is not None and n > LONG_TABLE
        for size in SUBSET_SIZES if long else ():
            order = torch.randperm(n, generator=problem.generator)
            subsets.insert(0, order[:size].sort().values)
            n = size
        return subset_start_objective(rows, path, problem, subsets)

    def _schedule(self, cells: int) -> Schedule:
        """The optimisation schedule for a number of cells."""
        return Schedule(self.max_iter, self.learning_rate, cells, finishes=True)

    def _fit(self, problem: FitProblem) -> FitOutcome:
        chosen_kernel(self, problem)  # a setting that cannot be used is reported at once
        if self.has_layouts:
            _choose_layout(self, problem)
        return fit_from_starts(self, problem, partial(_initial_map, self, problem))

    def _objective_at(
        self, problem: FitProblem, X: Tensor, n_inducing: int
    ) -> SparseGPLVMObjective:
        """The objective at the initial map X, [N, Q]."""
        noise = start_noise(problem, self.settings_["noise"])
        path = _data_path(self, problem, X, n_inducing, noise)
        return self._objective(placed_rows(X, START_VARIANCE, [path], problem), path, problem)

    def _fit_start(self, problem: FitProblem, X: Tensor) -> FitOutcome:
        """Fit from the initial map X, [N, Q]."""
        fit = self._objective_at(problem, X, self.settings_["n_inducing"])
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


def _choose_layout(model: UnsupervisedGPLVM, problem: FitProblem) -> None:
    """Store the layout of the inducing inputs and their number in ``settings_``.

    On a grid of two dimensions (``lvmcore.kernels.grid_psi_sums``) many inducing inputs cost little
    time, and the map follows finer detail.

    Raises:
        ConfigError: a grid was asked for where there can be none.
    """
    complete, settings = problem.observed is None, model.settings_
    rbf = chosen_kernel(model, problem) is None
    possible = complete and rbf and problem.n_components == GRID_DIMENSIONS
    if not possible and model.get_params(deep=False)["inducing_layout"] == "grid":
        why = f"has {problem.n_components}" if complete else "is of a table with missing cells"
        if not rbf:
            why = f"has kernel={settings['kernel']!r}"
        raise ConfigError(
            "inducing_layout='grid' needs a map of two dimensions of complete rows with the RBF "
            f"kernel; this map {why}. Choose 'free' or None."
        )
    layout: InducingLayout = settings["inducing_layout"] if possible else "free"
    M = model.n_inducing or map_inducing(layout, len(problem.table), incomplete=not complete)
    settings["inducing_layout"] = layout
    settings["n_inducing"] = M if layout == "free" else grid_side(M) ** 2


def _data_path(
    model: UnsupervisedGPLVM, problem: FitProblem, X: Tensor, n_inducing: int, noise: Tensor
) -> DataPath:
    """The initial path to the columns, for the initial map X, [N, Q]."""
    if model.settings_.get("inducing_layout") == "grid":
        return GridDataPath(grid_nodes(X, n_inducing), noise)
    M = inducing_count(n_inducing, len(X), model._note)
    return DataPath(
        spread_points(X, M, problem.generator),
        noise,
        pooled=problem.observed is not None,
        expression=chosen_kernel(model, problem),
    )


def _initial_map(model: UnsupervisedGPLVM, problem: FitProblem) -> Tensor:
    """The initial map, [N, Q]; for "auto" that of t-SNE if its bound is soon clearly higher.

    Principal components keep the shape of the whole, t-SNE the neighbours: started at it, the
    bound is higher where the rows lie on a curved surface that their plane of largest variance
    folds. A map of more than two dimensions, or of few or very many rows, starts at principal
    components.
    """
    if is_array(model.start) or model.start != "auto":
        return start_map(problem, model.start, model._note)
    if problem.n_components > 2 or not FEWEST_FOR_TSNE <= len(problem.table) <= LONG_TABLE:
        return start_map(problem, "pca", model._note)
    gain = _early_bound(model, problem, "tsne") - _early_bound(model, problem, "pca")
    clear = gain > START_GAIN * problem.Y.numel()
    return start_map(problem, "tsne" if clear else "pca", model._note)


def _early_bound(model: UnsupervisedGPLVM, problem: FitProblem, start: str) -> float:
    """The bound after a few steps of the fit from a start, nats; −∞ if they fail."""
    generator = torch.Generator()
    generator.set_state(problem.generator.get_state())
    problem = replace(problem, generator=generator)
    M = min(EARLY_INDUCING, model.settings_["n_inducing"])
    fit = model._objective_at(problem, start_map(problem, start, model._note), M)
    schedule = Schedule(EARLY_STEPS, model.learning_rate, fit.data.count)
    try:
        return train(fit, schedule, None, draws=model.final_draws).objective
    except NumericalError:
        return -math.inf
