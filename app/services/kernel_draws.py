"""Draws from the prior of a kernel along a column of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.services.caching import cached
from lvmcore.data import Dataset
from lvmcore.errors import ConfigError
from lvmcore.kernels.prior_draws import prior_draws

if TYPE_CHECKING:
    from lvmcore.numerics.array_types import FloatArray

__all__ = ["kernel_draws"]

DRAWS, POINTS = 4, 121


@cached(max_entries=128, depends_on_store=False)
def kernel_draws(dataset: Dataset | None, text: str, column: str) -> tuple[FloatArray, FloatArray]:
    """Draws along a column from 2 sd below its mean to 2 sd above it (loads torch).

    Args:
        dataset: the dataset of the fit; None for inputs of mean 0 and sd 1.
        text: the kernel expression.
        column: name of the input.

    Returns:
        Values of the column, [G], and the draws, in standard deviations of the target, [n, G].

    Raises:
        ConfigError: the text is no kernel expression, or the column has no two values.
    """
    mean, sd = 0.0, 1.0
    if dataset is not None:
        values = dataset.X[:, dataset.transformed_names.index(column)]
        mean, sd = float(np.nanmean(values)), float(np.nanstd(values))
        if not sd > 0:
            raise ConfigError(f"The column {column!r} has one value in all rows: leave it out.")
    x = mean + sd * np.linspace(-2, 2, POINTS)
    return x, prior_draws(text, column, x, DRAWS)
