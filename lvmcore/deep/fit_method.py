"""Fit methods of predictors: training of a deep Gaussian process, and storage.

A model declares a method, such as ``method = InducedMethod()``; a method constructs the initial
deep Gaussian process. Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.predictor import HeldOutRows, Predictor, SupervisedFitProblem, Task
from lvmcore.base.table_size import TableSize
from lvmcore.deep.deep_gp import DeepGP
from lvmcore.deep.dsvi import InducedDeepGP, induced_deep_gp
from lvmcore.deep.fitted_deep_gp import FittedDeepGP
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise, QExponentialNoise, SoftmaxClasses
from lvmcore.deep.objective import DeepGPObjective, deep_schedule
from lvmcore.deep.warm_start import fitted_start, start_first_layer
from lvmcore.gp.exact_regression import GPPosterior
from lvmcore.gp.inducing_points import centroids
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.definition import KernelDefinition
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.stationary import StationaryName
from lvmcore.parameters import Advised
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.training.held_out import HeldOutTracking
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule

__all__ = [
    "LONG_TABLE",
    "DeepGPMethod",
    "DeepGPOptions",
    "InducedMethod",
    "likelihood_of",
]

#: Draws averaged in a prediction, and draws in the final bound.
PREDICTED_DRAWS, FINAL_DRAWS = 50, 100
#: Draws for the density of held-out rows, and measurements without improvement before a stop.
TRACKING_DRAWS, PATIENCE = 10, 5
#: Initial σ² of a numeric target, as a share of its variance.
START_NOISE = 0.05
#: Number of rows above which more inducing variables are recommended.
LONG_TABLE = 2000

Model = TypeVar("Model", bound=DeepGP)


def likelihood_of(
    task: Task, n_outputs: int, like: Tensor, exponent: float = 2.0
) -> GaussianNoise | SoftmaxClasses:
    """The initial likelihood: Gaussian noise for numbers; probit for two classes, else softmax.

    Args:
        task: kind of target.
        n_outputs: P.
        like: dtype and device.
        exponent: q of the noise of numbers; 2 for a Gaussian.
    """
    if task == "number" and exponent < 2:
        return QExponentialNoise(START_NOISE, like, exponent)
    if task == "number":
        return GaussianNoise(START_NOISE, like)
    return SoftmaxClasses("probit" if n_outputs == 1 else "softmax", like)


@dataclass(frozen=True)
class DeepGPOptions:
    """The settings of a model in the form that a deep Gaussian process uses.

    Attributes:
        given: all settings of the model by name.
        standardiser: standardiser of the columns.
        n_inducing: maximum of M.
        max_iter: maximum number of steps.
        learning_rate: learning rate of the steps.
        batch_size: rows per step.
        n_layers: number of hidden layers; 0, a single Gaussian process, without the setting.
        hidden_dim: units of each hidden layer; None for min(30, H).
        n_samples: draws of the functions averaged in a step.
        q: exponent q of the layers' priors and of the noise; 2 for Gaussian processes.
        kernel: stationary kernel of every layer without another one.
        definition: another kernel, of the first layer, or of all; None for stationary kernels.
        first: an exact process with the kernel of the first layer alone; None without hidden
            layers, with fewer units than columns and one, or where all layers have the kernel.
    """

    given: Mapping[str, Any]
    standardiser: Standardiser
    n_inducing: int
    max_iter: int
    learning_rate: float
    batch_size: int
    n_layers: int = 0
    hidden_dim: int | None = None
    n_samples: int = 1
    q: float = 2.0
    kernel: StationaryName = "rbf"
    definition: KernelDefinition | None = None
    first: GPPosterior | None = None

    @classmethod
    def from_settings(cls, given: Mapping[str, Any], standardiser: Standardiser) -> Self:
        """From a model's settings; options without a setting have their defaults.

        A kernel that is not stationary is left to ``DeepGPMethod.with_kernel``.
        """
        named = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        text = _canonical(named.pop("kernel", "auto"))
        if text in get_args(StationaryName):
            named["kernel"] = text
        return cls(given, standardiser, **named)

    @property
    def width(self) -> int | None:
        """Units of each hidden layer; one more than the columns for an exact process."""
        if self.first is None or self.hidden_dim is not None:
            return self.hidden_dim
        return len(self.standardiser.varying_names) + 1

    @property
    def expression(self) -> KernelExpression | None:
        """The kernel that was given; None for a stationary one, or for one that is chosen."""
        text = _canonical(self.given.get("kernel", "auto"))
        return None if text in ("auto", *get_args(StationaryName)) else read_kernel(text)

    @property
    def initial(self) -> DeepGPSettings:
        """Settings of the initial deep Gaussian process."""
        return DeepGPSettings(
            n_hidden=self.n_layers,
            width=self.width,
            batch_size=self.batch_size,
            exponent=self.q,
            kernel=self.kernel,
            definition=self.definition,
        )


def _canonical(text: str) -> str:
    """The canonical text of a kernel; ``auto`` itself."""
    return text if text == "auto" else str(read_kernel(text))


class DeepGPMethod(ABC, Generic[Model]):
    """A fit of a deep Gaussian process; subclasses construct the initial one.

    Attributes:
        later_kernel: kernel of the layers after the first one, where that has another kernel that
            does not fit their units.
    """

    later_kernel: StationaryName = "rbf"

    def advise(self, size: TableSize) -> dict[str, Advised]:
        """More inducing points for long tables."""
        if size.n_rows <= LONG_TABLE:
            return {"n_inducing": Advised(50)}
        return {"n_inducing": Advised(100, f"more than {LONG_TABLE} rows have finer detail")}

    # ---- fitting -------------------------------------------------------------------------------

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        """Fit; the model's function exists from the first step on, for tracking held-out rows."""
        options = DeepGPOptions.from_settings(model.settings_, model._standardiser)
        X, Y, generator = problem.X, problem.Y, problem.generator
        function = self.begin(model, options, problem)
        fit = self.objective(function.gp, X, Y, options, generator)
        outcome = train(
            fit,
            self.schedule(fit, options),
            problem.callback,
            draws=max(1, FINAL_DRAWS // self.row_draws(options)),
            checkpoint=problem.checkpoint,
            held_out=_tracking(model, function, fit, problem.held_out),
        )
        rows = (X, Y)
        if problem.validation is not None:
            rows = torch.cat([X, problem.validation[0]]), torch.cat([Y, problem.validation[1]])
        function.keep(PREDICTED_DRAWS, generator, rows)
        self.finish(function.gp, *rows)
        return outcome

    def begin(
        self, model: Predictor, options: DeepGPOptions, problem: SupervisedFitProblem
    ) -> FittedDeepGP[Model]:
        """The model's initial function, with a note if it has fewer inducing points than set."""
        X, Y = problem.X, problem.Y
        if options.expression is not None:
            options = self.with_kernel(options.expression, options, X, Y)
        likelihood = likelihood_of(model.task, Y.shape[1], X, options.q)
        gp = self.initial(X, Y, likelihood, options, problem.generator).to(X)
        gp.set_mixed(model.dtype == "mixed")
        function = self.function(gp)
        model._function = function
        if gp.n_inducing < options.n_inducing:
            model._note(
                f"n_inducing reduced from {options.n_inducing} to {gp.n_inducing}: there are no "
                "more different rows."
            )
        return function

    def restore(
        self, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> FittedDeepGP[Model]:
        """The function of a model from the arrays and facts of a file."""
        columns = int((~model._standardiser.constant).sum())
        X = model._to_tensor(np.zeros((int(facts["inducing"]), columns)))
        Y = X.new_zeros(len(X), int(facts["outputs"]))
        widths = facts["widths"]
        settings = DeepGPSettings(
            n_hidden=len(widths),
            width=widths[0] if widths else None,
            exponent=facts.get("exponent", 2.0),
            kernel=facts.get("kernel", "rbf"),
            definition=self.stored_definition(model, facts),
        )
        likelihood = likelihood_of(model.task, Y.shape[1], X, settings.exponent)
        options = DeepGPOptions.from_settings(model.settings_, model._standardiser)
        function = self.function(self.blank(settings, X, Y, likelihood, options, facts).to(X))
        function.gp.set_mixed(model.dtype == "mixed")
        function.load(arrays, facts)
        return function

    # ---- hooks of a method ---------------------------------------------------------------------

    @abstractmethod
    def initial(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> Model:
        """The initial deep Gaussian process for rows X [N, H] and targets Y [N, P]."""

    @abstractmethod
    def blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        facts: Mapping[str, Any],
    ) -> Model:
        """A deep Gaussian process at inducing inputs X [M, H], for the state of a file."""

    def with_kernel(
        self, expression: KernelExpression, options: DeepGPOptions, X: Tensor, Y: Tensor
    ) -> DeepGPOptions:
        """Options with the kernel of an expression, at its start for rows X and targets Y.

        Raises:
            ConfigError: it names a column that is not in the fit, or does not vary.
        """
        definition = KernelDefinition.of_columns(expression, options.standardiser)
        definition, found = fitted_start(definition, X, Y, options.max_iter)
        narrow = options.hidden_dim is not None and options.hidden_dim <= X.shape[1]
        first = None if definition.fits_units or narrow or not options.n_layers else found
        return replace(options, kernel=self.later_kernel, definition=definition, first=first)

    def stored_definition(
        self, model: Predictor, facts: Mapping[str, Any]
    ) -> KernelDefinition | None:
        """The kernel of a file; None for a stationary one."""
        if "expression" not in facts:
            return None
        return KernelDefinition.of_varying(read_kernel(facts["expression"]), model._standardiser)

    def function(self, gp: Model) -> FittedDeepGP[Model]:
        """The function for predictions."""
        return FittedDeepGP(gp)

    def objective(
        self,
        gp: Model,
        X: Tensor,
        Y: Tensor,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> DeepGPObjective:
        """The objective of the steps, for an initial deep Gaussian process."""
        return DeepGPObjective(
            gp,
            X,
            Y,
            n_samples=options.n_samples,
            batch_size=options.batch_size,
            generator=generator,
        )

    def row_draws(self, options: DeepGPOptions) -> int:
        """Draws of a row at the last layer in a step."""
        return options.n_samples

    def schedule(self, fit: DeepGPObjective, options: DeepGPOptions) -> Schedule:
        """The schedule of the steps."""
        return deep_schedule(fit, options.max_iter, options.learning_rate)

    def finish(self, gp: Model, X: Tensor, Y: Tensor) -> None:
        """Compute further quantities from all rows after the last step."""


def _tracking(
    model: Predictor,
    function: FittedDeepGP[Any],
    fit: DeepGPObjective,
    held_out: HeldOutRows | None,
) -> HeldOutTracking | None:
    """Tracking of the NLPP of held-out rows, with the same few draws in every measurement.

    With mini-batches, and for classes, q is that of the steps; the q of all rows is computed only
    after the last step.
    """
    if held_out is None:
        return None
    closed = fit.batches.whole and function.gp.last.closed_form
    rows = (fit.X, fit.Y) if closed else None

    def measure() -> float:
        function.keep(TRACKING_DRAWS, torch.Generator().manual_seed(0), rows)
        return float(-model._log_density(held_out.X, held_out.y).mean())

    return HeldOutTracking(measure, PATIENCE if held_out.stops else None)


@dataclass(frozen=True)
class InducedMethod(DeepGPMethod[InducedDeepGP]):
    """Separate inducing inputs in every layer: SVGP, DSVI and their q-exponential counterparts.

    Attributes:
        each_draw: whether the last layer has a q for each draw, where that has a closed form.
        later_kernel: see ``DeepGPMethod``.
    """

    each_draw: bool = False
    later_kernel: StationaryName = "rbf"

    def initial(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> InducedDeepGP:
        """Inducing inputs at centroids of the rows; see ``DeepGPMethod``."""
        Z = centroids(X, options.n_inducing, generator)
        gp = self._at(options.initial, X, Y, Z, likelihood, options).to(X)
        start_first_layer(gp, options.first)
        return gp

    def blank(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        facts: Mapping[str, Any],
    ) -> InducedDeepGP:
        """See ``DeepGPMethod``."""
        del facts
        return self._at(settings, X, Y, X, likelihood, options)

    def _at(
        self,
        settings: DeepGPSettings,
        X: Tensor,
        Y: Tensor,
        Z: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
    ) -> InducedDeepGP:
        learned = options.given.get("inducing_inputs", "learned") == "learned"
        each = self.each_draw
        return induced_deep_gp(settings, X, Y, Z, likelihood, learned=learned, each_draw=each)
