"""Base class of Gaussian process latent variable models with class labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.table_size import TableSize
from lvmcore.errors import DataError
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.label_predictions import LabelPredictions
from lvmcore.gp.minibatch.label_path import StochasticLabelPath
from lvmcore.gp.model import GPLatentVariableModel
from lvmcore.gp.paths import KernelPath, LabelPath, named_paths
from lvmcore.likelihoods.classification import Link
from lvmcore.numerics.conversion import to_numpy

__all__ = ["LabelledGPLVM"]


@estimator_dataclass
class LabelledGPLVM(ClassifierMixin, GPLatentVariableModel):
    """Base of models with Gaussian processes from the map to the class labels.

    P(class k) of a row is E_{q(x)} E P(k | f(x)), q(x) inferred from the columns alone; for the
    probit link, one class against the rest, it is divided by the sum over the classes. For several
    label columns, each has its own Gaussian processes, and results for labels are lists with one
    entry per column (``predict``: [N, L]).
    """

    label_draws: ClassVar[int] = 64

    label_weight: float | None
    likelihood: Link | None
    _decoder: DataDecoder = fitted()
    _label_predictions: LabelPredictions = fitted()

    @classmethod
    def largest_label_weight(cls, size: TableSize) -> float:
        """The label weight of a table of this size whose columns predict its labels well."""
        del size
        return 1.0

    def predict_proba(self, X: ArrayLike) -> Any:
        """Class probabilities of rows, normalised, from their columns alone, [N, C].

        Args:
            X: rows in the data's units, [N, D].

        Returns:
            The probabilities; a list with one array per label column, if the fit had several.

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
        """
        posterior = self.posterior(X)
        mean = self._cast(self._to_tensor(posterior.mean))
        sd = self._cast(self._to_tensor(np.sqrt(posterior.variance)))
        found = self._label_predictions.probabilities(mean, sd, self.label_draws)
        return found[0] if len(found) == 1 else found

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, [N]; for several label columns [N, L]."""
        found = self.predict_proba(X)
        return self._label_predictions.best_classes(found if isinstance(found, list) else [found])

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Accuracy of ``predict(X)`` against the labels y: share of rows correct in all columns.

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
        return self._label_predictions.at_points(self._cast(X), column)

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> NDArray[np.float64]:
        """From the prior, or for a label from the mixture of the posteriors of its rows, [n, Q]."""
        if label is None:
            return super()._sample_latent(n, None, rng)
        return self._label_predictions.draw(self.embedding_, n, label, rng)

    def _store_paths(
        self, data: KernelPath, labels: Sequence[LabelPath | StochasticLabelPath]
    ) -> None:
        """Store the fitted paths: label predictions, relevance and inducing inputs."""
        self._label_predictions = LabelPredictions.from_paths(
            self._labels, labels, self.settings_["likelihood"]
        )
        paths = named_paths(data, labels, self._labels)
        self.relevance_ = {name: to_numpy(p.kernel.relevance) for name, p in paths.items()}
        self.inducing_inputs_ = {name: to_numpy(p.Z) for name, p in paths.items()}

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays | self._label_predictions.arrays(), facts

    def _restore_data(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> None:
        super()._restore_data(arrays, like)
        self._label_predictions = LabelPredictions.from_arrays(
            self._labels, arrays, like, self.settings_["likelihood"]
        )
