"""Files of a run: JSON, replaced as a whole and checked when read, and appended lines."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from lvmcore.errors import DataError
from lvmcore.persistence import write_atomically

__all__ = [
    "DISK_FULL",
    "LineAppender",
    "as_plain_json",
    "as_record",
    "dump_json",
    "is_disk_full",
    "read_json",
    "read_lines",
    "read_regular_file",
    "write_json",
]


#: Message of a run that could not be written because the disk is full.
DISK_FULL = "The disk is full, so the run could not be written. Make room and start it again."
#: Largest JSON file that is read, bytes: a description may hold the initial map of many rows.
MOST_JSON_BYTES = 1 << 28

Record = TypeVar("Record")

# The records whose fields msgspec has read, and the lock under which it reads those of another one.
# It keeps them with the class before they are complete, and a second thread that converts to the
# same class then ends the process by a segmentation fault (msgspec 0.22.0).
_known_records: set[type] = set()
_reading = threading.Lock()


def is_disk_full(error: BaseException) -> bool:
    """Whether an error means that the disk, or the quota of this user, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def as_plain_json(value: Any) -> Any:
    """``value`` in JSON types: NumPy arrays and scalars converted, non-finite numbers as null.

    Raises:
        TypeError: a part of it has no JSON type.
    """
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): as_plain_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_plain_json(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON type")


def dump_json(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON (no NaN) of ``value``, on one line unless indented."""
    separators = (",", ":") if indent is None else None
    return json.dumps(
        as_plain_json(value),
        ensure_ascii=False,
        allow_nan=False,
        indent=indent,
        separators=separators,
    )


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically."""
    write_atomically(path, (dump_json(value, indent=1) + "\n").encode())


def read_regular_file(path: Path, most_bytes: int | None = None, offset: int = 0) -> bytes:
    """The content of a regular file; a pipe, a device or a folder in its place is not opened.

    Args:
        path: the file.
        most_bytes: largest size that is read; None for any.
        offset: first byte.

    Raises:
        OSError: it is missing, no regular file, too large, or cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if most_bytes is not None and facts.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"it has {facts.st_size:,} bytes", str(path))
        file.seek(offset)
        return file.read()


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object: strict JSON, so without NaN, infinite numbers and invalid Unicode.

    Raises:
        DataError: the file is missing, or no JSON object.
    """
    try:
        value = msgspec.json.decode(read_regular_file(path, MOST_JSON_BYTES))
    except FileNotFoundError as error:
        raise DataError(f"There is no file {path.name} in {path.parent}.") from error
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error}): expected JSON.") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} holds {type(value).__name__}: expected a JSON object.")
    return value


def as_record(stored: Any, record: type[Record], name: str) -> Record:
    """A JSON value as a dataclass, each field with the type of its annotation.

    Args:
        stored: the value.
        record: the dataclass.
        name: name of the file, for the message.

    Raises:
        DataError: a field is missing or has another type; the message names it.
    """
    if record not in _known_records:
        with _reading:
            msgspec.json.Decoder(record)
            _known_records.add(record)
    try:
        return msgspec.convert(stored, record)
    except (msgspec.ValidationError, RecursionError) as error:
        raise DataError(f"{name} is damaged: {error}.") from error


class LineAppender:
    """Appends lines to a file, one ``write`` each, so that lines are never interleaved.

    A line truncated by a full disk is removed again. A line truncated by a crash of the machine is
    not valid JSON, and readers skip it.

    Args:
        path: the file; it is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, line: str) -> None:
        """Append one line, which must not contain a newline.

        Raises:
            OSError: it could not be written; the file is as before.
        """
        content = line.encode() + b"\n"
        written = os.write(self._descriptor, content)
        if written < len(content):
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def read_lines(path: Path, offset: int = 0) -> tuple[list[bytes], int]:
    """The complete lines from a byte offset to the end, and the offset after the last of them.

    A last line without its newline is still being written, and is left to the next call. A file
    that is missing or cannot be read has no lines.
    """
    try:
        content = read_regular_file(path, offset=offset)
    except OSError:
        return [], offset
    end = content.rfind(b"\n") + 1
    return content[:end].split(b"\n")[:-1], offset + end
