"""The files of a table that is registered in place, with checks for changes."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from lvmcore.data.source import open_regular_file, table_name
from lvmcore.errors import DataError

__all__ = ["ColumnKind", "FileStamp", "TableFiles", "file_stamp", "files_name", "find_table_files"]

#: Kinds of cells of a column of files.
ColumnKind = Literal["number", "boolean", "text", "date"]

#: Extensions of the files of a folder that are taken for the table.
_PARQUET, _TEXT = (".parquet", ".pq"), (".csv", ".tsv", ".csv.gz", ".tsv.gz")
#: Bytes at the beginning and at the end of a text file that its digest is computed over.
_EDGE = 1 << 16
#: Longest footer of a Parquet file that is read.
_MOST_FOOTER = 1 << 28
_MAGIC = b"PAR1"


@dataclass(frozen=True)
class FileStamp:
    """A file as it was when it was registered.

    Attributes:
        path: Its absolute path without symbolic links.
        size: Size in bytes.
        modified: Time of the last change in nanoseconds.
        digest: sha256 of the footer of a Parquet file; of both ends of a text file.
    """

    path: str
    size: int
    modified: int
    digest: str


@dataclass(frozen=True)
class TableFiles:
    """The files of a table, with how they are read.

    Attributes:
        stamps: The files in the order of their rows.
        format: Their format.
        columns: Names and kinds of the columns, in the order of the files, by the sample.
        rows: Number of rows of each file; empty where it is unknown before reading.
        sampled: First row and number of rows of each part of the table that the sample holds.
        delimiter: Of text files: the character between cells.
        encoding: Of text files: the encoding.
        decimal: Of text files: the decimal mark.
        header_lines: Of text files: the lines up to the header; 0 without a header.
        missing: Of text files: markers of missing cells.
    """

    stamps: tuple[FileStamp, ...]
    format: Literal["parquet", "csv"]
    columns: tuple[tuple[str, ColumnKind], ...]
    rows: tuple[int, ...]
    sampled: tuple[tuple[int, int], ...]
    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    header_lines: int = 1
    missing: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of the files."""
        return tuple(Path(stamp.path) for stamp in self.stamps)

    @property
    def n_rows(self) -> int | None:
        """Number of rows of the table; None where it is unknown before reading."""
        return sum(self.rows) if self.rows else None

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(stamp.size for stamp in self.stamps)

    @property
    def complete(self) -> bool:
        """Whether the sample holds every row."""
        return self.n_rows == sum(count for _, count in self.sampled)

    def positions(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Positions in the table of rows of the sample, from 0.

        Args:
            rows: Positions in the sample [n].
        """
        parts = [np.arange(start, start + count) for start, count in self.sampled]
        found: NDArray[np.intp] = np.concatenate(parts).astype(np.intp)[rows]
        return found

    def kind(self, name: str) -> ColumnKind:
        """The kind of a column.

        Raises:
            KeyError: There is no such column.
        """
        return dict(self.columns)[name]

    def check_unchanged(self) -> None:
        """Check that no file changed since it was registered.

        Raises:
            DataError: One did, or is no longer there; the message names it.
        """
        for stamp in self.stamps:
            path = Path(stamp.path)
            try:
                found = path.stat()
            except OSError as error:
                raise DataError(
                    f"The file {stamp.path!r} of the registered table cannot be read: "
                    f"{error.strerror}. Put it back, or register the table again."
                ) from error
            same = (found.st_size, found.st_mtime_ns) == (stamp.size, stamp.modified)
            if same or (found.st_size == stamp.size and file_stamp(path).digest == stamp.digest):
                continue
            how = (
                f"it has {found.st_size:,} bytes, and had {stamp.size:,}"
                if found.st_size != stamp.size
                else "its content is another"
            )
            raise DataError(
                f"The file {stamp.path!r} changed after the table was registered: {how}. Register "
                "the table again to use it as it is now."
            )

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The files from their JSON form.

        Raises:
            TypeError: A part is missing, unknown or of another type.
        """
        lists = {
            "stamps": tuple(FileStamp(**stamp) for stamp in stored["stamps"]),
            "columns": tuple((str(name), kind) for name, kind in stored["columns"]),
            "rows": tuple(map(int, stored["rows"])),
            "sampled": tuple((int(start), int(count)) for start, count in stored["sampled"]),
            "missing": tuple(map(str, stored["missing"])),
        }
        return cls(**{**stored, **lists})


def find_table_files(sources: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The files of a table: those given, and those in given folders, in the order of their names.

    Args:
        sources: Files, or folders of Parquet or of CSV files; hidden files are left out.

    Returns:
        Absolute paths without symbolic links, each once.

    Raises:
        DataError: A source does not exist, a folder has no such file or both kinds.
    """
    found: list[Path] = []
    for source in sources:
        path = Path(source).expanduser()
        try:
            resolved = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise DataError(f"There is no file or folder {str(path)!r}. Check the path.") from error
        found += _files_of_folder(resolved) if resolved.is_dir() else [resolved]
    if not found:
        raise DataError("No file was given: expected a file, files or a folder of them.")
    return list(dict.fromkeys(found))


def _files_of_folder(folder: Path) -> list[Path]:
    try:
        inside = sorted(path for path in folder.rglob("*") if path.is_file())
    except OSError as error:
        raise DataError(f"The folder {str(folder)!r} cannot be read: {error.strerror}.") from error
    shown = [path for path in inside if not _is_hidden(path.relative_to(folder))]
    parquet = [path for path in shown if path.name.lower().endswith(_PARQUET)]
    text = [path for path in shown if path.name.lower().endswith(_TEXT)]
    if parquet and text:
        raise DataError(
            f"The folder {str(folder)!r} has both Parquet and CSV files: expected files of one "
            "table. Name the files instead."
        )
    if not parquet and not text:
        raise DataError(
            f"The folder {str(folder)!r} has no file with the extension "
            f"{', '.join((*_PARQUET, *_TEXT))}."
        )
    return [path.resolve() for path in parquet or text]


def _is_hidden(path: Path) -> bool:
    """Whether a part of a path begins with a dot or an underline, as files of other programs do."""
    return any(part.startswith((".", "_")) for part in path.parts)


def files_name(sources: Sequence[str | os.PathLike[str]]) -> str:
    """The name of a table of files: that of the first file or folder."""
    return table_name(Path(sources[0]).expanduser().resolve().name)


def file_stamp(path: Path) -> FileStamp:
    """The stamp of a file, as it is now.

    Raises:
        DataError: It cannot be read, or is no regular file.
    """
    try:
        with open_regular_file(path) as file:
            facts = os.fstat(file.fileno())
            size = facts.st_size
            file.seek(max(0, size - 8))
            end = file.read(8)
            digest = hashlib.sha256()
            if end[4:] == _MAGIC:
                footer = min(int.from_bytes(end[:4], "little") + 8, size, _MOST_FOOTER)
                file.seek(size - footer)
                digest.update(file.read(footer))
            else:
                file.seek(0)
                digest.update(file.read(_EDGE))
                file.seek(max(0, size - _EDGE))
                digest.update(file.read(_EDGE))
    except OSError as error:
        raise DataError(
            f"The file {str(path)!r} cannot be read: {error.strerror or error}."
        ) from error
    return FileStamp(str(path), size, facts.st_mtime_ns, digest.hexdigest())
