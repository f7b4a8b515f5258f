"""Decoded columns in their own terms: intervals by likelihood, and probabilities of levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import ndtr

from lvmcore.data.build_dataset import binary_levels
from lvmcore.likelihoods.catalogue import (
    GAUSSIAN,
    LIKELIHOODS,
    ColumnTerm,
    read_likelihoods,
)
from lvmcore.likelihoods.intervals import predictive_interval

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset
    from lvmcore.numerics.array_types import FloatArray
    from lvmcore.results import Predictive

__all__ = ["DecodedCategory", "column_terms", "decoded_categories", "decoded_interval"]


@dataclass(frozen=True)
class DecodedCategory:
    """A category with a likelihood of its own, whose levels have probabilities.

    Attributes:
        name: of the column.
        features: positions of its features: one a level, or one of two levels.
        levels: names of its levels, K.
        values: values of the single feature of two levels; () of one-hot features.
    """

    name: str
    features: tuple[int, ...]
    levels: tuple[str, ...]
    values: tuple[float, ...] = ()

    def probabilities(self, cells: FloatArray) -> FloatArray:
        """Probabilities of the levels, or 0 and 1 of observed ones, [N, K].

        Args:
            cells: decoded means or observed cells in the units of the fit, NaN where missing,
                [N, D].
        """
        found = cells[:, list(self.features)]
        if self.values:
            first, last = self.values
            found = (found - first) / (last - first)
            found = np.hstack([1 - found, found])
        return np.clip(found, 0.0, 1.0)


def column_terms(model: LatentVariableModel) -> tuple[ColumnTerm, ...] | None:
    """The likelihoods of a model's columns; None where all are Gaussian or it has another one."""
    text = getattr(model, "column_likelihood_", GAUSSIAN)
    return None if text == GAUSSIAN else read_likelihoods(text)


def decoded_categories(model: LatentVariableModel, dataset: Dataset) -> tuple[DecodedCategory, ...]:
    """The categories of a model with likelihoods by column, in the order of the features.

    Args:
        model: a fitted model.
        dataset: the rows of its fit.
    """
    found: list[DecodedCategory] = []
    names, begin = dataset.feature_names, 0
    for term in column_terms(model) or ():
        features = tuple(range(begin, begin + term.n_features))
        begin += term.n_features
        kind = LIKELIHOODS[term.name]
        if kind.is_one_hot:
            column = _shared_start([names[d] for d in features])
            levels = tuple(names[d][len(column) :].removeprefix(" = ") for d in features)
            found.append(DecodedCategory(column, features, levels))
        elif kind.cells == "binary":
            found.append(_two_levels(dataset, features[0]))
    return tuple(found)


def decoded_interval(
    model: LatentVariableModel, predicted: Predictive, reach: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of the central intervals of decoded cells in the units of the fit, [N, D] each.

    Args:
        model: the model that decoded them.
        predicted: the decoded cells.
        reach: the intervals have the probability of ± so many sd of a Gaussian.
    """
    level = float(ndtr(reach) - ndtr(-reach))
    return predictive_interval(column_terms(model), predicted.mean, predicted.variance, level)


def _shared_start(features: Sequence[str]) -> str:
    """The name of the column before " = " and the level, the same of all its features."""
    parts = features[0].split(" = ")
    for n in range(len(parts) - 1, 0, -1):
        column = " = ".join(parts[:n])
        if all(name.startswith(f"{column} = ") for name in features):
            return column
    return features[0]


def _two_levels(dataset: Dataset, feature: int) -> DecodedCategory:
    """A category that is one feature of two values."""
    name, cells = dataset.feature_names[feature], dataset.X[:, feature]
    values = np.unique(cells[~np.isnan(cells)])
    first, last = float(values[0]), float(values[-1])
    levels = (f"{first:g}", f"{last:g}")
    if name in dataset.frame:
        column = dataset.frame[name].dropna()
        if not pd.api.types.is_numeric_dtype(column.dtype) and column.nunique() == 2:
            levels = binary_levels(column)
    return DecodedCategory(name, (feature,), levels, (first, last))
