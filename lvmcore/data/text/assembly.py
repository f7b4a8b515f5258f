"""Conversion of columns of strings to a typed table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from lvmcore.data.cell_texts import MOST_TEXT_CELLS, cell_texts
from lvmcore.data.column_names import unique_names
from lvmcore.data.column_types import ColumnDescription, describe_column, label_like_names
from lvmcore.data.number_questions import question_notes
from lvmcore.data.table import (
    DetectedFormat,
    Table,
    infinity_notes,
    precision_notes,
    rounded_note,
)
from lvmcore.data.text.cell_conversion import ConvertedColumn
from lvmcore.data.text.csv_text import TextTable
from lvmcore.data.text.missing_numbers import is_numeric, mark_missing_numbers
from lvmcore.data.text.number_format import TEXT, NumberFormat, RequestedMarks
from lvmcore.data.text.number_marks import MARKS
from lvmcore.data.text.ranges import ranges_as_dates
from lvmcore.data.text.table_conversion import ConvertedTable, TableConversion
from lvmcore.errors import ConfigError, DataError

__all__ = ["ReadingOptions", "TableBuilder"]


@dataclass(frozen=True)
class ReadingOptions:
    """Options of the caller that override the detection.

    Attributes:
        marks: The decimal mark and the thousands separator of all columns.
        column_decimals: The decimal mark of single columns, "" for text.
        missing: Further markers of missing cells.
        missing_numbers: Numbers that stand for missing cells.
    """

    marks: RequestedMarks
    column_decimals: Mapping[str, str]
    missing: tuple[str, ...]
    missing_numbers: tuple[float, ...]


class TableBuilder:
    """Builds a table from strings: names, conversion, missing values, types, notes."""

    def __init__(self, title: str, text: TextTable, asked: ReadingOptions) -> None:
        self.title = title
        self.text = text
        self.asked = asked
        self.notes: list[str] = []

    def table(self, known: DetectedFormat, notes: Sequence[str], digest: str) -> Table:
        """Build the table.

        Args:
            known: What is known of the file format.
            notes: Notes of the reader.
            digest: The table's digest.
        """
        layout = self.text.layout
        cells, header = self._drop_blanks(self.text.release_cells(), layout.cells)
        second = layout.second_header
        if second is not None:
            second = tuple(second[int(name)] for name in cells.column_names)
        cells = self._drop_repeated_headers(cells, header)
        names, renamed = unique_names(header, second)
        self.notes += renamed
        if second is not None:
            self.notes.append(
                "Row 1 looks like a second header row (units or sub-headings). It is kept here, "
                "and left out of datasets."
            )
        conversion = self._convert(cells, names)
        converted, usual = conversion.columns, conversion.usual
        self._check_stacked_table(converted, cells)
        few = cells.num_rows * cells.num_columns <= MOST_TEXT_CELLS
        kept = [column.combine_chunks() for column in cells.columns] if few else None
        del cells  # frees the memory of the strings before the frame is made
        found, told = mark_missing_numbers(converted, names, self.asked.missing_numbers)
        self.notes += told
        markers = {marker for one in converted for marker in one.markers} | set(found)
        frame = pd.DataFrame(dict(zip(names, (one.values for one in converted), strict=True)))
        for one in converted:  # the frame has copies
            one.values = None
        columns = self._describe(frame, converted, header)
        self._note_cells(columns, converted)
        self._note_ranges(frame)
        self.notes += conversion.notes
        written = known.format.startswith(("csv", "tsv", "text"))
        detected = replace(
            known,
            decimal=usual.decimal if written or usual != NumberFormat() else None,
            thousands=usual.thousands,
            header_row=layout.header_row,
            header_rows=layout.header_rows,
            missing=tuple(sorted(markers)),
            second_header=second is not None,
        )
        self.notes += [
            rounded_note(str(name), one.rounded)
            for name, one in zip(names, converted, strict=True)
            if one.rounded is not None
        ]
        more = (*infinity_notes(frame), *precision_notes(frame))
        asked = question_notes(conversion.questions)
        everything = (*notes, *self.text.notes, *self.notes, *more, *asked)
        questions = tuple(conversion.questions)
        texts = None
        if kept is not None and written:
            decimals = [one.decimal for one in converted]
            texts = cell_texts(frame, kept, self.text.dialect.delimiter, decimals)
        return Table(self.title, frame, columns, everything, detected, digest, questions, texts)

    def _drop_blanks(self, cells: Any, header: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
        """Drop blank rows, then columns without a name and without a cell."""
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
                f"{self.title!r} has a header and no rows below it with a value. Expected "
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

    def _drop_repeated_headers(self, cells: Any, header: tuple[str, ...]) -> Any:
        """Drop rows equal to the header from a table with numeric columns."""
        if self.text.layout.header_row is None or not any(self.text.layout.numeric):
            return cells
        again: Any = None
        for column, name in zip(cells.columns, header, strict=True):
            same = pc.equal(pc.utf8_trim_whitespace(column), name)
            again = same if again is None else pc.and_(again, same)
            if not pc.any(again).as_py():
                return cells
        count = pc.sum(again).as_py()
        if count == cells.num_rows:
            return cells
        times = "once" if count == 1 else f"{count} times"
        self.notes.append(f"The header is repeated {times} among the rows; these were left out.")
        return cells.filter(pc.invert(again))

    def _convert(self, cells: Any, names: Sequence[str]) -> ConvertedTable:
        """Convert all columns."""
        places = {int(name): place for place, name in enumerate(cells.column_names)}
        return TableConversion(
            delimiter=self.text.dialect.shown,
            asked=self.asked.marks,
            chosen=self._chosen(names),
            missing=self.asked.missing,
            headers=int(self.text.layout.second_header is not None),
            stored=frozenset(
                places[place] for place in self.text.stored_numbers if place in places
            ),
        ).convert(cells.columns, names)

    def _chosen(self, names: Sequence[str]) -> dict[int, str]:
        """The decimal marks that the caller chose for columns, by position."""
        places = {name: place for place, name in enumerate(names)}
        for name, mark in self.asked.column_decimals.items():
            if name not in places:
                shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
                raise ConfigError(
                    f"A decimal mark was chosen for the column {name!r}, but {self.title!r} has no "
                    f"such column. It has {shown}."
                )
            if mark not in {*MARKS, TEXT}:
                raise ConfigError(
                    f"The decimal mark of the column {name!r} is {mark!r}. Expected '.' or ',', or "
                    "nothing at all for text."
                )
        return {places[name]: mark for name, mark in self.asked.column_decimals.items()}

    def _check_stacked_table(self, converted: list[ConvertedColumn], cells: Any) -> None:
        """Check for a second table below the first: a row of words in every numeric column."""
        touched = [one for one in converted if one.unparsed]
        numeric = sum(is_numeric(one.values) for one in converted)
        if len(touched) < max(2, numeric):
            return
        counts = np.zeros(cells.num_rows, dtype=np.intp)
        for one in touched:
            counts[one.bad_rows] += 1
        rows = np.flatnonzero(counts == len(touched))
        if rows.size:
            row = int(rows[0])
            written = [column[row].as_py().strip() for column in cells.columns[:4]]
            raise DataError(
                f"{self.title!r} is not one table: row {row + 1} below the header has words "
                f"({', '.join(map(repr, written))}, ...) in every column of numbers, so it looks "
                "like the header of another table stacked below the first. Save the one table you "
                "want as a file of its own."
            )

    def _describe(
        self, frame: pd.DataFrame, converted: list[ConvertedColumn], header: tuple[str, ...]
    ) -> tuple[ColumnDescription, ...]:
        likely = label_like_names([str(name) for name in frame.columns])
        return tuple(
            describe_column(
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

    def _note_cells(
        self, columns: tuple[ColumnDescription, ...], converted: list[ConvertedColumn]
    ) -> None:
        for column in columns:
            if column.unparsed:
                shown = ", ".join(repr(example) for example in column.examples)
                cells = "1 cell is" if column.unparsed == 1 else f"{column.unparsed} cells are"
                self.notes.append(
                    f"Column {column.name!r} holds numbers, but {cells} text ({shown}) and count"
                    f"{'s' if column.unparsed == 1 else ''} as missing."
                )
        for column, one in zip(columns, converted, strict=True):
            if one.unit:
                self.notes.append(
                    f"Every cell of column {column.name!r} has the unit {one.unit!r}; the numbers "
                    "were read without it."
                )
        kept = sum(one.na_answers > 0 for one in converted)
        if kept:
            where = "1 text column" if kept == 1 else f"{kept} text columns"
            self.notes.append(f"'N/A' is kept as a value in {where}, since it can be an answer.")

    def _note_ranges(self, frame: pd.DataFrame) -> None:
        """Note the columns of ranges of which a spreadsheet may have made dates."""
        for name, values in frame.items():
            if values.dtype.kind in "iufbM":
                continue
            day = ranges_as_dates(values)
            if day:
                self.notes.append(
                    f"Column {str(name)!r} has {day!r} among ranges: a spreadsheet may have made a "
                    "date of a range such as 5-9. Its cells are kept as they are in the file."
                )
