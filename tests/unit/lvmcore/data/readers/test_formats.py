"""XLSX, JSON lines and NPZ: read as CSV is, as far as that makes sense."""

import datetime as dt
import gzip
import io
import json
import sys
import zipfile
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import ColumnType, propose_label, propose_row_id, read_table
from lvmcore.errors import ConfigError, DataError, UnsupportedError
from tests.unit.lvmcore.data.readers.workbooks import workbook

ROWS = [["name", "x", "n"], ["a", 0.1, 1], ["b", 2.5, 20], ["c", None, 300]]


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def test_workbook() -> None:
    table = read_table(workbook({"Sheet1": ROWS}))
    detected = table.detected
    assert (detected.format, detected.sheet, detected.sheets) == ("xlsx", "Sheet1", ("Sheet1",))
    assert (detected.delimiter, detected.encoding, detected.decimal) == (None, None, None)
    assert detected.header_row == 0
    assert table.frame["name"].tolist() == ["a", "b", "c"]
    assert table.frame["x"].tolist()[:2] == [0.1, 2.5]
    assert table.column("x").missing == 1
    assert table.frame["n"].dtype == np.int64
    assert table.notes == ()


def test_numbers_of_a_workbook_are_exact(rng: np.random.Generator) -> None:
    values = rng.standard_normal((50, 3)) * 10.0 ** rng.integers(-200, 200, size=(50, 3))
    table = read_table(workbook({"s": [["a", "b", "c"], *values.tolist()]}))
    np.testing.assert_array_equal(table.frame.to_numpy(), values)


def test_titles_footnotes_and_markers_in_a_workbook() -> None:
    rows = [
        ["Survey of 2020"],
        [],
        ["place", "size", "weight"],
        ["A", 1.5, "n/a"],
        ["B", "?", 3],
        ["C", 2.5, 4],
        [],
        ["Source: the office"],
    ]
    table = read_table(workbook({"s": rows}))
    assert list(table.frame.columns) == ["place", "size", "weight"]
    assert len(table.frame) == 3
    assert table.frame["size"].isna().tolist() == [False, True, False]
    assert table.frame["weight"].isna().tolist() == [True, False, False]
    assert any("Survey of 2020" in note for note in table.notes)
    assert any("footnote" in note for note in table.notes)


def test_dates_and_truth_in_a_workbook() -> None:
    rows = [
        ["day", "time", "ok", "broken"],
        [dt.date(2020, 1, 31), dt.datetime(2020, 1, 31, 13, 5, 7), True, 1.5],
        [dt.date(2020, 2, 1), dt.datetime(2020, 2, 1, 0, 0, 0), False, "#DIV/0!"],
        [None, dt.datetime(2020, 2, 1, 23, 59, 59), True, 2.5],
    ]
    frame = read_table(workbook({"s": rows})).frame
    assert frame["day"].tolist()[:2] == [pd.Timestamp(2020, 1, 31), pd.Timestamp(2020, 2, 1)]
    assert frame["time"].iloc[0] == pd.Timestamp(2020, 1, 31, 13, 5, 7)
    assert frame["ok"].tolist() == ["true", "false", "true"]
    assert frame["broken"].isna().tolist() == [False, True, False]


def test_text_in_a_workbook_is_kept_as_it_is() -> None:
    rows = [
        ["code", "words"],
        ["007", 'a "quote", two\nlines'],
        ["010", "x;y\tz"],
        ["011", "\n".join("many lines, " * 3 for _ in range(80)).strip()],
    ]
    frame = read_table(workbook({"s": rows})).frame
    assert frame["code"].tolist() == ["007", "010", "011"]
    assert frame["words"].tolist() == [row[1] for row in rows[1:]]


def test_the_first_sheet_that_holds_something_is_read() -> None:
    content = workbook(
        {"Notes": [], "Hidden": ROWS, "Ä & <B>": ROWS[:3], "More": ROWS}, hidden=["Hidden"]
    )
    table = read_table(content)
    assert table.detected.sheet == "Ä & <B>"
    assert table.detected.sheets == ("Hidden", "Ä & <B>", "More")
    assert len(table.frame) == 2
    assert any("'Hidden', 'More'" in note for note in table.notes)
    chosen = read_table(content, sheet="More")
    assert len(chosen.frame) == 3
    assert chosen.digest != table.digest


def test_header_can_be_said_for_a_workbook() -> None:
    content = workbook({"s": [["a", "b"], ["u", "v"], [1, 2], [3, 4]]})
    assert list(read_table(content, header=1).frame.columns) == ["u", "v"]
    assert len(read_table(content, header=False).frame) == 4


def test_a_sheet_that_is_not_there() -> None:
    content = workbook({"one": ROWS, "two": []})
    with pytest.raises(ConfigError, match=r"no sheet 'three'. Its sheets are 'one', 'two'"):
        read_table(content, sheet="three")
    with pytest.raises(DataError, match=r"'two' of 'table' is empty. These hold something: 'one'"):
        read_table(content, sheet="two")


def test_without_the_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'latentboard\[formats\]'"):
        read_table(workbook({"s": ROWS}))


@pytest.mark.parametrize("packed", [False, True])
def test_json_lines(packed: bool) -> None:
    text = (
        '{"name": "a", "x": 0.1, "n": 1, "ok": true, "day": "2020-01-31"}\n'
        '{"name": "b", "x": null, "n": 20, "ok": false}\n\n'
        '{"name": "NA", "x": 1e-300, "n": 9007199254740993, "more": -2.5, "ok": true}\r\n'
    )
    content = text.encode()
    table = read_table(gzip.compress(content) if packed else content)
    assert table.detected.format == ("jsonl (gzip)" if packed else "jsonl")
    assert list(table.frame.columns) == ["name", "x", "n", "ok", "day", "more"]
    assert table.frame["x"].tolist()[::2] == [0.1, 1e-300]
    assert table.frame["n"].tolist() == [1, 20, 9007199254740993]
    assert table.frame["name"].isna().tolist() == [False, False, True]
    assert table.frame["more"].isna().tolist() == [True, True, False]
    assert table.frame["day"].iloc[0] == pd.Timestamp(2020, 1, 31)
    assert table.column("ok").type is ColumnType.BINARY


def test_many_json_lines_with_keys_that_come_and_go() -> None:
    records = [{"i": i, **({"even": i} if i % 2 == 0 else {"odd": -i})} for i in range(4501)]
    records[0] = {"i": 0}
    content = "\n".join(map(json.dumps, records)).encode("utf-16")
    frame = read_table(content).frame
    assert frame["i"].tolist() == list(range(4501))
    assert frame["odd"].dropna().tolist() == [-i for i in range(1, 4501, 2)]
    assert frame["odd"].isna().tolist()[:4] == [True, False, True, False]
    assert frame["even"].dropna().tolist() == list(range(2, 4501, 2))


def test_an_array_of_records() -> None:
    table = read_table(b'[{"a": 1.5, "b": "x"},\n {"a": 2.5, "b": "y"}]')
    assert table.detected.format == "json"
    assert table.frame["a"].tolist() == [1.5, 2.5]


def test_nested_values_are_left_out_with_a_note() -> None:
    table = read_table(b'{"a": 1.5, "b": [1], "c": 1}\n{"a": 2.5, "b": {}, "c": [2]}\n')
    assert list(table.frame.columns) == ["a", "c"]
    assert any("'b' left out: its cells are lists or records" in note for note in table.notes)
    assert any("'c': 1 cell is a list or a record" in note for note in table.notes)


def test_npz() -> None:
    X = np.array([[1.5, 2.0], [np.nan, 4.0], [5.0, 6.0]], dtype=np.float32)
    table = read_table(
        npz(
            X=X,
            y=np.array(["u", "", "v"]),
            feature_names=np.array(["height", "weight"]),
            row_ids=np.array(["r1", "r2", "r3"]),
            other=np.zeros(7),
        )
    )
    assert table.detected.format == "npz"
    assert list(table.frame.columns) == ["row_id", "height", "weight", "y"]
    assert table.frame["height"].isna().tolist() == [False, True, False]
    assert table.frame["y"].isna().tolist() == [False, True, False]
    assert propose_row_id(table) == "row_id"
    assert any("'other'" in note for note in table.notes)


def test_npz_of_the_matrix_alone() -> None:
    X = np.arange(300, dtype=np.uint8).reshape(100, 3)
    table = read_table(npz(X=X))
    assert list(table.frame.columns) == ["x1", "x2", "x3"]
    assert (table.frame.to_numpy() == X).all()
    labels = np.repeat([1, 2], 50)
    assert propose_label(read_table(npz(X=X, labels=labels))) == "labels"
    assert read_table(npz(X=X, y=labels[:, None])).frame["y"].tolist() == labels.tolist()


def test_npz_of_pictures_in_colour() -> None:
    x = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3)).astype(np.uint8)
    table = read_table(npz(x=x, y=np.array(["a", "b"] * 3)))
    assert list(table.frame.columns[:4]) == [
        *("pixel_0_0_red", "pixel_0_0_green", "pixel_0_0_blue", "pixel_0_1_red")
    ]
    assert table.frame["pixel_3_2_green"].tolist() == x[:, 3, 2, 1].tolist()
    assert "in colour of 4 × 5 pixels" in table.notes[0]
    dataset = table.dataset(label="y")
    assert dataset.image_shape == (4, 5, 3)
    assert (dataset.X.reshape(x.shape) == x).all()
    fewer = table.dataset(features=list(table.frame.columns[3:-1]))
    assert fewer.image_shape is None


@pytest.mark.parametrize("shape", [(6, 4, 5), (6, 4, 5, 1)])
def test_npz_of_grey_pictures(shape: tuple[int, ...]) -> None:
    X = np.random.default_rng(0).random(shape)
    table = read_table(npz(X=X, feature_names=np.array(["a"]), y=np.arange(6) % 2))
    assert list(table.frame.columns) == [
        *(f"pixel_{row}_{column}" for row in range(4) for column in range(5)),
        "y",
    ]
    assert "grey pictures of 4 × 5 pixels" in table.notes[0]
    assert "not by 'feature_names'" in table.notes[0]
    dataset = table.dataset(label="y")
    assert dataset.image_shape == (4, 5)
    assert (X.reshape(6, -1) == dataset.X).all()


def test_large_numbers_in_npz_pictures_have_a_note() -> None:
    X = np.ones((3, 2, 2), dtype=np.uint64)
    X[1, 1, 0] = 2**60
    notes = read_table(npz(X=X)).notes
    assert any(note.startswith("Column 'pixel_1_0'") and "row 2" in note for note in notes)


def test_matrices_in_npz_files_are_not_taken_for_pictures() -> None:
    table = read_table(npz(X=np.random.default_rng(0).random((5, 12 * 16 * 3))))
    assert table.dataset().image_shape is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"data": np.zeros((2, 2))}, r"holds the arrays 'data', and none called 'X'"),
        ({"X": np.zeros((2, 3, 4, 3, 1))}, r"has 5 dimensions \(2 x 3 x 4 x 3 x 1\)"),
        ({"X": np.zeros((2, 3, 4, 2))}, r"pictures of 2 channels \(2 x 3 x 4 x 2\). Expected 1"),
        ({"X": np.zeros((2, 8, 8, 4))}, r"4 channels .* Leave the opacity out: X\[..., :3\]"),
        ({"x": np.zeros((2, 3, 8, 9))}, r"of 9 channels .* numpy.moveaxis\(x, 1, -1\)"),
        ({"x": np.zeros((2, 0, 8))}, r"'x' of 'table' is empty \(2 x 0 x 8\)"),
        ({"X": np.zeros(3)}, "has 1 dimensions"),
        ({"X": np.zeros((0, 3))}, r"is empty \(0 x 3\)"),
        ({"X": np.array([["a", "b"]])}, "Expected real numbers"),
        ({"X": np.ones((2, 2), dtype=complex)}, "Expected real numbers"),
        ({"X": np.array([[1, "a"]], dtype=object)}, "Python objects, which are not loaded"),
        ({"X": np.ones((2, 2)), "y": np.array([1, None], dtype=object)}, "'y'.*Python objects"),
        ({"X": np.ones((2, 2)), "y": np.ones(3)}, r"'y' of 'table' has the shape 3, and X has 2"),
        ({"X": np.ones((2, 2)), "feature_names": np.array(["a"])}, "X has 2 columns"),
        ({"X": np.zeros((1, 20_001))}, "20,001 columns, more than the 20,000"),
    ],
)
def test_npz_that_does_not_fit(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_table(npz(**arrays))


def test_npz_whose_header_lies_about_its_size() -> None:
    member = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**2)}
    np.lib.format.write_array_header_1_0(member, header)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("X.npy", member.getvalue() + bytes(80))
    with pytest.raises(DataError, match="damaged or cut off"):
        read_table(content.getvalue())


@pytest.mark.parametrize(
    ("text", "marks", "values"),
    [
        ('a,b\n"1,234",1\n"2,345",2\n', {"thousands": ","}, [1234, 2345]),
        ("a;b\n1.234;1\n2.345;2\n", {"thousands": "."}, [1234, 2345]),
        ("a;b\n1.234;1\n2.345;2\n", {"thousands": ""}, [1.234, 2.345]),
        ("a;b\n1,234;1\n2,345;2\n", {"thousands": ","}, [1234, 2345]),
        ("a;b\n1'234;1\n2'345,5;2\n", {"thousands": "'", "decimal": ","}, [1234, 2345.5]),
    ],
)
def test_thousands_can_be_said(text: str, marks: dict[str, str], values: list[float]) -> None:
    table = read_table(text.encode(), **marks)  # type: ignore[arg-type]
    assert table.frame["a"].tolist() == values


@pytest.mark.parametrize("marks", [{"thousands": "x"}, {"thousands": ",", "decimal": ","}])
def test_thousands_out_of_range(marks: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="thousands"):
        read_table(b"a,b\n1,2\n", **marks)  # type: ignore[arg-type]
