"""Scores of a model on held-out rows, from a fit to the others: unbiased for models with labels.

The model is fitted to 80 % of the rows, and infers the other 20 % from their columns alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.latent_variable_model import Capabilities, LatentVariableModel
from lvmcore.data.dataset import Dataset
from lvmcore.data.held_out_rows import keep_every_class
from lvmcore.errors import DataError, UnsupportedError
from lvmcore.evaluation.held_out_rows import held_out_metrics
from lvmcore.metrics.metric import Metric

__all__ = ["can_be_scored", "score_on_new_rows", "scoring_split"]

SEED = 0
SHARE = 0.2


def can_be_scored(can: Capabilities) -> bool:
    """Whether a model can be scored on held-out rows: it predicts labels, or has a density."""
    return can.new_rows and (can.labels != "none" or can.density)


def scoring_split(dataset: Dataset, model: type[LatentVariableModel]) -> tuple[Dataset, Dataset]:
    """The rows for the fit and the held-out rows, a fifth of each class.

    Rows without a label count as a class of their own.

    Args:
        dataset: rows that the model can be fitted to.
        model: the class of the model to score.

    Raises:
        UnsupportedError: the model has no score on held-out rows.
        DataError: there are too few rows.
    """
    if not can_be_scored(model.capabilities):
        raise UnsupportedError(
            f"{model.title} cannot be scored on held-out rows: it places no new rows, or has "
            "neither labels nor a density."
        )
    held = np.zeros(len(dataset), dtype=np.bool_)
    rng = np.random.default_rng(SEED)
    for rows in _strata(dataset):
        held[rng.permutation(rows)[: round(SHARE * len(rows))]] = True
    if model.capabilities.several_labels:
        held = keep_every_class(held, list(dataset.label_columns.values())[1:])
    if not held.any():
        raise DataError(
            f"{len(dataset)} rows are too few to hold out a fifth of each class: expected a class "
            "with at least three."
        )
    return dataset.subset(~held), dataset.subset(held)


def _strata(dataset: Dataset) -> list[NDArray[np.intp]]:
    """Positions of the rows of each class, those without a label last."""
    if dataset.labels is None:
        return [np.arange(len(dataset))]
    known = ~np.asarray(pd.isna(dataset.labels))
    return [
        *(np.flatnonzero(known & (dataset.labels == name)) for name in dataset.classes),
        np.flatnonzero(~known),
    ]


def score_on_new_rows(
    model: LatentVariableModel, fitted: Dataset, held_out: Dataset
) -> dict[str, Metric]:
    """Score a model on held-out rows.

    Args:
        model: fitted to ``fitted``.
        fitted: the rows of the fit, 80 %.
        held_out: the others, 20 %.

    Returns:
        The metrics of ``held_out_metrics``, whose protocols also describe the fit.
    """
    how = (
        f"The model was fitted anew to {len(fitted)} rows, and placed the {len(held_out)} others "
        f"by their columns alone (a fifth of each class, seed {SEED})."
    )
    return {
        key: replace(metric, protocol=f"{metric.protocol} {how}")
        for key, metric in held_out_metrics(model, fitted, held_out).items()
    }
