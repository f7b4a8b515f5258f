"""Parsing of UTF-8 text to columns of strings: dialect, header, footnotes, and the cells."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from lvmcore.data.size_limits import check_size
from lvmcore.data.source import SAMPLE_BYTES
from lvmcore.data.text.dialect import (
    NO_DELIMITER,
    Dialect,
    ParsedRow,
    delimiter_line,
    detect_dialect,
    find_unpaired_quote,
    split_rows,
)
from lvmcore.data.text.header_and_footer import (
    HeaderChoice,
    TableLayout,
    find_footnotes,
    find_table_layout,
)
from lvmcore.data.text.missing_markers import is_marker
from lvmcore.data.text.number_format import NumberFormat, RequestedMarks, decide_numbers
from lvmcore.data.text.number_marks import column_marks
from lvmcore.data.text.ragged_rows import check_quotes, repair_ragged_rows
from lvmcore.errors import DataError

__all__ = ["TextTable", "parse_text"]

_MAX_LINE = 64 * 1024**2
_MAX_SINGLE_LINE = 1024**2
_MIN_LINES = 40
_MAX_NEWLINES = 50
#: Rows in which the marks of numbers are looked for before the header is located.
_MARKED_ROWS = 100
#: Bytes of text that are searched at a time: each match takes many times its size.
_BLOCK = 1 << 18


@dataclass
class TextTable:
    """A table of strings and its layout in the text.

    Attributes:
        cells: Arrow table of strings, one column per column of the text, named "0", "1", ….
        layout: The position of the table in the text.
        dialect: The delimiter and the quotation mark.
        notes: What was left out or repaired.
        stored_numbers: Positions of the columns with numbers that the file stores as numbers.
    """

    cells: Any
    layout: TableLayout
    dialect: Dialect
    notes: list[str]
    stored_numbers: frozenset[int] = frozenset()

    def release_cells(self) -> Any:
        """Return the cells and drop this reference to them, so that the caller can free them."""
        cells, self.cells = self.cells, None
        return cells


def parse_text(
    data: bytes,
    *,
    name: str,
    delimiter: str | None,
    header: HeaderChoice,
    marks: RequestedMarks,
    dialect: Dialect | None = None,
    stored_numbers: frozenset[int] = frozenset(),
) -> TextTable:
    """Parse the text of one table.

    Args:
        data: UTF-8 without a byte order mark.
        name: Name of the file in messages.
        delimiter: See `read_table`.
        header: See `read_table`.
        marks: The marks of numbers that the caller set.
        dialect: The dialect, if this package wrote the text; None to detect it.
        stored_numbers: See `TextTable`.

    Raises:
        DataError: The text is not one table.
    """
    ours = dialect is not None
    if not ours and b"\r" in data[:SAMPLE_BYTES] and b"\n" not in data[:SAMPLE_BYTES]:
        data = data.replace(b"\r", b"\n")
    if not data.strip():
        raise DataError(f"{name!r} holds only blank lines. Expected a header row and values.")
    told = None if ours else delimiter_line(data)
    if told is not None:  # a blank line instead, so that the numbers of the lines stay
        data, delimiter = data[told[0] :], delimiter or told[1]
    head = _first_lines(data, name)
    dialect = dialect or detect_dialect(head, delimiter)
    lonely = find_unpaired_quote(head, dialect)
    if lonely is not None:
        raise DataError(
            f"In {name!r} a quotation mark is opened in line {lonely} and never closed. Close or "
            "remove it."
        )
    try:
        rows = list(split_rows(head, dialect))
    except csv.Error as error:
        raise DataError(
            f"{name!r} cannot be split into cells: {error}. A quotation mark may be left open, or "
            "the delimiter may be wrong. Set the delimiter and try again."
        ) from error
    numbers = _first_numbers(rows, dialect, marks, stored_numbers)
    layout = find_table_layout(rows, numbers, header, name)
    check_size(data.count(b"\n"), layout.width, name)
    start = sum(len(line.encode()) for line in head[: layout.first])
    end, notes = _end_of_data(data, start, dialect, layout)
    if told is not None:
        notes.insert(0, f"Line 1 was left out: it says that the delimiter is {told[1]!r}.")
    if dialect.quote is None and data.find(b'"', start, end) >= 0:
        notes.append("Quotation marks are part of the cells, as they do not enclose whole cells.")
    notes = [*layout.notes, *notes]
    if ours:
        table = _read(memoryview(data)[start:end], dialect.delimiter, dialect.quote, layout.width)
    else:
        table, found = _parse(data, start, end, dialect, layout, name)
        notes += found
    return TextTable(table, layout, dialect, notes, stored_numbers)


def _first_numbers(
    rows: list[ParsedRow], dialect: Dialect, marks: RequestedMarks, stored: frozenset[int]
) -> NumberFormat:
    """The number format of most columns in the first rows, which locates the header."""
    first = [row.cells for row in rows[:_MARKED_ROWS]]
    columns = [
        column_marks([cell for cell in cells if not is_marker(cell)], position in stored)
        for position, cells in enumerate(zip_longest(*first, fillvalue=""))
    ]
    return decide_numbers(columns, dialect.shown, marks).usual


def _first_lines(data: bytes, name: str) -> list[str]:
    """The first lines: 256 KB, or more until there are enough lines for the detection."""
    size = SAMPLE_BYTES
    while size < len(data) and data.count(b"\n", 0, size) < _MIN_LINES and size < _MAX_LINE:
        size *= 2
    cut = len(data) if size >= len(data) else data.rfind(b"\n", 0, size) + 1
    if cut == 0 or (len(data) > _MAX_SINGLE_LINE and b"\n" not in data[:-1]):
        raise DataError(
            f"{name!r} is {len(data) / 1e6:,.1f} MB of text in one line of more than "
            f"{min(size, len(data)) / 1e6:,.1f} MB. Expected one line per row. The line ends may "
            "have been lost when the file was made: export it again."
        )
    return io.StringIO(data[:cut].decode("utf-8"), newline="").readlines()


def _end_of_data(
    data: bytes, start: int, dialect: Dialect, layout: TableLayout
) -> tuple[int, list[str]]:
    """Find the end of the data, before any footnotes."""
    from_byte = max(start, len(data) - SAMPLE_BYTES)
    if from_byte > start:
        from_byte = data.find(b"\n", from_byte) + 1 or len(data)
    tail = io.StringIO(data[from_byte:].decode("utf-8"), newline="").readlines()
    keep = 1 if from_byte == start else 0
    try:
        cut, count = find_footnotes(tail, dialect, layout.numeric, keep)
    except csv.Error:
        return len(data), []
    if not cut:
        return len(data), []
    size = sum(len(line.encode()) for line in tail[-cut:])
    first = next(line.strip(' \t\r\n",;|') for line in tail[-cut:] if line.strip(' \t\r\n",;|'))
    shown = first if len(first) <= 80 else first[:77] + "..."
    lines = "1 footnote row was" if count == 1 else f"{count} footnote rows were"
    return len(data) - size, [f"{lines} left out below the data, beginning: {shown!r}."]


def _parse(
    data: bytes, start: int, end: int, dialect: Dialect, layout: TableLayout, name: str
) -> tuple[Any, list[str]]:
    """Parse the bytes from ``start`` to ``end``, with a slower parser for ragged or spaced rows."""
    spaced = dialect.delimiter == " "
    if not spaced:
        try:
            body = memoryview(data)[start:end]
            table = _read(body, dialect.delimiter, dialect.quote, layout.width)
        except pa.ArrowInvalid:
            pass
        else:
            return table, _check_lines(table, data, start, end, dialect, layout, name)
    elif data.find(b'"', start, end) < 0:
        plain = b"".join(map(_with_single_marks, _blocks_of_lines(data, start, end)))
        try:
            table = _read(plain, NO_DELIMITER, None, layout.width)
        except pa.ArrowInvalid:
            pass
        else:
            return table, _check_lines(table, plain, 0, len(plain), dialect, layout, name)
    lines = io.StringIO(data[start:end].decode("utf-8"), newline="").readlines()
    plain, notes = repair_ragged_rows(lines, dialect, layout, name, first_line=layout.first + 1)
    return _read(plain, NO_DELIMITER, '"', layout.width), notes


def _blocks_of_lines(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """The bytes from ``start`` to ``end`` in blocks of whole lines."""
    while start < end:
        stop = data.find(b"\n", min(start + _BLOCK, end), end) + 1 or end
        yield data[start:stop]
        start = stop


def _with_single_marks(block: bytes) -> bytes:
    """Lines with `NO_DELIMITER` for each run of spaces between cells."""
    trimmed = re.sub(rb"(?m)^[ \t]+|[ \t\r]+$", b"", block)
    return re.sub(rb"[ \t]+", NO_DELIMITER.encode(), trimmed)


def _read(body: bytes | memoryview, delimiter: str, quote: str | None, width: int) -> Any:
    names = [str(position) for position in range(width)]
    longest = 1 << 24
    return pacsv.read_csv(
        pa.py_buffer(body),
        read_options=pacsv.ReadOptions(
            column_names=names, block_size=max(longest, min(len(body), _MAX_LINE))
        ),
        parse_options=pacsv.ParseOptions(
            delimiter=delimiter,
            quote_char=quote if quote is not None else False,
            newlines_in_values=quote is not None,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
        ),
    )


def _check_lines(
    table: Any, data: bytes, start: int, end: int, dialect: Dialect, layout: TableLayout, name: str
) -> list[str]:
    """Check that every line is a row, blank, or inside quotation marks; return notes."""
    ends = data.count(b"\n", start, end) + (end > start and data[end - 1] != ord("\n"))
    if ends == table.num_rows:
        return []
    inside = 0
    if dialect.quote is not None and data.find(dialect.quote.encode(), start, end) >= 0:
        inside = _line_ends_inside_cells(table, dialect.delimiter, name)
    if inside:
        text = io.StringIO(data[start:end].decode("utf-8"), newline="")
        check_quotes(text, dialect, name, first_line=layout.first + 1)
    blank = ends - table.num_rows - inside
    if blank <= 0:
        return []
    return [f"{blank} blank line{'s were' if blank > 1 else ' was'} left out."]


def _line_ends_inside_cells(table: Any, delimiter: str, name: str) -> int:
    inside = 0
    for column in table.columns:
        counts = pc.count_substring(column, pattern="\n")
        most = pc.max(counts).as_py() or 0
        inside += pc.sum(counts).as_py() or 0
        if most <= 1:
            continue
        row = pc.index(counts, most).as_py()
        cell = column[row].as_py()
        lines = [line for line in cell.splitlines() if line]
        swallowed = sum(line.count(delimiter) >= max(1, table.num_columns - 2) for line in lines)
        if most > _MAX_NEWLINES or swallowed >= 2:
            raise DataError(
                f"In {name!r} a quotation mark seems to be left open: one cell of row {row + 1} "
                f"runs over {most + 1} lines and begins with {cell[:40]!r}. Close or remove that "
                "quotation mark."
            )
    return inside
