"""The fit of an exact Gaussian process to a target, and its storage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, get_args

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.predictor import Predictor, SupervisedFitProblem
from lvmcore.base.table_size import TableSize
from lvmcore.gp.conjugate_gradients.conditioning import Conditioning, SolveProgress, unsolved_note
from lvmcore.gp.conjugate_gradients.optimised_gp import OptimisedGP
from lvmcore.gp.conjugate_gradients.posterior import BlockPosterior, Solution
from lvmcore.gp.exact.fitted_gp import FittedExactGP, split_known
from lvmcore.gp.exact.hyperparameter_posterior import (
    HyperparameterDraws,
    hyperparameter_draws,
    is_affordable,
)
from lvmcore.gp.exact_regression import (
    CHOICE_ROWS,
    ExactGP,
    ExactRows,
    MarginalLikelihood,
    choose_kernel,
    direct_schedule,
    distinct_rows,
    drawn_rows,
)
from lvmcore.gp.structure.kernel_sentence import kernel_sentence
from lvmcore.gp.structure.search import KernelSearch
from lvmcore.gp.structure.transform_choice import TransformChoice, candidate_transforms
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.definition import KernelDefinition
from lvmcore.kernels.expression import KernelExpression, KernelTerm
from lvmcore.kernels.hyperpriors import check_priors, log_prior, read_priors
from lvmcore.kernels.stationary import StationaryName
from lvmcore.numerics.array_types import FloatArray
from lvmcore.parameters import Advised
from lvmcore.preprocessing.target_column import NumberTarget
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.held_out import HeldOutTracking
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome

__all__ = [
    "CHOLESKY_ROWS",
    "ExactGPMethod",
    "held_out_tracking",
    "kernel_starts",
    "varying_kernel",
]

#: Rows up to which all are factorised at once; of more, rows by which the parameters are fitted.
CHOLESKY_ROWS, SUBSET_ROWS = 5000, 3000
#: Names of the parameters in files of earlier versions, whose kernels were stationary.
_EARLIER_NAMES = {
    "kernel.parts.0.parts.0.component.log_lengthscales": "log_lengthscales",
    "kernel.parts.0.log_variance": "log_variance",
}


class _Conditioned(Protocol):
    """A fitted function that conditions on rows."""

    def update(self) -> None:
        """Condition on the rows under the current parameters."""


@dataclass(frozen=True)
class ExactGPMethod:
    """Fit by the marginal likelihood, with the quasi-Newton method from the first step.

    Above 5000 rows the parameters are those of 3000 rows that are drawn at random, and the process
    is conditioned on all rows by conjugate gradients (``lvmcore.gp.conjugate_gradients``).

    Attributes:
        searches: whether the kernel "auto" is searched from the best stationary one; else it is
            that one.
    """

    searches: bool = False

    def advise(self, size: TableSize) -> dict[str, Advised]:
        """Nothing: no setting depends on the size of the table."""
        del size
        return {}

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        """Choose kernel and transform, fit them to the distinct rows, and condition on them."""
        settings = model.settings_
        check_priors(settings.get("priors", ""), model._standardiser.varying_names)
        rows = distinct_rows(problem.X, problem.Y)
        if len(rows) < len(problem.X):
            model._note(
                f"{len(problem.X) - len(rows):,} rows are copies of others, target included, and "
                "count once: as copies they would make the noise 0."
            )
        data, y = _rows_of_fit(model, problem, rows), problem.target[rows.numpy()]
        many = len(data.X) > CHOLESKY_ROWS
        trained = _restored(model, problem.checkpoint, y) if many else None
        trained = trained or self._train(model, problem, data, y)
        if trained.target is not None:
            model._target = trained.target
            data = _with_target(data, trained.target, y)
        outcome = trained.outcome
        if many:
            outcome = _condition(model, problem, trained, data, y)
        else:
            assert isinstance(model._function, FittedExactGP)
            model._function.update()
        if self.searches and settings["kernel"] == "auto":
            model._note(kernel_sentence(trained.gp.kernel))
        if trained.target is not None:
            scale = trained.target.transformed.scale_phrase
            model._note(f"The target is modelled on {scale}.")
        return outcome

    def _train(
        self, model: Predictor, problem: SupervisedFitProblem, data: ExactRows, y: FloatArray
    ) -> OptimisedGP:
        """Choose kernel and transform, and fit them to the rows, or to some of many."""
        settings = model.settings_
        searched = self.searches and settings["kernel"] == "auto"
        start, target = self._start(model, data, y, searched=searched)
        if target is not None:
            model._target = target
            data = _with_target(data, target, y)
        many = len(data.X) > CHOLESKY_ROWS
        if many:
            some = drawn_rows(len(data.X), SUBSET_ROWS)
            data, y = data.take(some), y[some.numpy()]
        jacobian = 0.0 if target is None else target.log_jacobian(y)
        priors = read_priors(settings.get("priors", ""))
        fit = MarginalLikelihood(start, data.X, data.Y, jacobian, data.known, priors)
        function = FittedExactGP(fit.gp, data)
        model._function = function
        outcome = train(
            fit,
            direct_schedule(settings["max_iter"], len(data.X)),
            problem.callback,
            checkpoint=problem.checkpoint,
            held_out=held_out_tracking(model, function, problem),
        )
        uncertain = settings.get("parameter_uncertainty") and not many
        if uncertain and is_affordable(fit.gp, len(data.X)):
            function.draws = hyperparameter_draws(fit)
        return OptimisedGP(fit.gp, target, outcome)

    def _start(
        self, model: Predictor, data: ExactRows, y: FloatArray, *, searched: bool
    ) -> tuple[ExactGP, NumberTarget | None]:
        """The kernel from which the fit starts, and the transform of the target; None without one.

        The transform is chosen under the best stationary kernel before the search, and again under
        the kernel that was found: waves that grow with the level ask for it as much as noise does.
        """
        settings, X, Y = model.settings_, data.X, data.Y
        most = settings["max_iter"]
        starts = kernel_starts(settings["kernel"], model, X, Y)
        priors = read_priors(settings.get("priors", ""))
        start = choose_kernel(X, Y, starts, most, data.known, priors)
        some = drawn_rows(len(X), CHOICE_ROWS)
        few, few_y = X[some], y[some.numpy()]
        known = None if data.known is None else data.known[some]
        transform = settings.get("target_transform", "none") if known is None else "none"
        names = candidate_transforms(transform, y)
        choice = TransformChoice(few, few_y, names, most)
        found = None
        if names != ("none",):
            found = choice.best(start)
            start = found.gp
        if searched:
            target = NumberTarget.fit(few_y) if found is None else found.target
            few_Y = Y[some] if found is None else target.transform(few_y)[:, None]
            start = KernelSearch(
                few,
                torch.as_tensor(few_Y).to(X),
                lambda text: varying_kernel(text, model).to(X),
                most,
                known,
            ).extend(start)
            if names != ("none",):
                found = choice.best(start)
                start = found.gp
        if found is None or found.target.transformed.is_identity:
            return start, None
        return start, NumberTarget.fit(y, found.target.transformed)

    def restore(
        self, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> FittedExactGP:
        """The function from the arrays and facts of a file."""
        X, Y = (model._to_tensor(arrays[name]) for name in ("X", "Y"))
        gp = ExactGP(varying_kernel(read_kernel(facts["kernel"]), model), X)
        names = {name: _EARLIER_NAMES.get(name, name) for name in gp.state_dict()}
        earlier = "gp.log_variance" in arrays
        gp.load_state_dict(
            {
                name: torch.as_tensor(arrays[f"gp.{before if earlier else name}"])
                for name, before in names.items()
            }
        )
        known = model._to_tensor(arrays["known_noise"]) if "known_noise" in arrays else None
        scale = 1.0 if known is None else float(model._target.scale)
        solution, gp = Solution.from_arrays(arrays, X), gp.to(X)
        posterior = None if solution is None else BlockPosterior(gp, X, Y, solution, known)
        draws = None
        if "draws.points" in arrays:
            points, weights = (
                model._to_tensor(arrays[f"draws.{n}"]) for n in ("points", "weights")
            )
            draws = HyperparameterDraws(points, weights)
        return FittedExactGP(gp, ExactRows(X, Y, known, scale), posterior, draws=draws)


def _rows_of_fit(model: Predictor, problem: SupervisedFitProblem, rows: Tensor) -> ExactRows:
    """Some rows of a fit, and the variances of their noise where a column holds its sd."""
    X, Y = problem.X[rows], problem.Y[rows]
    if not model.settings_.get("noise_sd"):
        return ExactRows(X, Y)
    scale = float(model._target.scale)
    features, known = split_known(X, scale)
    return ExactRows(features, Y, known, scale)


def _with_target(data: ExactRows, target: NumberTarget, y: FloatArray) -> ExactRows:
    """The rows with another transform of their targets y, [N]."""
    return replace(data, Y=torch.as_tensor(target.transform(y)[:, None]).to(data.X))


def _restored(model: Predictor, checkpoint: Checkpoint | None, y: FloatArray) -> OptimisedGP | None:
    """The process of a checkpoint that was written after the optimisation; None without one."""
    found = None if checkpoint is None else checkpoint.beside()
    like = model._to_tensor(np.zeros(1))
    return (
        None
        if found is None
        else OptimisedGP.restored(
            *found, lambda text: ExactGP(varying_kernel(read_kernel(text), model), like).to(like), y
        )
    )


def _condition(
    model: Predictor,
    problem: SupervisedFitProblem,
    trained: OptimisedGP,
    data: ExactRows,
    y: FloatArray,
) -> FitOutcome:
    """Condition on many rows, and estimate their marginal likelihood."""
    outcome, checkpoint = trained.outcome, problem.checkpoint
    last = outcome.history[-1] if outcome.history else None
    conditioning = Conditioning(trained.gp, data, problem.generator.initial_seed())
    if outcome.stopped:
        conditioning.measure()
    else:
        if checkpoint is not None:
            steps, seconds = (0, 0.0) if last is None else (last.iteration, last.seconds)
            checkpoint.follow(
                problem.generator, start=1, steps=steps, seconds=seconds, beside=trained.state()
            )
        conditioning.solve(SolveProgress(last, problem.callback, checkpoint))
    if outcome.stopped or conditioning.stopped:
        some = data.take(drawn_rows(len(data.X), SUBSET_ROWS))
        model._note(
            f"The fit was stopped before all rows were solved for: predictions are those of "
            f"{len(some.X):,} of the {len(data.X):,} rows."
        )
        model._function = FittedExactGP(trained.gp, some, None, conditioning.seconds_left)
        return replace(outcome, stopped=True)
    note = unsolved_note(conditioning.error)
    if note is not None:
        model._note(note)
    bound = math.fsum(conditioning.terms().values())
    if trained.target is not None:
        bound += trained.target.log_jacobian(y)
    priors = read_priors(model.settings_.get("priors", ""))
    if priors:
        bound += float(log_prior(priors, trained.gp.kernel, trained.gp.noise).detach())
    model._function = FittedExactGP(trained.gp, data, conditioning.posterior())
    return replace(outcome, objective=bound)


def held_out_tracking(
    model: Predictor, function: _Conditioned, problem: SupervisedFitProblem
) -> HeldOutTracking | None:
    """Tracking of the density of held-out rows; None without any."""
    if problem.held_out is None:
        return None
    held = problem.held_out

    def measure() -> float:
        function.update()
        return float(-model._log_density(held.X, held.y).mean())

    return HeldOutTracking(measure)


def varying_kernel(expression: KernelExpression, model: Predictor) -> CompositeKernel:
    """The kernel of an expression over the columns of a model that vary, at its start."""
    like = torch.empty(0, dtype=torch.float64)
    return KernelDefinition.of_varying(expression, model._standardiser).made(like)


def kernel_starts(
    text: str, model: Predictor, X: Float[Tensor, "N H"], Y: Float[Tensor, "N 1"]
) -> list[CompositeKernel]:
    """The kernels from which a fit starts: the stationary ones, or several of an expression.

    Raises:
        ConfigError: the expression names a column that is not in the fit, or does not vary.
    """
    if text == "auto":
        return [varying_kernel(KernelTerm(name), model).to(X) for name in get_args(StationaryName)]
    return KernelDefinition.of_columns(read_kernel(text), model._standardiser).starts(X, Y[:, 0])
