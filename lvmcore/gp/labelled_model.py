"""What Gaussian-process maps share that lead to class labels too: one path a label column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.errors import ConfigError, DataError
from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.minibatch_label_path import StochasticLabelPath
from lvmcore.gp.model import SparseGPModel
from lvmcore.gp.paths import DataPath, KernelPath, LabelDecoder, LabelPath
from lvmcore.likelihoods.classification import Link, label_probability, label_probability_variance
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.quasi_random import sobol_draws
from lvmcore.preprocessing.class_labels import ClassLabels, Weighting, label_column_names
from lvmcore.results import Posterior

__all__ = ["LabelledGPLVM", "draw_of_class", "named_paths"]

# Rows × classes × inducing inputs at a time: bounds memory, changes no result.
LABEL_CELLS_AT_A_TIME = 1 << 21


class LabelledGPLVM(ClassifierMixin, SparseGPModel):
    """What the models share that have Gaussian processes from the map to the class labels too.

    P(class k) of a row is E_{q(x)} E P(k | f(x)), q(x) inferred from the columns alone; for the
    probit, one class against the rest, it is divided by the sum over the classes. Where the fit
    took several label columns, each has Gaussian processes of its own, and whatever is said of
    labels is a list, one entry a column (``predict``: [N, L]).
    """

    label_draws: ClassVar[int] = 64

    classes_: Any
    likelihood: Link
    class_weight: Weighting
    _decoder: DataDecoder
    _label_decoders: tuple[LabelDecoder, ...]
    _codes: NDArray[np.int64]  # [N]; [N, L] where there are several label columns

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
        draws = sobol_draws(self.label_draws, mean.shape[1], mean)
        found = [self._averaged(decoder, mean, sd, draws) for decoder in self._label_decoders]
        return found[0] if len(found) == 1 else found

    def _averaged(
        self, decoder: LabelDecoder, mean: Tensor, sd: Tensor, draws: Tensor
    ) -> NDArray[np.float64]:
        """Class probabilities of one label column, averaged over where each row may lie, [N, C]."""
        rows = max(1, LABEL_CELLS_AT_A_TIME // (decoder.weights.shape[1] * len(decoder.Z)))
        with torch.no_grad():
            total = torch.cat(
                [
                    sum(
                        (self._probability(decoder, m + s * draw) for draw in draws),
                        m.new_zeros(()),
                    )
                    for m, s in zip(torch.split(mean, rows), torch.split(sd, rows), strict=True)
                ]
            )
        return to_numpy(total / total.sum(1, keepdim=True))

    def _probability(self, decoder: LabelDecoder, X: Tensor) -> Tensor:
        return label_probability(self.likelihood, *decoder.predict(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, [N]; of each label column, [N, L], if several."""
        probability = self.predict_proba(X)
        if len(self._labels) == 1:
            return np.asarray(self.classes_[probability.argmax(axis=1)])
        best = [
            column.classes[p.argmax(axis=1)]
            for column, p in zip(self._labels, probability, strict=True)
        ]
        alike = len({classes.dtype.kind for classes in best}) == 1
        return np.stack([b if alike else b.astype(object) for b in best], axis=1)

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
        with torch.no_grad():
            mean, variance = self._label_decoders[column].predict(X)
            p = label_probability(self.likelihood, mean, variance)
            spread = label_probability_variance(self.likelihood, mean, variance)
            return p / p.sum(1, keepdim=True), p, spread

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> NDArray[np.float64]:
        """From the prior, or for a label from the mixture of its rows' posteriors, [n, Q]."""
        if label is None:
            return super()._sample_latent(n, None, rng)
        rows = np.ones(len(self._codes), dtype=bool)
        for column, wanted in self._of_columns(label).items():
            codes = self._codes.reshape(len(rows), -1)[:, column]
            rows &= codes == position_of_class(self._labels[column].classes, wanted)
        if not rows.any():
            raise ConfigError(
                f"label={label!r}: no row of the fit is of all these classes at once."
            )
        return self.embedding_.draw(n, rng, np.flatnonzero(rows))

    def _of_columns(self, label: Any) -> dict[int, Any]:
        """The class wanted of some of the label columns, by their positions."""
        names = list(self.label_names_)
        if not isinstance(label, Mapping):
            if len(names) == 1:
                return {0: label}
            raise ConfigError(
                f"label={label!r} does not say of which column: this model knows "
                f"{', '.join(names)}. Give a class by column, such as label={{{names[0]!r}: ...}}."
            )
        strange = [name for name in label if name not in names]
        if strange:
            raise ConfigError(
                f"label={label!r}: {strange[0]!r} is no label column of this model. It knows "
                f"{', '.join(names)}."
            )
        return {names.index(name): wanted for name, wanted in label.items()}

    def _keep_labels(self, paths: Sequence[LabelPath | StochasticLabelPath]) -> None:
        """Take over the fitted label paths, one a column."""
        with torch.no_grad():
            self._label_decoders = tuple(path.decoder() for path in paths)
        codes = [np.asarray(column.codes) for column in self._labels]
        self._codes = codes[0] if len(codes) == 1 else np.stack(codes, axis=1)

    def _keep_relevance(
        self, data: DataPath, labels: Sequence[LabelPath | StochasticLabelPath]
    ) -> None:
        """Relevance and inducing inputs of each path, under its name."""
        paths = named_paths(data, labels, self._labels)
        self.relevance_ = {name: to_numpy(p.kernel.relevance) for name, p in paths.items()}
        self.inducing_inputs_ = {name: to_numpy(p.Z) for name, p in paths.items()}

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        for decoder, prefix in zip(self._label_decoders, self._prefixes(), strict=True):
            arrays |= decoder.arrays(prefix)
        return {**arrays, "codes": self._codes}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self._restore_labels(arrays, self._decoder.Z)

    def _restore_labels(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> None:
        self._label_decoders = tuple(
            LabelDecoder.from_arrays(arrays, like, prefix) for prefix in self._prefixes()
        )
        self._codes = np.asarray(arrays["codes"])

    def _prefixes(self) -> list[str]:
        """What the names of the arrays of each label column begin with."""
        if len(self._labels) == 1:
            return ["labels."]
        return [f"labels.{k}." for k in range(len(self._labels))]


def named_paths(
    data: DataPath,
    labels: Sequence[LabelPath | StochasticLabelPath],
    columns: Sequence[ClassLabels],
) -> dict[str, KernelPath]:
    """The paths of a fit by name: "data" and "labels", or "labels: NAME" for each of several."""
    return {"data": data, **dict(zip(label_column_names("labels", columns), labels, strict=True))}


def position_of_class(classes: NDArray[Any], label: Any) -> int:
    """Where a label stands among the classes.

    Raises:
        ConfigError: it is none of them.
    """
    found = np.flatnonzero(classes == label)
    if not len(found):
        known = ", ".join(str(known) for known in classes)
        raise ConfigError(f"label={label!r} is no class of this model: it knows {known}.")
    return int(found[0])


def draw_of_class(
    embedding: Posterior,
    codes: NDArray[np.int64],
    classes: NDArray[Any],
    n: int,
    label: Any,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Latent points from the mixture of the posteriors of a class's rows, [n, Q].

    Raises:
        ConfigError: ``label`` is no class of the model.
    """
    return embedding.draw(n, rng, np.flatnonzero(codes == position_of_class(classes, label)))
