"""Tables of several locales are read right, or a notice names the column that may be misread."""

import datetime as dt
import warnings
from typing import Any

import pandas as pd
import pytest

from lvmcore.data import NumberQuestion, Table, read_table
from lvmcore.errors import NumberFormatWarning
from tests.unit.lvmcore.data.readers.locale_tables import TABLES, Column, LocaleTable

#: Columns in which nothing tells two readings apart: a wrong default is no fault, if it is asked.
MAY_BE_ASKED = {"visits", "density", "version"}


def read(written: LocaleTable, **how: Any) -> Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumberFormatWarning)
        return read_table(written.content(), **how)


def is_equal(cell: Any, true: Any) -> bool:
    if true is None or pd.isna(cell):
        return true is None and bool(pd.isna(cell))
    if isinstance(true, str):
        return str(cell) == true
    if isinstance(true, dt.date):
        return isinstance(cell, pd.Timestamp) and cell.date() == true
    return not isinstance(cell, str) and float(cell) == true


def is_right(table: Table, position: int, column: Column, written: LocaleTable) -> bool:
    cells = table.frame.iloc[:, position].tolist()
    if len(cells) != len(column.values):
        return False
    if all(map(is_equal, cells, column.values)):
        return True
    # A date may stay the text that it is in the file: nothing of it is lost.
    as_written = [column.write(value, written.locale) for value in column.values]
    return isinstance(column.values[0], dt.date) and cells == as_written


def question(table: Table, name: str) -> NumberQuestion | None:
    return next((one for one in table.questions if one.column == name), None)


def faults(table: Table, written: LocaleTable) -> list[str]:
    """What is misread, but for columns that a question names."""
    names = list(table.frame.columns)
    if names != written.names:
        return [f"{names} instead of {written.names}"]
    found = []
    for position, (name, column) in enumerate(zip(names, written.columns, strict=True)):
        if is_right(table, position, column, written):
            continue
        asked = question(table, name)
        noted = asked is not None and asked.note in table.notes
        if column.name not in MAY_BE_ASKED or not noted:
            shown = [column.write(value, written.locale) for value in column.values[:3]]
            found.append(f"{name}: {shown} read as {table.frame[name].tolist()[:3]}")
    return found


def test_there_are_enough_tables() -> None:
    assert len(TABLES) >= 200
    assert {table.locale.name.split(",")[0] for table in TABLES.values()} == {
        *("German", "French", "Swiss", "English"),
    }


@pytest.mark.parametrize("name", TABLES)
def test_no_column_is_misread_in_silence(name: str) -> None:
    written = TABLES[name]
    assert faults(read(written), written) == []


@pytest.mark.parametrize("name", TABLES)
def test_the_choices_of_the_asked_columns_read_all_cells_right(name: str) -> None:
    written = TABLES[name]
    asked = {one.column for one in read(written).questions}
    choices = {
        column.name: "" if isinstance(column.values[0], str) else written.locale.decimal
        for column in written.columns
        if column.name in asked
    }
    table = read(written, column_decimals=choices)
    for position, column in enumerate(written.columns):
        assert is_right(table, position, column, written), column.name
    assert all(one.chosen for one in table.questions)


@pytest.mark.parametrize("name", TABLES)
def test_the_marks_of_the_locale_settle_all_numbers(name: str) -> None:
    written = TABLES[name]
    locale = written.locale
    group = " " if locale.group.isspace() else locale.group
    table = read(written, decimal=locale.decimal, thousands=group)
    for position, column in enumerate(written.columns):
        if not isinstance(column.values[0], str):
            assert is_right(table, position, column, written), column.name


def test_ranges_are_neither_dates_nor_dropped_without_a_word() -> None:
    written = TABLES["German, amounts and ranges, ';', bare"]
    table = read(written)
    assert table.column("age").type in {"category", "text"}
    assert "ranges" in table.column("age").reason
    assert any("'age'" in note for note in table.dataset().notes)
