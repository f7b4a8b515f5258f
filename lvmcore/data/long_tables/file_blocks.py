"""The rows of registered files in blocks, each a table with the column types of the sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pyarrow.types as pat

from lvmcore.data.column_types import ColumnDescription, ColumnType
from lvmcore.data.long_tables.record_batches import describe_content
from lvmcore.data.table import DetectedFormat, Table
from lvmcore.data.table_files import ColumnKind, TableFiles
from lvmcore.data.text.missing_markers import NUMBER_MARKERS, TEXT_MARKERS
from lvmcore.errors import DataError

__all__ = ["BLOCK_ROWS", "ArrowBlock", "arrow_blocks", "block_table", "rows_of_block"]

#: Most rows of a block.
BLOCK_ROWS = 1 << 16
#: Most cells of a block, and bytes of text that are converted at a time.
_MOST_CELLS, _TEXT_BYTES = 1 << 22, 1 << 22
_TYPES = {
    "number": ColumnType.NUMERIC,
    "boolean": ColumnType.BINARY,
    "text": ColumnType.TEXT,
    "date": ColumnType.DATE,
}


@dataclass(frozen=True)
class ArrowBlock:
    """Successive rows of the files of a table, as Arrow has them.

    Attributes:
        cells: The rows, an Arrow table.
        start: Position of the first row in the table, from 0.
        file: Path of their file.
        row: Position of the first row in the file, from 0.
    """

    cells: Any
    start: int
    file: str
    row: int


def rows_of_block(columns: int, rows: int = BLOCK_ROWS) -> int:
    """Number of rows of a block of a table with so many columns."""
    return max(1, min(rows, _MOST_CELLS // max(1, columns)))


def arrow_blocks(
    files: TableFiles, columns: Sequence[str] | None = None, *, rows: int | None = None
) -> Iterator[ArrowBlock]:
    """The rows of files in blocks of equal size; the last one of each file may be shorter.

    Args:
        files: The files, which must not have changed.
        columns: Names of the columns that are read; None for all.
        rows: Rows of a block; by default by the number of columns.

    Raises:
        DataError: A file is damaged, or a cell is not of the kind of its column by the sample; the
            message names the file, the row and the column.
    """
    names = [name for name, _ in files.columns] if columns is None else list(columns)
    size = rows or rows_of_block(len(names))
    start = 0
    for path in files.paths:
        row = 0
        read = _parquet_tables if files.format == "parquet" else _text_tables
        for cells in _rebatched(read(files, path, names, size), size):
            yield ArrowBlock(cells, start, str(path), row)
            start += cells.num_rows
            row += cells.num_rows


def _rebatched(tables: Iterator[Any], size: int) -> Iterator[Any]:
    """Tables of ``size`` rows each, and the rest, from tables of any size."""
    waiting: list[Any] = []
    n = 0
    for table in tables:
        waiting.append(table)
        n += table.num_rows
        while n >= size:
            whole = pa.concat_tables(waiting)
            yield whole.slice(0, size)
            n -= size
            waiting = [whole.slice(size)] if n else []
    if n:
        yield pa.concat_tables(waiting)


# ---- formats -----------------------------------------------------------------------------------


def _parquet_tables(
    files: TableFiles, path: Path, names: Sequence[str], size: int
) -> Iterator[Any]:
    del files
    try:
        with pq.ParquetFile(path, pre_buffer=False) as opened:
            stored = {_shown(name): name for name in opened.schema_arrow.names}
            columns = [stored[name] for name in names]
            for batch in opened.iter_batches(batch_size=size, columns=columns, use_threads=False):
                found = pa.Table.from_batches([batch]).select(columns)
                yield found.rename_columns(list(names)).replace_schema_metadata(None)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(
            f"{path.name!r} cannot be read any further: it is damaged, cut off or lacks the column "
            f"{error}. Copy or save it again."
        ) from error


def _shown(name: str) -> str:
    """The name that the reader of Parquet gives to a column."""
    return "index" if name == "__index_level_0__" else name


def _text_tables(files: TableFiles, path: Path, names: Sequence[str], size: int) -> Iterator[Any]:
    del size
    row = 0
    kinds = dict(files.columns)
    try:
        with _open_text(files, path, names, {name: _text_type(kinds[name]) for name in names}) as (
            opened
        ):
            for batch in opened:
                yield _without_markers(pa.Table.from_batches([batch]))
                row += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _first_bad_cell(files, path, names, row) or _unreadable(path, error) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> DataError:
    return DataError(
        f"{path.name!r} cannot be read any further: {str(error).rstrip('.')}. Expected CSV with "
        "the columns of the sample in every row."
    )


def _text_type(kind: ColumnKind) -> Any:
    return {"number": pa.float64(), "boolean": pa.bool_()}.get(kind, pa.string())


def _open_text(
    files: TableFiles, path: Path, names: Sequence[str], types: dict[str, Any]
) -> pacsv.CSVStreamingReader:
    """A reader of the rows of a text file after its header."""
    every = [name for name, _ in files.columns]
    return pacsv.open_csv(
        path,
        read_options=pacsv.ReadOptions(
            block_size=_TEXT_BYTES,
            column_names=every,
            skip_rows=files.header_lines,
            encoding=files.encoding,
            use_threads=False,
        ),
        parse_options=pacsv.ParseOptions(delimiter=files.delimiter, newlines_in_values=True),
        convert_options=pacsv.ConvertOptions(
            null_values=[*NUMBER_MARKERS, *files.missing],
            strings_can_be_null=False,
            column_types=types,
            include_columns=list(names),
            decimal_point=files.decimal,
        ),
    )


def _without_markers(table: Any) -> Any:
    """A table whose texts that mean a missing cell are null."""
    markers = pa.array(TEXT_MARKERS)
    for place, field in enumerate(table.schema):
        if pat.is_string(field.type):
            cells = table.column(place)
            missing = pc.is_in(cells, value_set=markers)
            table = table.set_column(
                place, field.name, pc.if_else(missing, pa.scalar(None, pa.string()), cells)
            )
    return table


def _first_bad_cell(
    files: TableFiles, path: Path, names: Sequence[str], after: int
) -> DataError | None:
    """The error of the first cell that is not of its kind, in the rows that could not be read.

    Args:
        files: The files.
        path: The file.
        names: The columns that are read.
        after: Number of rows that could be read.
    """
    checked = [name for name in names if files.kind(name) in ("number", "boolean")]
    row = 0
    with _open_text(files, path, checked, dict.fromkeys(checked, pa.string())) as opened:
        for batch in opened:
            row += batch.num_rows
            if row <= after:
                continue
            bad = [
                (place, name, text)
                for name in checked
                for place, text in [_bad_text(batch.column(name), files, name)]
                if place >= 0
            ]
            if bad:
                place, name, text = min(bad)
                holds = "numbers" if files.kind(name) == "number" else "true or false"
                return DataError(
                    f"Row {row - batch.num_rows + place + 1:,} of {path.name!r} has {text!r} in "
                    f"column {name!r}, which holds {holds} in the sample. Correct the cell, name "
                    "the text as a marker of missing cells, or leave the column out."
                )
    return None


def _bad_text(cells: Any, files: TableFiles, name: str) -> tuple[int, str]:
    """Position and text of the first cell that is not of its kind; −1 without one."""
    known = {*NUMBER_MARKERS, *files.missing}
    kind = _text_type(files.kind(name))
    point = files.decimal
    for place, text in enumerate(cells.to_pylist()):
        if text in known:
            continue
        try:
            plain = text.strip().replace(point, ".") if point != "." else text.strip()
            pa.scalar(plain).cast(kind)
        except pa.ArrowInvalid:
            return place, text
    return -1, ""


# ---- tables ------------------------------------------------------------------------------------


def block_table(block: ArrowBlock, files: TableFiles, name: str) -> Table:
    """A block as a table; its rows are numbered as in their file.

    Args:
        block: The block.
        files: The files.
        name: Name of the table.

    Raises:
        DataError: A cell is not of the kind of its column by the sample; the message names the
            file, the row and the column.
    """
    n = block.cells.num_rows
    columns: dict[str, Any] = {}
    described = []
    for field in block.cells.schema:
        kind = files.kind(field.name)
        cells = _to_pandas(block.cells.column(field.name), kind, field.name, block)
        columns[field.name] = cells
        described.append(
            ColumnDescription(field.name, _TYPES[kind], int(cells.isna().sum()), 0, "By the sample")
        )
    frame = pd.DataFrame(columns, index=pd.RangeIndex(n), copy=False)
    frame.index = pd.RangeIndex(block.row, block.row + n)
    return Table(
        name=name,
        frame=frame,
        columns=tuple(described),
        notes=(),
        detected=DetectedFormat(files.format),
        digest="",
    )


def _to_pandas(cells: Any, kind: ColumnKind, name: str, block: ArrowBlock) -> "pd.Series[Any]":
    """A column of a block, in the type that the reader of whole tables gives to it."""
    if pat.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if kind == "number":
        if describe_content(cells.type) != "numbers":
            raise _wrong_type(name, block, cells, "numbers")
        values = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return pd.Series(np.asarray(values, dtype=np.float64))
    if kind == "boolean":
        if not (pat.is_boolean(cells.type) or pat.is_null(cells.type)):
            raise _wrong_type(name, block, cells, "true or false")
        return pd.Series(cells.to_pandas(types_mapper=lambda _: pd.BooleanDtype()))
    if kind == "date":
        return _dates(cells)
    texts = cells if pat.is_string(cells.type) else cells.cast(pa.string())
    return pd.Series(texts.to_pandas())


def _dates(cells: Any) -> "pd.Series[Any]":
    """Dates, or the texts of which each alone is one."""
    if pat.is_date(cells.type):
        cells = cells.cast(pa.timestamp("ms"))
    found = pd.Series(cells.to_pandas())
    if pat.is_timestamp(cells.type) and found.dt.tz is not None:
        return found.dt.tz_convert("UTC").dt.tz_localize(None)
    return found


def _wrong_type(name: str, block: ArrowBlock, cells: Any, expected: str) -> DataError:
    return DataError(
        f"Row {block.row + 1:,} of {Path(block.file).name!r} has {cells[0].as_py()!r} in column "
        f"{name!r}, which holds {expected} in the sample. Save the files with one type a column."
    )
