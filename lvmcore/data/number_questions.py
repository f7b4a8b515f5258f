"""Columns whose numbers can be read in two ways, with the reading that was taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["NumberQuestion", "NumberReading", "known_answers", "question_notes"]

_MOST = 8
_READINGS = {".": "decimal point", ",": "decimal comma", "": "text"}


@dataclass(frozen=True)
class NumberReading:
    """One reading of a column.

    Attributes:
        decimal: Its decimal mark; "" where the cells stay text.
        value: The example as it is read.
    """

    decimal: str
    value: str

    @property
    def words(self) -> str:
        """The reading in words, such as "1234 (decimal comma)"."""
        return f"{self.value} ({_READINGS[self.decimal]})"


@dataclass(frozen=True)
class NumberQuestion:
    """A column whose cells allow two readings.

    Attributes:
        column: Its name.
        example: One of its cells, as written.
        readings: The two readings.
        taken: The decimal mark of the reading that was taken; "" for text.
        chosen: Whether the caller chose it.
    """

    column: str
    example: str
    readings: tuple[NumberReading, NumberReading]
    taken: str
    chosen: bool = False

    @property
    def note(self) -> str:
        """What was read, and what it could be, in words."""
        taken = next(reading for reading in self.readings if reading.decimal == self.taken)
        other = next(reading for reading in self.readings if reading.decimal != self.taken)
        read = f"Column {self.column!r}: {self.example!r} was read as {taken.words}"
        if self.chosen:
            return f"{read}, as chosen."
        return f"{read}; it could also be {other.words}. Choose the decimal mark of the column."


def question_notes(questions: Sequence[NumberQuestion]) -> list[str]:
    """One note a question; of many, the last names the further columns.

    Args:
        questions: The questions.
    """
    notes = [question.note for question in questions[:_MOST]]
    further = [repr(question.column) for question in questions[_MOST:]]
    if further:
        notes.append(f"The same holds for {len(further)} more columns: {', '.join(further)}.")
    return notes


def known_answers(
    questions: Sequence[NumberQuestion], decimals: Mapping[str, str]
) -> dict[str, str]:
    """The decimal marks, by column, that answer the questions of a table as another one was read.

    Args:
        questions: The questions of the table.
        decimals: The decimal marks of the other table's columns; see `Dataset.column_decimals`.
    """
    return {
        question.column: decimals[question.column]
        for question in questions
        if not question.chosen and question.column in decimals
    }
