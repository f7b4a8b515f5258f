"""Detection: delimiter, encoding, numbers, header, titles, names, types, missing cells."""

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import ColumnType, read_table


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(delimiter: str) -> None:
    text = "x,y,name\n1.5,2,a b\n2.5,3,c d\n3.5,4,e f\n".replace(",", delimiter)
    table = read_table(text.encode())
    assert table.detected.delimiter == delimiter
    assert table.frame["x"].tolist() == [1.5, 2.5, 3.5]
    assert table.frame["name"].tolist() == ["a b", "c d", "e f"]


@pytest.mark.parametrize("text", ["x y z\n1  2 3\n 4 5   6 \n7 8 9\n", "1 2 3\n4 5 6.5\n7 8 9\n"])
def test_runs_of_spaces(text: str) -> None:
    table = read_table(text.encode())
    assert table.detected.delimiter == " "
    assert table.frame.shape == (3, 3)
    assert table.frame.iloc[1].tolist()[:2] == [4, 5]


def test_semicolons_with_decimal_commas() -> None:
    table = read_table(b"x;y\n1,5;2,25\n-3,5;4\n")
    assert (table.detected.delimiter, table.detected.decimal) == (";", ",")
    assert table.frame["x"].tolist() == [1.5, -3.5]
    assert table.frame["y"].tolist() == [2.25, 4.0]
    bare = read_table(b"1,5;2,25\n3,5;4,75\n")
    assert bare.frame.to_numpy().tolist() == [[1.5, 2.25], [3.5, 4.75]]


def test_decimal_commas_that_begin_late_in_the_file() -> None:
    rows = "".join(f"{i};{i + 1}\n" for i in range(60_000))
    table = read_table(f"x;y\n{rows}7;0,25\n".encode())
    assert table.detected.decimal == ","
    assert table.frame["y"].iloc[-1] == 0.25
    assert table.column("y").unparsed == 0


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('a,b\n"1,234",1\n"12,345,678",2\n9,3\n', [1234, 12345678, 9]),
        ("a;b\n1.234,5;1\n12.345.678,25;2\n9;3\n", [1234.5, 12345678.25, 9]),
        ("a;b\n1 234;1\n12 345 678;2\n9;3\n", [1234, 12345678, 9]),
        ("a;b\n1'234;1\n12'345'678;2\n9;3\n", [1234, 12345678, 9]),
        ("a\n1,5\n2,5\n0,125\n", [1.5, 2.5, 0.125]),
        ("a\n1e3\n-2.5E-1\n+4\n", [1000, -0.25, 4]),
        ("a,b\n−1,2\n−2.5,3\n4,5\n", [-1, -2.5, 4]),
    ],
)
def test_ways_to_write_numbers(text: str, values: list[float]) -> None:
    assert read_table(text.encode()).frame["a"].tolist() == values


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_unicode(encoding: str) -> None:
    text = "größe,name\n1.5,é\n2.5,ñandú\n3.5,日本\n"
    frame = read_table(text.encode(encoding)).frame
    assert list(frame.columns) == ["größe", "name"]
    assert frame["name"].tolist() == ["é", "ñandú", "日本"]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "mac_roman"])
def test_single_byte_encodings(encoding: str) -> None:
    text = "Länge,Straße,été\n1,Müller,ça va\n2,Jürgen,déjà\n3,Käse,où\n"
    table = read_table(text.encode(encoding))
    assert list(table.frame.columns) == ["Länge", "Straße", "été"]
    assert table.frame["été"].tolist() == ["ça va", "déjà", "où"]
    assert any("not UTF-8" in note for note in table.notes)


def test_other_script() -> None:
    words = "год,город\n" + "".join(f"{i},Москва и Санкт-Петербург\n" for i in range(20))
    assert read_table(words.encode("cp1251")).frame.columns.tolist() == ["год", "город"]


def test_gzip_and_file_objects(tmp_path: Path) -> None:
    content = b"x,y\n1,2\n3,4\n"
    path = tmp_path / "small.csv.gz"
    path.write_bytes(gzip.compress(content))
    table = read_table(path)
    assert table.name == "small"
    assert table.detected.format == "csv (gzip)"
    assert table.frame.equals(read_table(io.BytesIO(content)).frame)


def test_digest_names_content_and_overrides() -> None:
    content = b"x,y\n1,2\n3,4\n"
    assert read_table(content).digest == read_table(content, name="other").digest
    assert read_table(content).digest != read_table(content + b"5,6\n").digest
    assert read_table(content).digest != read_table(content, missing=[4]).digest


def test_title_comments_and_footnotes() -> None:
    text = (
        "Measured in May, by hand\n\n# instrument 7\nx,y,z\n1,2,3\n4,5,6\n\n"
        "Note: values, in mm, are rounded\n* provisional\n"
    )
    table = read_table(text.encode())
    assert table.frame.to_numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert table.detected.header_row == 2
    assert any("titles" in note for note in table.notes)
    assert any("2 footnote rows" in note for note in table.notes)


def test_a_last_row_with_gaps_is_no_footnote() -> None:
    table = read_table(b"state,x,y\nNorth,1,2\nSouth,3,4\nWest,,\n")
    assert table.frame["state"].tolist() == ["North", "South", "West"]


def test_header_options() -> None:
    text = b"junk,line\n,\nu,v\na,b\n1,2\n3,4\n"
    assert list(read_table(text, header=2).frame.columns) == ["a", "b"]
    bare = read_table(b"a,b\nc,d\n", header=False)
    assert bare.frame.shape == (2, 2)
    assert list(bare.frame.columns) == ["column 1", "column 2"]
    assert bare.detected.header_row is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1,2,3\n4,5,6\n7,8,9\n", ["column 1", "column 2", "column 3"]),
        ("0,1,2\n0.5,1.5,2.5\n0.1,0.2,0.3\n", ["0", "1", "2"]),
        ("country,1990,1991,1992\nA,1,2,3\nB,4,5,6\n", ["country", "1990", "1991", "1992"]),
        ("u,v\nv,u\nu,u\nv,v\n", ["column 1", "column 2"]),
        ("size,shape\nbig,round\nsmall,flat\nbig,flat\n", ["size", "shape"]),
    ],
)
def test_whether_there_is_a_header(text: str, names: list[str]) -> None:
    assert list(read_table(text.encode()).frame.columns) == names


def test_row_names_without_a_header_cell() -> None:
    table = read_table(b"mpg cyl disp\nMazda 21 6 160.5\nDatsun 22.8 4 108\nFiat 32.4 4 78.7\n")
    assert list(table.frame.columns) == ["column 1", "mpg", "cyl", "disp"]
    assert table.frame["column 1"].tolist() == ["Mazda", "Datsun", "Fiat"]


def test_names() -> None:
    table = read_table(b'a,,a,"two\n  lines",\n1,2,3,4,\n5,6,7,8,\n')
    assert list(table.frame.columns) == ["a", "column 2", "a (2)", "two lines"]


def test_units_row() -> None:
    table = read_table(b"time,temp\ns,degC\n1,2.5\n2,3.5\n3,4.5\n")
    assert table.detected.second_header
    assert table.frame.shape == (4, 2)
    assert all(column.unparsed == 0 for column in table.columns)
    assert table.dataset().X.tolist() == [[1, 2.5], [2, 3.5], [3, 4.5]]


def test_repeated_header_is_left_out() -> None:
    table = read_table(b"a,b\n1,2\n3,4\na,b\n5,6\n7,8\n")
    assert table.frame["a"].tolist() == [1, 3, 5, 7]
    assert any("repeated once" in note for note in table.notes)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("row", "identifier"), ("case", "identifier"), ("month", "count"), ("Time (s)", "count")],
)
def test_numbers_in_order_are_a_series_where_their_name_is_one(name: str, kind: str) -> None:
    frame = pd.DataFrame({name: np.arange(40), "sold": np.arange(40) % 7 + 0.5})
    (first, _) = read_table(frame.to_csv(index=False).encode()).columns
    assert str(first.type) == kind


def test_types() -> None:
    n = 40
    frame = pd.DataFrame(
        {
            "decimal": np.linspace(-1, 1, n),
            "whole": range(5, 5 + n),
            "flag": [0, 1] * (n // 2),
            "answer": ["yes", "no"] * (n // 2),
            "group": ["a", "b", "c", "d"] * (n // 4),
            "day": pd.date_range("2020-01-01", periods=n).strftime("%d/%m/%Y"),
            "code": [f"{i:04d}" for i in range(n)],
            "sample_id": [1000 + 3 * i for i in range(n)],
            "remark": [f"{'long words ' * 8}{max(i, 3)}" for i in range(n)],
            "class": [0, 1, 2, 3] * (n // 4),
        }
    )
    table = read_table(frame.to_csv(index=False).encode())
    found = {column.name: str(column.type) for column in table.columns}
    assert found == {
        "decimal": "numeric",
        "whole": "count",
        "flag": "binary",
        "answer": "binary",
        "group": "category",
        "day": "date",
        "code": "identifier",
        "sample_id": "identifier",
        "remark": "text",
        "class": "category",
    }
    assert all(column.reason.endswith(".") for column in table.columns)
    assert table.frame["code"].iloc[7] == "0007"
    assert table.frame["day"].iloc[12] == pd.Timestamp("2020-01-13")


def test_ambiguous_dates_stay_text() -> None:
    table = read_table(b"d,x\n01/02/2020,1\n03/04/2020,2\n05/06/2020,3\n")
    assert table.column("d").type is ColumnType.DATE
    assert table.frame["d"].tolist()[0] == "01/02/2020"
    assert "day and month are ambiguous" in table.column("d").reason


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        (["2020-03-04", "2020-12-31"], "2020-03-04"),
        (["2020-03-04 05:06:07", "2020-12-31 00:00:00"], "2020-03-04 05:06:07"),
        (["2020-03-04T10:00:00+02:00", "2020-12-31T00:00:00+01:00"], "2020-03-04 08:00:00"),
        (["03/04/2020", "12/31/2020"], "2020-03-04"),
        (["04.03.2020", "31.12.2020"], "2020-03-04"),
        (["4 Mar 2020", "31 Dec 2020"], "2020-03-04"),
        (["2020/3/4", "2020/12/31"], "2020-03-04"),
    ],
)
def test_dates(cells: list[str], first: str) -> None:
    table = read_table(
        ("d;x\n" + "".join(f"{cell};{i}\n" for i, cell in enumerate(cells))).encode()
    )
    assert table.frame["d"].iloc[0] == pd.Timestamp(first)


@pytest.mark.parametrize(
    "marker", ["", "NA", "N/A", "n/a", "?", "-", "--", "NaN", "null", "None", ".", "#N/A"]
)
def test_missing_markers_among_numbers(marker: str) -> None:
    table = read_table(f"x,y\n1.5,1\n{marker},2\n2.5,3\n".encode())
    assert table.frame["x"].isna().tolist() == [False, True, False]
    assert table.column("x").missing == 1
    assert table.column("x").unparsed == 0
    assert table.detected.missing == (marker,)


def test_markers_in_text() -> None:
    table = read_table(b"answer,x\nyes,1\nN/A,2\n,3\nNA,4\nno,5\nperhaps,6\n")
    assert table.frame["answer"].isna().tolist() == [False, False, True, True, False, False]
    assert any("'N/A' is kept as a value in 1 text column" in note for note in table.notes)


def test_country_codes_keep_na() -> None:
    table = read_table(b"land,x\nDE,1\nFR,2\nNA,3\nZA,4\nIT,5\nES,6\n")
    assert table.frame["land"].tolist()[2] == "NA"


def test_asked_markers() -> None:
    table = read_table(b"a,b\n1,-7\n2,9\n3,nix\n4,5\n5,5.5\n6,6\n", missing=["nix", -7])
    assert table.frame["b"].isna().tolist() == [True, False, True, False, False, False]


def test_sentinel_needs_evidence(rng: np.random.Generator) -> None:
    values = rng.uniform(1, 9, size=(50, 4)).round(2)
    values[:6, :3] = -999.0
    frame = pd.DataFrame(values, columns=list("abcd"))
    sure = read_table(frame.to_csv(index=False).encode())
    assert sum(column.missing for column in sure.columns) == 18
    assert sure.detected.missing == ("-999",)
    only_one = read_table(frame[["a", "d"]].to_csv(index=False).encode())
    assert sum(column.missing for column in only_one.columns) == 0
    assert any("-999 probably means missing" in note for note in only_one.notes)


def test_temperatures_are_no_sentinels(rng: np.random.Generator) -> None:
    values = rng.integers(-20, 30, size=(60, 5))
    table = read_table(pd.DataFrame(values).add_prefix("t").to_csv(index=False).encode())
    assert sum(column.missing for column in table.columns) == 0
    assert not any("missing" in note for note in table.notes)


def test_long_numbers_stay_exact() -> None:
    table = read_table(b"serial,x\n12345678901234567890,1\n12345678901234567891,2\n")
    assert table.frame["serial"].tolist()[1] == "12345678901234567891"


def test_whole_numbers_with_gaps_are_nullable() -> None:
    frame = read_table(b"n,m\n1,5\n,6\n3,7\n").frame
    assert str(frame["n"].dtype) == "Int64"
    assert frame["m"].dtype == np.int64


def test_line_ends_inside_quotes() -> None:
    table = read_table(b'x,words\r\n1,"two\r\nlines"\r\n2,plain\r\n\r\n3,"more, of it"\r\n')
    assert table.frame["words"].tolist() == ["two\r\nlines", "plain", "more, of it"]
    assert any("1 blank line was left out" in note for note in table.notes)


def test_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "x": [1.5, np.nan, 2.5],
            "n": pd.array([1, None, 3], dtype="Int64"),
            "flag": [True, False, True],
            "word": ["a", None, "b"],
            "kind": pd.Categorical(["u", "v", "u"]),
            "when": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
            "lists": [[1], [2, 3], []],
        }
    )
    path = tmp_path / "mixed.parquet"
    frame.to_parquet(path)
    table = read_table(path)
    assert table.detected.format == "parquet"
    assert list(table.frame.columns) == ["x", "n", "flag", "word", "kind", "when"]
    assert table.frame.shape == (3, 6)
    assert table.frame["n"].isna().tolist() == [False, True, False]
    assert table.frame["kind"].tolist() == ["u", "v", "u"]
    assert any("'lists' left out" in note for note in table.notes)
    assert table.dataset().feature_names == ("x", "n", "flag", "kind")


def test_with_types() -> None:
    table = read_table(b"a,b,c\n1,0.5,x\n2,1.5,y\n2,2.5,x\n1,3.5,z\n3,1,z\n").with_types(
        {"a": "category"}
    )
    assert table.column("a").type is ColumnType.CATEGORY
    assert table.dataset().feature_names == ("b",)
