"""Cells that are hidden, predicted from the others, and compared: how honest the intervals are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.metrics.metric import Metric
from lvmcore.metrics.scores import coverage, nlpd
from lvmcore.numerics.array_types import FloatArray
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

#: What a coverage says of intervals: "fair" where they are as wide as they should be.
Width = Literal["narrow", "fair", "wide"]

SEED = 0
LEVELS = (0.5, 0.9, 0.95)
# A coverage so near its level is fair however many cells there are, and a farther one where so many
# standard deviations of a share of that many cells explain it.
_NEAR, _CHANCE = 0.02, 2.0


@dataclass(frozen=True)
class HiddenCells:
    """Hidden cells and what a model says of them, in standard deviations of the fitted rows.

    Attributes:
        truth: what was hidden, less the mean of its column, [n].
        mean: [n].
        variance: with the noise in it, [n].
        at: which cells of the rows they are, in their order, [N, D].
        centre: mean of the fitted cells of each one's column, [n].
        scale: their standard deviation, [n].
    """

    truth: FloatArray
    mean: FloatArray
    variance: FloatArray
    at: NDArray[np.bool_]
    centre: FloatArray
    scale: FloatArray


def hide_cells(X: FloatArray, share: float, seed: int = SEED) -> NDArray[np.bool_]:
    """Draw which of the observed cells of X [N, D] to hide, [N, D]; each row keeps one."""
    observed = ~np.isnan(X)
    drawn = np.random.default_rng(seed).random(X.shape)
    hidden = observed & (drawn < share)
    for row in np.flatnonzero(observed.any(axis=1) & (hidden == observed).all(axis=1)):
        hidden[row, np.argmax(np.where(observed[row], drawn[row], -1.0))] = False
    return hidden


def predict_hidden(
    model: LatentVariableModel, fitted: Dataset, X: FloatArray, hidden: NDArray[np.bool_]
) -> HiddenCells:
    """What a model predicts for cells from the others of their rows.

    Args:
        model: a fitted model that takes missing cells.
        fitted: the rows that it was fitted to.
        X: rows with its columns, [N, D].
        hidden: which of their cells to hide; those of columns that were constant do not count.
    """
    frame = pd.DataFrame(np.where(hidden, np.nan, X), columns=list(fitted.transformed_names))
    filled = model.impute(frame)
    standard = Standardiser.fit(fitted.X, list(fitted.feature_names))
    cells = hidden & ~standard.constant
    scale = np.broadcast_to(standard.scale, X.shape)[cells]
    return HiddenCells(
        truth=(X - standard.mean)[cells] / scale,
        mean=(filled.mean - standard.mean)[cells] / scale,
        variance=filled.variance[cells] / scale**2,
        at=cells,
        centre=np.broadcast_to(standard.mean, X.shape)[cells],
        scale=scale,
    )


def hidden_frame(cells: HiddenCells, fitted: Dataset, X: FloatArray, level: float) -> pd.DataFrame:
    """The hidden cells in the data's units, one row each.

    Args:
        cells: with the predictions.
        fitted: the rows that the model was fitted to, as ``predict_hidden`` took them.
        X: rows with its columns, nothing hidden, [N, D].
        level: of the intervals.

    Returns:
        ``row_id``, ``feature``, ``truth``, ``mean`` (a median in a feature that is learned as
        log(1 + x)), and the ends of the interval, ``lower`` and ``upper``.
    """
    reach = norm.ppf(0.5 * (1 + level)) * np.sqrt(cells.variance)

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
            "lower": in_units(cells.mean - reach),
            "upper": in_units(cells.mean + reach),
        }
    )


def interval_width(share: float, level: float, cells: int) -> Width:
    """What a coverage says of the intervals.

    Args:
        share: of hidden cells inside their interval.
        level: of the intervals.
        cells: how many were hidden, at least 1.
    """
    room = _NEAR + _CHANCE * math.sqrt(level * (1 - level) / cells)
    if abs(share - level) <= room:
        return "fair"
    return "narrow" if share < level else "wide"


def imputation_metrics(cells: HiddenCells, how: str) -> dict[str, Metric]:
    """Coverage of the intervals at three levels, and the density of the hidden cells.

    Args:
        cells: with the predictions.
        how: which cells were hidden and what the model knew, a sentence for the protocols.
    """
    labels = {f"cells_coverage_{level:.0%}"[:-1]: level for level in LEVELS}
    if not len(cells.truth):
        why = "There was no cell to hide."
        found = {key: Metric(_title(level), None, why) for key, level in labels.items()}
        return found | {"cells_nlpd": Metric("hidden-cell NLPD", None, why)}
    found = {
        key: Metric(
            _title(level),
            coverage(cells.truth, cells.mean, cells.variance, level),
            f"Share of hidden cells inside their {level:.0%} interval: {level:g} where the "
            f"intervals are as wide as they should be. {how}",
        )
        for key, level in labels.items()
    }
    density = nlpd(cells.truth, cells.mean, cells.variance)
    return found | {
        "cells_nlpd": Metric(
            "hidden-cell NLPD",
            density,
            "Minus the log predictive density of a hidden cell, mean over cells, nats, in standard "
            f"deviations of the fitted rows; lower is better, and the "
            f"columns' means and standard deviations alone give about {_by_the_mean():.2f}. {how}",
        )
    }


def _title(level: float) -> str:
    return f"coverage of {level:.0%} intervals".replace("%", " %")


def _by_the_mean() -> float:
    """The NLPD of a standard normal prediction for cells of mean 0 and variance 1."""
    return 0.5 * (math.log(2 * math.pi) + 1)
