"""The process that reads a table with limits.

``python -m lvmcore.data.readers.sandbox_worker FOLDER``.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from lvmcore.data.readers.anndata import h5ad_size
from lvmcore.data.readers.file_sample import sample_files
from lvmcore.data.readers.hdf5 import is_gzipped_hdf5, is_hdf5
from lvmcore.data.readers.parquet import (
    is_parquet,
    parquet_rows,
    parquet_size,
    parquet_text_size,
)
from lvmcore.data.readers.read_table import read_table
from lvmcore.data.readers.sandbox import ContentSize, SandboxLimits, memory_error
from lvmcore.data.readers.sandbox_transport import (
    CONTENT,
    MEASURED,
    REQUEST,
    SAMPLE,
    save_error,
    save_table,
)
from lvmcore.data.readers.xlsx import workbook_text_size
from lvmcore.data.readers.zip_archive import is_archive, open_archive
from lvmcore.data.size_limits import MAX_CELLS, MAX_COLUMNS, MAX_ROWS, check_decoded_bytes
from lvmcore.data.source import (
    FORMATS,
    SAMPLE_BYTES,
    decompressed_chunks,
    file_size,
    open_source,
    read_file,
)
from lvmcore.errors import DataError, LatentboardError

__all__ = ["content_size", "main", "measure"]


def main(folder: Path) -> None:
    """Read the table in a folder and write the result there.

    Args:
        folder: Contains the content and the request; see `lvmcore.data.readers.sandbox_transport`.
    """
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    name, limits = request["name"], SandboxLimits(**request["limits"])
    measured = ContentSize(0)
    _be_ended_first()
    try:
        if "files" in request:
            _set_limits(limits, ContentSize(request["sample_bytes"]))
            raw = _sample(request, folder)
        else:
            path = folder / CONTENT if request["path"] is None else Path(request["path"])
            measured = ContentSize(file_size(path))
            _set_limits(limits, measured)
            raw = read_file(path, limits.max_bytes, name)
        for measured in measure(raw, name, limits.max_bytes):
            (folder / MEASURED).write_text(json.dumps(astuple(measured)))
            _set_limits(limits, measured)
        table = read_table(raw, name=name, max_bytes=limits.max_bytes, **request["how"])
        save_table(table, folder)
    except LatentboardError as error:
        save_error(error, folder)
    except MemoryError:
        save_error(memory_error(name, limits.memory_limit(measured)), folder)
    except BaseException as error:  # a panic of a library in Rust is no Exception
        save_error(_unexpected_error(name, error), folder)


def _sample(request: dict[str, Any], folder: Path) -> bytes:
    """A file with the sample of a request, whose facts are written beside the result."""
    found = sample_files([Path(path) for path in request["files"]], request["sample_rows"])
    facts = {"rows": found.rows, "sampled": found.sampled}
    (folder / SAMPLE).write_text(json.dumps(facts), encoding="utf-8")
    return found.content


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
        with open_archive(raw, name, max_bytes) as archive:
            return sum(member.file_size for member in archive.infolist())
    size = sum(map(len, decompressed_chunks(raw, name, max_bytes)))
    data = open_source(raw, max_bytes=max_bytes, name=name).data if is_gzipped_hdf5(raw) else raw
    return max(size, h5ad_size(data, name)) if is_hdf5(data) else size


def measure(raw: bytes, name: str, max_bytes: int) -> Iterator[ContentSize]:
    """Sizes of a content, each at least the one before: from its metadata, then with its texts.

    Args:
        raw: The file.
        name: Name of the file in messages.
        max_bytes: Maximal size after decompression, in bytes.

    Raises:
        DataError: The file is damaged, too large, or a decompression bomb.
    """
    if not (is_parquet(raw) or is_archive(raw) or is_hdf5(raw) or is_gzipped_hdf5(raw)):
        yield _text_size(raw, name, max_bytes)
        return
    size = content_size(raw, name, max_bytes)
    if is_parquet(raw):
        rows = parquet_rows(raw, name)
        yield ContentSize(size, 0, rows)
        texts = parquet_text_size(raw, name)
        check_decoded_bytes(texts, name, max_bytes)
        yield ContentSize(size + texts, 0, rows)
    elif is_archive(raw):
        yield ContentSize(size)
        with open_archive(raw, name, max_bytes) as archive:
            texts = workbook_text_size(archive, name)
        yield ContentSize(size + min(texts, max_bytes))
    else:
        yield ContentSize(size)


def _text_size(raw: bytes, name: str, max_bytes: int) -> ContentSize:
    """Size of a text, or of the gzip of one."""
    size = rows = columns = 0
    for chunk in decompressed_chunks(raw, name, max_bytes):
        columns = columns if size else estimate_columns(chunk[:SAMPLE_BYTES])
        size += len(chunk)
        rows = min(rows + chunk.count(b"\n"), MAX_ROWS)
    # Empty cells take one byte in the file, and eight in memory.
    return ContentSize(max(size, 2 * min(rows * columns, MAX_CELLS)), columns, rows)


def estimate_columns(head: bytes) -> int:
    """Estimated number of columns of a text: one more than the delimiters of a line, at most."""
    lines = head.split(b"\n")
    most = max(line.count(mark) for line in lines for mark in (b",", b";", b"\t", b"|"))
    return min(most + 1, MAX_COLUMNS)


def _unexpected_error(name: str, error: BaseException) -> DataError:
    return DataError(
        f"{name!r} cannot be read ({type(error).__name__}: {error}). Expected {FORMATS}. Try to "
        "save it again, as CSV or Parquet."
    )


def _be_ended_first() -> None:
    """Have Linux end this process, and not the one that waits, where memory runs out."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _set_limits(limits: SandboxLimits, measured: ContentSize) -> None:
    """Set the limits of this process for a size of the content."""
    try:
        import resource
    except ImportError:  # Windows has none; the limits of time and size still apply
        return
    seconds = int(limits.time_limit(measured)) + 1
    for kind, value in (
        (resource.RLIMIT_DATA, limits.memory_limit(measured)),
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
