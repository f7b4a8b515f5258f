"""The fit of an exact Gaussian process to classes, and its storage."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.predictor import Predictor, SupervisedFitProblem
from lvmcore.base.table_size import TableSize
from lvmcore.errors import NumericalError
from lvmcore.gp.classification.dirichlet import (
    DirichletGP,
    DirichletLikelihood,
    DirichletPosterior,
    DirichletRows,
)
from lvmcore.gp.exact_method import held_out_tracking, kernel_starts, varying_kernel
from lvmcore.gp.exact_regression import direct_schedule, drawn_rows
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome

__all__ = ["ALPHAS", "DirichletMethod", "FittedDirichletGP"]

#: α_ε that are tried, the usual one first, and the rows by which it and the kernel are chosen.
ALPHAS, CHOICE_ROWS = (0.01, 0.1, 0.001), 300


class FittedDirichletGP:
    """The posterior of Gaussian processes to classes as the function of a predictor."""

    n_hidden_layers = 0

    def __init__(self, model: DirichletGP, rows: DirichletRows) -> None:
        self.model, self.rows = model, rows
        self.update()

    def update(self) -> None:
        """Condition on the rows under the current parameters."""
        self.posterior = DirichletPosterior(self.model, self.rows)

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α of the columns, by layer."""
        return {"layer1": to_numpy(self.model.gp.relevance)}

    @property
    def n_parameters(self) -> int:
        """Number of optimised parameters."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """There is no hidden layer."""
        raise NotImplementedError  # there are no hidden layers

    def normals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Only of numbers."""
        raise NotImplementedError  # only of numbers

    def weights(self) -> FloatArray | None:
        """None: there is one component."""
        return None

    def probability(self, X: Tensor) -> Tensor:
        """Probabilities of the classes at standardised rows, [n, C]."""
        return self.posterior.probability(X)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-serialisable facts for a file."""
        arrays = {f"model.{name}": to_numpy(one) for name, one in self.model.state_dict().items()}
        facts = {
            "kernel": str(self.model.gp.kernel.expression),
            "alpha": self.rows.alpha,
            "classes": self.rows.n_classes,
        }
        return {**arrays, "X": to_numpy(self.rows.X), "codes": self.rows.codes}, facts


class DirichletMethod:
    """Fit by the marginal likelihood of the labels, with the quasi-Newton method."""

    def advise(self, size: TableSize) -> dict[str, Advised]:
        """Nothing: no setting depends on the size of the table."""
        del size
        return {}

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        """Choose the kernel and α_ε, fit to all rows, and condition on them."""
        settings = model.settings_
        codes = np.asarray(problem.target, dtype=np.intp)
        n_classes = len(model.classes_)
        given = settings["alpha_epsilon"]
        rows = DirichletRows(problem.X, codes, n_classes, ALPHAS[0] if given is None else given)
        some = rows.subset(drawn_rows(len(codes), CHOICE_ROWS))
        start = _chosen_kernel(model, some)
        if given is None:
            alpha, start = _chosen_alpha(start, some, settings["max_iter"])
            rows = rows.with_alpha(alpha)
            model._note(f"α_ε = {alpha:g}, by the log loss of each row given the others.")
        function = FittedDirichletGP(start, rows)
        model._function = function
        outcome = train(
            DirichletLikelihood(start, rows),
            direct_schedule(settings["max_iter"], len(codes)),
            problem.callback,
            checkpoint=problem.checkpoint,
            held_out=held_out_tracking(model, function, problem),
        )
        function.update()
        return outcome

    def restore(
        self, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> FittedDirichletGP:
        """The function from the arrays and facts of a file."""
        codes = np.asarray(arrays["codes"], dtype=np.intp)
        X = model._to_tensor(arrays["X"])
        rows = DirichletRows(X, codes, int(facts["classes"]), float(facts["alpha"]))
        found = DirichletGP(varying_kernel(read_kernel(facts["kernel"]), model).to(X), rows)
        found.load_state_dict(
            {name: torch.as_tensor(arrays[f"model.{name}"]) for name in found.state_dict()}
        )
        return FittedDirichletGP(found.to(X), rows)


def _fitted(model: DirichletGP, rows: DirichletRows, max_iter: int) -> float:
    """Fit a model in place; the objective."""
    fit = DirichletLikelihood(model, rows)
    return train(fit, direct_schedule(max_iter, len(rows.X)), None).objective


def _chosen_kernel(model: Predictor, rows: DirichletRows) -> DirichletGP:
    """The process of the highest likelihood of some rows, among the starts of its kernel."""
    settings = model.settings_
    starts = kernel_starts(settings["kernel"], model, rows.X, rows.Y[:, :1])
    found = [DirichletGP(kernel, rows) for kernel in starts]
    if len(found) == 1:
        return found[0]
    values = [_fitted(one, rows, settings["max_iter"]) for one in found]
    return found[int(np.argmax(values))]


def _chosen_alpha(
    start: DirichletGP, rows: DirichletRows, max_iter: int
) -> tuple[float, DirichletGP]:
    """The α_ε of the least log loss of each row given the others, and its process.

    Raises:
        NumericalError: none could be fitted.
    """
    best: tuple[float, float, DirichletGP] | None = None
    for alpha in ALPHAS:
        own, labels = copy.deepcopy(start), rows.with_alpha(alpha)
        try:
            _fitted(own, labels, max_iter)
            loss = DirichletPosterior(own, labels).left_out_log_loss()
        except NumericalError:
            continue
        if best is None or loss < best[0]:
            best = loss, alpha, own
    if best is None:
        raise NumericalError("The labels could not be fitted: choose another kernel.")
    return best[1], best[2]
