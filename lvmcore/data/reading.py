"""`read_table`: from a file of an unknown kind to a typed table."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from lvmcore.data.columns import Column, describe, label_like_names
from lvmcore.data.convert import Converted, convert
from lvmcore.data.csvtext import TextTable, parse_text
from lvmcore.data.dialect import NO_DELIMITER
from lvmcore.data.encoding import to_utf8
from lvmcore.data.missing import as_floats, mark_missing_numbers
from lvmcore.data.names import unique_names
from lvmcore.data.numberformat import NumberFormat, detect_number_format
from lvmcore.data.parquet import is_parquet, read_parquet
from lvmcore.data.source import MAX_BYTES, Content, content_digest, open_source
from lvmcore.data.table import Detected, Table, infinity_notes
from lvmcore.errors import DataError

__all__ = ["read_table"]


@dataclass(frozen=True)
class _Missing:
    """What the caller says means missing, beside what is detected."""

    strings: tuple[str, ...]
    numbers: tuple[float, ...]


def read_table(
    source: str | PathLike[str] | bytes | BinaryIO,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    header: int | bool | None = None,
    missing: Sequence[str | float] | None = None,
    name: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Table:
    """Read a table from CSV, TSV, the gzip of either, or Parquet.

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
        header: None to detect it; the header's number counted from 0 among the lines that hold
            anything besides delimiters and spaces (what stands above it is left out); False when
            there is none; True when there is one, to be found below any title lines.
        missing: Further strings and numbers that mean missing, beside the detected ones.
        name: What to call the table; by default the file's name without its ending.
        max_bytes: Largest content, after decompression, in bytes.

    Returns:
        The table.

    Raises:
        DataError: The source is not one table; the message says what was found and what to do.
        ConfigError: A setting is out of its range.
    """
    content = open_source(source, max_bytes=max_bytes, name=name)
    title = content.name
    overrides = {
        "delimiter": delimiter,
        "encoding": encoding,
        "decimal": decimal,
        "header": header,
        "missing": None if missing is None else [str(marker) for marker in missing],
    }
    digest = content_digest(content.raw, overrides)
    if is_parquet(content.data):
        frame, notes = read_parquet(content.data, title, max_bytes)
        detected = Detected(_format("parquet", content))
        return Table.from_frame(frame, name=title, notes=notes, detected=detected, digest=digest)
    data, found, notes = to_utf8(content.data, encoding, title)
    text = parse_text(data, name=title, delimiter=delimiter, decimal=decimal, header=header)
    asked = _Missing(
        tuple(str(marker) for marker in missing or ()),
        tuple(number for marker in missing or () if (number := _number(marker)) is not None),
    )
    return _Assembly(title, text, asked, decimal).table(content, found, notes, digest)


def _number(marker: str | float) -> float | None:
    try:
        return float(marker)
    except ValueError:
        return None


def _format(kind: str, content: Content) -> str:
    return f"{kind} (gzip)" if content.packed else kind


class _Assembly:
    """Makes the table of the strings: names, conversion, missing values, types, notes."""

    def __init__(self, title: str, text: TextTable, asked: _Missing, decimal: str | None) -> None:
        self.title = title
        self.text = text
        self.asked = asked
        self.decimal = decimal
        self.notes: list[str] = []
        self.numbers = text.numbers

    def table(self, content: Content, encoding: str, notes: list[str], digest: str) -> Table:
        """Run every step and put the table together."""
        layout = self.text.layout
        cells, header = self._without_blanks(self.text.cells, layout.cells)
        second = layout.second_header
        if second is not None:
            second = tuple(second[int(name)] for name in cells.column_names)
        names, renamed = unique_names(header, second)
        self.notes += renamed
        if second is not None:
            self.notes.append(
                "Row 1 looks like a second header row (units or sub-headings). It is kept here, "
                "and left out of datasets."
            )
        converted = self._convert([column.combine_chunks() for column in cells.columns])
        converted = self._without_repeated_headers(converted, cells, header)
        found, told = mark_missing_numbers(converted, names, self.asked.numbers)
        self.notes += told
        markers = {marker for one in converted for marker in one.markers} | set(found)
        frame = pd.DataFrame(dict(zip(names, (one.values for one in converted), strict=True)))
        columns = self._describe(frame, converted, header)
        self._note_cells(columns, converted)
        delimiter = self.text.dialect.delimiter
        kind = {"\t": "tsv", NO_DELIMITER: "text", " ": "text"}.get(delimiter, "csv")
        detected = Detected(
            format=_format(kind, content),
            delimiter=None if delimiter == NO_DELIMITER else delimiter,
            encoding=encoding,
            decimal=self.numbers.decimal,
            thousands=self.numbers.thousands,
            header_row=layout.header_row,
            missing=tuple(sorted(markers)),
            second_header=second is not None,
        )
        everything = (*notes, *self.text.notes, *self.notes, *infinity_notes(frame))
        return Table(self.title, frame, columns, everything, detected, digest)

    def _without_blanks(self, cells: Any, header: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
        """Leave out blank rows, then columns that have neither a name nor a cell."""
        blank: Any = None
        for column in cells.columns:
            empty = pc.equal(pc.utf8_trim_whitespace(column), "")
            blank = empty if blank is None else pc.and_(blank, empty)
            if not pc.any(blank).as_py():
                blank = None
                break
        if blank is not None:
            count = pc.sum(blank).as_py()
            cells = cells.filter(pc.invert(blank))
            self.notes.append(f"{count} blank row{'s were' if count > 1 else ' was'} left out.")
        if cells.num_rows == 0:
            raise DataError(
                f"{self.title!r} has a header and no rows below it that hold anything. Expected "
                "at least one row of values."
            )
        ghosts = [
            position
            for position, name in enumerate(header)
            if not name
            and pc.all(pc.equal(pc.utf8_trim_whitespace(cells.column(position)), "")).as_py()
        ]
        if not ghosts:
            return cells, header
        columns = "1 column was" if len(ghosts) == 1 else f"{len(ghosts)} columns were"
        self.notes.append(f"{columns} left out that had neither a name nor a value.")
        kept = [position for position in range(len(header)) if position not in set(ghosts)]
        return cells.select(kept), tuple(header[position] for position in kept)

    def _convert(self, columns: list[Any]) -> list[Converted]:
        """Convert all columns; once more when cells show that numbers are written otherwise."""
        strings = self.asked.strings
        headers = int(self.text.layout.second_header is not None)
        converted = [convert(column, self.numbers, strings, headers) for column in columns]
        suspects = [cell for one in converted for cell in one.suspects]
        if not suspects:
            return converted
        numbers = detect_number_format(suspects, self.text.dialect.delimiter, self.decimal)
        if numbers.decimal == self.numbers.decimal:
            numbers = NumberFormat(numbers.decimal, numbers.thousands or self.numbers.thousands)
        if numbers == self.numbers:
            return converted
        self.numbers = numbers
        return [convert(column, numbers, strings, headers) for column in columns]

    def _without_repeated_headers(
        self, converted: list[Converted], cells: Any, header: tuple[str, ...]
    ) -> list[Converted]:
        """Look for rows that have words in every column of numbers: headers in mid-table."""
        touched = [one for one in converted if one.unparsed]
        numeric = sum(as_floats(one.values) is not None for one in converted)
        if len(touched) < max(2, numeric):
            return converted
        counts = np.zeros(cells.num_rows, dtype=np.intp)
        for one in touched:
            counts[one.bad_rows] += 1
        rows = np.flatnonzero(counts == len(touched))
        if not rows.size:
            return converted
        written = [self._row(cells, int(row)) for row in rows]
        if any(row != tuple(header) for row in written):
            shown = ", ".join(repr(cell) for cell in written[0][:4])
            raise DataError(
                f"{self.title!r} is not one table: row {rows[0] + 1} below the header has words "
                f"({shown}, ...) in every column of numbers, so it looks like the header of "
                "another table stacked below the first. Save the one table you want as a file of "
                "its own."
            )
        times = "once" if rows.size == 1 else f"{rows.size} times"
        self.notes.append(f"The header is repeated {times} among the rows; these were left out.")
        keep = np.ones(cells.num_rows, dtype=bool)
        keep[rows] = False
        return self._convert(
            [column.combine_chunks() for column in cells.filter(pa.array(keep)).columns]
        )

    @staticmethod
    def _row(cells: Any, row: int) -> tuple[str, ...]:
        return tuple(column[row].as_py().strip() for column in cells.columns)

    def _describe(
        self, frame: pd.DataFrame, converted: list[Converted], header: tuple[str, ...]
    ) -> tuple[Column, ...]:
        likely = label_like_names([str(name) for name in frame.columns])
        return tuple(
            describe(
                str(name),
                values,
                position=position,
                named=bool(header[position]),
                label_like=name in likely,
                hint=one.hint,
                unparsed=one.unparsed,
                examples=one.examples,
            )
            for position, ((name, values), one) in enumerate(
                zip(frame.items(), converted, strict=True)
            )
        )

    def _note_cells(self, columns: tuple[Column, ...], converted: list[Converted]) -> None:
        for column in columns:
            if column.unparsed:
                shown = ", ".join(repr(example) for example in column.examples)
                cells = "1 cell is" if column.unparsed == 1 else f"{column.unparsed} cells are"
                self.notes.append(
                    f"Column {column.name!r} holds numbers, but {cells} text ({shown}) and count"
                    f"{'s' if column.unparsed == 1 else ''} as missing."
                )
        kept = sum(one.kept_na > 0 for one in converted)
        if kept:
            where = "1 text column" if kept == 1 else f"{kept} text columns"
            self.notes.append(f"'N/A' stays an answer in {where}, since it can be one.")
        if self.numbers.decimal == "," or self.numbers.thousands:
            group = self.numbers.thousands
            shown = f"; {group!r} separates thousands" if group else ""
            self.notes.append(f"Numbers have the decimal mark {self.numbers.decimal!r}{shown}.")
