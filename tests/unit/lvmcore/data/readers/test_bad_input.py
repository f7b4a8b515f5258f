"""What is no table, or barely one: read rightly, or refused with the reason."""

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import ColumnType, read_table
from lvmcore.errors import ConfigError, DataError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n\t\n", "is empty"),
        (b"\xef\xbb\xbf", "only blank lines"),
        (b",,,\n,,\n", "only blank lines"),
        (b"a,b,c\n", r"has a header \('a, b, c'\) and no rows below it"),
        (b"a,b,c\n,,\n", "no rows below it"),
        (PNG, "is a PNG image"),
        (gzip.compress(PNG, mtime=0), "is a PNG image"),
        (b"PK\x03\x04" + b"\x00" * 50, "begins like a workbook or ZIP archive.*damaged or cut off"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 50, "old Excel workbook"),
        (b"%PDF-1.7\n", "PDF"),
        (b"\x89HDF\r\n\x1a\n" + b"\x00" * 20, "HDF5"),
        (b'{"a": [1, 2]}', "JSON"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"a,b\n1,2\n" + b"\x00" * 30, "not a text file"),
        (bytes(range(256)) * 40, "not a text file"),
        (gzip.compress(b"a,b\n1,2\n" * 500, mtime=0)[:-12], "damaged or cut off"),
        (gzip.compress(gzip.compress(b"a,b\n1,2\n", mtime=0), mtime=0), "gzip inside a gzip"),
        (gzip.compress(b"", mtime=0), "nothing in it"),
        (b"PAR1" + b"\x00" * 40, "damaged or cut off"),
    ],
)
def test_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_table(content)


def test_png_renamed_csv(tmp_path: Path) -> None:
    path = tmp_path / "measurements.csv"
    path.write_bytes(PNG)
    with pytest.raises(DataError, match=r"'measurements' is a PNG image, whatever its name says"):
        read_table(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no file"):
        read_table(tmp_path / "absent.csv")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path)


def test_text_file_object() -> None:
    with pytest.raises(DataError, match="binary mode"):
        read_table(io.StringIO("a,b\n1,2\n"))  # type: ignore[arg-type]


def test_gzip_bomb_is_refused_early(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b"0,0\n" * (1 << 26))
    unpacked = 0
    read = gzip.GzipFile.read

    def counting(self: gzip.GzipFile, size: int | None = -1) -> bytes:
        nonlocal unpacked
        chunk = read(self, size)
        unpacked += len(chunk)
        return chunk

    monkeypatch.setattr(gzip.GzipFile, "read", counting)
    with pytest.raises(DataError, match="not unpacked further"):
        read_table(bomb)
    assert unpacked < 1 << 27


def test_size_cap() -> None:
    content = b"a,b\n" + b"1,2\n" * 1000
    with pytest.raises(DataError, match="larger than"):
        read_table(content, max_bytes=1000)
    with pytest.raises(DataError, match="larger than"):
        read_table(gzip.compress(content), max_bytes=1000)


def test_one_huge_line() -> None:
    with pytest.raises(DataError, match="one line"):
        read_table(b"1.5,2.5," * 6_000_000)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b,c\n1,2,3\n3,4,5,6\n7,8,9\n", r"line 3 has 4\. Expected 3 cells.*as the header has"),
        (b"a,b,c\n1,2\n3,4,5,6\n7,8,9\n", r"line 2 has 2, line 3 has 4"),
        (b"a,b,c\n" + b"1,2,3\n4,5\n" * 6, "line 3 has 2"),
        (b"a,b\n1,2\n3,4\n\nc,d,e\n5,6,7\n8,9,1\n", "several stacked under each other"),
        (b"a,b\n1,2\n3,4\n\nc,d\n5,6\n7,8\n", "header of another table stacked below"),
    ],
)
def test_ragged_and_stacked(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_table(content)


def test_a_row_that_ends_early_is_filled_up_and_noted() -> None:
    table = read_table(b"a,b,c\n1,2,3\n3,4\n7,8,9\n")
    assert table.frame["c"].isna().tolist() == [False, True, False]
    assert any("the first at line 3 with 2 of 3 cells" in note for note in table.notes)


def test_empty_cells_beyond_the_last_column_are_cut() -> None:
    table = read_table(b"a,b\n1,2\n3,4,,\n5,6\n")
    assert table.frame.to_numpy().tolist() == [[1, 2], [3, 4], [5, 6]]


def test_open_quotation_mark() -> None:
    rows = "".join(f'{i},"text {i}",{i}\n' for i in range(30))
    broken = rows.replace('"text 20"', '"text 20')
    with pytest.raises(DataError, match="do not pair up in the row that begins at line 22"):
        read_table(("n,words,m\n" + broken).encode())


def test_open_quotation_mark_in_the_last_rows() -> None:
    rows = "".join(f'{i},"text {i}",{i}\n' for i in range(30))
    broken = rows + '30,"text,30\n31,text,31\n32,text,32\n'
    with pytest.raises(DataError, match="do not pair up in the row that begins at line 32"):
        read_table(("n,words,m\n" + broken).encode())


def test_all_missing_and_constant_columns_are_kept() -> None:
    table = read_table(b"x,gone,same\n1.5,,7\n2.5,NA,7\n3.5,,7\n")
    assert list(table.frame.columns) == ["x", "gone", "same"]
    assert table.column("gone").missing == 3
    assert table.column("same").distinct == 1
    assert "constant" in table.column("same").reason
    dataset = table.dataset()
    assert dataset.feature_names == ("x", "same")
    assert dataset.notes == ("Column 'gone' left out: every cell is missing.",)


def test_one_row() -> None:
    table = read_table(b"a,b\n1,x\n")
    assert table.frame.shape == (1, 2)
    assert table.dataset().X.tolist() == [[1.0]]


def test_only_text() -> None:
    table = read_table(b"a,b\nx,y\nz,w\nx,y\n")
    with pytest.raises(DataError, match="'words' has no feature column"):
        read_table(b"a,b\nx,y1\nz,y2\nq,y3\n", name="words").dataset()
    assert table.column("a").type is ColumnType.BINARY


def test_text_where_numbers_should_be() -> None:
    table = read_table(b"id,size\n1,big\n2,small\n3,12\n4,tiny\n")
    with pytest.raises(DataError, match=r"Column 'size' cannot be a feature: row 1 has 'big'"):
        table.dataset(features=["size"])


def test_text_among_numbers_becomes_missing_and_is_counted() -> None:
    table = read_table(b"x\n" + b"1.5\n2.5\n3.5\n4.5\n" * 3 + b"trace\n")
    column = table.column("x")
    assert (column.type, column.unparsed, column.examples) == (ColumnType.NUMERIC, 1, ("trace",))
    assert table.frame["x"].isna().tolist() == [False] * 12 + [True]


def test_infinities_stay_in_the_frame_and_leave_the_dataset() -> None:
    table = read_table(b"a,b\n1,0.5\n2,inf\n3,1.5\n4,-Infinity\n5,2.5\n")
    assert np.isinf(table.frame["b"]).sum() == 2
    assert any("'b' has 2 infinite values, the first in row 2" in note for note in table.notes)
    dataset = table.dataset()
    assert dataset.rows.tolist() == [0, 2, 4]
    assert dataset.row_ids.tolist() == ["1", "3", "5"]
    assert "2 rows left out: infinite value in column 'b' (first at row 2)." in dataset.notes
    with pytest.raises(DataError, match="No row"):
        read_table(b"a,b\n1,inf\n2,inf\n").dataset()


@pytest.mark.parametrize(
    "options", [{"delimiter": ";;"}, {"decimal": "'"}, {"header": 9}, {"header": -1}]
)
def test_settings_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        read_table(b"a,b\n1,2\n3,4\n", **options)  # type: ignore[arg-type]


def test_wrong_encoding() -> None:
    with pytest.raises(DataError, match="is not ascii text"):
        read_table("a,b\né,2\n".encode(), encoding="ascii")
    with pytest.raises(DataError, match="no encoding called"):
        read_table(b"a,b\n1,2\n", encoding="klingon")


def test_damaged_parquet() -> None:
    buffer = io.BytesIO()
    pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(buffer)
    with pytest.raises(DataError, match="damaged or cut off"):
        read_table(buffer.getvalue()[:-20])


@pytest.mark.parametrize("content", [b"", PNG, b"a,b\n"])
def test_a_table_that_is_given_a_name_is_called_so(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^'measurements' "):
        read_table(content, name="measurements")
