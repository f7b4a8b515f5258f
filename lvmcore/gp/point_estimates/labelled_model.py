"""Base class of models with point estimates of the positions, and class labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import InducingOrAuto, MapKernel
from lvmcore.base.table_size import TableSize
from lvmcore.gp.point_estimates.class_scores import ClassScores
from lvmcore.gp.point_estimates.model import (
    ApproximationOrAuto,
    PointGPLVM,
    advised_approximation,
    function_path,
)
from lvmcore.gp.point_estimates.objective import PathTerm, PointObjective, PositionPrior
from lvmcore.gp.point_estimates.paths import PointPath, label_group
from lvmcore.gp.point_estimates.positions import FreePositions
from lvmcore.kernels.expression_kernel import map_kernel
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.relevance import total_effects
from lvmcore.training.outcome import FitOutcome

__all__ = ["LabelledPointGPLVM", "class_shares"]


@estimator_dataclass
class LabelledPointGPLVM(ClassifierMixin, PointGPLVM):
    """Base of the models with Gaussian processes from the positions to one-hot labels."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        labels="required", missing_labels=True, missing_cells=True, bound=True, gpu=True
    )

    classes_: NDArray[Any] = fitted()
    _scores: ClassScores = fitted()

    approximation: ApproximationOrAuto = None
    n_inducing: InducingOrAuto = None
    kernel: MapKernel = "rbf"

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """Exact for short tables, else by inducing inputs."""
        return advised_approximation(size)

    # ---- fitting -------------------------------------------------------------------------------

    def _label_path(self, problem: FitProblem, X: Tensor) -> PointPath:
        """The path from the initial map X, [N, Q], to the one-hot labels."""
        labels = problem.labels[0]
        targets = [label_group(labels.codes, len(labels.classes), X)]
        return function_path(self, problem, X, targets, map_kernel(self.kernel, X.shape[1]))

    def _fit_both(self, problem: FitProblem, X: Tensor, data: PointPath) -> FitOutcome:
        """Maximise log p(Y | X) + log p(T | X) + log p(X) from the initial map X, [N, Q]."""
        labels = self._label_path(problem, X)
        terms = [PathTerm("data fit", data), PathTerm("label fit", labels), PositionPrior()]
        paths = {"data": data, "labels": labels}
        outcome = self._train(problem, PointObjective(FreePositions(X), paths, terms))
        self._store_scores(labels, problem.labels[0])
        return outcome

    # ---- predictions ---------------------------------------------------------------------------

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities of rows, from their columns alone, [N, C].

        A row is placed by the path to the columns; the probability of a class is that its score
        is the largest (``lvmcore.gp.point_estimates.class_scores``).

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
        """
        positions = self._to_tensor(self.posterior(X).mean).double()
        return to_numpy(self._scores.probabilities(positions)[0])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class with the largest score of each row, [N]."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Accuracy of ``predict(X)`` against the labels y."""
        return float(ClassifierMixin.score(self, X, y))

    def _decode_labels(self, X: Tensor, column: int) -> tuple[Tensor, Tensor, Tensor]:
        del column  # there is only one
        p, spread = self._scores.probabilities(X.double())
        return p, p, spread

    def _store_scores(self, path: PointPath, labels: ClassLabels) -> None:
        """Store the fitted path to the labels."""
        X = self._fitted_positions()
        self._scores = ClassScores(path.decoder(X), class_shares(labels, X))

    def _total_effects(self) -> dict[str, FloatArray]:
        def classes(X: FloatArray) -> FloatArray:
            return to_numpy(self._scores.probabilities(torch.as_tensor(X).to(at))[0])

        at = self._fitted_positions()
        effects = total_effects(classes, self.embedding_.mean)
        return super()._total_effects() | {"labels": effects}

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays | self._scores.arrays(), facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self._scores = ClassScores.from_arrays(arrays, self._to_tensor(np.zeros(1)).double())


def class_shares(labels: ClassLabels, like: Tensor) -> Tensor:
    """Share of each class among the labelled rows, [C]."""
    known = labels.codes[labels.codes >= 0]
    counts = np.bincount(known, minlength=len(labels.classes))
    return torch.as_tensor(counts / len(known)).to(like)
