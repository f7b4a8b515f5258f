"""Predictor: the scikit-learn estimator that every model of a target column is.

The second task beside maps: learn a column (numbers, or classes) from the others, say how sure the
prediction is, and show what the layers made of the rows on the way. The base class owns the public
door; a model supplies its mathematics through ``_fit`` and ``_predicted``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.blocks import blocks
from lvmcore.checkpoint import Checkpoint
from lvmcore.checks import Capabilities, to_numpy
from lvmcore.errors import ConfigError, DataError
from lvmcore.estimator import Estimator
from lvmcore.labels import ClassLabels
from lvmcore.parameters import check_settings
from lvmcore.results import Callback
from lvmcore.targets import Mixture, NumberTarget, one_a_row, read_numbers, signs_of
from lvmcore.training import Outcome

__all__ = ["Classifier", "PredictionProblem", "Predictor", "Regressor", "Task"]

FloatArray = NDArray[np.float64]
#: What a model predicts: a number, or a class.
Task = Literal["number", "class"]


@dataclass(frozen=True)
class PredictionProblem:
    """What a predictor's ``_fit`` gets: everything checked, standardised and on the device.

    Attributes:
        X: columns that vary, standardised, [N, H].
        Y: the target: a standardised number, [N, 1], or signs of classes, [N, C], of two the
            second alone, [N, 1].
        generator: the fit's only source of randomness (CPU generator).
        callback: called at every step; True stops the fit.
        checkpoint: what the fit goes on from and leaves for the next; None keeps none.
    """

    X: Tensor
    Y: Tensor
    generator: torch.Generator
    callback: Callback | None
    checkpoint: Checkpoint | None = None


class Predictor(Estimator):
    """Base of every model of a target: see the module's docstring and lvmcore/README.md."""

    task: ClassVar[Task]
    capabilities: ClassVar[Capabilities] = Capabilities(decoding=False, bound=True)

    # ---- fitting -------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: Any = None, *, callback: Callback | None = None) -> Self:
        """Fit the model.

        Args:
            X: columns, [N, H], in their own units, every cell observed.
            y: the target, one a row, [N]: finite numbers, or classes.
            callback: called with each FitStep; returning True stops the fit, and what was fitted
                so far stays usable.

        Returns:
            The fitted model.

        Raises:
            ConfigError: a parameter is not allowed, or does not suit the table's size.
            DataError: the columns or the target cannot be used; the message names row and column.
            NumericalError: the computation broke down.
        """
        return self._fit_from(X, y, callback=callback)

    def _fit_from(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """``fit``, going on from a checkpoint and leaving one now and then: the way of a run."""
        check_settings(type(self), self.get_params(deep=False))
        data = self._check_rows(X, reset=True)
        target = self._read_target(y, len(data))
        self._begin(data)
        generator = torch.Generator().manual_seed(self._seed())
        if checkpoint is not None:
            course = self._fingerprint(data, (), target)
            checkpoint.attach(course, getattr(self, "max_iter", None), generator)
        inputs = self._to_tensor(self._standardiser.transform(data))
        problem = PredictionProblem(
            inputs, self._target_tensor(target, inputs), generator, callback, checkpoint
        )
        return self._end(self._fit(problem), checkpoint)

    # ---- the rows on their way -----------------------------------------------------------------

    def hidden(self, X: ArrayLike, layer: int = 1) -> FloatArray:
        """What a hidden layer makes of rows: its units' means, averaged over draws.

        Args:
            X: rows in the data's units, [n, H].
            layer: which, counted from 1.

        Returns:
            Means of its units, [n, width].

        Raises:
            ConfigError: there is no such layer.
            DataError: the rows do not fit the model.
        """
        check_is_fitted(self)
        layers = self._n_hidden_layers
        if layer not in range(1, layers + 1):
            raise ConfigError(
                f"layer={layer!r} cannot be used: this model has {layers or 'no'} hidden "
                f"layer{'' if layers == 1 else 's'}."
            )
        return self._by_block(X, lambda rows: self._hidden_units(rows, int(layer)))

    @property
    def n_hidden_layers_(self) -> int:
        """Hidden layers of the fitted model, 0 where there is none."""
        check_is_fitted(self)
        return self._n_hidden_layers

    def _by_block(self, X: ArrayLike, compute: Callable[[Tensor], Tensor]) -> FloatArray:
        """What is computed of rows, block by block, rows along the first dimension."""
        return np.concatenate([to_numpy(compute(block)) for block in self._blocks_of(X)])

    def _blocks_of(self, X: ArrayLike) -> Iterator[Tensor]:
        """Rows some at a time, standardised and on the device."""
        for rows in blocks(self._check_rows(X, reset=False)):
            yield self._to_tensor(self._standardiser.transform(rows))

    # ---- hooks of a model ----------------------------------------------------------------------

    @abstractmethod
    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        """The target as numbers or codes, [N]; takes over what it measures."""

    @abstractmethod
    def _target_tensor(self, target: NDArray[Any], like: Tensor) -> Tensor:
        """The same as the model learns it, [N, P]."""

    @abstractmethod
    def _fit(self, problem: PredictionProblem) -> Outcome:
        """Fit; set ``relevance_`` and own state."""

    @abstractmethod
    def _hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """Means of a hidden layer's units at standardised rows, [n, width]."""

    @property
    @abstractmethod
    def _n_hidden_layers(self) -> int:
        """Hidden layers of the fitted model."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.target_tags.required = True
        return tags


class Regressor(RegressorMixin, Predictor):
    """A model of a numeric target."""

    task: ClassVar[Task] = "number"

    _target: NumberTarget

    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        numbers = read_numbers(y, n_rows)
        self._target = NumberTarget.fit(numbers)
        return numbers

    def _target_tensor(self, target: NDArray[Any], like: Tensor) -> Tensor:
        return torch.as_tensor(self._target.transform(target)[:, None]).to(like)

    @abstractmethod
    def _predicted(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances, noise included, under each draw, standardised, [n, S] each."""

    def predictive(self, X: ArrayLike) -> Mixture:
        """The predicted distribution of the target of rows, in its units, the noise included.

        Args:
            X: rows in the data's units, [n, H].

        Returns:
            A mixture of normal distributions, one a draw of the functions.

        Raises:
            DataError: the rows do not fit the model.
        """
        parts = list(self._mixtures(X))
        return Mixture(*(np.concatenate([part[i] for part in parts], 1) for i in range(2)))

    def _mixtures(self, X: ArrayLike) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Means and sds of some rows at a time, as ``Mixture`` holds them."""
        check_is_fitted(self)
        mean, scale = self._target.mean, self._target.scale
        for block in self._blocks_of(X):
            means, variances = (to_numpy(part).T for part in self._predicted(block))
            yield mean + scale * means, scale * np.sqrt(variances)

    def _of_each(self, X: ArrayLike, compute: Callable[[Mixture], FloatArray]) -> FloatArray:
        """What is computed of the distributions, some rows at a time, rows first."""
        return np.concatenate([compute(Mixture(*part)) for part in self._mixtures(X)])

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """The mean of the target of rows, [n]; with ``return_std`` its sd too, noise included."""
        mean, sd = self._of_each(X, lambda some: np.stack(some.moments(), 1)).T
        return (mean, sd) if return_std else mean

    def predict_quantiles(self, X: ArrayLike, levels: ArrayLike = (0.05, 0.5, 0.95)) -> FloatArray:
        """Quantiles of the predicted distribution, [n, levels].

        Raises:
            ConfigError: a level is not between 0 and 1.
        """
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
            raise ConfigError(f"levels={levels!r} cannot be used: expected numbers in (0, 1).")
        return self._of_each(X, lambda some: some.quantiles(wanted))

    def log_density(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """log p(y | x) of each row in the target's units, nats, [n]; their mean is −NLPP."""
        parts = [Mixture(*part) for part in self._mixtures(X)]
        ends = np.cumsum([part.mean.shape[1] for part in parts])
        given = np.split(read_numbers(y, int(ends[-1])), ends[:-1])
        found = [part.log_density(some) for part, some in zip(parts, given, strict=True)]
        return np.concatenate(found)

    def _stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, meta = super()._stored()
        return arrays, {**meta, "target": [self._target.mean, self._target.scale]}

    def _take_stored(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        super()._take_stored(arrays, meta)
        self._target = NumberTarget(*map(float, meta["target"]))


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
        self._know((labels,))
        return labels.codes

    def _target_tensor(self, target: NDArray[Any], like: Tensor) -> Tensor:
        return signs_of(target, len(self.classes_), like)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities of rows, [n, C], averaged over the draws of the functions.

        Raises:
            DataError: the rows do not fit the model.
        """
        check_is_fitted(self)
        each = self._by_block(X, self._probability)
        found = np.hstack([1 - each, each]) if each.shape[1] == 1 else each
        return np.asarray(found / found.sum(1, keepdims=True))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, [n]."""
        chosen = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[chosen])

    def log_density(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """log P(y | x) of each row, nats, [n]; −inf for a class that the fit did not see.

        Raises:
            DataError: the rows do not fit the model, or y has another length.
        """
        probability = self.predict_proba(X)
        given = one_a_row(y, len(probability))
        known = given[:, None] == np.asarray(self.classes_)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log((probability * known).sum(1)))

    @abstractmethod
    def _probability(self, X: Tensor) -> Tensor:
        """Probabilities of standardised rows, [n, C]; of two classes that of the second, [n, 1]."""

    def _stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, meta = super()._stored()
        return arrays, {**meta, "classes": self._known_labels()}

    def _take_stored(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        self._know((ClassLabels.from_json(meta["classes"]),))
        super()._take_stored(arrays, meta)
