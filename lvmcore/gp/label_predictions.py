"""Class predictions at latent points by fitted Gaussian processes, for each label column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import ConfigError
from lvmcore.gp.data_decoder import FunctionDecoder
from lvmcore.gp.minibatch.label_path import StochasticLabelPath
from lvmcore.gp.paths import LabelPath
from lvmcore.likelihoods.classification import Link, label_probability, label_probability_variance
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.quasi_random import sobol_draws
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.results import Posterior

__all__ = ["LabelPredictions", "draw_of_class"]

# Rows × classes × inducing inputs in a block; bounds memory, does not change results.
LABEL_CELLS_AT_A_TIME = 1 << 21


@dataclass(frozen=True)
class LabelPredictions:
    """Class predictions of the label columns at latent points.

    Attributes:
        columns: the label columns.
        decoders: the Gaussian processes of each column.
        codes: class of each row of the fit, −1 if missing, [N]; [N, L] for several columns.
        likelihood: probit, one class against the rest, or softmax.
    """

    columns: tuple[ClassLabels, ...]
    decoders: tuple[FunctionDecoder, ...]
    codes: NDArray[np.int64]
    likelihood: Link

    @classmethod
    def from_paths(
        cls,
        columns: tuple[ClassLabels, ...],
        paths: Sequence[LabelPath | StochasticLabelPath],
        likelihood: Link,
    ) -> Self:
        """From the fitted paths, one per column."""
        with torch.no_grad():
            decoders = tuple(path.in_double().decoder() for path in paths)
        codes = [np.asarray(column.codes) for column in columns]
        together = codes[0] if len(codes) == 1 else np.stack(codes, axis=1)
        return cls(columns, decoders, together, likelihood)

    def probabilities(self, mean: Tensor, sd: Tensor, n_draws: int) -> list[NDArray[np.float64]]:
        """Class probabilities of each column, averaged over q(x) = N(mean, diag sd²), [N, C]."""
        draws = sobol_draws(n_draws, mean.shape[1], mean)
        return [self._averaged(decoder, mean, sd, draws) for decoder in self.decoders]

    def _averaged(
        self, decoder: FunctionDecoder, mean: Tensor, sd: Tensor, draws: Tensor
    ) -> NDArray[np.float64]:
        rows = max(1, LABEL_CELLS_AT_A_TIME // (decoder.weights.shape[1] * len(decoder.Z)))
        with torch.no_grad():
            total = torch.cat(
                [
                    sum(
                        (
                            label_probability(self.likelihood, *decoder.predict(m + s * draw))
                            for draw in draws
                        ),
                        m.new_zeros(()),
                    )
                    for m, s in zip(torch.split(mean, rows), torch.split(sd, rows), strict=True)
                ]
            )
        return to_numpy(total / total.sum(1, keepdim=True))

    def best_classes(self, probabilities: Sequence[NDArray[np.float64]]) -> NDArray[Any]:
        """The most probable class of each row, [N]; for several label columns [N, L]."""
        best = [
            column.classes[p.argmax(axis=1)]
            for column, p in zip(self.columns, probabilities, strict=True)
        ]
        if len(best) == 1:
            return np.asarray(best[0])
        alike = len({classes.dtype.kind for classes in best}) == 1
        return np.stack([b if alike else b.astype(object) for b in best], axis=1)

    def at_points(self, X: Tensor, column: int) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised and unnormalised probability, and the variance of the latter, [N, C] each.

        Args:
            X: latent points, [N, Q].
            column: position of the label column.
        """
        with torch.no_grad():
            mean, variance = self.decoders[column].predict(X)
            p = label_probability(self.likelihood, mean, variance)
            spread = label_probability_variance(self.likelihood, mean, variance)
            return p / p.sum(1, keepdim=True), p, spread

    def draw(
        self, embedding: Posterior, n: int, label: Any, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Latent points from the mixture of the posteriors of the rows of a label, [n, Q].

        Args:
            embedding: q(X) of the fit.
            n: number of points.
            label: a class; for several label columns, classes by column name.
            rng: of the draws.

        Raises:
            ConfigError: there is no such class or column, or no row of all these classes.
        """
        rows = np.ones(len(self.codes), dtype=bool)
        for column, wanted in self._classes_by_column(label).items():
            codes = self.codes.reshape(len(rows), -1)[:, column]
            rows &= codes == position_of_class(self.columns[column].classes, wanted)
        if not rows.any():
            raise ConfigError(
                f"label={label!r}: no row of the fit is of all these classes at once."
            )
        return embedding.draw(n, rng, np.flatnonzero(rows))

    def _classes_by_column(self, label: Any) -> dict[int, Any]:
        """The requested classes by position of the label column."""
        names = [column.name for column in self.columns]
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

    # ---- storage -------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays for ``from_arrays``."""
        found: dict[str, NDArray[Any]] = {}
        for decoder, prefix in zip(self.decoders, _prefixes(self.columns), strict=True):
            found |= decoder.arrays(prefix)
        return {**found, "codes": self.codes}

    @classmethod
    def from_arrays(
        cls,
        columns: tuple[ClassLabels, ...],
        arrays: Mapping[str, NDArray[Any]],
        like: Tensor,
        likelihood: Link,
    ) -> Self:
        """Rebuild from ``arrays()``, on the device and in the dtype of ``like``."""
        decoders = tuple(
            FunctionDecoder.from_arrays(arrays, like, prefix) for prefix in _prefixes(columns)
        )
        return cls(columns, decoders, np.asarray(arrays["codes"]), likelihood)


def _prefixes(columns: Sequence[ClassLabels]) -> list[str]:
    """Prefix of the array names of each label column."""
    return ["labels."] if len(columns) == 1 else [f"labels.{k}." for k in range(len(columns))]


def position_of_class(classes: NDArray[Any], label: Any) -> int:
    """Position of a label among the classes.

    Raises:
        ConfigError: the label is not a class.
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
    """Latent points from the mixture of the posteriors of the rows of a class, [n, Q].

    Raises:
        ConfigError: ``label`` is not a class of the model.
    """
    return embedding.draw(n, rng, np.flatnonzero(codes == position_of_class(classes, label)))
