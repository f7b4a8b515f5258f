"""The map as a table: a row a row of the data, its coordinates and their sd."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lvmcore.prediction.label_columns import label_cells

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset


def embedding_frame(model: LatentVariableModel, dataset: Dataset) -> pd.DataFrame:
    """The map as a table, one row for each row of the fit, in the dataset's order.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to, [N, D].

    Returns:
        Columns ``row_id``; ``label`` where the dataset has labels (``NAME: label`` of each column
        where it has several); ``z1`` … ``zQ``, the latent
        means; and ``z1_sd`` … ``zQ_sd``, their standard deviations, where the model has them.
    """
    posterior = model.embedding_
    columns: dict[str, Any] = {"row_id": dataset.row_ids.tolist()}
    columns |= label_cells(dataset)
    sd = np.sqrt(posterior.variance) if model.capabilities.uncertainty else None
    return pd.DataFrame(columns | map_columns(posterior.mean, sd))


def rows_on_map(path: Path) -> int | None:
    """How many rows an ``embedding.parquet`` holds; None where there is none."""
    return int(pq.read_metadata(path).num_rows) if path.is_file() else None


def map_columns(
    mean: NDArray[np.float64], sd: NDArray[np.float64] | None
) -> dict[str, NDArray[np.float64]]:
    """Latent means [N, Q] as columns ``z1`` … ``zQ``, and their sds as ``z1_sd`` … ``zQ_sd``."""
    columns = {f"z{q + 1}": mean[:, q] for q in range(mean.shape[1])}
    if sd is not None:
        columns |= {f"z{q + 1}_sd": sd[:, q] for q in range(sd.shape[1])}
    return columns
