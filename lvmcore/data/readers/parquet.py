"""Reader of Parquet files."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

from lvmcore.data.size_limits import check_decoded_bytes, check_size
from lvmcore.data.table import rounded_note
from lvmcore.errors import DataError

__all__ = ["is_parquet", "parquet_rows", "parquet_size", "parquet_text_size", "read_parquet"]


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
    check_decoded_bytes(parquet_size(data, name), name, max_bytes)
    notes: list[str] = []
    with _parquet_errors(name):
        arrays, names = _read_columns(data, name, max_bytes, notes)
        columns = []
        while arrays:  # each array is freed when it is converted
            columns.append(_to_pandas(arrays.pop(0)))
    frame = pd.concat(columns, axis="columns")
    return frame.set_axis(names, axis="columns"), notes


def _read_columns(
    data: bytes, name: str, max_bytes: int, notes: list[str]
) -> tuple[list[Any], list[str]]:
    """The columns of numbers, text and dates, and their names; notes on the others are added."""
    file = _open(data)
    if file.metadata.num_rows == 0 or file.metadata.num_columns == 0:
        raise DataError(
            f"{name!r} has {file.metadata.num_rows} rows and {file.metadata.num_columns} columns. "
            "Expected at least one of each."
        )
    leaf, leaves, names = 0, [], []
    for field in file.schema_arrow:
        if _is_flat(field.type):
            leaves.append(leaf)
            names.append("index" if field.name == "__index_level_0__" else field.name)
        else:
            notes.append(f"Column {field.name!r} left out: its cells are lists or records.")
        leaf += _leaf_count(field.type)
    if not leaves:
        raise DataError(f"No column of {name!r} holds numbers, text or dates.")
    groups, size = [], 0
    for index in range(file.metadata.num_row_groups):
        group = file.reader.read_row_group(index, column_indices=leaves)
        size += sum(_decoded_bytes(column) for column in group.columns)
        check_decoded_bytes(size, name, max_bytes)
        groups.append(group.replace_schema_metadata(None))
    table = pa.concat_tables(groups)
    if table.num_rows != file.metadata.num_rows:
        raise _damaged_error(name)
    del groups
    arrays = []
    while table.num_columns:  # each column is freed when it is converted
        arrays.append(_plain_column(table.column(0)))
        row = _first_rounded(table.column(0))
        if row is not None:
            notes.append(rounded_note(names[len(arrays) - 1], row))
        table = table.remove_column(0)
    return arrays, names


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
        packed = sum(max(0, group.total_byte_size) for group in groups)
        rows = max(facts.num_rows, sum(group.num_rows for group in groups))
    check_size(rows, facts.num_columns, name)
    # A million equal values take a few bytes in the file, and eight million in memory.
    return int(max(packed, 8 * rows * facts.num_columns))


def parquet_rows(data: bytes, name: str) -> int:
    """Number of rows of a Parquet file, from its metadata.

    Raises:
        DataError: The file is damaged.
    """
    with _parquet_errors(name):
        return int(pq.ParquetFile(pa.BufferReader(data)).metadata.num_rows)


def parquet_text_size(data: bytes, name: str) -> int:
    """Size of the texts of a Parquet file once they are decoded, in bytes.

    Raises:
        DataError: The file is damaged.
    """
    size, leaves, leaf = 0, [], 0
    with _parquet_errors(name):
        file = _open(data)
        for field in file.schema_arrow:
            if _is_flat(field.type) and pat.is_dictionary(field.type):
                leaves.append(leaf)
            leaf += _leaf_count(field.type)
        for index in range(file.metadata.num_row_groups if leaves else 0):
            group = file.reader.read_row_group(index, column_indices=leaves)
            size += sum(_decoded_bytes(column) for column in group.columns)
    return size


def _open(data: bytes) -> pq.ParquetFile:
    """Open a file; texts stay encoded, as a long one may be repeated in a million rows."""
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        texts = [column.path for column in file.schema if column.physical_type == "BYTE_ARRAY"]
    return pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts)


def _is_flat(kind: Any) -> bool:
    """Whether the cells of a type are numbers, strings, booleans or times."""
    if pat.is_dictionary(kind):
        return _is_flat(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return False
    binary = (pat.is_binary, pat.is_large_binary, pat.is_binary_view, pat.is_fixed_size_binary)
    return not pat.is_nested(kind) and not any(of_kind(kind) for of_kind in binary)


def _leaf_count(kind: Any) -> int:
    """Number of columns of the file that an Arrow type is stored in."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf_count(kind.storage_type)
    if not pat.is_nested(kind):
        return 1
    return sum(_leaf_count(kind.field(index).type) for index in range(kind.num_fields))


def _decoded_bytes(column: Any) -> int:
    """Size of a column in memory once its texts are decoded."""
    size = 8 * len(column)
    for part in column.chunks if pat.is_dictionary(column.type) else ():
        lengths = pc.binary_length(part.dictionary).cast(pa.int64())
        size += pc.sum(lengths.take(part.indices)).as_py() or 0
    return size


@contextmanager
def _parquet_errors(name: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        raise _damaged_error(name) from error


def _damaged_error(name: str) -> DataError:
    return DataError(
        f"{name!r} begins like Parquet and cannot be read: it is damaged or cut off. Copy or "
        "save it again."
    )


def _plain_column(column: Any) -> Any:
    """Convert a flat column to numbers, strings, booleans or timestamps."""
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
    return column


def _first_rounded(column: Any) -> int | None:
    """The first row of a decimal number above 2^53, which becomes a float64; None without one."""
    if not pat.is_decimal(column.type) or not len(column):
        return None
    large = pc.fill_null(pc.greater_equal(pc.abs(column.cast(pa.float64())), 2.0**53), False)
    return int(pc.index(large, True).as_py()) if pc.any(large).as_py() else None


def _to_pandas(column: Any) -> pd.Series:
    kind = column.type
    if pat.is_integer(kind) and column.null_count:
        whole: Any = pd.UInt64Dtype() if pat.is_uint64(kind) else pd.Int64Dtype()
        return pd.Series(column.to_pandas(types_mapper=lambda _: whole))
    if pat.is_boolean(kind) and column.null_count:
        return pd.Series(column.to_pandas(types_mapper=lambda _: pd.BooleanDtype()))
    values: pd.Series = pd.Series(column.to_pandas())
    if pat.is_string(kind) or pat.is_large_string(kind):
        return values.mask(values == "")
    if pat.is_timestamp(kind) and values.dt.tz is not None:
        naive: pd.Series = values.dt.tz_convert("UTC").dt.tz_localize(None)
        return naive
    return values
