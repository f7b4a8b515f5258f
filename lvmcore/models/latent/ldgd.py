"""LDGD: the latent discriminative generative decoder, a label-aware Gaussian process map."""

from __future__ import annotations

from typing import Annotated, ClassVar

from torch import Tensor

from lvmcore.base.advice import (
    LONG_TABLE,
    WIDE_TABLE,
    advised_components,
    advised_inducing,
    advised_noise,
    advised_steps,
)
from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import (
    ClassWeight,
    ColumnLikelihood,
    Dimensions,
    InducingOrAuto,
    LabelLikelihoodOrAuto,
    LabelWeightOrAuto,
    LearningRate,
    MapKernel,
    MaxIter,
    NoiseOrAuto,
    Restarts,
    Start,
)
from lvmcore.base.table_size import TableSize
from lvmcore.gp.columns.path import ColumnPath
from lvmcore.gp.imputation_intervals import ConditionedRows, scale_by_steps
from lvmcore.gp.inducing_points import inducing_count, spread_points
from lvmcore.gp.labelled_model import LabelledGPLVM
from lvmcore.gp.labelled_settings import settle_dimensions, settle_label_weight
from lvmcore.gp.minibatch.label_terms import LabelSettings
from lvmcore.gp.model import START_VARIANCE, chosen_kernel, fit_likelihoods, start_noise
from lvmcore.gp.objective import LDGDObjective
from lvmcore.gp.paths import DataPath, LabelPath
from lvmcore.gp.rows.placement import labelled_rows, refuse_shards
from lvmcore.gp.starts.restarts import fit_from_starts
from lvmcore.parameters import Advanced, Advised, Doc, Range
from lvmcore.preprocessing.class_labels import row_weights
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule

__all__ = ["LDGD"]

FINAL_DRAWS = 8
# Steps of tables with more than so many rows.
MANY_ROWS, FEWER_STEPS = 3000, 300
# Weight of many classes beside many columns, chosen on rows outside the fit of mouse bladder
# (500 columns, 15 classes), MNIST (14 x 14 pixels) and a part of digits. Accuracy, log loss and
# calibration error: bladder 0.922, 0.264 and 0.054 with 1, 0.928, 0.244 and 0.028 with 5, 0.933,
# 0.225 and 0.027 with 20; MNIST 0.868, 0.489 and 0.092 with 1, 0.876, 0.435 and 0.035 with 3,
# 0.878, 0.435 and 0.023 with 10; digits, two splits, 0.970, 0.115 and 0.031 with 5, 0.972, 0.104
# and 0.026 with 20.
MANY_CLASSES_WEIGHT = 20.0

# For a short, narrow table with few classes.
USUAL_SETTINGS = {
    "n_components": Advised("ard"),
    "n_inducing": Advised(25),
    "noise": Advised("column"),
    "likelihood": Advised("probit"),
}


@estimator_dataclass
class LDGD(LabelledGPLVM):
    """Latent variable model with one latent space for the columns and the class labels.

    x_n ~ N(0, I) drives D regression Gaussian processes with Gaussian noise and C classification
    ones, P(y_nc = 1 | f) = Φ(f_c(x_n)), each path with its own RBF-ARD kernel and inducing inputs:

    ELBO = F(q(X)) + w · Σ_nc E log Φ(±f_c(x_n)) − KL(q(U^c) ‖ p) − KL(q(X) ‖ N(0, I)).

    F is the collapsed regression bound, so the regression path has no variational parameters.
    (Ziaei et al. 2024 sample x and keep q(U^r): the same model with a noisier, slower bound, and a
    separate noise for each column.) The label term averages over samples of x_n and 20
    Gauss–Hermite nodes; with ``likelihood="softmax"`` it is log softmax(f)_y instead, averaged over
    quasi-random draws of f. Of more than 20 000 labelled rows each step uses a random 20 000 and
    scales their sum. A row without a label drops out of the label term only, a missing cell out of
    F only; with missing cells, no column's noise falls below half of the columns' average, and the
    intervals of imputed cells are widened as in ``BayesianGPLVM``.
    ``class_weight="balanced"`` weights the rows so that all classes have the same total weight.

    Several label columns, y [N, L], have a path each (kernel, inducing inputs, q(U^c)): the bound
    has a label term and a divergence for each, all with w and the class weights. Then ``classes_``
    and ``predict_proba`` are lists with one entry per column.

    With ``n_components="ard"`` a table of at most 30 columns whose principal components have
    similar variances (more than ten above that of a column, as with one-hot categories) has a
    dimension for each component, at most 20; other tables have 10.

    New rows are inferred from their columns alone. P(class k) = E_{q(x)} Φ(m_k/√(1 + v_k)), divided
    by the sum over the classes.

    Attributes:
        classes_: the classes, sorted, [C].
        label_names_: names of the label columns, [L].
        relevance_: ``data`` and ``labels`` (or ``labels: NAME`` of each column) hold α = 1/ℓ² of
            each path, [Q].
        inducing_inputs_: under the same names, Z of each path, [M, Q].
        noise_variance_: σ_d² of the columns that vary, standardised units, [D].
        interval_scale_: factor of the standard deviation of imputed cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None for a single start.
    """

    key: ClassVar[str] = "ldgd"
    title: ClassVar[str] = "LDGD"
    summary: ClassVar[str] = (
        "A curved map shaped by the columns and by a class label: to separate, explain and "
        "predict classes."
    )
    paper: ClassVar[str] = "Ziaei et al. 2024"
    order: ClassVar[int] = 0
    capabilities: ClassVar[Capabilities] = Capabilities(
        labels="required",
        several_labels=True,
        missing_labels=True,
        missing_cells=True,
        sampling=True,
        uncertainty=True,
        bound=True,
        gpu=True,
        shards=True,
    )

    n_components: Dimensions = None  # type: ignore[assignment] # the base class has no "ard"
    n_inducing: InducingOrAuto = None
    max_iter: MaxIter = 900
    label_weight: LabelWeightOrAuto = None
    class_weight: ClassWeight = "equal"
    likelihood: LabelLikelihoodOrAuto = None
    n_samples: Annotated[
        int,
        Range(1, 100),
        Doc("Draws of each row's position at every step, for the label term."),
        Advanced(),
    ] = 1
    noise: NoiseOrAuto = None
    learning_rate: LearningRate = 0.1
    start: Start = "pca"
    n_restarts: Restarts = 1
    column_likelihood: ColumnLikelihood = "gaussian"
    kernel: MapKernel = "rbf"

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """Recommended settings for a table of this size.

        More inducing inputs for longer tables and for many classes; more dimensions and the softmax
        likelihood for many classes with many columns. Fewer steps for the longest tables.
        In a wide table some columns hardly vary: with a separate noise, a rare spike in one would
        outweigh all other columns of its row, so the columns share one.
        """
        n_rows, n_columns, n_classes = size.n_rows, size.n_columns, size.n_classes
        wide = n_columns > WIDE_TABLE
        found = dict(USUAL_SETTINGS)
        if wide:
            found["noise"] = advised_noise(n_columns)
        if n_rows > LONG_TABLE:
            return found | {"max_iter": advised_steps(n_rows)}
        if n_rows > MANY_ROWS:
            why = f"each step uses all {n_rows:,} rows, and more take minutes"
            found["max_iter"] = Advised(FEWER_STEPS, why)
        if _has_many_classes(size):
            found["n_components"] = advised_components(n_columns, n_classes)
            found["likelihood"] = Advised(
                "softmax", f"{n_classes} classes are predicted better jointly"
            )
        if n_rows > 1000 or n_classes > 5:
            found["n_inducing"] = advised_inducing(50, n_rows, n_classes)
        return found

    @classmethod
    def largest_label_weight(cls, size: TableSize) -> float:
        """20 for many classes with many columns, else 1.

        With 1, the Gaussian processes of many classes hardly leave the prior, and the probabilities
        are too low.
        """
        return MANY_CLASSES_WEIGHT if _has_many_classes(size) else 1.0

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: FitProblem) -> FitOutcome:
        problem = settle_dimensions(self, problem)
        chosen_kernel(self, problem)  # a setting that cannot be used is reported at once
        settle_label_weight(self, problem)
        if self._column_terms is not None:
            refuse_shards()
            settings = self.settings_
            labels = LabelSettings(
                settings["likelihood"], settings["label_weight"], self.class_weight
            )
            fit = fit_likelihoods(self, problem, self._column_terms, labels=labels)
            path = fit.objective.path
            assert isinstance(path, ColumnPath)
            self._store_paths(path, fit.objective.label_paths)
            return fit.outcome
        return fit_from_starts(self, problem)

    def _fit_start(self, problem: FitProblem, X: Tensor) -> FitOutcome:
        """Fit from the initial map X, [N, Q]."""
        M = inducing_count(self.settings_["n_inducing"], len(X), self._note)
        expression = chosen_kernel(self, problem)
        label_weight: float = self.settings_["label_weight"]
        weights = [
            label_weight * row_weights(column.codes, self.class_weight) for column in problem.labels
        ]
        path = DataPath(
            spread_points(X, M, problem.generator),
            start_noise(problem, self.settings_["noise"]),
            pooled=problem.observed is not None,
            expression=expression,
        )
        label_paths = [
            LabelPath(
                spread_points(X, M, problem.generator),
                len(column.classes),
                self.settings_["likelihood"],
                expression,
            )
            for column in problem.labels
        ]
        fit = LDGDObjective(
            rows=labelled_rows(X, START_VARIANCE, path, label_paths, problem, weights),
            path=path,
            label_paths=label_paths,
            problem=problem,
            weights=weights,
            samples=self.n_samples,
        )
        labelled = sum(len(term.rows) * term.n_classes for term in fit.labels)
        cells = fit.data.count + round(label_weight * labelled)
        schedule = Schedule(self.max_iter, self.learning_rate, cells)
        outcome = train(
            fit,
            schedule,
            problem.callback,
            draws=FINAL_DRAWS,
            checkpoint=problem.checkpoint,
        )
        self._decoder = fit.data.decoder(fit.rows)
        self.embedding_ = fit.rows.posterior()
        self._store_paths(fit.path, fit.label_paths)

        def continue_fit(fewer: FitProblem, steps: int) -> ConditionedRows:
            on = fit.with_problem(fewer)
            train(on, Schedule.cooling_only(steps, self.learning_rate, cells), None)
            return ConditionedRows.of(on.decoder(), on.rows)

        steps = len(outcome.history)
        self._calibrate(problem, outcome, lambda g: scale_by_steps(problem, g, steps, continue_fit))
        return outcome


def _has_many_classes(size: TableSize) -> bool:
    """Whether the label has many classes beside many columns, and the table is long enough."""
    wide = size.n_columns > WIDE_TABLE
    return wide and size.n_classes > 5 and 200 < size.n_rows <= LONG_TABLE
