"""The bytes of a table: reading, decompression, and checks of size and file format."""

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
    "FileContent",
    "check_compression_ratio",
    "check_density",
    "check_size",
    "content_digest",
    "decompressed_size",
    "open_source",
]

#: The supported formats, for messages.
FORMATS = "CSV, TSV, JSON lines (or the gzip of one), XLSX, NPZ, Parquet or H5AD"

#: Default limit of the size after decompression.
MAX_BYTES = 2 * 1024**3
#: Limits of the number of columns and of cells.
MAX_COLUMNS = 20_000
MAX_CELLS = 200_000_000
#: Size of the sample that the format is detected from.
SAMPLE_BYTES = 256 * 1024

#: Compressed content above this size and ratio is rejected: tables never compress so well.
_BOMB_BYTES = 16 * 1024**2
_BOMB_RATIO = 200
#: A table of more cells than this is rejected if fewer than one in so many are filled.
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
_EXTENSIONS = (
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
class FileContent:
    """The content of a file.

    Attributes:
        name: The requested name, else the file's name without its extensions, or "table".
        raw: The bytes as given, from which the digest is computed.
        data: The bytes after decompression.
        compression: "gzip" or None.
    """

    name: str
    raw: bytes
    data: bytes
    compression: str | None


def open_source(
    source: str | PathLike[str] | bytes | BinaryIO,
    *,
    max_bytes: int = MAX_BYTES,
    name: str | None = None,
) -> FileContent:
    """Read and decompress a source, after early checks of its format and size.

    Args:
        source: A path, the bytes of a file, or a file object opened in binary mode.
        max_bytes: Largest content, after decompression, in bytes.
        name: Name of the content; by default the file's name without its extensions.

    Raises:
        DataError: The source cannot be read, is empty, too large, or of a format without tables.
    """
    own, raw = _read(source, max_bytes)
    name = own if name is None else name
    if not raw.strip(b"\x00 \t\r\n"):
        raise DataError(
            f"{name!r} is empty: it has no data. Expected a table with a header row and at least "
            "one row of values. Check that the file was saved or downloaded completely."
        )
    if len(raw) > max_bytes:
        raise _too_large_error(name, max_bytes)
    if not raw.startswith(b"\x1f\x8b"):
        # The directory of an old workbook, which shows encryption, may be anywhere in the file.
        check_signature(raw if raw.startswith(_OLE) else raw[:SAMPLE_BYTES], name)
        return FileContent(name, raw, raw, None)
    data = _gunzip(raw, name, max_bytes)
    if not data:
        raise DataError(f"{name!r} is a gzip with nothing in it. Expected a packed table.")
    return FileContent(name, raw, data, "gzip")


def content_digest(raw: bytes, overrides: Mapping[str, object]) -> str:
    """sha256 of the bytes and of the settings that differ from the default."""
    digest = hashlib.sha256(raw)
    given = {key: value for key, value in overrides.items() if value is not None}
    if given:
        digest.update(json.dumps(given, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def check_size(rows: int, columns: int, name: str) -> None:
    """Check a table's columns and cells against the limits; raises DataError."""
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


def check_density(rows: int, columns: int, filled: int, name: str) -> None:
    """Check that a large table is not almost empty; raises DataError."""
    if rows * columns > _SPARSE_CELLS and rows * columns > _SPARSE_SHARE * filled:
        raise DataError(
            f"{name!r} has {filled:,} filled cells scattered over {rows:,} rows and {columns:,} "
            "columns. That is no table: look for stray cells far out, or for names that change "
            "from row to row, and remove them."
        )


def check_compression_ratio(size: int, packed: int, name: str) -> None:
    """Check against a decompression bomb: ``size`` bytes from ``packed``; raises DataError."""
    if size > _BOMB_BYTES and size > _BOMB_RATIO * packed:
        raise DataError(
            f"{name!r} unpacks to more than {_BOMB_RATIO} times its size: {packed / 1e6:.1f} MB "
            f"became {size / 1e6:.0f} MB or more. That is no table, so it was not unpacked "
            "further. If it is one, unpack it first and load the file that results."
        )


def check_signature(head: bytes, name: str) -> None:
    """Check the first bytes against the signatures of unsupported formats; raises DataError."""
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
    for ending in _EXTENSIONS:
        if stem.lower().endswith(ending):
            stem = stem[: -len(ending)]
    return stem or filename or "table"


def _too_large_error(name: str, max_bytes: int) -> DataError:
    return DataError(
        f"{name!r} is larger than {max_bytes / 1e6:,.0f} MB, the most that is read. Expected a "
        "smaller table: leave out rows or columns, or save numbers with fewer digits."
    )


def decompressed_size(raw: bytes, name: str, max_bytes: int = MAX_BYTES) -> int:
    """Size of the content after decompression, which is discarded.

    Raises:
        DataError: The gzip is damaged, too large, or does not contain a table.
    """
    if not raw.startswith(b"\x1f\x8b"):
        return len(raw)
    return sum(map(len, _decompress(raw, name, max_bytes)))


def _gunzip(raw: bytes, name: str, max_bytes: int) -> bytes:
    out = bytearray()
    for chunk in _decompress(raw, name, max_bytes):
        out += chunk
    return bytes(out)


def _decompress(raw: bytes, name: str, max_bytes: int) -> Iterator[bytes]:
    """Decompress in chunks, so that a bomb or an unsupported format is detected early."""
    size = 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            while chunk := file.read(_CHUNK if size else SAMPLE_BYTES):
                if not size:
                    _check_unpacked(chunk, name)
                size += len(chunk)
                if size > max_bytes:
                    raise _too_large_error(name, max_bytes)
                check_compression_ratio(size, len(raw), name)
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"The gzip {name!r} is damaged or cut off after {size:,} bytes of content. "
            "Copy or download it again."
        ) from error


def _check_unpacked(chunk: bytes, name: str) -> None:
    if chunk.startswith(b"\x1f\x8b"):
        raise DataError(f"{name!r} is a gzip inside a gzip. Unpack it once and load the result.")
    check_signature(chunk, name)
    if len(chunk) == SAMPLE_BYTES and chunk.count(0) == len(chunk):
        raise DataError(f"{name!r} unpacks to nothing but zero bytes. Expected a packed table.")
