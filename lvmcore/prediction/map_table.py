"""The map as a table: latent means and sds of each row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lvmcore.errors import DataError
from lvmcore.prediction.label_columns import label_cells

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset
    from lvmcore.projection import LatentProjection


def embedding_frame(
    model: LatentVariableModel, dataset: Dataset, projection: LatentProjection | None = None
) -> pd.DataFrame:
    """The map as a table, one row for each row of the fit, in the dataset's order.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to, [N, D].
        projection: a 2-D view of the map, whose positions are to be included.

    Returns:
        Columns ``row_id``; ``label`` if the dataset has labels (``NAME: label`` for each column if
        it has several); ``z1`` … ``zQ``, the latent means; and ``z1_sd`` … ``zQ_sd``, their
        standard deviations, if the model has them. With a projection ``view1`` and ``view2``, and
        ``view1_sd``, ``view2_sd`` and ``view_covariance`` if the model has them.
    """
    posterior = model.embedding_
    columns: dict[str, Any] = {"row_id": dataset.row_ids.tolist()}
    columns |= label_cells(dataset)
    sd = np.sqrt(posterior.variance) if model.capabilities.uncertainty else None
    columns |= map_columns(posterior.mean, sd)
    if projection is not None:
        points = projection.points(posterior.mean)
        columns |= {"view1": points[:, 0], "view2": points[:, 1]}
        if sd is not None:
            covariance = projection.covariance(posterior.variance)
            columns |= {f"view{k + 1}_sd": np.sqrt(covariance[:, k, k]) for k in (0, 1)}
            columns["view_covariance"] = covariance[:, 0, 1]
    return pd.DataFrame(columns)


def rows_on_map(path: Path) -> int | None:
    """Number of rows of an ``embedding.parquet``; None if there is no such file.

    Raises:
        DataError: it cannot be read.
    """
    if not path.is_file():
        return None
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"The result {path} is damaged: {error}.") from error


def map_columns(
    mean: NDArray[np.float64], sd: NDArray[np.float64] | None
) -> dict[str, NDArray[np.float64]]:
    """Latent means [N, Q] as columns ``z1`` … ``zQ``, and their sds as ``z1_sd`` … ``zQ_sd``."""
    columns = {f"z{q + 1}": mean[:, q] for q in range(mean.shape[1])}
    if sd is not None:
        columns |= {f"z{q + 1}_sd": sd[:, q] for q in range(sd.shape[1])}
    return columns
