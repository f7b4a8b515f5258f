"""What Gaussian-process maps share that lead to class labels too: one path a label column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.errors import DataError
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.label_predictions import LabelPredictions
from lvmcore.gp.minibatch_label_path import StochasticLabelPath
from lvmcore.gp.model import GPLatentVariableModel
from lvmcore.gp.paths import DataPath, KernelPath, LabelPath
from lvmcore.likelihoods.classification import Link
from lvmcore.numerics.conversion import to_numpy
from lvmcore.preprocessing.class_labels import ClassLabels, label_column_names

__all__ = ["LabelledGPLVM", "named_paths"]


@estimator_dataclass
class LabelledGPLVM(ClassifierMixin, GPLatentVariableModel):
    """What the models share that have Gaussian processes from the map to the class labels too.

    P(class k) of a row is E_{q(x)} E P(k | f(x)), q(x) inferred from the columns alone; for the
    probit, one class against the rest, it is divided by the sum over the classes. Where the fit
    took several label columns, each has Gaussian processes of its own, and whatever is said of
    labels is a list, one entry a column (``predict``: [N, L]).
    """

    label_draws: ClassVar[int] = 64

    likelihood: Link
    _decoder: DataDecoder = fitted()
    _label_predictions: LabelPredictions = fitted()

    def predict_proba(self, X: ArrayLike) -> Any:
        """Class probabilities of rows, normalised, [N, C]; the columns alone decide.

        Args:
            X: rows in the data's units, [N, D].

        Returns:
            The probabilities; a list of them, one a label column, where the fit took several.

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
        """
        posterior = self.posterior(X)
        mean, sd = self._to_tensor(posterior.mean), self._to_tensor(np.sqrt(posterior.variance))
        found = self._label_predictions.probabilities(mean, sd, self.label_draws)
        return found[0] if len(found) == 1 else found

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, [N]; of each label column, [N, L], if several."""
        found = self.predict_proba(X)
        return self._label_predictions.best_classes(found if isinstance(found, list) else [found])

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Accuracy of ``predict(X)`` against the labels y: the share of rows right in all columns.

        Raises:
            DataError: y has another shape than the predictions.
        """
        if len(self._labels) == 1:
            return float(ClassifierMixin.score(self, X, y))
        truth, predicted = np.asarray(y, dtype=object), self.predict(X).astype(object)
        if truth.shape != predicted.shape:
            raise DataError(
                f"y has shape {truth.shape}: expected {predicted.shape}, a label for each row in "
                f"each of the columns {', '.join(self.label_names_)}."
            )
        return float((truth == predicted).all(axis=1).mean())

    def _decode_labels(self, X: Tensor, column: int) -> tuple[Tensor, Tensor, Tensor]:
        return self._label_predictions.at_points(X, column)

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> NDArray[np.float64]:
        """From the prior, or for a label from the mixture of its rows' posteriors, [n, Q]."""
        if label is None:
            return super()._sample_latent(n, None, rng)
        return self._label_predictions.draw(self.embedding_, n, label, rng)

    def _keep_paths(
        self, data: DataPath, labels: Sequence[LabelPath | StochasticLabelPath]
    ) -> None:
        """Take over fitted paths: label predictions, relevance and inducing inputs."""
        self._label_predictions = LabelPredictions.from_paths(self._labels, labels, self.likelihood)
        paths = named_paths(data, labels, self._labels)
        self.relevance_ = {name: to_numpy(p.kernel.relevance) for name, p in paths.items()}
        self.inducing_inputs_ = {name: to_numpy(p.Z) for name, p in paths.items()}

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays | self._label_predictions.arrays(), facts

    def _restore_data(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> None:
        super()._restore_data(arrays, like)
        self._label_predictions = LabelPredictions.from_arrays(
            self._labels, arrays, like, self.likelihood
        )


def named_paths(
    data: DataPath,
    labels: Sequence[LabelPath | StochasticLabelPath],
    columns: Sequence[ClassLabels],
) -> dict[str, KernelPath]:
    """The paths of a fit by name: "data" and "labels", or "labels: NAME" for each of several."""
    return {"data": data, **dict(zip(label_column_names("labels", columns), labels, strict=True))}
