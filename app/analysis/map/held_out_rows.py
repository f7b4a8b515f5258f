"""Held-out rows on the map of a run, after the rows of its fit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.analysis.map.fitted_map import FittedMap
from lvmcore.data import Dataset
from lvmcore.errors import DataError

__all__ = ["HeldOutPositions", "held_out_rows"]


@dataclass(frozen=True)
class HeldOutPositions:
    """Held-out rows with their positions on a map, inferred from their columns without labels.

    Attributes:
        dataset: the rows on the map, with the columns of the fit.
        mean: latent means, [n, Q].
        variance: latent variances, [n, Q]; NaN for a model without a posterior variance.
        total: number of held-out rows of the dataset, on the map or not.
    """

    dataset: Dataset
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    total: int

    def __len__(self) -> int:
        return len(self.mean)

    def latent(self, row: int) -> tuple[float, ...]:
        """Latent mean of a row, Q coordinates."""
        return tuple(self.mean[row].tolist())

    def means_after(self, fitted_map: FittedMap) -> NDArray[np.float64]:
        """Latent means of the rows of the fit and then of these, [N + n, Q]."""
        return np.concatenate([fitted_map.mean, self.mean])


def held_out_rows(frame: pd.DataFrame, whole: Dataset, fitted: Dataset) -> HeldOutPositions:
    """The held-out rows of a dataset by the stored positions of a run.

    Args:
        frame: columns ``row_id``, ``z1`` … ``zQ``, and ``z1_sd`` … ``zQ_sd`` if there are any.
        whole: all rows of the dataset.
        fitted: the rows of the fit, whose columns may be fewer.

    Raises:
        DataError: a row of the frame is no held-out row of the dataset.
    """
    held = np.flatnonzero(whole.held_out)
    place = dict(zip(whole.row_ids[held].tolist(), held.tolist(), strict=True))
    names = frame["row_id"].tolist()
    if not all(name in place for name in names):
        raise DataError("The stored positions are of other rows than those that are held out.")
    found = _with_columns(whole.subset(np.array([place[name] for name in names])), fitted)
    Q = sum(f"z{q + 1}" in frame for q in range(frame.shape[1]))
    mean = frame[[f"z{q + 1}" for q in range(Q)]].to_numpy(dtype=np.float64)
    variance = np.full_like(mean, np.nan)
    if "z1_sd" in frame:
        variance = np.square(frame[[f"z{q + 1}_sd" for q in range(Q)]].to_numpy(dtype=np.float64))
    return HeldOutPositions(found, mean, variance, len(held))


def _with_columns(rows: Dataset, fitted: Dataset) -> Dataset:
    """The rows with the columns of the fit, which lacks those without any cell."""
    names: Sequence[str] = fitted.feature_names
    if rows.feature_names == names:
        return rows
    place = {name: column for column, name in enumerate(rows.feature_names)}
    kept = np.array([place[name] for name in names])
    return replace(
        rows,
        X=rows.X[:, kept],
        feature_names=fitted.feature_names,
        image_shape=fitted.image_shape,
        log1p=rows.log1p[kept],
    )
