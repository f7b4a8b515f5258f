"""The table of a sample of registered files, with how their other rows are read."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import pandas as pd

from lvmcore.data.date_scales import is_dates
from lvmcore.data.readers.file_sample import file_head
from lvmcore.data.readers.sandbox_transport import SAMPLE, load_result
from lvmcore.data.table import DetectedFormat, Table
from lvmcore.data.table_files import ColumnKind, FileStamp, TableFiles
from lvmcore.errors import DataError

__all__ = ["load_files_table"]

#: Bytes in which the header of a text file is searched.
_HEAD_BYTES = 1 << 20


def load_files_table(folder: Path, stamps: tuple[FileStamp, ...]) -> Table:
    """The table of a sample that a reading process took.

    Args:
        folder: Folder of the process.
        stamps: The files.

    Raises:
        LatentboardError: The error of the process; or the files cannot be read block by block.
    """
    table = load_result(folder)
    facts = json.loads((folder / SAMPLE).read_text(encoding="utf-8"))
    kind = _format_of(table)
    sampled = tuple((int(start), int(count)) for start, count in facts["sampled"])
    files = TableFiles(
        stamps=stamps,
        format=kind,
        columns=tuple((str(name), _kind(cells)) for name, cells in table.frame.items()),
        rows=tuple(facts["rows"]),
        sampled=sampled or ((0, len(table.frame)),),
    )
    if kind == "csv":
        files = _with_text_format(files, table.detected)
    digest = hashlib.sha256(table.digest.encode())
    digest.update(json.dumps([asdict(stamp) for stamp in stamps]).encode())
    return replace(
        table,
        files=files,
        texts=None,
        digest=digest.hexdigest(),
        notes=(*table.notes, _note(files, len(table.frame))),
    )


def _format_of(table: Table) -> Literal["parquet", "csv"]:
    detected = table.detected
    kind = detected.format.removesuffix(" (gzip)")
    if kind == "parquet":
        return "parquet"
    problem = ""
    if kind not in ("csv", "tsv", "text"):
        problem = f"it is of the format {kind}"
    elif detected.delimiter is None or detected.delimiter == " ":
        problem = "its cells are not separated by one character"
    elif detected.header_rows > 1 or detected.second_header:
        problem = "it has several header rows"
    elif detected.thousands:
        problem = f"its numbers have the mark {detected.thousands!r} between groups of digits"
    if problem:
        raise DataError(
            f"{table.name!r} cannot be registered in place: {problem}. Expected Parquet, or CSV "
            "with one header row and plain numbers: save it again, as Parquet."
        )
    return "csv"


def _kind(cells: pd.Series) -> ColumnKind:
    """The kind of the cells of a column of the sample."""
    if pd.api.types.is_bool_dtype(cells.dtype):
        return "boolean"
    if pd.api.types.is_numeric_dtype(cells.dtype):
        return "number"
    return "date" if is_dates(cells) else "text"


def _with_text_format(files: TableFiles, detected: DetectedFormat) -> TableFiles:
    assert detected.delimiter is not None
    row = detected.header_row
    return replace(
        files,
        delimiter=detected.delimiter,
        encoding=detected.encoding or "utf-8",
        decimal=detected.decimal or ".",
        header_lines=0 if row is None else _header_lines(files.paths[0], row),
        missing=detected.missing,
    )


def _header_lines(path: Path, row: int) -> int:
    """Number of lines up to the header, which has a number of lines that are not blank above it."""
    return _position(file_head(path, _HEAD_BYTES).splitlines(), row) + 1


def _position(lines: Iterable[bytes], row: int) -> int:
    filled = [
        place for place, line in enumerate(lines) if line.removeprefix(b"\xef\xbb\xbf").strip()
    ]
    return filled[row] if row < len(filled) else row


def _note(files: TableFiles, sampled: int) -> str:
    """Note on what the sample is of."""
    n, size = files.n_rows, files.size / 1e6
    where = f"{len(files.stamps):,} files" if len(files.stamps) > 1 else "the file"
    if n is None:
        return (
            f"The first {sampled:,} rows of {where} ({size:,.1f} MB), which stay in place. The "
            "types of the columns are checked in all rows before a fit."
        )
    return (
        f"A sample of {sampled:,} of the {n:,} rows of {where} ({size:,.1f} MB), which stay in "
        "place. The types of the columns are checked in all rows before a fit."
    )
