"""Conversion of all columns of strings, each with its number format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lvmcore.data.number_questions import NumberQuestion, NumberReading
from lvmcore.data.text.cell_conversion import ConvertedColumn, convert_column
from lvmcore.data.text.missing_markers import NUMBER_MARKERS
from lvmcore.data.text.missing_numbers import is_numeric
from lvmcore.data.text.number_format import (
    NumberFormat,
    RequestedMarks,
    TableNumbers,
    decide_numbers,
)
from lvmcore.data.text.number_marks import MARKS, SPACES, ColumnMarks, column_marks

__all__ = ["ConvertedTable", "TableConversion"]

_SAMPLE = 200
_FEW = 10
_MARKED = rf"^[^A-Za-z]*\d[.,'’{SPACES}]\d|^[^A-Za-z]*[.,]\d"
_AMBIGUOUS = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"


@dataclass
class ConvertedTable:
    """The columns after conversion.

    Attributes:
        columns: The columns.
        usual: The number format of most columns.
        questions: The columns whose numbers allow two readings.
        notes: Notes on separators of thousands and on columns with a mark of their own.
    """

    columns: list[ConvertedColumn]
    usual: NumberFormat
    questions: list[NumberQuestion]
    notes: list[str]


@dataclass(frozen=True)
class TableConversion:
    """Converts the columns of a table.

    Attributes:
        delimiter: The delimiter of the table, or None.
        asked: The marks that the caller set.
        chosen: The decimal marks that the caller chose for columns, by position.
        missing: Further markers of missing cells.
        headers: Number of leading cells of a second header row.
        stored: Positions of the columns with numbers that the file stores as numbers.
    """

    delimiter: str | None
    asked: RequestedMarks
    chosen: Mapping[int, str]
    missing: tuple[str, ...]
    headers: int
    stored: frozenset[int]

    def convert(self, cells: Sequence[Any], names: Sequence[str]) -> ConvertedTable:
        """Convert the columns; once more those whose later cells show another number format.

        Args:
            cells: The columns of strings.
            names: Their names.
        """
        marks = [self._marks(column, place in self.stored) for place, column in enumerate(cells)]
        numbers = self._decide(marks)
        columns = [
            self._column(column, one.format)
            for column, one in zip(cells, numbers.columns, strict=True)
        ]
        for place, one in enumerate(columns):
            if place not in self.stored:
                for cell in one.suspects:
                    marks[place].add(cell)
        before, numbers = numbers, self._decide(marks)
        for place, (first, last) in enumerate(zip(before.columns, numbers.columns, strict=True)):
            if first.format != last.format:
                columns[place] = self._column(cells[place], last.format)
        return ConvertedTable(
            columns,
            numbers.usual,
            _questions(numbers, marks, names),
            _notes(numbers, marks, columns, names),
        )

    def _decide(self, marks: Sequence[ColumnMarks]) -> TableNumbers:
        return decide_numbers(marks, self.delimiter, self.asked, self.chosen)

    def _column(self, cells: Any, numbers: NumberFormat | None) -> ConvertedColumn:
        column = convert_column(cells.combine_chunks(), numbers, self.missing, self.headers)
        if numbers is not None:
            column.decimal = numbers.decimal
        return column

    def _marks(self, cells: Any, stored: bool) -> ColumnMarks:
        """The marks in the first cells; in all cells if the first show no decimal mark."""
        below = cells.slice(self.headers)
        sample = self._known(below.slice(0, 5 * _SAMPLE)).slice(0, _SAMPLE)
        marks = column_marks(sample.to_pylist(), stored, _is_cast(sample, pa.float64()))
        if marks.decimal is not None or (len(sample) and not marks.is_numeric):
            return marks
        if _is_cast(sample, pa.int64()) and _is_cast(below, pa.int64()):
            return marks
        marked = self._known(below.filter(pc.match_substring_regex(below, pattern=_MARKED)))
        distinct = pc.unique(marked)
        ambiguous = pc.match_substring_regex(distinct, pattern=_AMBIGUOUS)
        for cell in (
            *distinct.filter(pc.invert(ambiguous)).slice(0, _SAMPLE).to_pylist(),
            *distinct.filter(ambiguous).slice(0, _FEW).to_pylist(),
        ):
            marks.add(cell)
        return marks

    def _known(self, cells: Any) -> Any:
        """The cells that are not missing, stripped."""
        trimmed = pc.utf8_trim_whitespace(cells)
        absent = pc.is_in(trimmed, value_set=pa.array([*NUMBER_MARKERS, *self.missing]))
        return trimmed.filter(pc.invert(absent))


def _is_cast(cells: Any, kind: Any) -> bool:
    """Whether all cells are numbers of an Arrow type."""
    try:
        pc.cast(cells, kind)
    except pa.ArrowInvalid:
        return False
    return True


def _questions(
    numbers: TableNumbers, marks: Sequence[ColumnMarks], names: Sequence[str]
) -> list[NumberQuestion]:
    return [
        NumberQuestion(
            column=name,
            example=one.example,
            readings=(
                NumberReading(one.taken, one.value(one.taken, own)),
                NumberReading(one.other, one.value(one.other, own)),
            ),
            taken=one.taken,
            chosen=one.chosen,
        )
        for name, one, own in zip(names, numbers.columns, marks, strict=True)
        if one.example
    ]


def _notes(
    numbers: TableNumbers,
    marks: Sequence[ColumnMarks],
    columns: Sequence[ConvertedColumn],
    names: Sequence[str],
) -> list[str]:
    """Notes on marks other than a decimal point."""
    usual = numbers.usual.decimal
    groups: dict[str, list[str]] = {}
    unlike = []
    for name, one, own, column in zip(names, numbers.columns, marks, columns, strict=True):
        if one.format is None or one.example or not is_numeric(column.values):
            continue
        separator = own.separator(one.format.decimal)
        if separator is not None:
            groups.setdefault(separator, []).append(name)
        shown = own.decisive.get(one.format.decimal)
        if one.format.decimal != usual and shown and not own.typed:
            unlike.append(
                f"Column {name!r} has the decimal mark {one.format.decimal!r}, unlike the table: "
                f"{shown!r} was read as {float(one.format.plain_text(shown)):.15g}."
            )
    separators = [
        f"{separator!r} separates thousands in column{'s' * (len(grouped) > 1)} "
        f"{', '.join(map(repr, grouped))}."
        for separator, grouped in groups.items()
    ]
    decimal = ["Numbers have the decimal mark ','."] if usual == "," else []
    return [*decimal, *separators, *unlike, *_two_marks(marks, columns, names)]


def _two_marks(
    marks: Sequence[ColumnMarks], columns: Sequence[ConvertedColumn], names: Sequence[str]
) -> list[str]:
    """Notes on columns that stay text as their numbers have both decimal marks."""
    notes = []
    for name, own, column in zip(names, marks, columns, strict=True):
        if len(own.decisive) == len(MARKS) and own.is_numeric and not is_numeric(column.values):
            shown = " and ".join(map(repr, own.decisive.values()))
            notes.append(
                f"Column {name!r} has numbers with both decimal marks, such as {shown}, and is "
                "kept as text. Write them with one mark."
            )
            column.hint = "its cells may be numbers, with two decimal marks"
    return notes
