"""Calibration of predictive intervals, from hidden cells predicted from the observed ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.evaluation.cell_density import (
    LEAST_PROBABILITY,
    cell_log_density,
    number_log_density,
)
from lvmcore.likelihoods.catalogue import LIKELIHOODS, ColumnTerm
from lvmcore.likelihoods.intervals import predictive_interval
from lvmcore.metrics.metric import Metric
from lvmcore.metrics.scores import nlpd
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.decoded_columns import column_terms
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = [
    "HiddenCells",
    "Width",
    "hidden_frame",
    "hide_cells",
    "imputation_metrics",
    "interval_width",
    "predict_hidden",
]

#: Width of predictive intervals judged by their coverage: too narrow, calibrated, or too wide.
Width = Literal["narrow", "fair", "wide"]

SEED = 0
# Beside the seed, so that the draw is not that of ``default_rng(seed)``: cells that someone has
# hidden by it, to test an imputation, are missing here, and none would be left to hide.
STREAM = 715_517
LEVELS = (0.5, 0.9, 0.95)
# Tolerance of a coverage: a constant, plus a number of standard errors of a share of n cells.
_TOLERANCE, _STANDARD_ERRORS = 0.02, 2.0
# Tolerance of an end that is a count, in sd.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class HiddenCells:
    """Hidden cells and their predictions, in standard deviations of the fitted rows.

    Attributes:
        truth: hidden values, less the mean of their column, [n].
        mean: predictive means, [n].
        variance: predictive variances, noise included, [n].
        at: mask of the hidden cells, in row-major order, [N, D].
        centre: mean of each cell's column over the fitted rows, [n].
        scale: standard deviation of each cell's column over the fitted rows, [n].
        terms: likelihoods of the columns; None where all are Gaussian.
        least: smallest value of each cell's column over the fitted rows, in the same units, [n].
        most: likewise the largest, [n].
        numbers: log densities of numbers and counts under the likelihoods of their columns, in the
            units of the fit, NaN for levels, [n]; None to have them from mean and variance.
    """

    truth: FloatArray
    mean: FloatArray
    variance: FloatArray
    at: NDArray[np.bool_]
    centre: FloatArray
    scale: FloatArray
    least: FloatArray
    most: FloatArray
    terms: tuple[ColumnTerm, ...] | None = None
    numbers: FloatArray | None = None

    def log_density(self, terms: tuple[ColumnTerm, ...]) -> FloatArray:
        """Log density of each cell in the units of the fit, of a level or count its probability.

        Args:
            terms: likelihoods of the columns.

        Returns:
            One a cell, a category being one: [n].
        """
        low, span = np.where(
            self.has_interval,
            [-self.centre / self.scale, 1 / self.scale],
            [self.least, self.most - self.least],
        )
        X, mean, variance = np.zeros((3, *self.at.shape))
        X[self.at], mean[self.at] = (self.truth - low) / span, (self.mean - low) / span
        variance[self.at] = self.variance / span**2
        numbers = None if self.numbers is None else np.full(self.at.shape, np.nan)
        if numbers is not None:
            numbers[self.at] = self.numbers
        return cell_log_density(terms, X, mean, variance, self.at, numbers)

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends of the central intervals of a level, [n] each.

        Of a level of a category, which is 1 or 0 with its probability, they are 1 or 0.
        """
        reach = norm.ppf(0.5 * (1 + level)) * np.sqrt(self.variance)
        if self.terms is None:
            return self.mean - reach, self.mean + reach
        mean, variance = np.full(self.at.shape, 0.5), np.full(self.at.shape, 0.1)
        mean[self.at] = self.mean * self.scale + self.centre
        variance[self.at] = self.variance * self.scale**2
        ends = predictive_interval(self.terms, mean, variance, level)
        lower, upper = ((end[self.at] - self.centre) / self.scale for end in ends)
        tail, p = 0.5 * (1 - level), (self.mean - self.least) / (self.most - self.least)
        is_level = ~self.has_interval
        lower = np.where(is_level, np.where(p >= 1 - tail, self.most, self.least), lower)
        upper = np.where(is_level, np.where(p <= tail, self.least, self.most), upper)
        return lower, upper

    @property
    def has_interval(self) -> NDArray[np.bool_]:
        """Whether each cell is a number or a count, not a level of a category, [n]."""
        if self.terms is None:
            return np.ones(len(self.mean), dtype=np.bool_)
        numbers = [
            LIKELIHOODS[term.name].cells not in ("one-hot", "binary")
            for term in self.terms
            for _ in range(term.n_features)
        ]
        return np.broadcast_to(np.array(numbers), self.at.shape)[self.at]


def hide_cells(
    X: FloatArray, share: float, seed: int = SEED, groups: Iterable[Sequence[int]] = ()
) -> NDArray[np.bool_]:
    """Mask of observed cells drawn to be hidden, [N, D]; each row keeps one.

    Args:
        X: rows, NaN where a cell is missing, [N, D].
        share: of the observed cells.
        seed: of the draw.
        groups: positions of columns whose cells are hidden together, such as the levels of a
            category: one of them would tell the others.
    """
    observed = ~np.isnan(X)
    drawn = np.random.default_rng([seed, STREAM]).random(X.shape)
    for group in groups:
        drawn[:, list(group)] = drawn[:, group[0], None]
    hidden = observed & (drawn < share)
    for row in np.flatnonzero(observed.any(axis=1) & (hidden == observed).all(axis=1)):
        last = np.where(observed[row], drawn[row], -1.0)
        hidden[row, last == last.max()] = False
    return hidden


def predict_hidden(
    model: LatentVariableModel, fitted: Dataset, X: FloatArray, hidden: NDArray[np.bool_]
) -> HiddenCells:
    """Predict hidden cells from the observed cells of their rows.

    Args:
        model: a fitted model that takes missing cells.
        fitted: the rows that it was fitted to.
        X: rows with its columns, [N, D].
        hidden: mask of the cells to hide, [N, D]; columns that were constant are left out.
    """
    frame = pd.DataFrame(np.where(hidden, np.nan, X), columns=list(fitted.transformed_names))
    filled = model.impute(frame)
    standard = Standardiser.fit(fitted.X, list(fitted.feature_names))
    cells = hidden & ~standard.constant
    scale = np.broadcast_to(standard.scale, X.shape)[cells]
    density = number_log_density(model, X, cells)
    return HiddenCells(
        truth=(X - standard.mean)[cells] / scale,
        mean=(filled.mean - standard.mean)[cells] / scale,
        variance=filled.variance[cells] / scale**2,
        at=cells,
        centre=np.broadcast_to(standard.mean, X.shape)[cells],
        scale=scale,
        least=np.broadcast_to(np.nanmin(fitted.X, axis=0) - standard.mean, X.shape)[cells] / scale,
        most=np.broadcast_to(np.nanmax(fitted.X, axis=0) - standard.mean, X.shape)[cells] / scale,
        terms=column_terms(model),
        numbers=None if density is None else density[cells],
    )


def hidden_frame(cells: HiddenCells, fitted: Dataset, X: FloatArray, level: float) -> pd.DataFrame:
    """The hidden cells in the data's units, one row each.

    Args:
        cells: hidden cells with their predictions.
        fitted: the rows that the model was fitted to, as given to ``predict_hidden``.
        X: rows with its columns, without hidden cells, [N, D].
        level: of the intervals.

    Returns:
        ``row_id``, ``feature``, ``truth``, ``mean`` (a median for features transformed by
        log(1 + x)), the ends of the interval, ``lower`` and ``upper``, and ``has_interval``, which
        is false for the levels of a category.
    """
    lower, upper = cells.interval(level)

    def in_units(values: FloatArray) -> FloatArray:
        learned = np.full(X.shape, np.nan)
        learned[cells.at] = cells.centre + cells.scale * values
        return fitted.original_units(learned)[cells.at]

    row, column = np.nonzero(cells.at)
    return pd.DataFrame(
        {
            "row_id": fitted.row_ids[row].tolist(),
            "feature": np.array(fitted.feature_names, dtype=object)[column],
            "truth": fitted.original_units(X)[cells.at],
            "mean": in_units(cells.mean),
            "lower": in_units(lower),
            "upper": in_units(upper),
            "has_interval": cells.has_interval,
        }
    )


def interval_width(share: float, level: float, cells: int) -> Width:
    """The width of intervals judged by their coverage.

    Args:
        share: of hidden cells inside their interval.
        level: of the intervals.
        cells: number of hidden cells, at least 1.
    """
    tolerance = _TOLERANCE + _STANDARD_ERRORS * math.sqrt(level * (1 - level) / cells)
    if abs(share - level) <= tolerance:
        return "fair"
    return "narrow" if share < level else "wide"


def imputation_metrics(cells: HiddenCells, how: str) -> dict[str, Metric]:
    """Coverage of the intervals at three levels, and the density of the hidden cells.

    Args:
        cells: hidden cells with their predictions.
        how: which cells were hidden and which inputs the model had, a sentence for the protocols.
    """
    labels = {f"cells_coverage_{level:.0%}"[:-1]: level for level in LEVELS}
    if not len(cells.truth):
        why = "There was no cell to hide."
        found = {key: Metric(_title(level), None, why) for key, level in labels.items()}
        return found | {"cells_nlpd": Metric("hidden-cell NLPD", None, why)}
    found = {
        key: Metric(
            _title(level),
            _coverage(cells, level),
            f"Share of hidden cells inside their {level:.0%} interval: {level:g} for calibrated "
            f"intervals. {how}",
        )
        for key, level in labels.items()
    }
    if cells.terms is None:
        what, density = _GAUSSIAN_DENSITY, nlpd(cells.truth, cells.mean, cells.variance)
    else:
        what, density = _COLUMN_DENSITY, -float(cells.log_density(cells.terms).mean())
    return found | {"cells_nlpd": Metric("hidden-cell NLPD", density, f"{what} {how}")}


def _coverage(cells: HiddenCells, level: float) -> float | None:
    """Share of the hidden numbers and counts inside their interval; None where there is none."""
    chosen = cells.has_interval
    if not chosen.any():
        return None
    lower, upper = cells.interval(level)
    inside = (lower - _ROUNDING <= cells.truth) & (cells.truth <= upper + _ROUNDING)
    return float(inside[chosen].mean())


def _title(level: float) -> str:
    return f"coverage of {level:.0%} intervals".replace("%", " %")


#: The NLPD of a standard normal prediction for cells of mean 0 and variance 1.
_BASELINE = 0.5 * (math.log(2 * math.pi) + 1)
_GAUSSIAN_DENSITY = (
    "Minus the log predictive density of a hidden cell, mean over cells, nats, in standard "
    "deviations of the fitted rows; lower is better, and the columns' means and standard "
    f"deviations alone give about {_BASELINE:.2f}."
)
_COLUMN_DENSITY = (
    "Minus the log probability of a hidden level (at least "
    f"{LEAST_PROBABILITY:g}) or count, or the log density of a hidden number in its column's unit, "
    "under the likelihood of the column, mean over cells, nats, a category being one cell; lower "
    "is better, and only runs with likelihoods by column of the same table compare."
)
