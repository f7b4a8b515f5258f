"""Choice between two readings of the numbers of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import streamlit as st

from app.formatting import count, markdown, shortened
from app.state.choices import FileSource, ReadingChoices
from app.state.widgets import widget_key, widget_value
from lvmcore.data import NumberQuestion, Table

__all__ = ["number_choices"]

#: Most columns that are asked at a time.
_MOST = 5
_MARKS = {".": "a decimal point", ",": "a decimal comma", "": "text"}

#: Reads a file with other options.
Read = Callable[[FileSource, ReadingChoices], None]


def number_choices(upload: FileSource, table: Table, reading: ReadingChoices, read: Read) -> None:
    """Draw the columns whose numbers allow two readings, with both, and take the choice.

    Args:
        upload: the file.
        table: the table as it is read now.
        reading: the current reading choices.
        read: reads the upload with other options.
    """
    open_ones = [question for question in table.questions if not question.chosen]
    chosen = [question for question in table.questions if question.chosen]
    if open_ones:
        with st.container(border=True):
            columns = count(len(open_ones), "column")
            st.warning(
                f"The numbers of {columns} can be read in two ways. Choose the right one: a wrong "
                "decimal mark changes the data."
            )
            if len(open_ones) > 1:
                _choose_all(open_ones, upload, table, reading, read)
            for question in open_ones[:_MOST]:
                _choose(question, upload, table, reading, read)
            if len(open_ones) > _MOST:
                further = count(len(open_ones) - _MOST, "more column")
                st.caption(f"{further} will be asked next.")
    if chosen:
        title = f"Decimal marks that were chosen ({count(len(chosen), 'column')})"
        with st.expander(title):
            for question in chosen[:_MOST]:
                _choose(question, upload, table, reading, read)
            if len(chosen) > _MOST:
                st.caption(f"{count(len(chosen) - _MOST, 'more column')} are not shown.")


def _choose(
    question: NumberQuestion, upload: FileSource, table: Table, reading: ReadingChoices, read: Read
) -> None:
    """The two readings of one column; without a choice, the one that was taken is named."""
    key = widget_key("data", "decimal", table.digest, question.column)
    words = question.words
    now = "" if question.chosen else f", now read as {words[question.taken]}"
    st.radio(
        markdown(f"{shortened(question.column, 60)}: the file has “{question.example}”{now}"),
        list(words),
        index=list(words).index(question.taken) if question.chosen else None,
        format_func=lambda decimal: markdown(words[decimal]),
        horizontal=True,
        key=key,
        on_change=_handle_choice,
        args=(key, question.column, upload, reading, read),
        help="The choice applies to the whole column and is kept with the dataset.",
    )


def _choose_all(
    questions: Sequence[NumberQuestion],
    upload: FileSource,
    table: Table,
    reading: ReadingChoices,
    read: Read,
) -> None:
    """A button for each decimal mark that several columns can have."""
    with st.container(horizontal=True):
        for mark, words in _MARKS.items():
            columns = [
                question.column
                for question in questions
                if any(one.decimal == mark for one in question.readings)
            ]
            if len(columns) > 1:
                st.button(
                    f"{words[2:].capitalize() if mark else 'Text'} in {len(columns)} columns",
                    key=widget_key("data", "decimals", table.digest, mark),
                    on_click=_read_with,
                    args=(dict.fromkeys(columns, mark), upload, reading, read),
                    help="Reads all columns that allow it in this way.",
                )


def _handle_choice(
    key: str, column: str, upload: FileSource, reading: ReadingChoices, read: Read
) -> None:
    mark = widget_value(key)
    if mark is not None:
        _read_with({column: mark}, upload, reading, read)


def _read_with(
    marks: dict[str, str], upload: FileSource, reading: ReadingChoices, read: Read
) -> None:
    """Read the file with further decimal marks of columns."""
    together = dict(reading.column_decimals or ()) | marks
    read(upload, replace(reading, column_decimals=tuple(together.items())))
