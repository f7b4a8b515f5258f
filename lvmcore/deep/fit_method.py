"""How a predictor is fitted as a deep Gaussian process, and read from a file.

A model declares a method, such as ``method = InducedMethod()``; a method says how its deep Gaussian
process begins. Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.predictor import HeldOutRows, Predictor, SupervisedFitProblem, Task
from lvmcore.deep.deep_gp import DeepGP
from lvmcore.deep.dsvi import InducedDeepGP, induced_deep_gp
from lvmcore.deep.fitted_deep_gp import FittedDeepGP
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.layer_kernel import KernelName
from lvmcore.deep.likelihoods import GaussianNoise, QExponentialNoise, SoftmaxClasses
from lvmcore.deep.objective import DeepGPObjective, deep_schedule
from lvmcore.gp.inducing_points import centroids
from lvmcore.parameters import Advised
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.training.held_out import HeldOutTracking
from lvmcore.training.loop import FitOutcome, train

__all__ = [
    "LONG_TABLE",
    "DeepGPMethod",
    "DeepGPOptions",
    "InducedMethod",
    "likelihood_of",
]

#: Draws that a prediction averages, and those of the final bound.
PREDICTED_DRAWS, FINAL_DRAWS = 50, 100
#: Draws that rows set aside are measured by, and measurements without a better one until a stop.
FOLLOWED_DRAWS, PATIENCE = 10, 5
#: σ² of a numeric target that a fit starts from, of its variance.
START_NOISE = 0.05
#: Rows from which on more inducing variables are worth their time.
LONG_TABLE = 2000

Model = TypeVar("Model", bound=DeepGP)


def likelihood_of(
    task: Task, n_outputs: int, like: Tensor, exponent: float = 2.0
) -> GaussianNoise | SoftmaxClasses:
    """The likelihood at its start: of a number; of two classes, probit; of more, softmax.

    Args:
        task: what is predicted.
        n_outputs: P.
        like: dtype and device.
        exponent: q of the noise of a number; 2 for a Gaussian.
    """
    if task == "number" and exponent < 2:
        return QExponentialNoise(START_NOISE, like, exponent)
    if task == "number":
        return GaussianNoise(START_NOISE, like)
    return SoftmaxClasses("probit" if n_outputs == 1 else "softmax", like)


@dataclass(frozen=True)
class DeepGPOptions:
    """A model's settings, as a deep Gaussian process uses them.

    Attributes:
        given: all settings of the model by name.
        standardiser: of its columns.
        n_inducing: M, at most.
        max_iter: steps at most.
        learning_rate: of the steps.
        batch_size: rows a step.
        n_layers: hidden layers; 0 for a model without the setting: a single Gaussian process.
        hidden_dim: units of each; None for min(30, H).
        n_samples: draws of the functions that a step averages.
        q: of the layers' priors and of the noise; 2 for Gaussian processes.
        kernel: of every layer.
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
    kernel: KernelName = "rbf"

    @classmethod
    def from_settings(cls, given: Mapping[str, Any], standardiser: Standardiser) -> Self:
        """Those of a model by its settings; what it has no setting for keeps its default."""
        named = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        return cls(given, standardiser, **named)

    @property
    def initial(self) -> DeepGPSettings:
        """How a fit begins."""
        return DeepGPSettings(
            n_hidden=self.n_layers,
            width=self.hidden_dim,
            batch_size=self.batch_size,
            exponent=self.q,
            kernel=self.kernel,
        )


class DeepGPMethod(ABC, Generic[Model]):
    """A fit of a deep Gaussian process; a subclass says how it begins."""

    def advise(self, n_rows: int) -> dict[str, Advised]:
        """More inducing points for long tables."""
        if n_rows <= LONG_TABLE:
            return {}
        return {"n_inducing": Advised(100, f"more than {LONG_TABLE} rows have finer detail")}

    # ---- fitting -------------------------------------------------------------------------------

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        """Fit; the model's function is there from the first step on, for rows that it follows."""
        options = DeepGPOptions.from_settings(model.get_params(deep=False), model._standardiser)
        X, Y, generator = problem.X, problem.Y, problem.generator
        function = self.begin(model, options, problem)
        fit = self.objective(function.gp, X, Y, options, generator)
        outcome = train(
            fit,
            deep_schedule(fit, options.max_iter, options.learning_rate),
            problem.callback,
            draws=max(1, FINAL_DRAWS // options.n_samples),
            checkpoint=problem.checkpoint,
            held_out=_tracking(model, function, fit, problem.unseen),
        )
        rows = (X, Y)
        if problem.aside is not None:
            rows = torch.cat([X, problem.aside[0]]), torch.cat([Y, problem.aside[1]])
        function.keep(PREDICTED_DRAWS, generator, rows)
        self.finish(function.gp, *rows)
        return outcome

    def begin(
        self, model: Predictor, options: DeepGPOptions, problem: SupervisedFitProblem
    ) -> FittedDeepGP[Model]:
        """The model's function at its start, with a note where it has few inducing points."""
        X, Y = problem.X, problem.Y
        likelihood = likelihood_of(model.task, Y.shape[1], X, options.q)
        gp = self.initial(X, Y, likelihood, options, problem.generator).to(X)
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
        """The function of a model from its file."""
        columns = int((~model._standardiser.constant).sum())
        X = model._to_tensor(np.zeros((int(facts["inducing"]), columns)))
        Y = X.new_zeros(len(X), int(facts["outputs"]))
        widths = facts["widths"]
        settings = DeepGPSettings(
            n_hidden=len(widths),
            width=widths[0] if widths else None,
            exponent=facts.get("exponent", 2.0),
            kernel=facts.get("kernel", "rbf"),
        )
        likelihood = likelihood_of(model.task, Y.shape[1], X, settings.exponent)
        options = DeepGPOptions.from_settings(model.get_params(deep=False), model._standardiser)
        function = self.function(self.blank(settings, X, Y, likelihood, options, facts).to(X))
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
        """The deep Gaussian process at its start for rows X [N, H] and targets Y [N, P]."""

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
        """One of the shape of a file's, at inducing inputs X [M, H], to load a state into."""

    def function(self, gp: Model) -> FittedDeepGP[Model]:
        """What predictions are made from."""
        return FittedDeepGP(gp)

    def objective(
        self,
        gp: Model,
        X: Tensor,
        Y: Tensor,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> DeepGPObjective:
        """What the steps maximise, for the deep Gaussian process at its start."""
        return DeepGPObjective(
            gp,
            X,
            Y,
            n_samples=options.n_samples,
            batch_size=options.batch_size,
            generator=generator,
        )

    def finish(self, gp: Model, X: Tensor, Y: Tensor) -> None:
        """What else is measured on all rows when the steps are over."""


def _tracking(
    model: Predictor,
    function: FittedDeepGP[Any],
    fit: DeepGPObjective,
    unseen: HeldOutRows | None,
) -> HeldOutTracking | None:
    """NLPP of rows that the fit does not see, by the same few draws each time.

    In batches, and of classes, by the q that the steps go by: that of all rows is taken in the end
    alone.
    """
    if unseen is None:
        return None
    closed = fit.batches.whole and function.gp.last.closed_form
    rows = (fit.X, fit.Y) if closed else None

    def measure() -> float:
        function.keep(FOLLOWED_DRAWS, torch.Generator().manual_seed(0), rows)
        return float(-model._log_density(unseen.X, unseen.y).mean())

    return HeldOutTracking(measure, PATIENCE if unseen.stops else None)


@dataclass(frozen=True)
class InducedMethod(DeepGPMethod[InducedDeepGP]):
    """Inducing inputs of its own in every layer: SVGP, DSVI and their q-exponential twins.

    Attributes:
        each_draw: whether the last layer's q is that of each draw, where it has a closed form.
    """

    each_draw: bool = False

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
        return self._at(options.initial, X, Y, Z, likelihood, options)

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
