"""The process that reads a table with limits.

``python -m lvmcore.data.readers.sandbox_worker FOLDER``.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from lvmcore.data.readers.anndata import h5ad_size
from lvmcore.data.readers.hdf5 import is_gzipped_hdf5, is_hdf5
from lvmcore.data.readers.parquet import is_parquet, parquet_size
from lvmcore.data.readers.read_table import read_table
from lvmcore.data.readers.sandbox import SandboxLimits
from lvmcore.data.readers.sandbox_transport import (
    CONTENT,
    MEASURED,
    REQUEST,
    save_error,
    save_table,
)
from lvmcore.data.readers.zip_archive import is_archive, open_archive
from lvmcore.data.size_limits import MAX_COLUMNS
from lvmcore.data.source import FORMATS, SAMPLE_BYTES, decompressed_size, open_source
from lvmcore.errors import DataError, LatentboardError

__all__ = ["content_size", "main"]


def main(folder: Path) -> None:
    """Read the table in a folder and write the result there.

    Args:
        folder: Contains the content and the request; see `lvmcore.data.readers.sandbox_transport`.
    """
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    name, limits = request["name"], SandboxLimits(**request["limits"])
    size = (folder / CONTENT).stat().st_size
    columns = 0
    _set_limits(limits, size, columns)
    try:
        raw = (folder / CONTENT).read_bytes()
        size = content_size(raw, name, limits.max_bytes)
        columns = estimate_columns(raw[:SAMPLE_BYTES])
        (folder / MEASURED).write_text(f"{size} {columns}")
        _set_limits(limits, size, columns)
        table = read_table(raw, name=name, max_bytes=limits.max_bytes, **request["how"])
        save_table(table, folder)
    except LatentboardError as error:
        save_error(error, folder)
    except MemoryError:
        save_error(_memory_error(name, limits.memory_limit(size, columns)), folder)
    except Exception as error:
        save_error(_unexpected_error(name, error), folder)


def content_size(raw: bytes, name: str, max_bytes: int) -> int:
    """Size of a content after decompression in bytes, from its metadata where possible.

    Args:
        raw: The file.
        name: Name of the file in messages.
        max_bytes: Maximal size after decompression, in bytes.

    Raises:
        DataError: The file is damaged, too large, or a decompression bomb.
    """
    if is_parquet(raw):
        return max(len(raw), parquet_size(raw, name))
    if is_archive(raw):
        with open_archive(raw, name) as archive:
            return sum(member.file_size for member in archive.infolist())
    size = decompressed_size(raw, name, max_bytes)
    data = open_source(raw, max_bytes=max_bytes, name=name).data if is_gzipped_hdf5(raw) else raw
    return max(size, h5ad_size(data, name)) if is_hdf5(data) else size


def _memory_error(name: str, memory: int) -> DataError:
    return DataError(
        f"Reading {name!r} needs more than {memory / 1e6:,.0f} MB of memory, more than a file of "
        "its size may use. Leave out rows or columns, or save it as Parquet."
    )


def estimate_columns(head: bytes) -> int:
    """Estimated number of columns of a text: one more than the delimiters of a line, at most."""
    lines = head.split(b"\n")
    most = max(line.count(mark) for line in lines for mark in (b",", b";", b"\t", b"|"))
    return min(most + 1, MAX_COLUMNS)


def _unexpected_error(name: str, error: Exception) -> DataError:
    return DataError(
        f"{name!r} cannot be read ({type(error).__name__}: {error}). Expected {FORMATS}. Try to "
        "save it again, as CSV or Parquet."
    )


def _set_limits(limits: SandboxLimits, size: int, columns: int) -> None:
    """Set the limits of this process for a size in bytes and a number of columns."""
    try:
        import resource
    except ImportError:  # Windows has none; the limits of time and size still apply
        return
    seconds = int(limits.time_limit(size, columns)) + 1
    for kind, value in (
        (resource.RLIMIT_DATA, limits.memory_limit(size, columns)),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):  # not supported by every system
            _, hard = resource.getrlimit(kind)
            resource.setrlimit(kind, (value, hard))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # the result is written: skips freeing the memory
