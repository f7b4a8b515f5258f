"""The number format of each column, decided from the marks in all of them."""

import pytest

from lvmcore.data.text.number_format import (
    NumberFormat,
    RequestedMarks,
    TableNumbers,
    decide_numbers,
)
from lvmcore.data.text.number_marks import ColumnMarks, column_marks
from lvmcore.errors import ConfigError


def decide(*columns: str, delimiter: str | None = ";", **chosen: str) -> TableNumbers:
    marks = [column_marks(column.split()) for column in columns]
    by_place = {int(name[1:]): mark for name, mark in chosen.items()}
    return decide_numbers(marks, delimiter, RequestedMarks(), by_place)


@pytest.mark.parametrize(
    ("cell", "decimal", "group"),
    [
        ("0,5", ",", None),
        (".5", ".", None),
        ("1.234,5", ",", "."),
        ("1,234.5", ".", ","),
        ("1'234.5", ".", "'"),
        ("1’234.5", ".", "'"),
        ("1\u202f234,5", ",", " "),
        ("1.234.567", ",", "."),
        ("1,234,567", ".", ","),
        ("0,123", ",", None),
        ("1234,567", ",", None),
        ("12,5 %", ",", None),
        ("CHF 1'234.50", ".", "'"),
        ("−0,5", ",", None),
        ("1 234", None, " "),
        ("12", None, None),
    ],
)
def test_a_cell_shows_its_marks(cell: str, decimal: str | None, group: str | None) -> None:
    marks = column_marks([cell])
    assert marks.numeric == 1
    assert marks.decimal == decimal
    assert marks.separator(decimal or ".") == group


@pytest.mark.parametrize("cell", ["1.234", "1,234", "-120.345", "9.999"])
def test_thousands_or_three_decimals_decide_nothing(cell: str) -> None:
    marks = column_marks([cell])
    assert marks.decimal is None
    assert list(marks.ambiguous.values()) == [cell]


@pytest.mark.parametrize(
    "cell", ["192.168.100.200", "1.2.3", "12.03.2024", "5-9", "z. B.", "1,5,2", ",", "12:30"]
)
def test_what_is_no_number_shows_nothing(cell: str) -> None:
    marks = column_marks([cell])
    assert marks.numeric == 0
    assert not marks.counts


def test_whole_numbers_below_a_thousand_show_that_larger_ones_have_groups() -> None:
    assert column_marks(["1,234", "875", "12"]).decimal == "."
    assert column_marks(["1.234", "875", "12"]).decimal == ","
    assert column_marks(["1,234", "875", "1000"]).decimal is None
    assert column_marks(["1,234", "999", "999"]).decimal is None  # 999 may mean missing
    assert column_marks(["1,234", "5", "12"]).decimal is None


@pytest.mark.parametrize(
    ("columns", "delimiter", "decimal"),
    [
        (("0,5 1,25", "1.2 1.10 2.0"), ";", ","),
        (("0,5 1,25", "1.2 1.10 2.0"), ",", ","),
        (("0,5 1,25", "192.168.100.200 100.101.102.103"), ";", ","),
        (("0.5 1.25", "1,5 2,3 1"), ",", "."),
        (("0.5 1.25", "-0.5 2.5", "1,5 2,5"), ";", "."),
        (("-0,5 1,25", "0.5 2.5"), "\t", ","),
        (("6,718 7,200",), ";", ","),
        (("6,718 7,200",), ",", "."),
        (("6.718 7.200",), ";", "."),
        (("1 2 3",), ";", "."),
    ],
)
def test_the_columns_vote_on_the_decimal_mark(
    columns: tuple[str, ...], delimiter: str, decimal: str
) -> None:
    assert decide(*columns, delimiter=delimiter).usual.decimal == decimal


def test_numbers_that_are_stored_as_such_have_no_vote_and_a_point() -> None:
    stored = ColumnMarks(typed=True)
    for cell in ("1.234", "2.5"):
        stored.add(cell)
    numbers = decide_numbers([stored, column_marks(["0,5"])], None, RequestedMarks())
    assert numbers.usual.decimal == ","
    assert numbers.columns[0].format == NumberFormat(".")
    assert not numbers.columns[0].example


def test_a_column_with_another_mark_is_read_where_it_is_beyond_doubt() -> None:
    numbers = decide("0,5 1,25 -2,5", "-3,5 4,5", "1'234.50 999.90", "1.5 2.25 3.5")
    prices, versions = numbers.columns[2:]
    assert prices.format == NumberFormat(".", "'")
    assert not prices.example
    assert versions.format is None
    assert (versions.example, versions.other) == ("1.5", ".")


def test_a_column_is_settled_by_the_others_only_where_they_show_enough() -> None:
    settled = decide("-0,5 1,25", "1.234 2.345").columns[1]
    assert settled.format == NumberFormat(",", ".")
    assert not settled.example
    asked = decide("2,5 1,25", "1.234 2.345").columns[1]
    assert (asked.example, asked.taken, asked.other) == ("1.234", ",", ".")


def test_a_choice_goes_before_the_table() -> None:
    numbers = decide("-0,5 1,25", "1.234 2.345", "1.5 2.5", c1=".", c2="")
    assert numbers.columns[1].format == NumberFormat(".")
    assert numbers.columns[1].chosen
    assert numbers.columns[2].format is None


@pytest.mark.parametrize(
    ("format_", "cell", "value"),
    [
        (NumberFormat(",", "."), "-1.234.567,25", -1234567.25),
        (NumberFormat(".", "'"), "1’234.5", 1234.5),
        (NumberFormat(",", " "), "1\u00a0234\u202f567,5", 1234567.5),
        (NumberFormat(","), "0,5e-3", 0.0005),
    ],
)
def test_a_cell_is_written_plainly(format_: NumberFormat, cell: str, value: float) -> None:
    assert format_.matches(cell)
    assert float(format_.plain_text(cell)) == value


def test_marks_that_cannot_be_are_refused() -> None:
    for decimal, thousands in ((";", None), (None, "x"), (",", ",")):
        with pytest.raises(ConfigError):
            RequestedMarks(decimal, thousands)
