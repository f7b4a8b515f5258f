"""The fit of an exact Gaussian process to a target, and its storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.predictor import Predictor, SupervisedFitProblem
from lvmcore.base.table_size import TableSize
from lvmcore.gp.exact_regression import (
    ExactGP,
    GPPosterior,
    MarginalLikelihood,
    choose_kernel,
    direct_schedule,
    distinct_rows,
)
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised
from lvmcore.training.held_out import HeldOutTracking
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome

__all__ = ["ExactGPMethod", "FittedExactGP"]


class FittedExactGP:
    """The posterior of an exact Gaussian process as the function of a predictor."""

    n_hidden_layers = 0

    def __init__(self, gp: ExactGP, X: Tensor, Y: Tensor) -> None:
        self.gp, self.X, self.Y = gp, X, Y
        self.posterior = GPPosterior(gp, X, Y)

    def update(self) -> None:
        """Condition on the rows under the current kernel."""
        self.posterior = GPPosterior(self.gp, self.X, self.Y)

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α = 1/ℓ² of the columns, by layer."""
        return {"layer1": to_numpy(self.gp.relevance)}

    @property
    def n_parameters(self) -> int:
        """Number of optimised parameters."""
        return sum(parameter.numel() for parameter in self.gp.parameters())

    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """There is no hidden layer."""
        raise NotImplementedError  # there are no hidden layers

    def normals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the target at standardised rows, noise included, [n, 1] each."""
        return self.posterior.moments(X)

    def weights(self) -> FloatArray | None:
        """None: there is one component."""
        return None

    def probability(self, X: Tensor) -> Tensor:
        """Only of classes."""
        raise NotImplementedError  # only of classes

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-serialisable facts for a file."""
        arrays = {f"gp.{name}": to_numpy(one) for name, one in self.gp.state_dict().items()}
        return {**arrays, "X": to_numpy(self.X), "Y": to_numpy(self.Y)}, {"kernel": self.gp.kernel}


class ExactGPMethod:
    """Fit by the marginal likelihood, with the quasi-Newton method from the first step."""

    def advise(self, size: TableSize) -> dict[str, Advised]:
        """Nothing: no setting depends on the size of the table."""
        del size
        return {}

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        """Choose the kernel, fit it to the distinct rows, and condition on them."""
        settings = model.settings_
        rows = distinct_rows(problem.X, problem.Y)
        X, Y = problem.X[rows], problem.Y[rows]
        if len(rows) < len(problem.X):
            model._note(
                f"{len(problem.X) - len(rows):,} rows are copies of others, target included, and "
                "count once: as copies they would make the noise 0."
            )
        fit = MarginalLikelihood(
            choose_kernel(X, Y, settings["kernel"], settings["max_iter"]), X, Y
        )
        function = FittedExactGP(fit.gp, X, Y)
        model._function = function
        held_out = None
        if problem.held_out is not None:
            held = problem.held_out

            def measure() -> float:
                function.update()
                return float(-model._log_density(held.X, held.y).mean())

            held_out = HeldOutTracking(measure)
        outcome = train(
            fit,
            direct_schedule(settings["max_iter"], len(X)),
            problem.callback,
            checkpoint=problem.checkpoint,
            held_out=held_out,
        )
        function.update()
        return outcome

    def restore(
        self, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> FittedExactGP:
        """The function from the arrays and facts of a file."""
        X, Y = (model._to_tensor(arrays[name]) for name in ("X", "Y"))
        gp = ExactGP(X.shape[1], facts["kernel"], X)
        gp.load_state_dict(
            {name: torch.as_tensor(arrays[f"gp.{name}"]) for name in gp.state_dict()}
        )
        return FittedExactGP(gp.to(X), X, Y)
