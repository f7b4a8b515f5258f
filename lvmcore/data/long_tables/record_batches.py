"""Parquet and CSV files read as Arrow record batches."""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pyarrow.types as pat

from lvmcore.data.readers.parquet import is_parquet
from lvmcore.data.source import open_regular_file
from lvmcore.errors import DataError

__all__ = ["RecordBatches", "describe_content", "is_numeric_type", "open_batches"]

# Cells and bytes of text in a batch: they bound the memory and do not change the result.
CELLS_PER_BATCH = 1 << 21
BYTES_PER_BATCH = 1 << 22
# Bytes from which the format and the header are detected.
_HEAD_BYTES = 1 << 16
# Markers of a missing cell in CSV.
_MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A"]
# Prefix of the names that pandas gives to a stored index.
_INDEX_PREFIX = "__index_level_"


@dataclass(frozen=True)
class RecordBatches:
    """A file that is read in batches of rows.

    Attributes:
        types: Arrow type of each column by its name, in the file's order.
        n_rows: Number of rows; None if it is unknown before reading.
        read: Reads the given features and labels, batch by batch.
        index: Columns that pandas stored as the table's index.
    """

    types: dict[str, Any]
    n_rows: int | None
    read: Callable[[Sequence[str], Sequence[str]], Iterator[Any]]
    index: frozenset[str] = frozenset()


@contextmanager
def open_batches(path: Path) -> Iterator[RecordBatches]:
    """Open a Parquet or CSV file (or the gzip of a CSV file with the extension .gz).

    Raises:
        DataError: The file does not exist, is damaged, or of another format.
    """
    with _file_errors(path):
        with open_regular_file(path) as file:
            head = file.read(_HEAD_BYTES)
        if is_parquet(head):
            with pq.ParquetFile(path, memory_map=True) as opened:
                yield _parquet_batches(opened, path)
            return
        if head.startswith(b"\x93NUMPY"):
            raise DataError(
                f"{path.name!r} is a NumPy array: open it with numpy.load(path, mmap_mode='r')."
            )
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                head = file.read(_HEAD_BYTES)
        if not head.strip() or b"\0" in head:
            what = "not text" if head.strip() else "empty"
            raise DataError(f"{path.name!r} is {what}. Expected Parquet or CSV.")
        yield _csv_batches(path, head)


def is_numeric_type(kind: Any) -> bool:
    """Whether an Arrow type is numeric (booleans are: 0 and 1)."""
    if pat.is_dictionary(kind):
        return is_numeric_type(kind.value_type)
    plain = (pat.is_integer, pat.is_floating, pat.is_decimal, pat.is_boolean, pat.is_null)
    return any(of_kind(kind) for of_kind in plain)


def describe_content(kind: Any) -> str:
    """Description of the cells of an Arrow type."""
    if pat.is_dictionary(kind):
        return describe_content(kind.value_type)
    if is_numeric_type(kind):
        return "numbers"
    if pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind):
        return "text"
    if pat.is_temporal(kind):
        return "dates or times"
    return "lists or records" if pat.is_nested(kind) else "bytes"


def _parquet_batches(opened: Any, path: Path) -> RecordBatches:
    types = _column_types(opened.schema_arrow, path)

    def read(features: Sequence[str], labels: Sequence[str]) -> Iterator[Any]:
        columns = [*features, *labels]
        rows = max(1, min(1 << 16, CELLS_PER_BATCH // len(columns)))
        yield from opened.iter_batches(batch_size=rows, columns=columns)

    stored = (opened.schema_arrow.pandas_metadata or {}).get("index_columns", [])
    index = frozenset(name for name in stored if isinstance(name, str))
    return RecordBatches(types, opened.metadata.num_rows, read, index)


def _csv_batches(path: Path, head: bytes) -> RecordBatches:
    header = head.lstrip(b"\xef\xbb\xbf\r\n").splitlines()[0].decode("utf-8")
    delimiter = max(",;\t|", key=lambda mark: _count_names(header, mark))
    options = {
        "read_options": pacsv.ReadOptions(block_size=BYTES_PER_BATCH),
        "parse_options": pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
    }

    def open_as(types: dict[str, Any], columns: Sequence[str] | None) -> Any:
        convert = pacsv.ConvertOptions(
            null_values=_MISSING, strings_can_be_null=True, column_types=types
        )
        if columns is not None:
            convert.include_columns = list(columns)
        return pacsv.open_csv(path, convert_options=convert, **options)

    with open_as({}, None) as opened:
        guessed = _column_types(opened.schema, path)

    def read(features: Sequence[str], labels: Sequence[str]) -> Iterator[Any]:
        # The types are inferred from the first rows: later numbers may not be whole, and a column
        # whose first cells are missing may have any type.
        types = dict(guessed)
        types |= {n: pa.float64() for n in features if not pat.is_boolean(guessed[n])}
        types |= {n: pa.string() for n in labels if pat.is_null(guessed[n])}
        with open_as(types, [*features, *labels]) as opened:
            yield from opened

    return RecordBatches(guessed, None, read)


def _count_names(header: str, delimiter: str) -> int:
    """Number of names of a header split by a delimiter; 0 if the quotation marks do not fit."""
    try:
        return len(next(csv.reader([header], delimiter=delimiter, strict=True)))
    except csv.Error:
        return 0


def _column_types(schema: Any, path: Path) -> dict[str, Any]:
    """The type of each column by its name, without an unnamed index."""
    names = list(schema.names)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(
            f"{path.name!r} has two columns called {repeated[0]!r}: expected a name for each."
        )
    return {
        name: kind
        for name, kind in zip(names, schema.types, strict=True)
        if not name.startswith(_INDEX_PREFIX)
    }


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    """Convert errors of reading to a DataError."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"There is no file {str(path)!r}. Check the path.") from error
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        EOFError,
        UnicodeDecodeError,
        zlib.error,
    ) as error:
        raise DataError(
            f"{path.name!r} cannot be read: {str(error).rstrip('.')}. Expected Parquet, or CSV in "
            "UTF-8 whose columns hold numbers throughout. Try to save it again, as Parquet."
        ) from error
    except OSError as error:
        raise DataError(
            f"The file {str(path)!r} cannot be read: {error.strerror or error}. Check that it is a "
            "file, whole, and that you may read it."
        ) from error
