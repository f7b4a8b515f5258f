"""`read_table`: from a file of an unknown kind to a typed table."""

from collections.abc import Sequence
from os import PathLike
from typing import BinaryIO

import pandas as pd

from lvmcore.data.archive import is_archive, kind_of_archive, open_archive
from lvmcore.data.assembly import Asked, Assembly
from lvmcore.data.csvtext import parse_text
from lvmcore.data.dialect import NO_DELIMITER, Dialect
from lvmcore.data.encoding import to_utf8
from lvmcore.data.h5ad import read_h5ad
from lvmcore.data.hdf5 import is_hdf5
from lvmcore.data.jsonlines import is_json, parse_json
from lvmcore.data.npz import read_npz
from lvmcore.data.parquet import is_parquet, read_parquet
from lvmcore.data.source import MAX_BYTES, Content, content_digest, open_source
from lvmcore.data.table import Detected, Table
from lvmcore.data.xlsx import read_sheet

__all__ = ["read_table"]


def read_table(
    source: str | PathLike[str] | bytes | BinaryIO,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    header: int | bool | None = None,
    sheet: str | None = None,
    missing: Sequence[str | float] | None = None,
    name: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Table:
    """Read a table from CSV, TSV, JSON lines, the gzip of any, XLSX, NPZ, Parquet or H5AD.

    Delimiter, quotation mark, encoding, decimal mark, thousands separator, header and missing
    markers are detected from the content and reported in `Table.detected`; what the caller gives
    is used instead. Every row of data and every named column is kept. Blank rows, columns without
    name and content, title lines and footnotes are left out, each with a note.

    In a column of numbers (four cells in five are numbers) written markers (NA, N/A, ?, -, …) are
    missing, and other text counts as missing and is reported. In a column of text only an empty
    cell and what programs write (NA, NaN, NULL, #N/A) are missing: "N/A" is an answer there.

    Args:
        source: A path, the bytes of a file, or a file object opened in binary mode.
        delimiter: One character; " " for columns separated by runs of spaces.
        encoding: A Python codec name such as "utf-8", "latin-1" or "mac_roman".
        decimal: "." or ",".
        thousands: The character between groups of three digits: one of , . ' ’ and a space; ""
            when there is none.
        header: None to detect it; the header's number counted from 0 among the lines that hold
            anything besides delimiters and spaces (what stands above it is left out); False when
            there is none; True when there is one, to be found below any title lines.
        sheet: The name of a workbook's sheet; None for the first that holds something and is not
            hidden. Of an H5AD file the matrix: "X", "layers/NAME", "raw/X", each also with
            ", highly variable" where var marks columns so; None for the first of X, layers/counts
            and raw/X that holds whole counts, else the first of them, its marked columns alone.
        missing: Further strings and numbers that mean missing, beside the detected ones.
        name: What to call the table; by default the file's name without its ending.
        max_bytes: Largest content, after decompression, in bytes.

    Returns:
        The table.

    Raises:
        DataError: The source is not one table; the message says what was found and what to do.
        ConfigError: A setting is out of its range.
        UnsupportedError: It is a workbook or an H5AD file, and the package that reads them is not
            installed.
    """
    content = open_source(source, max_bytes=max_bytes, name=name)
    title = content.name
    overrides = {
        "delimiter": delimiter,
        "encoding": encoding,
        "decimal": decimal,
        "thousands": thousands,
        "header": header,
        "sheet": sheet,
        "missing": None if missing is None else [str(marker) for marker in missing],
    }
    digest = content_digest(content.raw, overrides)
    if is_parquet(content.data):
        return _ready("parquet", content, read_parquet(content.data, title, max_bytes), digest)
    if is_hdf5(content.data):
        found = read_h5ad(content.data, sheet, title, max_bytes)
        return Table.from_frame(
            found.frame,
            name=title,
            notes=found.notes,
            detected=Detected(_format("h5ad", content), sheet=found.matrix, sheets=found.matrices),
            digest=digest,
            about_rows=found.about_rows,
        )
    asked = Asked(
        decimal,
        thousands,
        tuple(str(marker) for marker in missing or ()),
        tuple(number for marker in missing or () if (number := _number(marker)) is not None),
    )
    if is_archive(content.data):
        with open_archive(content.data, title) as archive:
            if kind_of_archive(archive, title) == "npz":
                return _ready("npz", content, read_npz(archive, title), digest)
            chosen = read_sheet(content.data, archive, sheet, title)
        text = parse_text(
            chosen.text,
            name=title,
            delimiter=None,
            decimal=decimal,
            header=header,
            thousands=thousands,
            dialect=Dialect(NO_DELIMITER),
        )
        known = Detected(_format("xlsx", content), sheet=chosen.name, sheets=chosen.names)
        return Assembly(title, text, asked).table(known, chosen.notes, digest)
    data, encoding, notes = to_utf8(content.data, encoding, title)
    if is_json(data) and delimiter is None:
        text, kind = parse_json(data, title)
        known = Detected(_format(kind, content), encoding=encoding)
        return Assembly(title, text, asked).table(known, notes, digest)
    text = parse_text(
        data,
        name=title,
        delimiter=delimiter,
        decimal=decimal,
        header=header,
        thousands=thousands,
    )
    mark = text.dialect.delimiter
    known = Detected(
        _format({"\t": "tsv", NO_DELIMITER: "text", " ": "text"}.get(mark, "csv"), content),
        delimiter=None if mark == NO_DELIMITER else mark,
        encoding=encoding,
    )
    return Assembly(title, text, asked).table(known, notes, digest)


def _ready(kind: str, content: Content, read: tuple[pd.DataFrame, list[str]], digest: str) -> Table:
    """The table of a format whose columns have types already."""
    frame, notes = read
    detected = Detected(_format(kind, content))
    return Table.from_frame(frame, name=content.name, notes=notes, detected=detected, digest=digest)


def _number(marker: str | float) -> float | None:
    try:
        return float(marker)
    except ValueError:
        return None


def _format(kind: str, content: Content) -> str:
    return f"{kind} (gzip)" if content.packed else kind
