"""The bytes of a table: reading, decompression, and checks of size and file format."""

import gzip
import hashlib
import io
import json
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from lvmcore.data.size_limits import MAX_BYTES, check_compression_ratio, too_large_error
from lvmcore.errors import DataError

__all__ = [
    "FORMATS",
    "SAMPLE_BYTES",
    "FileContent",
    "content_digest",
    "decompressed_chunks",
    "file_size",
    "open_regular_file",
    "open_source",
    "read_file",
    "table_name",
]

#: The supported formats, for messages.
FORMATS = "CSV, TSV, JSON lines (or the gzip of one), XLSX, NPZ, Parquet or H5AD"

#: Size of the sample that the format is detected from.
SAMPLE_BYTES = 256 * 1024

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
#: What a path can be instead of a regular file.
_NOT_REGULAR: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
#: Flags of a system that has pipes with names, and of one that converts line ends.
_UNBLOCKED = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
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
        raise too_large_error(name, max_bytes)
    if not raw.startswith(b"\x1f\x8b"):
        # The directory of an old workbook, which shows encryption, may be anywhere in the file.
        check_signature(raw if raw.startswith(_OLE) else raw[:SAMPLE_BYTES], name)
        return FileContent(name, raw, raw, None)
    data = _gunzip(raw, name, max_bytes)
    if not data:
        raise DataError(f"{name!r} is a gzip with nothing in it. Expected a packed table.")
    return FileContent(name, raw, data, "gzip")


def open_regular_file(path: Path) -> BinaryIO:
    """Open a file for reading in binary mode; what may never end is not opened.

    Args:
        path: The file. A link to a file counts as the file.

    Raises:
        DataError: There is none, or it is a folder, a pipe, a socket or a device.
        OSError: It cannot be opened.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            # The file may have been replaced since: a pipe would block without this flag.
            handle = os.open(path, os.O_RDONLY | _UNBLOCKED)
            file = os.fdopen(handle, "rb")
            mode = os.fstat(handle).st_mode
            if stat.S_ISREG(mode):
                return file
            file.close()
    except FileNotFoundError as error:
        raise DataError(f"There is no file {str(path)!r}. Check the path.") from error
    except ValueError as error:  # a zero character in the name
        raise DataError(f"{str(path)!r} cannot be the name of a file: {error}.") from error
    found = next((words for test, words in _NOT_REGULAR if test(mode)), "no regular file")
    raise DataError(
        f"{str(path)!r} cannot be read: it is {found}. Expected a regular file: save the table as "
        "one and give its path."
    )


def file_size(path: Path) -> int:
    """Size of a file that can be opened for reading, in bytes.

    Raises:
        DataError: It cannot be opened, or is no regular file.
    """
    try:
        with open_regular_file(path) as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise _unreadable_error(path, error) from error


def read_file(path: Path, max_bytes: int, name: str) -> bytes:
    """The content of a regular file.

    Args:
        path: The file.
        max_bytes: Its largest size.
        name: Name of the file in messages.

    Raises:
        DataError: It cannot be read, is too large, or is no regular file.
    """
    try:
        with open_regular_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise too_large_error(name, max_bytes)
            content = file.read(size + 1)
            while size < len(content) <= max_bytes and (chunk := file.read(_CHUNK)):
                content += chunk  # it grows, or its system does not know its size
            if len(content) > max_bytes:
                raise too_large_error(name, max_bytes)
            return content
    except OSError as error:
        raise _unreadable_error(path, error) from error


def _unreadable_error(path: Path, error: OSError) -> DataError:
    reason = error.strerror or type(error).__name__
    return DataError(f"The file {str(path)!r} cannot be read: {reason}.")


def content_digest(raw: bytes, overrides: Mapping[str, object]) -> str:
    """sha256 of the bytes and of the settings that differ from the default."""
    digest = hashlib.sha256(raw)
    given = {key: value for key, value in overrides.items() if value is not None}
    if given:
        digest.update(json.dumps(given, sort_keys=True, default=str).encode())
    return digest.hexdigest()


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
        name = table_name(path.name)
        return name, read_file(path, max_bytes, name)
    named = getattr(source, "name", None)
    content = source.read(max_bytes + 1)
    if not isinstance(content, bytes):
        raise DataError(
            "The file object gives text. Expected one opened in binary mode: open(path, 'rb')."
        )
    return (table_name(Path(named).name) if isinstance(named, str) else "table"), content


def table_name(filename: str) -> str:
    """The name of a table that is read from a file: the file's, without its extensions."""
    stem = filename
    for ending in _EXTENSIONS:
        if stem.lower().endswith(ending):
            stem = stem[: -len(ending)]
    return stem or filename or "table"


def decompressed_chunks(raw: bytes, name: str, max_bytes: int = MAX_BYTES) -> Iterator[bytes]:
    """The content after decompression, in chunks; the first has `SAMPLE_BYTES` or all bytes.

    Raises:
        DataError: The gzip is damaged, too large, or does not contain a table.
    """
    if raw.startswith(b"\x1f\x8b"):
        yield from _decompress(raw, name, max_bytes)
    else:
        yield raw


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
                    raise too_large_error(name, max_bytes)
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
