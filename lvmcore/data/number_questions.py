"""Columns whose numbers can be read in two ways, with the reading that was taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["NumberQuestion", "NumberReading", "known_answers", "question_notes"]

_MOST = 8
_MARKS = {".": "point", ",": "comma"}


@dataclass(frozen=True)
class NumberReading:
    """One reading of a column.

    Attributes:
        decimal: Its decimal mark; "" where the cells stay text.
        value: The example as it is read.
    """

    decimal: str
    value: str


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
    def words(self) -> dict[str, str]:
        """Both readings of the example in words, by their decimal marks.

        "1.234" is "1.234 (decimal point)" or "1234 (point between thousands)".
        """
        mark = next(char for char in reversed(self.example) if char in _MARKS)
        return {
            one.decimal: f"{one.value} "
            + ("(text)" if not one.decimal else _meaning(mark, one.decimal == mark))
            for one in self.readings
        }

    @property
    def note(self) -> str:
        """What was read, and what it could be, in words."""
        words = self.words
        read = f"Column {self.column!r}: {self.example!r} was read as {words.pop(self.taken)}"
        if self.chosen:
            return f"{read}, as chosen."
        (other,) = words.values()
        return f"{read}; it could also be {other}. Choose the decimal mark of the column."


def _meaning(mark: str, is_decimal: bool) -> str:
    word = _MARKS[mark]
    return f"(decimal {word})" if is_decimal else f"({word} between thousands)"


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
