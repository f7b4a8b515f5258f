"""Memory-mapped tables: a file converted once to an array on disk, for tables above memory."""

import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.types as pat
from numpy.typing import NDArray

from lvmcore.data.long_tables.record_batches import (
    RecordBatches,
    describe_content,
    is_numeric_type,
    open_batches,
)
from lvmcore.errors import ConfigError, DataError

__all__ = ["MappedTable", "memory_mapped", "write_errors"]


class MappedTable(np.memmap[Any, Any]):
    """A NumPy memory map of a numeric table with column names.

    Subsets of its rows (``X[:1000]``, ``X[rows, :]``) keep the names.

    Attributes:
        columns: Names of the columns, [D]; None for an array that is not rows of the table.
    """

    columns: tuple[str, ...] | None = None

    def __getitem__(self, index: Any) -> Any:
        """Index as NumPy does; subsets of rows keep the column names."""
        found = super().__getitem__(index)
        beside = index[1:] if isinstance(index, tuple) else ()
        every = all(part is Ellipsis or part == slice(None) for part in map(_comparable, beside))
        if isinstance(found, MappedTable) and found.ndim == self.ndim and every:
            found.columns = self.columns
        return found


def _comparable(part: Any) -> Any:
    """A part of an index if it can be compared, else None."""
    return part if part is Ellipsis or isinstance(part, slice) else None


def memory_mapped(
    source: str | PathLike[str],
    *,
    label: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    folder: str | PathLike[str] | None = None,
    dtype: Literal["float64", "float32"] = "float64",
) -> tuple[MappedTable, Any]:
    """Convert a Parquet or CSV file to a memory-mapped array, a few thousand rows at a time.

    Fast LDGD fits the array from disk, with the names of its columns.

    Args:
        source: Path of the file. In CSV the first row is the header.
        label: Name of the label column, or of several.
        features: Names of the numeric feature columns; by default all but the labels and an index
            that pandas stored.
        folder: Folder of the array, whose file has the source's name and the extension .npy;
            ``numpy.load(path, mmap_mode="r")`` opens it again, without the names. By default a
            temporary folder, which is removed with the array.
        dtype: float32 takes half of the space, and has seven digits.

    Returns:
        The array [N, D], NaN where a cell is missing, and the labels in memory: [N] for one column,
        a DataFrame [N, L] for several, None without. A missing label is None or NaN.

    Raises:
        DataError: The file cannot be read, has no rows, lacks a column, or has a feature column
            that is not numeric; or the disk is full.
        ConfigError: A column is both a label and a feature, or ``dtype`` is neither.
    """
    path = Path(source)
    if dtype not in ("float64", "float32"):
        raise ConfigError(f"dtype={dtype!r} cannot be used: expected float64 or float32.")
    wanted = [label] if isinstance(label, str) else list(label or [])
    with open_batches(path) as batched:
        names = _feature_names(batched, wanted, features, path.name)
        _check_labels(batched, wanted, path.name)
        with _new_array_file(path, folder) as (target, file):
            labels = {name: _LabelEncoder() for name in wanted}
            writer = _ArrayWriter(file, target.parent, names, np.dtype(dtype), path.name)
            writer.begin(batched.n_rows)
            for batch in batched.read(names, wanted):
                writer.add(batch)
                for name, found in labels.items():
                    found.add(batch.column(batch.schema.get_field_index(name)))
            writer.end()
    X = _open_array(target, names, temporary=folder is None)
    if isinstance(label, str) or not wanted:
        return X, labels[label].array() if isinstance(label, str) else None
    return X, pd.DataFrame({name: found.array() for name, found in labels.items()})


# ---- columns ----------------------------------------------------------------------------------


def _feature_names(
    batched: RecordBatches, labels: list[str], features: Sequence[str] | None, file: str
) -> list[str]:
    """Names of the feature columns, after a check that they are numeric."""
    if features is None:
        names = [n for n in batched.types if n not in labels and n not in batched.index]
    else:
        names = list(features)
    _check_columns(batched, [*labels, *names], file)
    twice = sorted({name for name in names if name in labels or names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"Column {twice[0]!r} is asked for twice: expected each among the features or the "
            "labels, once."
        )
    if not names:
        raise DataError(f"{file!r} has no column to learn from. Expected at least one.")
    others = [name for name in names if not is_numeric_type(batched.types[name])]
    if others:
        more = f", and {len(others) - 1} more hold no numbers" if len(others) > 1 else ""
        raise DataError(
            f"Column {others[0]!r} of {file!r} holds {describe_content(batched.types[others[0]])}"
            f"{more}: expected numbers. Choose the columns to learn from with features=[…], or "
            "turn them into numbers first."
        )
    return names


def _check_columns(batched: RecordBatches, names: Sequence[str], file: str) -> None:
    lacking = [name for name in names if name not in batched.types]
    if lacking:
        known = list(batched.types)
        shown = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
        raise DataError(
            f"{file!r} has no column {lacking[0]!r}: its columns are {shown}. Check the name."
        )


def _check_labels(batched: RecordBatches, labels: Sequence[str], file: str) -> None:
    for name in labels:
        holds = describe_content(batched.types[name])
        if holds not in ("text", "numbers"):
            raise DataError(
                f"Column {name!r} of {file!r} holds {holds}, which are no labels: expected text or "
                "whole numbers."
            )


# ---- writing -----------------------------------------------------------------------------------


@contextmanager
def _new_array_file(
    path: Path, folder: str | PathLike[str] | None
) -> Iterator[tuple[Path, BinaryIO]]:
    """A temporary file to write the array to, renamed to its path when it is complete."""
    with write_errors(folder or tempfile.gettempdir()):
        where = Path(tempfile.mkdtemp(prefix="latentboard-") if folder is None else folder)
        where.mkdir(parents=True, exist_ok=True)
        target = where / f"{path.stem}.npy"
        if target.exists():
            raise DataError(
                f"{str(target)!r} is there already. Choose another folder, or remove it first."
            )
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        file = partial.open("wb")
    try:
        yield target, file
        with write_errors(where):
            file.close()
            partial.replace(target)
    except BaseException:
        with suppress(OSError):  # the disk may be too full for the last bytes
            file.close()
        partial.unlink(missing_ok=True)
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)
        raise


@contextmanager
def write_errors(folder: str | PathLike[str]) -> Iterator[None]:
    """Convert errors of writing an array to a folder to a DataError."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = ", fewer features, or dtype='float32', which takes half" if full else ""
        raise DataError(
            f"The array cannot be written to {os.fspath(folder)!r}: {error.strerror or error}. "
            f"Choose another folder{advice}."
        ) from error


class _ArrayWriter:
    """Writes batches of rows to an array in NumPy's format.

    Args:
        file: File open for writing.
        folder: Its folder.
        names: Columns of the array.
        dtype: Type of its numbers.
        source: Name of the source, for messages.
    """

    def __init__(
        self,
        file: BinaryIO,
        folder: Path,
        names: Sequence[str],
        dtype: np.dtype[Any],
        source: str,
    ) -> None:
        self.file, self.folder, self.source = file, folder, source
        self.names, self.dtype = names, dtype
        self.n_rows = 0

    def begin(self, n_rows: int | None) -> None:
        """Check the space on disk for ``n_rows`` rows (None if unknown), and write the header."""
        size = (n_rows or 0) * len(self.names) * self.dtype.itemsize
        free = shutil.disk_usage(self.folder).free
        if size > free:
            raise DataError(
                f"The array of {self.source!r} takes {size / 1e6:,.1f} MB, and "
                f"{str(self.folder)!r} has {free / 1e6:,.1f} MB free. Choose another folder, fewer "
                "features, or dtype='float32', which takes half."
            )
        self._header()

    def add(self, batch: Any) -> None:
        """Append the rows of a batch."""
        block = np.empty((batch.num_rows, len(self.names)), dtype=self.dtype)
        for place, name in enumerate(self.names):
            values = _to_floats(batch.column(batch.schema.get_field_index(name)))
            with np.errstate(over="ignore"):
                block[:, place] = values
            beyond = np.isinf(block[:, place]) & np.isfinite(values)
            if beyond.any():
                row = self.n_rows + int(np.argmax(beyond)) + 1
                raise DataError(
                    f"The value in row {row}, column {name} of {self.source!r} is too large for "
                    "float32: choose dtype='float64'."
                )
        with write_errors(self.folder):
            self.file.write(block.tobytes())
        self.n_rows += len(block)

    def end(self) -> None:
        """Write the header again, with the number of rows."""
        if not self.n_rows:
            raise DataError(f"{self.source!r} has no rows. Expected at least one.")
        with write_errors(self.folder):
            self.file.seek(0)
        self._header()

    def _header(self) -> None:
        facts: Any = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.n_rows, len(self.names)),
        }
        with write_errors(self.folder):
            # NumPy's header leaves space for a larger number of rows.
            np.lib.format.write_array_header_1_0(self.file, facts)
            self.file.flush()


def _to_floats(column: Any) -> NDArray[np.float64]:
    """A numeric column as float64, NaN where a cell is missing."""
    if pat.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


# ---- results -----------------------------------------------------------------------------------


class _LabelEncoder:
    """Encodes the labels of successive batches as integers."""

    def __init__(self) -> None:
        self.classes: dict[Any, int] = {}
        self.parts: list[NDArray[np.int32]] = []

    def add(self, column: Any) -> None:
        """Append the labels of the next rows."""
        encoded = column if pat.is_dictionary(column.type) else column.dictionary_encode()
        places = [
            -1 if value is None else self.classes.setdefault(value, len(self.classes))
            for value in encoded.dictionary.to_pylist()
        ]
        codes = (
            encoded.indices.cast(pa.int64()).fill_null(len(places)).to_numpy(zero_copy_only=False)
        )
        self.parts.append(np.array([*places, -1], dtype=np.int32)[codes])

    def array(self) -> NDArray[Any]:
        """The labels [N]: numbers, or objects if any is text or None."""
        codes, classes = np.concatenate(self.parts), list(self.classes)
        if codes.min() >= 0 and not isinstance(classes[0], str):
            return np.array(classes)[codes]
        values = np.empty(len(classes) + 1, dtype=object)
        values[:-1] = classes
        return values[codes]


def _open_array(target: Path, names: Sequence[str], *, temporary: bool) -> MappedTable:
    X: MappedTable = np.load(target, mmap_mode="r").view(MappedTable)
    X.columns = tuple(names)
    if temporary:
        file: Any = X
        while isinstance(file, np.ndarray):
            file = file.base
        weakref.finalize(file, shutil.rmtree, target.parent, ignore_errors=True)
    return X
