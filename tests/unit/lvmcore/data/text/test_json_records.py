"""JSON: what is no record is refused, and what is lost or changed is told."""

import pytest

from lvmcore.data import read_table
from lvmcore.errors import DataError


@pytest.mark.parametrize("separator", ["\n", ","])
def test_a_name_that_occurs_twice_in_a_record_is_told(separator: str) -> None:
    records = separator.join(
        ['{"a":1,"b":5}', '{"a":1,"a":2,"a":3,"b":6}', '{"a":4,"b":7,"a":5}', '{"c":{"x":1,"x":2}}']
    )
    text, place = (records, "line 2") if separator == "\n" else (f"[{records}]", "entry 2")
    table = read_table(text.encode())
    assert table.frame["a"].tolist()[:3] == [1, 3, 5]
    (note,) = (note for note in table.notes if "more than once" in note)
    assert note == (
        f"The name 'a' occurs more than once in the record at {place}, and so do 1 further ones; "
        "the last value was read."
    )


def test_half_of_a_surrogate_pair_is_told() -> None:
    table = read_table(b'{"a":"\\ud800","b":"?"}\n{"a":"x","b":"\\ud83d\\ude00"}\n')
    assert table.frame["a"].tolist() == ["\ufffd", "x"]
    assert table.frame["b"].tolist() == ["?", "\U0001f600"]
    (note,) = table.notes
    assert note.startswith("Column 'a': 1 cell has half of a surrogate pair")


def test_half_of_a_surrogate_pair_in_a_name_is_told() -> None:
    table = read_table(b'{"a":1,"sam\\ud800ple":2}\n{"a":3,"sam\\ud800ple":4}\n')
    assert list(table.frame.columns) == ["a", "sam\ufffdple"]
    (note,) = table.notes
    assert note.startswith("The name 'sam\ufffdple' has half of a surrogate pair")


def test_half_of_a_surrogate_pair_in_a_given_encoding_is_told() -> None:
    table = read_table(b"a,b\n+2AA-,1\nx,2\n", encoding="utf-7")
    assert table.frame["a"].tolist() == ["\ufffd", "x"]
    assert "1 half of a surrogate pair" in table.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "[1,2,3]",
        "[1,2]\n[3,4]\n[5,6]\n",
        "[\n  1,\n  2,\n  3\n]\n",
        '["a", "b"]\n',
        "[null, 1]",
        "[[1,2],[3,4]]",
        '[{"a":1},5]',
    ],
)
def test_an_array_of_something_else_than_records_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"is JSON, and entry \d is .*Expected records"):
        read_table(text.encode())


def test_an_array_of_nothing_is_refused() -> None:
    with pytest.raises(DataError, match="JSON without a record"):
        read_table(b"[]\n")


@pytest.mark.parametrize("header", ["[id],[name]", "[1],[2]", '["a"],[2]'])
def test_names_in_brackets_begin_a_csv_file(header: str) -> None:
    table = read_table(f"{header}\n1,2\n3,4\n".encode())
    assert table.frame.to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "text", ['[{"a":1},]', '[{"a":1}] x', '[{"a":1}', '[{"a":1} {"a":2}]', '[{"a":1},', '{"a":1} 2']
)
def test_an_array_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="is not a whole JSON value"):
        read_table(text.encode())


def test_an_array_may_have_spaces_anywhere() -> None:
    table = read_table(b' [ {"a":1} ,\n\t{"a" : 2 } ] \r\n')
    assert table.frame["a"].tolist() == [1, 2]
