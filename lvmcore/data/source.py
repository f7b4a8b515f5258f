"""The bytes of a table: where they come from, how much of them, and what they are not."""

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from lvmcore.errors import DataError

__all__ = [
    "FORMATS",
    "MAX_BYTES",
    "MAX_CELLS",
    "MAX_COLUMNS",
    "SAMPLE_BYTES",
    "Content",
    "content_digest",
    "open_source",
    "refuse_bomb",
    "refuse_size",
    "refuse_sparse",
    "unpacked_size",
]

#: What is read, for messages.
FORMATS = "CSV, TSV, JSON lines (or the gzip of one), XLSX, NPZ, Parquet or H5AD"

#: The largest table that is read, after decompression, unless the caller says otherwise.
MAX_BYTES = 2 * 1024**3
#: The most columns of a table, and the most cells.
MAX_COLUMNS = 20_000
MAX_CELLS = 200_000_000
#: How much of the content is looked at before the rest is touched.
SAMPLE_BYTES = 256 * 1024

#: Packed content is refused beyond this size at more than this ratio: tables never pack so.
_BOMB_BYTES = 16 * 1024**2
_BOMB_RATIO = 200
#: A table of more cells than this is refused when it has less than one in so many filled.
_SPARSE_CELLS = 2_000_000
_SPARSE_SHARE = 200
_CHUNK = 1024 * 1024

_PROTECTED = "EncryptedPackage".encode("utf-16-le")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (_OLE, "an old Excel workbook (XLS). Save it as XLSX, or the sheet as CSV"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image, whatever its name says. Load a table instead"),
    (b"\xff\xd8\xff", "a JPEG image, whatever its name says. Load a table instead"),
    (b"GIF87a", "a GIF image. Load a table instead"),
    (b"GIF89a", "a GIF image. Load a table instead"),
    (b"II*\x00", "a TIFF image. Load a table instead"),
    (b"MM\x00*", "a TIFF image. Load a table instead"),
    (b"%PDF", "a PDF document. Copy its table into a spreadsheet and save it as CSV"),
    (b"{\\rtf", "a rich-text document. Save the table as CSV"),
    (b"MATLAB 5.0", "a MATLAB file. Export the matrix as CSV or Parquet"),
    (b"\x93NUMPY", "a NumPy array. Save it with numpy.savez(file, X=array)"),
    (b"ARROW1", "an Arrow (Feather) file. Save it as Parquet or CSV"),
    (b"SQLite format 3\x00", "an SQLite database. Export one table as CSV"),
    (b"BZh", "a bzip2 archive. Unpack it, or pack it with gzip"),
    (b"\xfd7zXZ\x00", "an xz archive. Unpack it, or pack it with gzip"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive. Unpack it, or pack it with gzip"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive. Unpack it and load the CSV inside"),
    (b"\x7fELF", "a program. Load a table instead"),
    (b"RDX", "an R data file. Use write.csv in R and load that file"),
)
_ENDINGS = (
    *(".gz", ".csv", ".tsv", ".tab", ".txt", ".dat", ".data", ".parquet", ".pq"),
    *(".xlsx", ".xlsm", ".jsonl", ".ndjson", ".json", ".npz", ".h5ad"),
)
_MARKUP: tuple[tuple[str, str], ...] = (
    ("<!doctype html", "a web page. Download the data file itself rather than the page about it"),
    ("<html", "a web page. Download the data file itself rather than the page about it"),
    ("<?xml", "an XML file. Export the table as CSV"),
    ("version https://git-lfs", "a pointer to a large file, not the file. Fetch the file itself"),
    ("@relation", "an ARFF file. Save the table as CSV"),
)


@dataclass(frozen=True)
class Content:
    """The content of one source.

    Attributes:
        name: What it was asked to be called, else the file's name without its endings, or "table".
        raw: The bytes as they were given (what the digest is taken of).
        data: The bytes after decompression.
        packed: "gzip" or None.
    """

    name: str
    raw: bytes
    data: bytes
    packed: str | None


def open_source(
    source: str | PathLike[str] | bytes | BinaryIO,
    *,
    max_bytes: int = MAX_BYTES,
    name: str | None = None,
) -> Content:
    """Read a source and unpack it, refusing early what is no table or too large.

    Args:
        source: A path, the bytes of a file, or a file object opened in binary mode.
        max_bytes: Largest content, after decompression, in bytes.
        name: What to call it; by default the file's name without its endings.

    Raises:
        DataError: The source cannot be read, is empty, too large, or known not to be a table.
    """
    own, raw = _read(source, max_bytes)
    name = own if name is None else name
    if not raw.strip(b"\x00 \t\r\n"):
        raise DataError(
            f"{name!r} is empty: it has no data. Expected a table with a header row and at least "
            "one row of values. Check that the file was saved or downloaded completely."
        )
    if len(raw) > max_bytes:
        raise _too_large(name, max_bytes)
    if not raw.startswith(b"\x1f\x8b"):
        # The directory of an old workbook, which tells whether it is protected, may lie anywhere.
        refuse_other_formats(raw if raw.startswith(_OLE) else raw[:SAMPLE_BYTES], name)
        return Content(name, raw, raw, None)
    data = _gunzip(raw, name, max_bytes)
    if not data:
        raise DataError(f"{name!r} is a gzip with nothing in it. Expected a packed table.")
    return Content(name, raw, data, "gzip")


def content_digest(raw: bytes, overrides: Mapping[str, object]) -> str:
    """Return the sha256 of the bytes and of the settings that differ from the default."""
    digest = hashlib.sha256(raw)
    given = {key: value for key, value in overrides.items() if value is not None}
    if given:
        digest.update(json.dumps(given, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def refuse_size(rows: int, columns: int, name: str) -> None:
    """Raise a DataError when a table has more columns or cells than are read."""
    if columns > MAX_COLUMNS:
        raise DataError(
            f"{name!r} has {columns:,} columns, more than the {MAX_COLUMNS:,} that are read. "
            "Expected one row per observation: is the table turned on its side? If not, leave out "
            "columns."
        )
    if rows * columns > MAX_CELLS:
        raise DataError(
            f"{name!r} has {rows:,} rows of {columns:,} columns, {rows * columns:,} cells, more "
            f"than the {MAX_CELLS:,} that are read. Leave out rows or columns."
        )


def refuse_sparse(rows: int, columns: int, filled: int, name: str) -> None:
    """Raise a DataError when next to no cell of a large table is filled."""
    if rows * columns > _SPARSE_CELLS and rows * columns > _SPARSE_SHARE * filled:
        raise DataError(
            f"{name!r} has {filled:,} filled cells scattered over {rows:,} rows and {columns:,} "
            "columns. That is no table: look for stray cells far out, or for names that change "
            "from row to row, and remove them."
        )


def refuse_bomb(size: int, packed: int, name: str) -> None:
    """Raise a DataError when so many unpacked bytes come of so few packed ones."""
    if size > _BOMB_BYTES and size > _BOMB_RATIO * packed:
        raise DataError(
            f"{name!r} unpacks to more than {_BOMB_RATIO} times its size: {packed / 1e6:.1f} MB "
            f"became {size / 1e6:.0f} MB or more. That is no table, so it was not unpacked "
            "further. If it is one, unpack it first and load the file that results."
        )


def refuse_other_formats(head: bytes, name: str) -> None:
    """Raise a DataError when the first bytes are those of a known format that is no table."""
    if head.startswith(_OLE) and _PROTECTED in head:
        raise DataError(
            f"{name!r} is a workbook that is protected with a password. Save it without one, or "
            "save the sheet as CSV."
        )
    for magic, what in _MAGIC:
        if head.startswith(magic):
            raise DataError(f"{name!r} is {what}. Expected {FORMATS}.")
    start = head.removeprefix(b"\xef\xbb\xbf")[:512].decode("latin-1").lstrip().lower()
    for begin, what in _MARKUP:
        if start.startswith(begin):
            raise DataError(f"{name!r} is {what}. Expected {FORMATS}.")


def _read(source: str | PathLike[str] | bytes | BinaryIO, max_bytes: int) -> tuple[str, bytes]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "table", bytes(source)
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        try:
            with path.open("rb") as file:
                return _stem(path.name), file.read(max_bytes + 1)
        except FileNotFoundError as error:
            raise DataError(f"There is no file {str(path)!r}. Check the path.") from error
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DataError(f"The file {str(path)!r} cannot be read: {reason}.") from error
    name = getattr(source, "name", None)
    content = source.read(max_bytes + 1)
    if not isinstance(content, bytes):
        raise DataError(
            "The file object gives text. Expected one opened in binary mode: open(path, 'rb')."
        )
    return (_stem(Path(name).name) if isinstance(name, str) else "table"), content


def _stem(filename: str) -> str:
    stem = filename
    for ending in _ENDINGS:
        if stem.lower().endswith(ending):
            stem = stem[: -len(ending)]
    return stem or filename or "table"


def _too_large(name: str, max_bytes: int) -> DataError:
    return DataError(
        f"{name!r} is larger than {max_bytes / 1e6:,.0f} MB, the most that is read. Expected a "
        "smaller table: leave out rows or columns, or save numbers with fewer digits."
    )


def unpacked_size(raw: bytes, name: str, max_bytes: int = MAX_BYTES) -> int:
    """How large the content is after decompression; nothing of it is kept.

    Raises:
        DataError: It is a gzip that is damaged, too large, or unpacks to no table.
    """
    if not raw.startswith(b"\x1f\x8b"):
        return len(raw)
    return sum(map(len, _unpack(raw, name, max_bytes)))


def _gunzip(raw: bytes, name: str, max_bytes: int) -> bytes:
    out = bytearray()
    for chunk in _unpack(raw, name, max_bytes):
        out += chunk
    return bytes(out)


def _unpack(raw: bytes, name: str, max_bytes: int) -> Iterator[bytes]:
    """Unpack in steps, so that neither a bomb nor a wrong format is unpacked to its end."""
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            while chunk := file.read(_CHUNK if size else SAMPLE_BYTES):
                if not size:
                    _refuse_packed(chunk, name)
                size += len(chunk)
                if size > max_bytes:
                    raise _too_large(name, max_bytes)
                refuse_bomb(size, len(raw), name)
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"The gzip {name!r} is damaged or cut off after {size:,} bytes of content. "
            "Copy or download it again."
        ) from error


def _refuse_packed(chunk: bytes, name: str) -> None:
    if chunk.startswith(b"\x1f\x8b"):
        raise DataError(f"{name!r} is a gzip inside a gzip. Unpack it once and load the result.")
    refuse_other_formats(chunk, name)
    if len(chunk) == SAMPLE_BYTES and chunk.count(0) == len(chunk):
        raise DataError(f"{name!r} unpacks to nothing but zero bytes. Expected a packed table.")
