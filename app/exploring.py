"""What the Latent page asks of a fitted model: heatmaps and reconstructions.

Pure functions of a model and the rows that it was fitted to: no streamlit, no plotly, and torch
only inside the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from app.axes import Axes, extent, positions
from app.selections import Selection
from lvmcore.data import Dataset
from lvmcore.runs.labels import label_columns

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel

__all__ = [
    "INTERVAL_SD",
    "Ask",
    "Choices",
    "Grid",
    "Kind",
    "Point",
    "Reconstruction",
    "far_away",
    "heatmap",
    "magnification",
    "reconstruct",
]

FloatArray = NDArray[np.float64]
Kind = Literal["sd", "magnification", "probability", "entropy", "probability variance"]

GRID = 60
#: A heatmap of a wide table is coarser: it decodes about so many cells at most.
MOST_DECODED, COARSEST = 6_000_000, 24
#: Half the width of the intervals shown, in sd.
INTERVAL_SD = 2.0
#: Cells decoded at a time: bounds memory for tables with thousands of columns.
CELLS = 4_000_000


@dataclass(frozen=True)
class Point:
    """A place in the latent space that somebody looks at.

    Attributes:
        latent: all its coordinates, Q of them.
        row: position of the row that lies there, among the fitted rows; None on open ground.
        start: where it was before its coordinates were typed; None where they were not.
    """

    latent: tuple[float, ...]
    row: int | None = None
    start: tuple[float, ...] | None = None

    def moved(self, dimension: int, to: float) -> Point:
        """The point with one coordinate changed: no row lies there, as far as anybody knows."""
        latent = list(self.latent)
        latent[dimension] = to
        return Point(tuple(latent), start=self.start or self.latent)


@dataclass(frozen=True)
class Ask:
    """Which heatmap to compute: hashable, so that it can be a cache's key.

    Attributes:
        kind: predictive sd, magnification factor, or class probability, its entropy or variance.
        axes: the two latent dimensions of the grid.
        held: where the other dimensions are held, all Q coordinates.
        column: of the sd, by its position; None takes the mean over all that vary, standardised.
        noise: whether the sd holds the noise of a new observation.
        label: class of the probability, by its position in the model's classes.
        path: of which label column, by its position, where the model learned from several.
        size: points of the grid along each axis, at most.
    """

    kind: Kind
    axes: Axes
    held: tuple[float, ...]
    column: int | None = None
    noise: bool = True
    label: int | None = None
    path: int = 0
    size: int = GRID


@dataclass(frozen=True)
class Grid:
    """A heatmap.

    Attributes:
        x: horizontal positions, [nx].
        y: vertical positions, [ny].
        value: [ny, nx].
        title: what the colours show, in plain words (may hold user text).
        unit: of ``value``.
        limits: ends of the colour bar; None takes those of ``value``.
        sure_is_low: whether small values mean "sure".
    """

    x: FloatArray
    y: FloatArray
    value: FloatArray
    title: str
    unit: str
    limits: tuple[float, float] | None
    sure_is_low: bool

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest value of the colours."""
        return self.limits or (float(self.value.min()), float(self.value.max()))

    @property
    def flat(self) -> bool:
        """Whether the value is the same everywhere, as of a linear model's predictive sd."""
        low, high = float(self.value.min()), float(self.value.max())
        return high - low <= 1e-9 * max(abs(high), abs(low), 1e-300)


@dataclass(frozen=True)
class Reconstruction:
    """What a place of the latent space looks like.

    The model's mean and sd are on the scale that it learned, log(1 + x) for some columns; value,
    low and high are in the data's own units.

    Attributes:
        mean: on the scale of the fit, [D].
        sd: of a new observation, noise included, on the scale of the fit, [D].
        value: the mean in the data's units; the median where log(1 + x) was learned, [D].
        low: lower end of the interval of ± 2 sd, in the data's units, [D].
        high: its upper end; not as far from the value as the lower where log(1 + x) was learned.
        log1p: which columns were learned as log(1 + x), [D].
        centre: mean of each column among the fitted rows, on the scale of the fit, [D].
        scale: sd of each column among the fitted rows, on that scale; 1 where it is constant, [D].
        varies: False for columns that are constant among the fitted rows, [D].
        probability: of each class, normalised, [C], for each label column that the model knows.
    """

    mean: FloatArray
    sd: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray
    log1p: NDArray[np.bool_]
    centre: FloatArray
    scale: FloatArray
    varies: NDArray[np.bool_]
    probability: tuple[FloatArray, ...]

    def of(self, columns: NDArray[np.intp]) -> Reconstruction:
        """The same place, of some of the columns alone."""
        per_column = ("mean", "sd", "value", "low", "high", "log1p", "centre", "scale", "varies")
        return replace(self, **{name: getattr(self, name)[columns] for name in per_column})

    def telling(self, observed: FloatArray | None, most: int) -> NDArray[np.intp]:
        """The columns that tell most of the place, in the table's order.

        Those that lie farthest from the observed row, in sd of a new observation; without a row,
        those that lie farthest from their means, in sd of the column.

        Args:
            observed: the row's cells in the data's units, NaN where missing, [D]; None without.
            most: how many columns at most.
        """
        if observed is None:
            away = (self.mean - self.centre) / self.scale
        else:
            learned = np.where(self.log1p, np.log1p(np.where(self.log1p, observed, 0.0)), observed)
            away = (learned - self.mean) / np.where(self.sd > 0, self.sd, 1.0)
        away = np.nan_to_num(np.abs(away), nan=-1.0)
        found: NDArray[np.intp] = np.sort(np.argsort(-away, kind="stable")[:most])
        return found


@dataclass(frozen=True)
class Choices:
    """What decides how the map is drawn, apart from the point that was clicked.

    Attributes:
        axes: horizontal and vertical dimension.
        colour: column that colours the rows; None for one colour.
        ask: the heatmap behind; None for none.
        ellipses: whether posterior ellipses are drawn.
        inducing: whether inducing inputs are drawn.
        selection: the rows that are selected.
        dark: whether the page is dark.
        size: column that gives the rows their size; None for one size.
        shape: column that gives them their shape; None for one shape.
    """

    axes: Axes
    colour: str | None
    ask: Ask | None
    ellipses: bool
    inducing: bool
    selection: Selection | None
    dark: bool
    size: str | None = None
    shape: str | None = None


# ---- decoding --------------------------------------------------------------------------------


def heatmap(model: LatentVariableModel, dataset: Dataset, ask: Ask) -> Grid:
    """Compute a heatmap over the range of the rows.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to, in the order of its map.
        ask: what to show.

    Returns:
        The grid; the sd is √(predictive variance), with or without the noise variance. Its mean
        over columns takes each column's sd in units of that column's own sd.

    Raises:
        UnsupportedError: the model cannot decode, or knows no labels.
    """
    horizontal, vertical = extent(positions(model.embedding_.mean, ask.axes))
    size = min(ask.size, max(COARSEST, math.isqrt(MOST_DECODED // dataset.X.shape[1])))
    x, y = np.linspace(*horizontal, size), np.linspace(*vertical, size)
    latent = np.tile(np.array(ask.held, dtype=np.float64), (size**2, 1))
    latent[:, ask.axes[0]] = np.tile(x, size)
    if ask.axes[1] is not None:
        latent[:, ask.axes[1]] = np.repeat(y, size)
    if ask.kind == "sd":
        value = _sd(model, dataset, latent, ask)
        if ask.column is None:
            title, unit = "predictive sd, mean over columns", "sd of a column"
        else:
            title, unit = _sd_of(dataset, ask.column)
        limits, sure_is_low = None, True
    elif ask.kind == "magnification":
        value = magnification(model, latent, ask.axes)
        title, unit, limits, sure_is_low = "magnification", "√det G", None, True
    else:
        value, title, unit, limits = _labels(model, latent, ask)
        sure_is_low = ask.kind != "probability"
    return Grid(x, y, value.reshape(size, size), title, unit, limits, sure_is_low)


def magnification(model: LatentVariableModel, latent: FloatArray, axes: Axes) -> FloatArray:
    """√det G of the displayed dimensions at latent points [n, Q], [n].

    How large the columns' change over a unit square of the map is, in sd of the columns; over a
    unit of length on a map of one dimension.
    """
    shown = [dimension for dimension in axes if dimension is not None]
    G = model.latent_metric(latent)[:, shown][:, :, shown]
    found: FloatArray = np.sqrt(np.linalg.det(G).clip(min=0.0))
    return found


def far_away(model: LatentVariableModel, ask: Ask) -> float | None:
    """The magnification far from all rows, where a Gaussian process is its prior again.

    None for models without inducing inputs, which have no such value.
    """
    Z = model.inducing_inputs_.get("data")
    if Z is None:
        return None
    reach = 1e3 * (1 + np.abs(Z).max() + np.abs(model.embedding_.mean).max())
    return float(magnification(model, np.full((1, len(ask.held)), reach), ask.axes)[0])


def _sd_of(dataset: Dataset, column: int) -> tuple[str, str]:
    """Title and unit of the sd of a column."""
    name = dataset.feature_names[column]
    if dataset.log1p[column]:
        return f"predictive sd of log(1 + {name})", "as learned, a logarithm"
    return f"predictive sd of {name}", "its own unit"


def _sd(model: LatentVariableModel, dataset: Dataset, latent: FloatArray, ask: Ask) -> FloatArray:
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
    model: LatentVariableModel, latent: FloatArray, ask: Ask
) -> tuple[FloatArray, str, str, tuple[float, float] | None]:
    """Value [n], title, unit and limits of a heatmap about the classes."""
    found = model.decode_labels(latent)
    labels = label_columns(model)[ask.path]
    predicted, of = labels.part(found), labels.named
    if ask.kind == "entropy":
        p = predicted.probability
        value = -(p * np.log(p, out=np.zeros_like(p), where=p > 0)).sum(axis=1)
        title = of("entropy of the class probabilities")
        return value, title, "nats", (0.0, float(np.log(p.shape[1])))
    if ask.label is None:
        raise ValueError(f"A heatmap of the {ask.kind} needs a class.")
    name = labels.classes[ask.label]
    if ask.kind == "probability":
        value = predicted.probability[:, ask.label]
        return value, of(f"probability of {name}"), "0 to 1", (0.0, 1.0)
    value = predicted.variance[:, ask.label]
    return value, of(f"variance of the probability of {name}"), "0 to 0.25", None


def reconstruct(
    model: LatentVariableModel, dataset: Dataset, latent: tuple[float, ...]
) -> Reconstruction:
    """Decode one place of the latent space.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to.
        latent: the place, Q coordinates.

    Raises:
        UnsupportedError: the model cannot decode.
    """
    predicted = model.decode([latent])
    standard = model.standardiser_
    columns = label_columns(model)
    found = model.decode_labels([latent]) if columns else None
    mean, sd = predicted.mean[0], np.sqrt(predicted.variance[0])
    return Reconstruction(
        mean=mean,
        sd=sd,
        value=dataset.in_units(mean),
        low=dataset.in_units(mean - INTERVAL_SD * sd),
        high=dataset.in_units(mean + INTERVAL_SD * sd),
        log1p=dataset.log1p,
        centre=standard.mean,
        scale=standard.scale,
        varies=~standard.constant,
        probability=tuple(column.part(found).probability[0] for column in columns),
    )
