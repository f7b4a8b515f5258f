"""What a person takes away: the embedding as a table, as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
import math
import numbers
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lvmcore.runs.labels import label_cells

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel
    from lvmcore.data import Dataset

__all__ = ["embedding_frame", "map_columns", "rows_on_map", "to_csv_bytes", "to_parquet_bytes"]

#: A cell of text that starts so would be run as a formula by a spreadsheet.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


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


def to_csv_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as CSV (UTF-8, commas, CRLF, header, no index), safe to open in a spreadsheet.

    Text that a spreadsheet would take for a formula (it starts with = + - @, a tab or a carriage
    return) gets a leading quote mark, headers included. Numbers stay numbers, with every digit;
    a missing cell is empty.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([_safe(str(name)) for name in frame.columns])
    cells = [_texts(frame.iloc[:, i]) for i in range(frame.shape[1])]
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue().encode()


def to_parquet_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as Parquet. A column of mixed types, which Parquet has no place for, becomes text."""
    columns = [_arrow(frame.iloc[:, i]) for i in range(frame.shape[1])]
    table = pa.table(columns, names=[str(name) for name in frame.columns])
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _texts(column: pd.Series[Any]) -> list[str]:
    write = _writer(column)
    missing = column.isna().tolist()
    return [
        "" if gone else write(cell) for cell, gone in zip(column.tolist(), missing, strict=True)
    ]


def _writer(column: pd.Series[Any]) -> Callable[[Any], str]:
    if pd.api.types.is_float_dtype(column.dtype):
        return _float
    if pd.api.types.is_integer_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        return str
    return _cell


def _cell(value: Any) -> str:
    if isinstance(value, numbers.Integral):
        return str(value)
    if isinstance(value, numbers.Real):
        return _float(float(value))
    return _safe(str(value))


def _float(value: float) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(float(value))


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _arrow(column: pd.Series[Any]) -> Any:
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        missing = column.isna()
        return pa.array([None if gone else str(v) for v, gone in zip(column, missing, strict=True)])
