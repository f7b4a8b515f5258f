"""Columns of ranges are text, and what a spreadsheet made of them is named."""

import datetime as dt

import pytest

from lvmcore.data import ColumnType, propose_row_id, read_table
from tests.unit.lvmcore.data.readers.workbooks import workbook

AGES = ("0-4", "5-9", "10-14", "15-19")


@pytest.mark.parametrize(
    "cells",
    [
        AGES,
        ("0–4", "5–9", "10–14", "15–19"),
        ("0 - 4", "5 - 9", "10 - 14", "15+"),
        ("<5", "5-9", "10-14", ">=15"),
        ("1-2", "3-4", "5-6", "7-8"),
        ("2019-2020", "2020-2021", "2021-2022", "2022-2023"),
        ("01-02", "03-04", "05-06", "07-08"),
        ("0.5-1.5", "1.5-2.5", "2.5-3.5", "3.5-4.5"),
    ],
)
@pytest.mark.parametrize("times", [1, 3])
def test_ranges_stay_text(cells: tuple[str, ...], times: int) -> None:
    lines = "".join(f"{cell},{i}.5\n" for i, cell in enumerate(cells * times))
    table = read_table(f"age,x\n{lines}".encode())
    assert table.frame["age"].tolist() == list(cells * times)
    described = table.column("age")
    assert described.type is (ColumnType.TEXT if times == 1 else ColumnType.CATEGORY)
    assert "ranges" in described.reason
    assert propose_row_id(table) is None
    assert any("'age' left out" in note for note in table.dataset().notes)


@pytest.mark.parametrize(
    "dates", [("05-Sep", "Oct-14"), ("05. Sep", "10. Okt"), ("05-sept", "10-oct"), ("5-Sep",)]
)
def test_dates_among_ranges_are_named(dates: tuple[str, ...]) -> None:
    cells = (AGES[0], *dates, *AGES[3:])
    lines = "".join(f"{cell},{i}.5\n" for i, cell in enumerate(cells))
    table = read_table(f"age,x\n{lines}".encode())
    assert table.frame["age"].tolist() == list(cells)
    assert any("'age'" in note and repr(dates[0]) in note for note in table.notes)
    assert table.column("age").type is ColumnType.TEXT


def test_dates_among_the_ranges_of_a_workbook_are_named() -> None:
    rows = [["age", "x"], ["0-4", 1.5], [dt.date(2024, 9, 5), 2.5], ["10-14", 3.5], ["15-19", 4.5]]
    table = read_table(workbook({"s": rows}))
    assert table.column("age").type is ColumnType.TEXT
    assert any("'age'" in note and "2024-09-05" in note for note in table.notes)


def test_dates_alone_and_words_with_ranges_are_not_named() -> None:
    for cells in (("05-Sep", "06-Oct", "07-Oct"), ("5-9", "05-Sep", "unknown")):
        lines = "".join(f"{cell},{i}.5\n" for i, cell in enumerate(cells))
        table = read_table(f"age,x\n{lines}".encode())
        assert not any("made a date" in note for note in table.notes)
