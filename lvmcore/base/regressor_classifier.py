"""Regressor and Classifier: predictors of numbers and of classes.

The subclasses of ``Predictor`` define the reading and coding of the target, and the predictions for
new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.predictor import Predictor, Task
from lvmcore.errors import ConfigError, DataError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.preprocessing.class_labels import ClassLabels, labels_from_json, labels_to_json
from lvmcore.preprocessing.target_column import (
    NumberTarget,
    PredictiveMixture,
    class_signs,
    numeric_target,
    target_vector,
)
from lvmcore.preprocessing.target_transform import TargetTransform

__all__ = ["Classifier", "Regressor"]


@estimator_dataclass
class Regressor(RegressorMixin, Predictor):
    """A model of a numeric target."""

    task: ClassVar[Task] = "number"

    _target: NumberTarget = fitted()

    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        return numeric_target(y, n_rows)

    def _read_new_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        return numeric_target(y, n_rows)

    def _decode_target(self, target: NDArray[Any]) -> NDArray[Any]:
        return target

    def _measure_target(self, target: NDArray[Any]) -> None:
        self._target = NumberTarget.fit(target)

    def _encode_target(self, target: NDArray[Any], like: Tensor) -> Tensor:
        return torch.as_tensor(self._target.transform(target)[:, None]).to(like)

    def predictive(self, X: ArrayLike) -> PredictiveMixture:
        """Predictive distribution of the target of rows, in its units, noise included.

        Args:
            X: rows in the data's units, [n, H].

        Returns:
            A mixture of normal distributions, one component per draw of the functions or per site.

        Raises:
            DataError: the rows do not fit the model.
        """
        parts = list(self._mixtures(X))
        mean, sd = (
            np.concatenate(part, 1) for part in zip(*((p.mean, p.sd) for p in parts), strict=True)
        )
        return PredictiveMixture(mean, sd, self._function.weights(), self._target.transformed)

    def _mixtures(self, X: ArrayLike) -> Iterator[PredictiveMixture]:
        """Predictive distributions, in blocks of rows."""
        check_is_fitted(self)
        yield from map(self._mixture, self._input_blocks(X))

    def _mixture(self, X: Tensor) -> PredictiveMixture:
        """Predictive distributions at standardised rows."""
        means, variances = (to_numpy(part).T for part in self._function.normals(X))
        mean, scale = self._target.mean, self._target.scale
        return PredictiveMixture(
            mean + scale * means,
            scale * np.sqrt(variances),
            self._function.weights(),
            self._target.transformed,
        )

    def _compute_on_mixtures(
        self, X: ArrayLike, compute: Callable[[PredictiveMixture], FloatArray]
    ) -> FloatArray:
        """The result of ``compute`` for the distributions of all rows, in blocks; rows first."""
        return np.concatenate([compute(part) for part in self._mixtures(X)])

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predictive mean of the target, [n]; with ``return_std`` also its sd, noise included."""
        mean, sd = self._compute_on_mixtures(X, lambda some: np.stack(some.moments(), 1)).T
        return (mean, sd) if return_std else mean

    def predict_quantiles(self, X: ArrayLike, levels: ArrayLike = (0.05, 0.5, 0.95)) -> FloatArray:
        """Quantiles of the predictive distribution, [n, levels].

        Raises:
            ConfigError: a level is not between 0 and 1.
        """
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
            raise ConfigError(f"levels={levels!r} cannot be used: expected numbers in (0, 1).")
        return self._compute_on_mixtures(X, lambda some: some.quantiles(wanted))

    def _log_density(self, X: Tensor, y: NDArray[Any]) -> FloatArray:
        return self._mixture(X).log_density(y)

    def _task_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        transformed = self._target.transformed
        facts = {} if transformed.is_identity else {"target_transform": transformed.facts()}
        return {}, {"target": [self._target.mean, self._target.scale], **facts}

    def _set_task_state(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        del arrays
        mean, scale = map(float, meta["target"])
        # Files of earlier versions, and those of a target without a transform, have none.
        transformed = TargetTransform.from_facts(meta.get("target_transform"))
        self._target = NumberTarget(mean, scale, transformed)


@estimator_dataclass
class Classifier(ClassifierMixin, Predictor):
    """A model of a target of classes."""

    task: ClassVar[Task] = "class"

    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        labels = ClassLabels.encode(y, n_rows)
        missing = labels.codes < 0
        if missing.any():
            raise DataError(
                f"Input y contains NaN or None in {int(missing.sum())} rows, the first of them row "
                f"{int(np.argmax(missing)) + 1}: leave rows without a class out."
            )
        self._set_labels((labels,))
        return labels.codes

    def _encode_target(self, target: NDArray[Any], like: Tensor) -> Tensor:
        return class_signs(target, len(self.classes_), like)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities of rows, [n, C], averaged over the draws of the functions.

        Raises:
            DataError: the rows do not fit the model.
        """
        check_is_fitted(self)
        return np.concatenate([self._probabilities(block) for block in self._input_blocks(X)])

    def _probabilities(self, X: Tensor) -> FloatArray:
        """Normalised probabilities of all classes at standardised rows, [n, C]."""
        each = to_numpy(self._function.probability(X))
        found = np.hstack([1 - each, each]) if each.shape[1] == 1 else each
        return np.asarray(found / found.sum(1, keepdims=True))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, [n]."""
        chosen = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[chosen])

    def _read_new_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        return target_vector(y, n_rows)

    def _decode_target(self, target: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.asarray(self.classes_)[target])

    def _has_density(self, y: NDArray[Any]) -> NDArray[np.bool_]:
        known = y[:, None] == np.asarray(self.classes_)
        return np.asarray(known.any(1), dtype=bool)

    def _log_density(self, X: Tensor, y: NDArray[Any]) -> FloatArray:
        known = y[:, None] == np.asarray(self.classes_)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log((self._probabilities(X) * known).sum(1)))

    def _task_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {}, {"classes": labels_to_json(self._labels)}

    def _set_task_state(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        del arrays
        self._set_labels(labels_from_json(meta["classes"]))
