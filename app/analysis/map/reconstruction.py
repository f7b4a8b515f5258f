"""The reconstruction of a latent point in the data's units, with intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.formatting import number
from lvmcore.data import Dataset
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.decoded_columns import (
    DecodedCategory,
    decoded_categories,
    decoded_interval,
)
from lvmcore.prediction.label_columns import label_columns

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

#: Half the width of the displayed intervals, in sd.
INTERVAL_SD = 2.0


@dataclass(frozen=True)
class MapPoint:
    """The point of the latent space that the page shows.

    Attributes:
        latent: its Q coordinates.
        row: position of the fitted row at this point; None if the point is no row.
        start: its coordinates before they were edited; None if they were not.
        held_out: position of the held-out row at this point among those on the map; None if the
            point is no held-out row.
    """

    latent: tuple[float, ...]
    row: int | None = None
    start: tuple[float, ...] | None = None
    held_out: int | None = None

    def moved(self, latent: tuple[float, ...]) -> MapPoint:
        """The point with other coordinates, edited from these; it is no row any more."""
        return MapPoint(latent, start=self.start or self.latent)


@dataclass(frozen=True)
class DecodedLevels:
    """A decoded category.

    Attributes:
        column: the category.
        probability: of its levels, [K].
    """

    column: DecodedCategory
    probability: FloatArray


_PER_COLUMN = (
    "mean", "sd", "lower", "upper", "value", "low", "high", "log1p", "centre", "scale", "varies",
    "dates",
)  # fmt: skip


@dataclass(frozen=True)
class Reconstruction:
    """The reconstruction of a latent point.

    The predictive mean, sd and interval are on the scale of the fit, log(1 + x) for some columns;
    value, low and high are in data units. An interval is ± 2 sd; of counts, shares and log-normal
    cells with a likelihood of their own it is the central one of the same probability.

    Attributes:
        mean: predictive mean on the scale of the fit, [D].
        sd: predictive sd, noise included, on the scale of the fit, [D].
        lower: lower end of the interval, [D].
        upper: upper end, [D].
        value: the mean in data units; the median for columns fitted as log(1 + x), [D].
        low: lower end in data units, [D].
        high: upper end in data units, [D].
        log1p: which columns were fitted as log(1 + x), [D].
        centre: mean of each column among the fitted rows, on the scale of the fit, [D].
        scale: sd of each column among the fitted rows, on that scale; 1 if constant, [D].
        varies: False for columns that are constant among the fitted rows, [D].
        dates: unit and origin of each column of dates, None of numbers, [D].
        probability: probability of each class, [C], for each label column of the model.
        categories: the categories with a likelihood of their own, whose features are above too.
    """

    mean: FloatArray
    sd: FloatArray
    lower: FloatArray
    upper: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray
    log1p: NDArray[np.bool_]
    centre: FloatArray
    scale: FloatArray
    varies: NDArray[np.bool_]
    dates: NDArray[np.object_]
    probability: tuple[FloatArray, ...]
    categories: tuple[DecodedLevels, ...] = ()

    @property
    def numbers(self) -> NDArray[np.intp]:
        """Positions of the features that are no levels of ``categories``."""
        levels = [d for category in self.categories for d in category.column.features]
        return np.setdiff1d(np.arange(len(self.mean)), levels)

    def cell_text(self, d: int, value: float, digits: int | None = None) -> str:
        """A value of a column in data units as text: a date in ISO 8601, or a number.

        Args:
            d: position of the column.
            value: the value.
            digits: digits of a number; None for the usual ones.
        """
        if self.dates[d] is not None:
            return str(self.dates[d].texts(np.array([value]))[0])
        return number(value) if digits is None else number(value, digits)

    def width_text(self, d: int, width: float) -> str:
        """A difference of two values of a column as text, with the unit of dates."""
        unit = "" if self.dates[d] is None else f" {self.dates[d].plural}"
        return number(width, 2) + unit

    @property
    def symmetric(self) -> bool:
        """Whether all intervals are ± 2 sd in data units."""
        reach = INTERVAL_SD * self.sd
        return bool(
            not self.log1p.any()
            and np.allclose(self.upper - self.mean, reach)
            and np.allclose(self.mean - self.lower, reach)
        )

    def subset(self, columns: NDArray[np.intp]) -> Reconstruction:
        """The reconstruction of some of the columns, without the categories."""
        parts = {name: getattr(self, name)[columns] for name in _PER_COLUMN}
        return replace(self, **parts, categories=())

    def most_deviating(self, observed: FloatArray | None, most: int) -> NDArray[np.intp]:
        """The columns that deviate most, in the order of the table.

        The deviation is from the observed row, in predictive sd; without a row, from the mean of
        the column, in sd of the column.

        Args:
            observed: cells of the row in data units, NaN where missing, [D]; None without a row.
            most: most columns to return.
        """
        if observed is None:
            deviation = (self.mean - self.centre) / self.scale
        else:
            fitted = np.where(self.log1p, np.log1p(np.where(self.log1p, observed, 0.0)), observed)
            deviation = (fitted - self.mean) / np.where(self.sd > 0, self.sd, 1.0)
        deviation = np.nan_to_num(np.abs(deviation), nan=-1.0)
        found: NDArray[np.intp] = np.sort(np.argsort(-deviation, kind="stable")[:most])
        return found


def reconstruct(
    model: LatentVariableModel, dataset: Dataset, latent: tuple[float, ...]
) -> Reconstruction:
    """Decode one latent point.

    Args:
        model: a fitted model.
        dataset: the rows of the fit.
        latent: Q coordinates of the point.

    Raises:
        UnsupportedError: the model cannot decode.
    """
    predicted = model.decode([latent])
    standard = model.standardiser_
    columns = label_columns(model)
    found = model.decode_labels([latent]) if columns else None
    mean, sd = predicted.mean[0], np.sqrt(predicted.variance[0])
    lower, upper = (ends[0] for ends in decoded_interval(model, predicted, INTERVAL_SD))
    return Reconstruction(
        mean=mean,
        sd=sd,
        lower=lower,
        upper=upper,
        value=dataset.original_units(mean),
        low=dataset.original_units(lower),
        high=dataset.original_units(upper),
        log1p=dataset.log1p,
        centre=standard.mean,
        scale=standard.scale,
        varies=~standard.constant,
        dates=np.array([dataset.date_scales.get(n) for n in dataset.feature_names], dtype=object),
        probability=tuple(column.part(found).probability[0] for column in columns),
        categories=tuple(
            DecodedLevels(category, category.probabilities(predicted.mean)[0])
            for category in decoded_categories(model, dataset)
        ),
    )
