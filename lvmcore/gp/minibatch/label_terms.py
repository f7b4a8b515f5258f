"""Terms of the class labels in a bound that is fitted by mini-batches."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike
from torch import Tensor

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.inducing_points import spread_points
from lvmcore.gp.minibatch.label_path import StochasticLabelPath
from lvmcore.kernels.expression import KernelExpression
from lvmcore.likelihoods.classification import Link
from lvmcore.preprocessing.class_labels import (
    ClassLabels,
    Weighting,
    label_column_names,
    row_weights,
)
from lvmcore.training.batches import LONGEST_LABEL_STEP, step_length
from lvmcore.training.label_term import LabelTerm

__all__ = ["LabelSettings", "NaturalGradientLabelTerm", "label_terms"]


@dataclass(frozen=True)
class LabelSettings:
    """Settings of the label terms.

    Attributes:
        likelihood: link of the classes.
        label_weight: weight of the terms in the bound.
        class_weight: weighting of the classes.
    """

    likelihood: Link
    label_weight: float
    class_weight: Weighting


class NaturalGradientLabelTerm(LabelTerm):
    """A label term whose q(V) takes a natural-gradient step after each batch.

    Args:
        name: name of the term.
        path: the path to the label column.
        labels: classes and codes of the label column.
        weights: w of each row, [N].
        step: length ρ of the natural-gradient step.
    """

    def __init__(
        self,
        name: str,
        path: StochasticLabelPath,
        labels: ClassLabels,
        weights: ArrayLike,
        step: float,
    ) -> None:
        super().__init__(name, path, labels, weights, path.precision)
        self.path, self.step = path, step

    def update(self) -> None:
        """Take the natural-gradient step for the last batch."""
        self.path.natural_gradient_step(self.step)


def label_terms(
    settings: LabelSettings | None,
    problem: FitProblem,
    X: Tensor,
    *,
    n_inducing: int,
    batch_size: int,
    expression: KernelExpression | None = None,
) -> list[NaturalGradientLabelTerm]:
    """A label term for each label column of a problem.

    Args:
        settings: settings of the terms; None without labels.
        problem: the problem to fit.
        X: initial map, [N, Q] (float64).
        n_inducing: M of each.
        batch_size: B.
        expression: of the kernels; None for the RBF kernel.
    """
    if settings is None:
        return []
    step = step_length(batch_size, n_inducing, most=LONGEST_LABEL_STEP)
    found = []
    names = label_column_names("label fit", problem.labels)
    for name, column in zip(names, problem.labels, strict=True):
        Z = spread_points(X, n_inducing, problem.generator)
        path = StochasticLabelPath(Z, len(column.classes), settings.likelihood, expression)
        path = path.to(X.device)
        weights = settings.label_weight * row_weights(column.codes, settings.class_weight)
        found.append(NaturalGradientLabelTerm(name, path, column, weights, step))
    return found
