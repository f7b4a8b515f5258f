"""Delimited text: the line that tells Excel the delimiter."""

import pytest

from lvmcore.data import read_table
from lvmcore.errors import DataError


@pytest.mark.parametrize(
    ("first", "mark"),
    [
        ("sep=;", ";"),
        ("SEP=,", ","),
        ("sep=\t", "\t"),
        ("sep=|", "|"),
        ("sep=^", "^"),
        ('"sep=;"', ";"),
        ("sep=;;", ";"),
        ("\ufeffsep=;", ";"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_line_of_the_delimiter_is_honoured_and_left_out(
    first: str, mark: str, end: str
) -> None:
    lines = [first, f"a{mark}b", f"1{mark}2.5", f"3{mark}4.5", f"5{mark}6.5"]
    table = read_table((end.join(lines) + end).encode())
    assert table.frame["a"].tolist() == [1, 3, 5]
    assert table.frame["b"].tolist() == [2.5, 4.5, 6.5]
    assert table.detected.delimiter == mark
    assert table.detected.header_row == 0
    assert table.notes == (f"Line 1 was left out: it says that the delimiter is {mark!r}.",)


def test_a_delimiter_that_is_set_goes_before_the_line() -> None:
    table = read_table(b"sep=;\na,b\n1,2\n3,4\n", delimiter=",")
    assert table.frame.to_numpy().tolist() == [[1, 2], [3, 4]]


def test_lines_are_numbered_from_the_line_of_the_delimiter() -> None:
    with pytest.raises(DataError, match="line 4 has 3"):
        read_table(b"sep=,\na,b\n1,2\n3,4,5\n5,6\n")


@pytest.mark.parametrize("first", ["sep=x", "separator=;", "sep=5", "sep="])
def test_another_first_line_stays(first: str) -> None:
    table = read_table(f"{first}\nu\nv\nw\n".encode())
    assert len(table.frame) == 3
    assert not any("delimiter" in note for note in table.notes)
