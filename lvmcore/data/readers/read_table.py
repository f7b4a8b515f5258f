"""`read_table`: detects a file's format and reads it as a typed table."""

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, BinaryIO

import pandas as pd

from lvmcore.data.number_questions import question_notes
from lvmcore.data.readers.anndata import read_h5ad
from lvmcore.data.readers.hdf5 import is_hdf5
from lvmcore.data.readers.npz import read_npz
from lvmcore.data.readers.parquet import is_parquet, read_parquet
from lvmcore.data.readers.xlsx import read_sheet
from lvmcore.data.readers.zip_archive import archive_kind, is_archive, open_archive
from lvmcore.data.size_limits import MAX_BYTES
from lvmcore.data.source import FileContent, content_digest, open_source
from lvmcore.data.table import DetectedFormat, Table
from lvmcore.data.text.assembly import ReadingOptions, TableBuilder
from lvmcore.data.text.csv_text import parse_text
from lvmcore.data.text.dialect import NO_DELIMITER, Dialect
from lvmcore.data.text.encoding import to_utf8
from lvmcore.data.text.header_and_footer import HeaderChoice
from lvmcore.data.text.json_records import is_json, parse_json
from lvmcore.data.text.number_format import RequestedMarks
from lvmcore.errors import NumberFormatWarning

__all__ = ["read_table"]


def read_table(
    source: str | PathLike[str] | bytes | BinaryIO,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    column_decimals: Mapping[str, str] | None = None,
    header: HeaderChoice = None,
    sheet: str | None = None,
    missing: Sequence[str | float] | None = None,
    name: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Table:
    """Read a table from CSV, TSV, JSON lines, the gzip of any, XLSX, NPZ, Parquet or H5AD.

    Delimiter, quotation mark, encoding, decimal mark, thousands separator, header and missing
    markers are detected from the content and reported in `Table.detected`; arguments override the
    detection. Every row of data and every named column is kept. Blank rows, columns without name
    and content, title lines and footnotes are left out, each with a note.

    Where nothing in a file tells decimals from thousands ("1,234" in all cells of a column), or a
    column has another decimal mark than the table, one reading is taken, and `Table.questions` has
    both, with an example; ``column_decimals`` chooses.

    In a numeric column (four cells in five are numbers) the markers NA, N/A, ?, -, … are missing;
    other text counts as missing and is reported. In a text column only empty cells and the markers
    that programs write (NA, NaN, NULL, #N/A) are missing: "N/A" can be an answer there.

    Args:
        source: A path, the bytes of a file, or a file object opened in binary mode.
        delimiter: One character; " " for columns separated by runs of spaces.
        encoding: A Python codec name such as "utf-8", "latin-1" or "mac_roman".
        decimal: "." or ",".
        thousands: The character between groups of three digits: one of , . ' ’ and a space; ""
            when there is none.
        column_decimals: The decimal mark of single columns by their names, or "" for a column that
            stays text.
        header: None to detect it; its index among the lines that are not blank (without
            delimiters and spaces), the lines above being left out; the indices of nested header
            rows, which are joined to one name a column ("Blood / Glucose"); False for none; True
            for a header below any title lines.
        sheet: The name of a workbook's sheet; None for the first that is neither empty nor hidden.
            The matrix of an H5AD file: "X", "layers/NAME" or "raw/X", each also with
            ", highly variable" if var marks such columns; None for the first of X, layers/counts
            and raw/X that contains whole counts, else the first of them, and of this the highly
            variable columns, if any.
        missing: Further strings and numbers that stand for missing cells.
        name: Name of the table; by default the file's name without its extension.
        max_bytes: Largest content, after decompression, in bytes.

    Returns:
        The table.

    Warns:
        NumberFormatWarning: The numbers of a column allow two readings; it names the column, and
            the reading that was taken.

    Raises:
        DataError: The source is not a single table; the message says what was found and what to
            do.
        ConfigError: A setting is out of its range.
        UnsupportedError: It is a workbook or an H5AD file, and the package that reads them is not
            installed.
    """
    table = _read(
        open_source(source, max_bytes=max_bytes, name=name),
        ReadingOptions(
            RequestedMarks(decimal, thousands),
            dict(column_decimals or {}),
            tuple(str(marker) for marker in missing or ()),
            tuple(
                number for marker in missing or () if (number := _parse_number(marker)) is not None
            ),
        ),
        {
            "delimiter": delimiter,
            "encoding": encoding,
            "decimal": decimal,
            "thousands": thousands,
            "column_decimals": dict(column_decimals) if column_decimals else None,
            "header": header,
            "sheet": sheet,
            "missing": None if missing is None else [str(marker) for marker in missing],
        },
        max_bytes,
    )
    for note in question_notes([one for one in table.questions if not one.chosen]):
        warnings.warn(f"{table.name!r}: {note}", NumberFormatWarning, stacklevel=2)
    return table


def _read(
    content: FileContent, asked: ReadingOptions, settings: Mapping[str, Any], max_bytes: int
) -> Table:
    """Read a content with the options and with the settings of `read_table`, by their names."""
    title, sheet = content.name, settings["sheet"]
    digest = content_digest(content.raw, settings)
    if is_parquet(content.data):
        return _typed_table(
            "parquet", content, read_parquet(content.data, title, max_bytes), digest
        )
    if is_hdf5(content.data):
        found = read_h5ad(content.data, sheet, title, max_bytes)
        return Table.from_frame(
            found.frame,
            name=title,
            notes=found.notes,
            detected=DetectedFormat(
                _format_name("h5ad", content), sheet=found.matrix, sheets=found.matrices
            ),
            digest=digest,
            annotation_columns=found.annotation_columns,
        )
    if is_archive(content.data):
        with open_archive(content.data, title, max_bytes) as archive:
            if archive_kind(archive, title) == "npz":
                return _typed_table("npz", content, read_npz(archive, title), digest)
            chosen = read_sheet(content.data, archive, sheet, title, max_bytes)
        text = parse_text(
            chosen.text,
            name=title,
            delimiter=None,
            header=settings["header"],
            marks=asked.marks,
            dialect=Dialect(NO_DELIMITER),
            stored_numbers=chosen.decimals,
        )
        known = DetectedFormat(
            _format_name("xlsx", content), sheet=chosen.name, sheets=chosen.names
        )
        return TableBuilder(title, text, asked).table(known, chosen.notes, digest)
    data, encoding, notes = to_utf8(content.data, settings["encoding"], title)
    if is_json(data) and settings["delimiter"] is None:
        text, kind = parse_json(data, title)
        known = DetectedFormat(_format_name(kind, content), encoding=encoding)
        return TableBuilder(title, text, asked).table(known, notes, digest)
    text = parse_text(
        data,
        name=title,
        delimiter=settings["delimiter"],
        header=settings["header"],
        marks=asked.marks,
    )
    mark = text.dialect.delimiter
    known = DetectedFormat(
        _format_name({"\t": "tsv", NO_DELIMITER: "text", " ": "text"}.get(mark, "csv"), content),
        delimiter=None if mark == NO_DELIMITER else mark,
        encoding=encoding,
    )
    return TableBuilder(title, text, asked).table(known, notes, digest)


def _typed_table(
    kind: str, content: FileContent, read: tuple[pd.DataFrame, list[str]], digest: str
) -> Table:
    """The table of a format with typed columns."""
    frame, notes = read
    detected = DetectedFormat(_format_name(kind, content))
    return Table.from_frame(frame, name=content.name, notes=notes, detected=detected, digest=digest)


def _parse_number(marker: str | float) -> float | None:
    try:
        return float(marker)
    except ValueError:
        return None


def _format_name(kind: str, content: FileContent) -> str:
    return f"{kind} (gzip)" if content.compression else kind
