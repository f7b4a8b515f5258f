"""Reader of Parquet files."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from lvmcore.data.size_limits import check_size
from lvmcore.errors import DataError

__all__ = ["is_parquet", "parquet_size", "read_parquet"]


def is_parquet(data: bytes) -> bool:
    """Whether the bytes have the signature of Parquet."""
    return data[:4] == b"PAR1"


def read_parquet(data: bytes, name: str, max_bytes: int) -> tuple[pd.DataFrame, list[str]]:
    """Read the columns of a Parquet file; an index stored by pandas becomes a column.

    Args:
        data: The file.
        name: Name of the file in messages.
        max_bytes: Largest content, decompressed, in bytes.

    Returns:
        The frame, and notes on columns that were left out or converted.

    Raises:
        DataError: The file is damaged, too large, or has no rows or columns.
    """
    if parquet_size(data, name) > max_bytes:
        raise DataError(
            f"{name!r} unpacks to more than the {max_bytes / 1e6:,.0f} MB that are read. Save "
            "fewer rows or columns."
        )
    with _parquet_errors(name):
        table = pq.ParquetFile(pa.BufferReader(data)).read().replace_schema_metadata(None)
    if table.num_rows == 0 or table.num_columns == 0:
        raise DataError(
            f"{name!r} has {table.num_rows} rows and {table.num_columns} columns. Expected at "
            "least one of each."
        )
    notes: list[str] = []
    arrays, names = [], []
    for label, column in zip(table.column_names, table.columns, strict=True):
        plain = _flat_column(column)
        if plain is None:
            notes.append(f"Column {label!r} left out: its cells are lists or records.")
            continue
        arrays.append(plain)
        names.append("index" if label == "__index_level_0__" else label)
    if not arrays:
        raise DataError(f"No column of {name!r} holds numbers, text or dates.")
    columns = [_to_pandas(array) for array in arrays]
    frame = pd.concat(columns, axis="columns")
    return frame.set_axis(names, axis="columns"), notes


def parquet_size(data: bytes, name: str) -> int:
    """Size of the decompressed columns in bytes, computed from the file's metadata.

    Args:
        data: The file.
        name: Name of the file in messages.

    Raises:
        DataError: The file is damaged, or has too many columns or cells.
    """
    with _parquet_errors(name):
        facts = pq.ParquetFile(pa.BufferReader(data)).metadata
        groups = [facts.row_group(index) for index in range(facts.num_row_groups)]
        packed = sum(group.total_byte_size for group in groups)
        # A million equal values take a few bytes in the file, and eight million in memory.
        cells = facts.num_rows * facts.num_columns
    check_size(facts.num_rows, facts.num_columns, name)
    return int(max(packed, 8 * cells))


@contextmanager
def _parquet_errors(name: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{name!r} begins like Parquet and cannot be read: it is damaged or cut off. Copy or "
            "save it again."
        ) from error


def _flat_column(column: Any) -> Any:
    """Convert a column to numbers, strings, booleans or times; None if nested or binary."""
    kind = column.type
    if pat.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pat.is_decimal(kind) or pat.is_float16(kind):
        return column.cast(pa.float64())
    if pat.is_null(kind):
        return column.cast(pa.float64())
    if pat.is_time(kind) or pat.is_duration(kind):
        return column.cast(pa.string()) if pat.is_time(kind) else column.cast(pa.int64())
    if pat.is_date(kind):
        return column.cast(pa.timestamp("ms"))
    if pat.is_nested(kind) or pat.is_binary(kind) or pat.is_large_binary(kind):
        return None
    return column


def _to_pandas(column: Any) -> pd.Series:
    kind = column.type
    if pat.is_integer(kind) and column.null_count:
        return pd.Series(column.to_pandas(types_mapper=lambda _: pd.Int64Dtype()))
    if pat.is_boolean(kind) and column.null_count:
        return pd.Series(column.to_pandas(types_mapper=lambda _: pd.BooleanDtype()))
    values: pd.Series = pd.Series(column.to_pandas())
    if pat.is_string(kind) or pat.is_large_string(kind):
        return values.mask(values == "")
    if pat.is_timestamp(kind) and values.dt.tz is not None:
        naive: pd.Series = values.dt.tz_convert("UTC").dt.tz_localize(None)
        return naive
    return values
