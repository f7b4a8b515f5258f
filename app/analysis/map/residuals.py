"""Residual of each cell from what the other cells of its row say. Pure.

A row of the fit moves its own latent position towards a gross cell, and raises the noise, so its
reconstruction hides that cell. Here neither the cell nor the position of its row has a part in the
prediction. The position of row n is one of those of the other rows m, with the probability

    w_nm(d) ∝ Π_{d' ≠ d} t((y_nd' − f_md') / τ_d'),    m ≠ n,

where the product leaves out all levels of a category if d is one of them, f_m is the decoded mean
at the fitted position of row m, t the density of Student's t with 4 degrees of freedom, so that
another gross cell of the row is discounted, and τ_d the robust sd of the residuals of column d.
With the mean m_nd and the variance v_nd of f_md under these weights, the residual is
(y_nd − m_nd) / √(v_nd + τ_d²), divided by its robust sd over the rows of the column.

The robust sd is the largest of the standard normal's ratios |r|_(p) / Φ⁻¹((1 + p) / 2) at the
quantiles p = 0.5 (the median absolute deviation), 0.9, 0.975 and 0.99, each at least 6 rows away
from the largest: that of a column with heavy tails, or mostly with zeros, is not that of its
centre.

Counts are compared after the square root √(y + 3/8), which makes the variance of a Poisson count
constant; under a model of proportions the counts of a row are first divided by the ratio of its
total to the decoded one, and the differences of their roots multiplied by the root of this ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from app.analysis.map.subsampling import evenly_spaced
from lvmcore.data import Dataset
from lvmcore.data.transforms import one_hot_columns
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.standardiser import Standardiser

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

__all__ = ["MOST_CELLS", "MOST_ROWS", "Residuals", "residuals"]


#: Most rows, and most of their cells, to measure; rows of larger tables are subsampled evenly.
MOST_ROWS, MOST_CELLS = 10_000, 600_000
#: Most comparisons of a cell with that of another row; the other rows are subsampled evenly.
MOST_COMPARISONS = 40_000_000
_COMPARISONS_PER_BLOCK = 2_000_000
_FREEDOM = 4.0
#: τ at the first pass over the cells, in robust sds of the columns, and number of passes.
_FIRST_SCALE, _PASSES = 0.5, 2
_QUANTILES, _ROWS_BEYOND = (0.9, 0.975, 0.99), 6
#: Least τ: in robust sds of a column, and in sds of a column with (almost) one value.
_LEAST_SCALE, _LEAST_SCALE_OF_ONE_VALUE = 0.02, 1.0
_LEAST_SPREAD = 0.1


@dataclass(frozen=True)
class Residuals:
    """Residuals of rows, in robust sds.

    Attributes:
        rows: positions of the measured rows, [n].
        size: magnitude of the largest residual of each, NaN for a row without a usable cell, [n].
        column: position of the column of that residual, [n].
        deviation: that residual, with its sign, [n].
        expected: what the other cells of the row say of that cell, in the units of the table, [n].
    """

    rows: NDArray[np.intp]
    size: FloatArray
    column: NDArray[np.intp]
    deviation: FloatArray
    expected: FloatArray

    def worst(self, most: int) -> NDArray[np.intp]:
        """Positions in ``rows`` of the largest residuals, the largest first."""
        order = np.argsort(-self.size, kind="stable")
        return order[~np.isnan(self.size[order])][:most]

    @property
    def typical(self) -> float:
        """Median of the largest residuals of the rows; NaN if no row has one."""
        known = self.size[~np.isnan(self.size)]
        return float(np.median(known)) if len(known) else float("nan")


def residuals(model: LatentVariableModel, dataset: Dataset) -> Residuals:
    """The largest residual of each row of a fit.

    Args:
        model: a fitted model that decodes.
        dataset: the rows of the fit.

    Raises:
        UnsupportedError: the model cannot decode.
    """
    n, width = len(dataset), len(dataset.feature_names)
    rows = evenly_spaced(n, max(1, min(MOST_ROWS, MOST_CELLS // width)))
    others = evenly_spaced(n, max(2, MOST_COMPARISONS // (len(rows) * width)))
    decoded = model.decode(model.embedding_.mean[others]).mean
    comparison = _Comparison.of(model, decoded, dataset, rows)
    mean, z = _compared(comparison, rows[:, None] == others)
    z[:, Standardiser.fit(dataset.X, list(dataset.feature_names)).constant] = np.nan
    known = np.isfinite(z)
    filled = np.where(known, z, 0.0)
    column = np.abs(filled).argmax(axis=1)
    at = (np.arange(len(rows)), column)
    expected = dataset.original_units(comparison.cells_of(mean))[at]
    none = ~known.any(axis=1)
    deviation = np.where(none, np.nan, filled[at])
    return Residuals(rows, np.abs(deviation), column, deviation, np.where(none, np.nan, expected))


@dataclass(frozen=True)
class _Comparison:
    """Cells and predictions on the scale of the residuals.

    Attributes:
        Y: rows, in robust sds of the columns, NaN where a cell is missing, [n, D].
        F: decoded positions of the other rows, [M, D].
        centre: medians of the columns, [D].
        scale: their robust sds; the sd of a column with (almost) one value, [D].
        least: smallest τ, [D].
        counts: whether the cells are square roots of counts.
        total: a row's total over the decoded one, [n, 1]; 1 unless the model is of proportions.
        groups: positions of the columns that are levels of one category, for each category.
    """

    Y: FloatArray
    F: FloatArray
    centre: FloatArray
    scale: FloatArray
    least: FloatArray
    counts: bool
    total: FloatArray
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(
        cls,
        model: LatentVariableModel,
        decoded: FloatArray,
        dataset: Dataset,
        rows: NDArray[np.intp],
    ) -> _Comparison:
        """The cells of some rows of a fit, and the decoded positions of others [M, D]."""
        cells, total = dataset.X[rows], np.ones((len(rows), 1))
        counts = _models_counts(model)
        if counts:
            decoded_total = decoded.sum(axis=1)
            if np.ptp(decoded_total) <= 1e-6 * decoded_total.mean():
                total = np.maximum(cells.sum(axis=1, keepdims=True), 1.0) / decoded_total.mean()
            cells, decoded = (_root(values) for values in (cells / total, decoded))
        centre = np.nan_to_num(_column_median(cells))
        robust = _robust_sd(cells - centre)
        one_value = robust <= 0
        sd = np.nan_to_num(np.sqrt(_column_mean(np.square(cells - centre))))
        scale = np.where(one_value, np.where(sd > 0, sd, 1.0), robust)
        least = np.where(one_value, _LEAST_SCALE_OF_ONE_VALUE, _LEAST_SCALE)
        Y, F = ((values - centre) / scale for values in (cells, decoded))
        groups = tuple(one_hot_columns(dataset).values())
        return cls(Y, F, centre, scale, least, counts, total, groups)

    @property
    def unit(self) -> FloatArray:
        """Factor of a row's differences from decoded rows, [n, 1]."""
        return np.sqrt(self.total)

    def cells_of(self, values: FloatArray) -> FloatArray:
        """Cells on the scale of the fit from values on that of the residuals, [n, D]."""
        cells = self.centre + self.scale * values
        if self.counts:
            cells = np.maximum(np.square(np.maximum(cells, 0.0)) - 0.375, 0.0)
        return np.asarray(cells * self.total)


def _models_counts(model: LatentVariableModel) -> bool:
    likelihood = getattr(model, "likelihood", None)
    return model.capabilities.cells == "counts" or likelihood == "negative_binomial"


def _root(counts: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(counts, 0.0) + 0.375)


def _compared(comparison: _Comparison, own: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Predictions of the cells and their residuals in robust sds, [n, D] each.

    Args:
        comparison: the cells, and the decoded positions of other rows.
        own: which position is that of the row itself, [n, M].
    """
    Y, unit, tau = comparison.Y, comparison.unit, np.full(comparison.Y.shape[1], _FIRST_SCALE)
    for _ in range(_PASSES):
        mean, variance = _predictions(comparison, own, tau)
        tau = np.maximum(_robust_sd((Y - mean) * unit), comparison.least)
    z = (Y - mean) / np.sqrt(variance + np.square(tau / unit))
    usual = comparison.least < _LEAST_SCALE_OF_ONE_VALUE
    return mean, z / np.where(usual, np.maximum(_robust_sd(z), _LEAST_SPREAD), 1.0)


def _predictions(
    comparison: _Comparison, own: NDArray[np.bool_], tau: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each cell given the other cells of its row, [n, D] each."""
    Y, F = (np.asarray(part / tau, np.float32) for part in (comparison.Y, comparison.F))
    precision = np.asarray(np.square(comparison.unit) / _FREEDOM, np.float32)
    mean, variance = np.empty(Y.shape), np.empty(Y.shape)
    step = max(1, _COMPARISONS_PER_BLOCK // F.size)
    for first in range(0, len(Y), step):
        part = slice(first, first + step)
        density = np.log1p(np.square(Y[part, None, :] - F) * precision[part, None])
        density *= np.float32(-0.5 * (_FREEDOM + 1))
        np.nan_to_num(density, copy=False)  # a missing cell has no part
        row = density.sum(axis=2, keepdims=True)
        row[own[part]] = -np.inf
        for group in map(list, comparison.groups):
            density[:, :, group] = density[:, :, group].sum(axis=2, keepdims=True)
        weight = row - density
        weight -= weight.max(axis=1, keepdims=True)
        np.exp(weight, out=weight)
        weight /= weight.sum(axis=1, keepdims=True)
        first_moment = np.einsum("nmd,md->nd", weight, F)
        mean[part] = first_moment * tau
        spread = np.einsum("nmd,md->nd", weight, np.square(F)) - np.square(first_moment)
        variance[part] = np.maximum(spread, 0.0) * np.square(tau)
    return mean, variance


def _robust_sd(values: FloatArray) -> FloatArray:
    """Robust sd of each column about 0, of its finite values, [D]; 0 for a column without any."""
    found = np.zeros(values.shape[1])
    for d, column in enumerate(values.T):
        size = np.abs(column[np.isfinite(column)])
        if len(size):
            wanted = [min(p, 1 - _ROWS_BEYOND / len(size)) for p in _QUANTILES]
            levels = np.array([0.5, *(p for p in wanted if p > 0.5)])
            found[d] = np.max(np.quantile(size, levels) / norm.ppf(0.5 + 0.5 * levels))
    return found


def _column_median(values: FloatArray) -> FloatArray:
    """Median of each column's values, NaN for a column without any, [D]."""
    known = [column[~np.isnan(column)] for column in values.T]
    return np.array([np.median(column) if len(column) else np.nan for column in known])


def _column_mean(values: FloatArray) -> FloatArray:
    """Mean of each column's values, NaN for a column without any, [D]."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(axis=0) / known.sum(axis=0))
