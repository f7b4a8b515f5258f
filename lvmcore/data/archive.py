"""ZIP archives: which of the formats that are one, and whether they can be unpacked safely."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from lvmcore.data.source import refuse_bomb
from lvmcore.errors import DataError

__all__ = [
    "Kind",
    "damaged",
    "is_archive",
    "kind_of_archive",
    "open_archive",
    "read_member",
    "unpacking",
]

Kind = Literal["xlsx", "npz"]

#: What else a ZIP archive may be, by a member that tells.
_OTHERS = (
    ("xl/workbook.bin", "a binary Excel workbook (XLSB). Save it as XLSX, or the sheet as CSV"),
    ("content.xml", "an OpenDocument file (ODS). Save it as XLSX, or the sheet as CSV"),
    ("word/document.xml", "a Word document. Copy its table into a spreadsheet, save it as CSV"),
    ("ppt/presentation.xml", "a presentation. Load a table instead"),
)


def is_archive(data: bytes) -> bool:
    """Whether the bytes begin as a ZIP archive does."""
    return data[:4] in {b"PK\x03\x04", b"PK\x05\x06"}


def open_archive(data: bytes, name: str) -> zipfile.ZipFile:
    """Open an archive and check how large it says it is.

    Args:
        data: The archive.
        name: What to call it in a message.

    Raises:
        DataError: It is damaged, or would grow beyond measure.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise damaged(name) from error
    refuse_bomb(size, len(data), name)
    return archive


def kind_of_archive(archive: zipfile.ZipFile, name: str) -> Kind:
    """Tell a workbook from a file of arrays.

    Raises:
        DataError: The archive is neither.
    """
    members = set(archive.namelist())
    if "xl/workbook.xml" in members:
        return "xlsx"
    if members and all(member.endswith(".npy") for member in members):
        return "npz"
    for member, what in _OTHERS:
        if member in members:
            raise DataError(f"{name!r} is {what}.")
    shown = ", ".join(repr(member) for member in sorted(members)[:3]) or "nothing"
    raise DataError(
        f"{name!r} is a ZIP archive (it holds {shown}), neither a workbook (XLSX) nor NumPy "
        "arrays (NPZ). Unpack it and load the table inside."
    )


@contextmanager
def unpacking(name: str) -> Iterator[None]:
    """Turn what can go wrong in unpacking a member into a DataError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError) as error:
        raise damaged(name) from error
    except (NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"{name!r} is encrypted or packed in an unusual way. Save it without a password and "
            "load it again."
        ) from error


def read_member(archive: zipfile.ZipFile, member: str, name: str) -> bytes:
    """Unpack one member, never further than the size that the archive gives for it.

    Raises:
        DataError: The archive is damaged or encrypted.
    """
    with unpacking(name):
        return archive.read(member)


def damaged(name: str) -> DataError:
    """The error for an archive that cannot be unpacked."""
    return DataError(
        f"{name!r} begins like a workbook or ZIP archive and cannot be unpacked: it is damaged or "
        "cut off. Copy, download or save it again."
    )
