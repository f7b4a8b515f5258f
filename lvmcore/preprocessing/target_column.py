"""The target column of a supervised model: numbers or classes, and predictive mixtures.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import norm
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from lvmcore.errors import DataError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.target_transform import IDENTITY, TargetTransform

__all__ = ["NumberTarget", "PredictiveMixture", "class_signs", "numeric_target", "target_vector"]


# Bisection steps for a quantile.
BISECTION_STEPS = 40


def numeric_target(y: Any, n_rows: int) -> FloatArray:
    """A numeric target, [N].

    Raises:
        DataError: y is None, has another length than X, or a missing, infinite or non-numeric
            entry; the message names its row.
    """
    if y is None:
        raise DataError(
            "This model requires y to be passed, but the target y is None: give one number a row."
        )
    values = target_vector(y, n_rows)
    if values.dtype.kind in "mM":
        raise DataError(
            "The target holds dates or times, and a model learns numbers: turn them into numbers "
            "first, such as days since the first."
        )
    if np.iscomplexobj(values):
        raise DataError("Complex data not supported: the target y holds complex numbers.")
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        row = next(i for i, value in enumerate(values) if not _is_number(value))
        raise DataError(
            f"The target of row {row + 1} is {values[row]!r}, which is no number: choose a numeric "
            "column, or a classifier."
        ) from error
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row = int(np.argmax(wrong))
        what = "NaN (missing)" if np.isnan(numbers[row]) else "inf (infinity)"
        raise DataError(
            f"Input y contains {what} in {int(wrong.sum())} rows, the first of them row {row + 1}: "
            "leave rows without a finite target out."
        )
    return numbers


def target_vector(y: Any, n_rows: int) -> NDArray[Any]:
    """A column with one entry per row, [N].

    Raises:
        DataError: it has another shape.
    """
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = column_or_1d(values, warn=True)
    if values.ndim != 1 or len(values) != n_rows:
        raise DataError(
            f"y has shape {values.shape}, but X has {n_rows} rows: expected one entry a row. "
            "Input variables have inconsistent numbers of samples."
        )
    return values


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class NumberTarget:
    """Mean and scale of a numeric target, or of a monotone transform of it.

    Attributes:
        mean: over the rows of the fit, of the transformed target.
        scale: their sd.
        transformed: the transform.
    """

    mean: float
    scale: float
    transformed: TargetTransform = IDENTITY

    @classmethod
    def fit(cls, y: FloatArray, transformed: TargetTransform = IDENTITY) -> Self:
        """Compute mean and scale of y [N], or of its transform.

        Raises:
            DataError: it has one value only, or is too large.
        """
        z = transformed.forward(y)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, scale = float(z.mean()), float(z.std())
        if not np.isfinite([mean, scale]).all():
            raise DataError("The target is too large to be standardised: rescale it.")
        if not scale > 1e-14 * max(1e-300, float(np.abs(z).max())):
            raise DataError(
                f"The target has one value only, {y[0]:g}: there is nothing to predict. Choose "
                "another target column."
            )
        return cls(mean, scale, transformed)

    def transform(self, y: FloatArray) -> FloatArray:
        """The standardised target."""
        return (self.transformed.forward(y) - self.mean) / self.scale

    def log_jacobian(self, y: FloatArray) -> float:
        """Σ log of the derivative of ``transform``, times the sd of y, over its rows [N], nats.

        Added to a log density of the standardised transformed target, it makes that the log
        density of the standardised target; 0 without a transform.
        """
        if self.transformed.is_identity:
            return 0.0
        slopes = float(self.transformed.log_derivative(y).sum())
        return slopes - len(y) * math.log(self.scale / float(y.std()))


@dataclass(frozen=True)
class PredictiveMixture:
    """Predictive distributions as mixtures of Gaussians of the target, or of a transform of it.

    Attributes:
        mean: of each component, on the scale of the transform, [S, n].
        sd: of each component with the noise, [S, n].
        weights: ω of the components, with sum 1, [S]; None if all are equal.
        transformed: the transform; that of none where the components are those of the target.
    """

    mean: FloatArray
    sd: FloatArray
    weights: FloatArray | None = None
    transformed: TargetTransform = IDENTITY

    def average(self, each: FloatArray) -> FloatArray:
        """Σ_s ω_s each_s, [...], of values of each component, [S, ...]."""
        return np.asarray(np.average(each, 0, self.weights))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of each row, [n] each, in units of the target."""
        means, variances = self.transformed.normal_moments(self.mean, self.sd)
        mean = self.average(means)
        variance = self.average(variances + np.square(means - mean))
        return mean, np.sqrt(variance)

    def log_density(self, y: FloatArray) -> FloatArray:
        """log Σ_s ω_s N(t(y) | mean_s, sd_s²) t'(y), [n]."""
        z, slope = self.transformed.forward(y), self.transformed.log_derivative(y)
        possible = np.isfinite(z)
        z = np.where(possible, z, 0.0)
        logs = np.asarray(norm.logpdf(z, self.mean, self.sd))
        weights = np.full(len(logs), 1 / len(logs)) if self.weights is None else self.weights
        found = np.asarray(logsumexp(logs, 0, b=weights[:, None])) + slope
        return np.where(possible, found, -np.inf)

    def cumulative(self, y: FloatArray) -> FloatArray:
        """P(target ≤ y) = Σ_s ω_s Φ((t(y) − mean_s)/sd_s), [n]."""
        return self.average(ndtr((self.transformed.forward(y) - self.mean) / self.sd))

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Quantiles of each row at each level, [n, levels], by bisection on the scale of t."""
        ends = ndtri(levels)[:, None, None] * self.sd + self.mean
        low, high = ends.min(1), ends.max(1)  # [levels, n]: the range of the components' quantiles
        for _ in range(BISECTION_STEPS):
            middle = 0.5 * (low + high)
            each = ndtr((middle[None] - self.mean[:, None]) / self.sd[:, None])
            below = self.average(each) < levels[:, None]
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return self.transformed.inverse(np.asarray(0.5 * (low + high).T))


def class_signs(codes: NDArray[np.int64], n_classes: int, like: Tensor) -> Tensor:
    """+1 for a row's class and −1 otherwise, [N, C]; for two classes the second only, [N, 1]."""
    one_hot = codes[:, None] == np.arange(n_classes)
    chosen = one_hot[:, 1:] if n_classes == 2 else one_hot
    return torch.as_tensor(np.where(chosen, 1.0, -1.0)).to(like)
