"""ZIP archives: detection of the format (XLSX, NPZ), and safe decompression."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from lvmcore.data.size_limits import MAX_BYTES, check_compression_ratio, too_large_error
from lvmcore.errors import DataError, LatentboardError

__all__ = [
    "ArchiveKind",
    "archive_kind",
    "damaged_archive_error",
    "is_archive",
    "open_archive",
    "read_member",
    "unzip_errors",
]

ArchiveKind = Literal["xlsx", "npz"]

#: Other formats of ZIP archives, by a characteristic member.
_OTHER_FORMATS = (
    ("xl/workbook.bin", "a binary Excel workbook (XLSB). Save it as XLSX, or the sheet as CSV"),
    ("content.xml", "an OpenDocument file (ODS). Save it as XLSX, or the sheet as CSV"),
    ("word/document.xml", "a Word document. Copy its table into a spreadsheet, save it as CSV"),
    ("ppt/presentation.xml", "a presentation. Load a table instead"),
)


def is_archive(data: bytes) -> bool:
    """Whether the bytes have the signature of a ZIP archive."""
    return data[:4] in {b"PK\x03\x04", b"PK\x05\x06"}


def open_archive(data: bytes, name: str, max_bytes: int = MAX_BYTES) -> zipfile.ZipFile:
    """Open an archive and check its size after decompression.

    Args:
        data: The archive.
        name: Name of the file in messages.
        max_bytes: Largest size after decompression, in bytes.

    Raises:
        DataError: The archive is damaged, too large, or a decompression bomb.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        names = archive.namelist()
        size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise damaged_archive_error(name) from error
    if len({member.lower() for member in names}) < len(names):  # which one counts is not defined
        raise damaged_archive_error(name)
    check_compression_ratio(size, len(data), name)
    if size > max_bytes:
        raise too_large_error(name, max_bytes)
    return archive


def archive_kind(archive: zipfile.ZipFile, name: str) -> ArchiveKind:
    """Detect whether an archive is a workbook or a file of arrays.

    Raises:
        DataError: The archive is neither.
    """
    members = set(archive.namelist())
    if "xl/workbook.xml" in members:
        return "xlsx"
    if members and all(member.endswith(".npy") for member in members):
        return "npz"
    for member, what in _OTHER_FORMATS:
        if member in members:
            raise DataError(f"{name!r} is {what}.")
    shown = ", ".join(repr(member) for member in sorted(members)[:3]) or "nothing"
    raise DataError(
        f"{name!r} is a ZIP archive (it holds {shown}), neither a workbook (XLSX) nor NumPy "
        "arrays (NPZ). Unpack it and load the table inside."
    )


@contextmanager
def unzip_errors(name: str) -> Iterator[None]:
    """Convert errors of decompression to a DataError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, ValueError) as error:
        if isinstance(error, LatentboardError):
            raise
        raise damaged_archive_error(name) from error
    except (NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"{name!r} is encrypted or packed in an unusual way. Save it without a password and "
            "load it again."
        ) from error


def read_member(archive: zipfile.ZipFile, member: str, name: str) -> bytes:
    """Decompress one member, up to the size that the archive states.

    Raises:
        DataError: The archive is damaged or encrypted.
    """
    with unzip_errors(name):
        return archive.read(member)


def damaged_archive_error(name: str) -> DataError:
    """The error for an archive that cannot be decompressed."""
    return DataError(
        f"{name!r} begins like a workbook or ZIP archive and cannot be unpacked: it is damaged or "
        "cut off. Copy, download or save it again."
    )
