"""Files read some rows at a time: Parquet and CSV, as record batches of Arrow."""

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

from lvmcore.data.parquet import is_parquet
from lvmcore.errors import DataError

__all__ = ["Batched", "is_number", "open_batches", "what_it_holds"]

# Cells that are read at a time, and bytes of text: bounds memory, changes no result.
CELLS_AT_A_TIME = 1 << 21
BYTES_AT_A_TIME = 1 << 22
# Bytes that tell the kind of a file, and a text's header.
_HEAD = 1 << 16
# What stands for an empty cell in a text, beside nothing at all.
_MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A"]
# Names that pandas gives an index that it stores beside the columns.
_INDEX = "__index_level_"


@dataclass(frozen=True)
class Batched:
    """A file whose rows come some at a time.

    Attributes:
        types: Arrow's type of each column, by its name, in the file's order.
        n_rows: How many rows there are; None where only reading them tells.
        read: The rows of some features and labels, batch by batch.
        index: Columns that pandas stored as the table's index.
    """

    types: dict[str, Any]
    n_rows: int | None
    read: Callable[[Sequence[str], Sequence[str]], Iterator[Any]]
    index: frozenset[str] = frozenset()


@contextmanager
def open_batches(path: Path) -> Iterator[Batched]:
    """Open a Parquet or CSV file (or the gzip of a CSV file, if its name ends so).

    Raises:
        DataError: It is not there, damaged, or neither.
    """
    with _reading(path):
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if is_parquet(head):
            with pq.ParquetFile(path, memory_map=True) as opened:
                yield _parquet(opened, path)
            return
        if head.startswith(b"\x93NUMPY"):
            raise DataError(
                f"{path.name!r} is a NumPy array: open it with numpy.load(path, mmap_mode='r')."
            )
        if head.startswith(b"\x1f\x8b"):
            with gzip.open(path) as file:
                head = file.read(_HEAD)
        if not head.strip() or b"\0" in head:
            what = "not text" if head.strip() else "empty"
            raise DataError(f"{path.name!r} is {what}. Expected Parquet or CSV.")
        yield _csv(path, head)


def is_number(kind: Any) -> bool:
    """Whether cells of an Arrow type are numbers (booleans are: 0 and 1)."""
    if pat.is_dictionary(kind):
        return is_number(kind.value_type)
    plain = (pat.is_integer, pat.is_floating, pat.is_decimal, pat.is_boolean, pat.is_null)
    return any(of_kind(kind) for of_kind in plain)


def what_it_holds(kind: Any) -> str:
    """What the cells of an Arrow type are, in words."""
    if pat.is_dictionary(kind):
        return what_it_holds(kind.value_type)
    if is_number(kind):
        return "numbers"
    if pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind):
        return "text"
    if pat.is_temporal(kind):
        return "dates or times"
    return "lists or records" if pat.is_nested(kind) else "bytes"


def _parquet(opened: Any, path: Path) -> Batched:
    types = _types(opened.schema_arrow, path)

    def read(features: Sequence[str], labels: Sequence[str]) -> Iterator[Any]:
        columns = [*features, *labels]
        rows = max(1, min(1 << 16, CELLS_AT_A_TIME // len(columns)))
        yield from opened.iter_batches(batch_size=rows, columns=columns)

    stored = (opened.schema_arrow.pandas_metadata or {}).get("index_columns", [])
    index = frozenset(name for name in stored if isinstance(name, str))
    return Batched(types, opened.metadata.num_rows, read, index)


def _csv(path: Path, head: bytes) -> Batched:
    header = head.lstrip(b"\xef\xbb\xbf\r\n").splitlines()[0].decode("utf-8")
    delimiter = max(",;\t|", key=lambda mark: _parts(header, mark))
    options = {
        "read_options": pacsv.ReadOptions(block_size=BYTES_AT_A_TIME),
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
        guessed = _types(opened.schema, path)

    def read(features: Sequence[str], labels: Sequence[str]) -> Iterator[Any]:
        # The kinds are guessed from the first rows: whole numbers may go on as others, and a
        # column that begins with gaps as anything.
        types = dict(guessed)
        types |= {n: pa.float64() for n in features if not pat.is_boolean(guessed[n])}
        types |= {n: pa.string() for n in labels if pat.is_null(guessed[n])}
        with open_as(types, [*features, *labels]) as opened:
            yield from opened

    return Batched(guessed, None, read)


def _parts(header: str, delimiter: str) -> int:
    """How many names a delimiter finds in a header; 0 where quotes speak against it."""
    try:
        return len(next(csv.reader([header], delimiter=delimiter, strict=True)))
    except csv.Error:
        return 0


def _types(schema: Any, path: Path) -> dict[str, Any]:
    """The type of each column by its name, without an index that has none."""
    names = list(schema.names)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(
            f"{path.name!r} has two columns called {repeated[0]!r}: expected a name for each."
        )
    return {
        name: kind
        for name, kind in zip(names, schema.types, strict=True)
        if not name.startswith(_INDEX)
    }


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what can go wrong with a file into words."""
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
