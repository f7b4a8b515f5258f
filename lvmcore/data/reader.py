"""The process that reads a table within limits: `python -m lvmcore.data.reader FOLDER`."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from lvmcore.data.archive import is_archive, open_archive
from lvmcore.data.h5ad import h5ad_size
from lvmcore.data.hdf5 import is_hdf5, packs_hdf5
from lvmcore.data.limited import Limits
from lvmcore.data.parquet import is_parquet, parquet_size
from lvmcore.data.reading import read_table
from lvmcore.data.source import FORMATS, MAX_COLUMNS, SAMPLE_BYTES, open_source, unpacked_size
from lvmcore.data.transport import (
    CONTENT,
    MEASURED,
    REQUEST,
    save_error,
    save_table,
)
from lvmcore.errors import DataError, LatentboardError

__all__ = ["content_size", "main"]


def main(folder: Path) -> None:
    """Read the table in a folder and leave the answer there.

    Args:
        folder: Holds the content and the request; see `lvmcore.data.transport`.
    """
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    name, limits = request["name"], Limits(**request["limits"])
    size = (folder / CONTENT).stat().st_size
    columns = 0
    _limit(limits, size, columns)
    try:
        raw = (folder / CONTENT).read_bytes()
        size = content_size(raw, name, limits.max_bytes)
        columns = likely_columns(raw[:SAMPLE_BYTES])
        (folder / MEASURED).write_text(f"{size} {columns}")
        _limit(limits, size, columns)
        table = read_table(raw, name=name, max_bytes=limits.max_bytes, **request["how"])
        save_table(table, folder)
    except LatentboardError as error:
        save_error(error, folder)
    except MemoryError:
        save_error(_too_large(name, limits.memory_for(size, columns)), folder)
    except Exception as error:
        save_error(_unexpected(name, error), folder)


def content_size(raw: bytes, name: str, max_bytes: int) -> int:
    """How large a content is when it is unpacked, as far as that is told without unpacking it.

    Args:
        raw: The file.
        name: What to call it in a message.
        max_bytes: Largest content, unpacked, in bytes.

    Raises:
        DataError: It is damaged, too large, or grows beyond measure.
    """
    if is_parquet(raw):
        return max(len(raw), parquet_size(raw, name))
    if is_archive(raw):
        with open_archive(raw, name) as archive:
            return sum(member.file_size for member in archive.infolist())
    size = unpacked_size(raw, name, max_bytes)
    data = open_source(raw, max_bytes=max_bytes, name=name).data if packs_hdf5(raw) else raw
    return max(size, h5ad_size(data, name)) if is_hdf5(data) else size


def _too_large(name: str, memory: int) -> DataError:
    return DataError(
        f"Reading {name!r} needs more than {memory / 1e6:,.0f} MB of memory, more than a file of "
        "its size may use. Leave out rows or columns, or save it as Parquet."
    )


def likely_columns(head: bytes) -> int:
    """About how many columns a text has: the most of one delimiter in any line of its beginning."""
    lines = head.split(b"\n")
    most = max(line.count(mark) for line in lines for mark in (b",", b";", b"\t", b"|"))
    return min(most + 1, MAX_COLUMNS)


def _unexpected(name: str, error: Exception) -> DataError:
    return DataError(
        f"{name!r} cannot be read ({type(error).__name__}: {error}). Expected {FORMATS}. Try to "
        "save it again, as CSV or Parquet."
    )


def _limit(limits: Limits, size: int, columns: int) -> None:
    """Set the limits of this process for a content of so many bytes."""
    try:
        import resource
    except ImportError:  # Windows has none: the limits on time and size hold all the same
        return
    seconds = int(limits.seconds_for(size, columns)) + 1
    for kind, value in (
        (resource.RLIMIT_DATA, limits.memory_for(size, columns)),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(OSError, ValueError):  # not to be had on every system
            _, hard = resource.getrlimit(kind)
            resource.setrlimit(kind, (value, hard))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # the answer is there: nothing is left that freeing memory would serve
