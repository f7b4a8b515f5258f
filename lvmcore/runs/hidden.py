"""Cells that are hidden, predicted from the others, and compared: how honest the intervals are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base import LatentVariableModel
from lvmcore.data import Dataset
from lvmcore.metrics import coverage, nlpd
from lvmcore.runs.spec import Metric
from lvmcore.standardise import Standardiser

__all__ = ["HiddenCells", "figures", "hide", "predict_hidden"]

FloatArray = NDArray[np.float64]

SEED = 0
LEVELS = (0.5, 0.9, 0.95)


@dataclass(frozen=True)
class HiddenCells:
    """Hidden cells and what a model says of them, in standard deviations of the fitted rows.

    Attributes:
        truth: what was hidden, less the mean of its column, [n].
        mean: [n].
        variance: with the noise in it, [n].
    """

    truth: FloatArray
    mean: FloatArray
    variance: FloatArray


def hide(X: FloatArray, share: float, seed: int = SEED) -> NDArray[np.bool_]:
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
    frame = pd.DataFrame(np.where(hidden, np.nan, X), columns=list(fitted.learned_names))
    filled = model.impute(frame)
    standard = Standardiser.fit(fitted.X, list(fitted.feature_names))
    cells = hidden & ~standard.constant
    scale = np.broadcast_to(standard.scale, X.shape)[cells]
    return HiddenCells(
        (X - standard.mean)[cells] / scale,
        (filled.mean - standard.mean)[cells] / scale,
        filled.variance[cells] / scale**2,
    )


def figures(cells: HiddenCells, how: str) -> dict[str, Metric]:
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
