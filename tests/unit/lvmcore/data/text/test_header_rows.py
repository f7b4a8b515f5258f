"""Nested header rows are joined to one name a column; others are not."""

import pytest

from lvmcore.data import read_table
from lvmcore.data.text.header_rows import count_header_rows, is_group_row, joined_names
from lvmcore.data.text.number_format import NumberFormat
from lvmcore.errors import ConfigError, DataError
from tests.unit.lvmcore.data.readers.workbooks import workbook

BODY = "a,1.5,2.5,3,4\nb,1.6,2.7,3,5\nc,1.8,2.8,6,6\n"
BLOOD = ["id", "Blood / Glu", "Blood / Ins", "Urine / pH", "Urine / Vol"]


def names(text: str | bytes, **how: object) -> list[str]:
    content = text if isinstance(text, bytes) else text.encode()
    table = read_table(content, **how)  # type: ignore[arg-type]
    return list(table.frame.columns)


@pytest.mark.parametrize(
    "header",
    [
        ",Blood,,Urine,\nid,Glu,Ins,pH,Vol\n",
        "id,Blood,,Urine,\n,Glu,Ins,pH,Vol\n",
        ",Blood,,Urine\nid,Glu,Ins,pH,Vol\n",
        "A study of blood,,,,\n,,,,\n,Blood,,Urine,\nid,Glu,Ins,pH,Vol\n",
        "A study of blood\n\n,Blood,,Urine,\nid,Glu,Ins,pH,Vol\n",
    ],
)
def test_groups_are_joined_to_the_names_below(header: str) -> None:
    table = read_table((header + BODY).encode())
    assert list(table.frame.columns) == BLOOD
    assert table.detected.header_rows == 2
    assert len(table.frame) == 3
    assert table.dataset().feature_names == tuple(BLOOD[1:])
    assert any("header rows" in note and "'Blood / Glu'" in note for note in table.notes)


def test_three_rows_are_joined() -> None:
    header = ",Blood,,,\n,fasting,,fed,\nid,Glu,Ins,Glu,Ins\n"
    assert names(header + BODY) == [
        "id",
        "Blood / fasting / Glu",
        "Blood / fasting / Ins",
        "Blood / fed / Glu",
        "Blood / fed / Ins",
    ]


def test_groups_may_be_years() -> None:
    found = names(",2020,,2021,\nid,m,f,m,f\n" + BODY)
    assert found == ["id", "2020 / m", "2020 / f", "2021 / m", "2021 / f"]


def test_a_workbook_with_merged_cells_is_read_alike() -> None:
    rows = [
        [None, "Blood", None, "Urine", None],
        ["id", "Glu", "Ins", "pH", "Vol"],
        ["a", 1.5, 2.5, 3, 4],
        ["b", 1.6, 2.7, 3, 5],
        ["c", 1.8, 2.8, 6, 6],
    ]
    assert names(workbook({"s": rows})) == BLOOD


def test_a_row_of_units_without_merged_cells_stays_a_second_header() -> None:
    table = read_table(b"id,height,weight\n,cm,kg\na,150,55\nb,160,66\nc,170,77\n")
    assert list(table.frame.columns) == ["id", "height", "weight"]
    assert table.detected.second_header
    assert table.detected.header_rows == 1


def test_a_long_group_is_a_question_and_no_name() -> None:
    question = "Which of these have you seen during the last year, if any of them"
    table = read_table(f"id,{question},\n,One,Two\na,1,2\nb,2,3\nc,3,4\n".encode())
    assert table.detected.header_rows == 1


def test_a_missing_name_above_numbers_is_no_group() -> None:
    assert names("a,,c\n1,2,3\n4,5,6\n7,8,9\n") == ["a", "column 2", "c"]
    assert names("a,,c\n1,x,3\n4,y,6\n7,z,9\n") == ["a", "column 2", "c"]


def test_the_header_rows_can_be_chosen() -> None:
    text = "id,height,weight\n,cm,kg\na,150,55\nb,160,66\nc,170,77\n"
    assert names(text, header=(0, 1)) == ["id", "height / cm", "weight / kg"]
    assert names(text, header=[0, 1]) == ["id", "height / cm", "weight / kg"]
    assert names("remark\n" + text, header=(1, 2)) == ["id", "height / cm", "weight / kg"]
    assert names(",Blood,,Urine,\nid,Glu,Ins,pH,Vol\n" + BODY, header=1)[1] == "Glu"


@pytest.mark.parametrize("header", [(0, 2), (), (1, 0), (0, 9), (-1, 0)])
def test_header_rows_that_cannot_be_are_refused(header: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="header="):
        read_table(b"a,b\nc,d\n1,2\n3,4\n", header=header)


def test_header_rows_without_data_are_refused() -> None:
    with pytest.raises(DataError, match="no rows below"):
        read_table(b"a,b\nc,d\n", header=(0, 1))


def test_a_group_ends_where_a_group_above_begins() -> None:
    rows = [["", "A", "", "B", ""], ["", "x", "", "", "y"], ["id", "p", "q", "p", "q"]]
    assert joined_names(rows, 5) == ("id", "A / x / p", "A / x / q", "B / p", "B / y / q")


def test_equal_names_one_above_the_other_are_written_once() -> None:
    assert joined_names([["A", "B", ""], ["A", "x", "y"]], 3) == ("A", "B / x", "B / y")


def test_a_second_row_of_numbers_is_no_header() -> None:
    rows = [["a", "", "c"], ["x", "2", "3"], ["y", "4", "5"]]
    assert count_header_rows(rows, (False, True, True), NumberFormat()) == 1


def test_a_title_is_no_row_of_groups() -> None:
    assert is_group_row(["", "Blood"])
    assert is_group_row(["Blood", "", "Urine"])
    assert not is_group_row(["A title", "", ""])
    assert not is_group_row(["A title", "of 2012"])
