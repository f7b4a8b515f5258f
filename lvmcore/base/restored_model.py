"""Checks of a model restored from a file: its parts fit together, and it predicts two rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.base.estimator import Estimator
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.predictor import Predictor
from lvmcore.errors import DataError

__all__ = ["check_restored"]


def check_restored(model: Estimator) -> None:
    """Check a model restored from a file.

    Shapes that contradict one another raise an error of the computation in which they meet, so the
    model predicts two rows here, and not first on a page.

    Args:
        model: the model.

    Raises:
        DataError: a part has another size, or values that are not finite.
        Exception: an error of the computation, for the same reasons.
    """
    for path, relevance in model.relevance_.items():
        if relevance.ndim != 1:
            raise DataError(f"the relevance of {path!r} has {relevance.ndim} dimensions")
    if isinstance(model, LatentVariableModel):
        _check_map(model)
    if isinstance(model, Predictor):
        rows = np.tile(model._measured.mean, (2, 1))
        model.predict(pd.DataFrame(rows, columns=model._column_names()) if _named(model) else rows)


def _check_map(model: LatentVariableModel) -> None:
    mean, variance = model.embedding_.mean, model.embedding_.variance
    if mean.ndim != 2 or not mean.size or variance.shape != mean.shape:
        raise DataError(f"its map has the shapes {mean.shape} and {variance.shape}")
    _check_finite(mean, "latent means")
    _check_finite(variance, "latent variances")
    if (variance < 0).any():
        raise DataError("a latent variance is negative")
    for path, relevance in model.relevance_.items():
        if len(relevance) != mean.shape[1]:
            raise DataError(f"the relevance of {path!r} has {len(relevance)} dimensions")
    if model.capabilities.decoding:
        _check_finite(model.decode(mean[:2]).mean, "predictions of two rows")
    if model._labels:
        model.decode_labels(mean[:2])


def _check_finite(values: NDArray[np.float64], name: str) -> None:
    if not np.isfinite(values).all():
        raise DataError(f"its {name} are not finite")


def _named(model: Estimator) -> bool:
    return hasattr(model, "feature_names_in_")
