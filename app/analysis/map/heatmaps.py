"""Heatmaps behind the rows of a map: decoded mean, predictive sd, magnification, probabilities.

Pure functions of a model and the rows of its fit: no streamlit, no plotly, and torch only inside
the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from app.analysis.map.map_axes import View, basis, extent, latent_positions, positions
from app.analysis.map.selections import Selection
from lvmcore.data import Dataset
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.label_columns import label_columns

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel


Kind = Literal["mean", "sd", "magnification", "probability", "entropy", "probability variance"]

GRID = 60
#: A heatmap of a wide table is coarser, so that it decodes about this many cells at most.
MOST_DECODED, COARSEST = 6_000_000, 24
#: Cells per decoded block, which bounds memory for tables with thousands of columns.
CELLS = 4_000_000


@dataclass(frozen=True)
class HeatmapRequest:
    """Which heatmap to compute: hashable, so that it can be a cache key.

    Attributes:
        kind: decoded mean of a column, predictive sd, magnification factor, or class probability,
            its entropy or variance.
        axes: the two latent dimensions of the grid, or the projection.
        fixed: a latent point, all Q coordinates; the dimensions that are not shown are its own.
        column: position of the column of the mean or sd; None for the mean sd over all columns that
            vary, standardised.
        noise: whether the sd includes the noise of a new observation.
        label: position of the class of the probability among the model's classes.
        path: position of the label column, for a model of several.
        size: most grid points along each axis.
        ranges: ranges of both axes; None for those of the rows of the fit.
    """

    kind: Kind
    axes: View
    fixed: tuple[float, ...]
    column: int | None = None
    noise: bool = True
    label: int | None = None
    path: int = 0
    size: int = GRID
    ranges: tuple[tuple[float, float], tuple[float, float]] | None = None


@dataclass(frozen=True)
class Heatmap:
    """A heatmap.

    Attributes:
        x: horizontal positions, [nx].
        y: vertical positions, [ny].
        value: [ny, nx].
        title: title of the colour bar (may hold user text).
        unit: unit of ``value``.
        limits: ends of the colour bar; None for the range of ``value``.
        low_is_certain: whether low values mean low uncertainty.
    """

    x: FloatArray
    y: FloatArray
    value: FloatArray
    title: str
    unit: str
    limits: tuple[float, float] | None
    low_is_certain: bool

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest value of the colour bar."""
        return self.limits or (float(self.value.min()), float(self.value.max()))

    @property
    def flat(self) -> bool:
        """Whether the value is constant, as the predictive sd of a linear model is."""
        low, high = float(self.value.min()), float(self.value.max())
        return high - low <= 1e-9 * max(abs(high), abs(low), 1e-300)


@dataclass(frozen=True)
class MapChoices:
    """Settings of the map's drawing, apart from the clicked point.

    Attributes:
        axes: horizontal and vertical dimension, or a projection.
        colour: column of the row colours; None for one colour.
        heatmap: the heatmap in the background; None for none.
        ellipses: whether posterior ellipses are drawn.
        inducing: whether inducing inputs are drawn.
        selection: the selected rows.
        dark: whether the page is dark.
        size: column of the row sizes; None for one size.
        shape: column of the row shapes; None for one shape.
        held_out: whether the held-out rows are drawn.
        contours: whether contour lines of the heatmap are drawn.
        group_labels: whether the names of the categories are on the map.
        pictures: whether pictures mark the rows.
    """

    axes: View
    colour: str | None
    heatmap: HeatmapRequest | None
    ellipses: bool
    inducing: bool
    selection: Selection | None
    dark: bool
    size: str | None = None
    shape: str | None = None
    held_out: bool = False
    contours: bool = False
    group_labels: bool = False
    pictures: bool = False


def heatmap(model: LatentVariableModel, dataset: Dataset, ask: HeatmapRequest) -> Heatmap:
    """Compute a heatmap over the range of the rows, or over the ranges that are asked for.

    Args:
        model: a fitted model.
        dataset: the rows of the fit, in the order of the map.
        ask: which heatmap to compute.

    Returns:
        The grid. The decoded mean is in the unit of the column; for a column that was fitted as
        log(1 + x) it is the median, exp(mean) − 1. The sd is √(predictive variance), with or
        without the noise variance. The mean over columns is of the standardised sd: each divided by
        the sd of its column.

    Raises:
        UnsupportedError: the model cannot decode, or does not use labels.
    """
    horizontal, vertical = ask.ranges or extent(
        positions(model.embedding_.mean, ask.axes), ask.axes
    )
    size = min(ask.size, max(COARSEST, math.isqrt(MOST_DECODED // dataset.X.shape[1])))
    x, y = np.linspace(*horizontal, size), np.linspace(*vertical, size)
    points = np.column_stack([np.tile(x, size), np.repeat(y, size)])
    latent = latent_positions(ask.fixed, ask.axes, points)
    if ask.kind == "mean":
        value, title, unit = _mean(model, dataset, latent, ask)
        limits, low_is_certain = None, False
    elif ask.kind == "sd":
        value = _sd(model, dataset, latent, ask)
        title, unit = _sd_title(dataset, ask)
        limits, low_is_certain = None, True
    elif ask.kind == "magnification":
        value = magnification(model, latent, ask.axes)
        title, unit, limits, low_is_certain = "magnification", "√det G", None, True
    else:
        value, title, unit, limits = _labels(model, latent, ask)
        low_is_certain = ask.kind != "probability"
    return Heatmap(x, y, value.reshape(size, size), title, unit, limits, low_is_certain)


def magnification(model: LatentVariableModel, latent: FloatArray, axes: View) -> FloatArray:
    """Magnification factor √det Bᵀ G B at latent points [n, Q], [n], B a step along each axis.

    The change of the columns, in their sd, per unit area of the map, or per unit length on a map
    of one dimension.
    """
    B = basis(axes, latent.shape[1])
    G = B.T @ model.latent_metric(latent) @ B
    found: FloatArray = np.sqrt(np.linalg.det(G).clip(min=0.0))
    return found


def prior_magnification(model: LatentVariableModel, ask: HeatmapRequest) -> float | None:
    """Magnification far from all rows, where a Gaussian process returns to its prior.

    None for models without inducing inputs, which have no such limit.
    """
    Z = model.inducing_inputs_.get("data")
    if Z is None:
        return None
    distance = 1e3 * (1 + np.abs(Z).max() + np.abs(model.embedding_.mean).max())
    return float(magnification(model, np.full((1, len(ask.fixed)), distance), ask.axes)[0])


def _mean(
    model: LatentVariableModel, dataset: Dataset, latent: FloatArray, ask: HeatmapRequest
) -> tuple[FloatArray, str, str]:
    """Decoded mean of a column at latent points [n, Q], [n], with its title and unit."""
    if ask.column is None:
        raise ValueError("A heatmap of a decoded mean needs a column.")
    step = max(1, CELLS // dataset.X.shape[1])
    parts = [
        model.decode(latent[start : start + step]).mean[:, ask.column]
        for start in range(0, len(latent), step)
    ]
    value = np.concatenate(parts)
    if dataset.log1p[ask.column]:
        value = np.expm1(value)
    return value, f"decoded {dataset.feature_names[ask.column]}", "unit of the column"


def _sd_title(dataset: Dataset, ask: HeatmapRequest) -> tuple[str, str]:
    """Title and unit of the predictive sd."""
    what = "predictive sd" if ask.noise else "predictive sd without noise"
    if ask.column is None:
        return f"{what}, mean over columns", "sd of a column"
    name = dataset.feature_names[ask.column]
    if dataset.log1p[ask.column]:
        return f"{what} of log(1 + {name})", "scale of the fit, a logarithm"
    return f"{what} of {name}", "unit of the column"


def _sd(
    model: LatentVariableModel, dataset: Dataset, latent: FloatArray, ask: HeatmapRequest
) -> FloatArray:
    """Predictive sd at latent points [n, Q], [n]."""
    standard = model.standardiser_
    if ask.column is None:
        columns, scale = np.flatnonzero(~standard.constant), standard.scale[~standard.constant]
    else:
        columns, scale = np.array([ask.column]), np.ones(1)
    step = max(1, CELLS // dataset.X.shape[1])
    parts = []
    for start in range(0, len(latent), step):
        predicted = model.decode(latent[start : start + step])
        variance = predicted.variance[:, columns]
        if not ask.noise:
            noise = predicted.noise_variance[:, columns]
            variance = np.clip(variance - noise, 0.0, None)
        parts.append((np.sqrt(variance) / scale).mean(axis=1))
    return np.concatenate(parts)


def _labels(
    model: LatentVariableModel, latent: FloatArray, ask: HeatmapRequest
) -> tuple[FloatArray, str, str, tuple[float, float] | None]:
    """Value [n], title, unit and limits of a heatmap of class probabilities."""
    found = model.decode_labels(latent)
    labels = label_columns(model)[ask.path]
    predicted, titled = labels.part(found), labels.named
    if ask.kind == "entropy":
        p = predicted.probability
        value = -(p * np.log(p, out=np.zeros_like(p), where=p > 0)).sum(axis=1)
        title = titled("entropy of the class probabilities")
        return value, title, "nats", (0.0, float(np.log(p.shape[1])))
    if ask.label is None:
        raise ValueError(f"A heatmap of the {ask.kind} needs a class.")
    name = labels.classes[ask.label]
    if ask.kind == "probability":
        value = predicted.probability[:, ask.label]
        return value, titled(f"probability of {name}"), "0 to 1", (0.0, 1.0)
    value = predicted.variance[:, ask.label]
    return value, titled(f"variance of the probability of {name}"), "0 to 0.25", None
