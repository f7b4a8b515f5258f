"""Filled tables: observed cells as in the file, filled ones in the form of their column."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import Dataset, Table, read_table, read_table_sandboxed
from lvmcore.data.cell_texts import CellTexts, cell_texts
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.errors import DataError
from lvmcore.export.filled_table import ImputedFeature, fill_table
from lvmcore.export.tables import safe_text

FILE = """code;year;dose;price;mass;kind;sick;level;flag;when;note
001;1 990;1,50;€ 2,5;5 kg;x;yes;1;10;01.02.2015;=A1
002;NA;;;;;;;;02.02.2015;"a; b"
003;2 001;2,25;€ 3,0;7 kg;y;no;3;12;;NA
004;1 995;-3,00;€ 1,0;6 kg;x;no;2;11;04.02.2015;" c "
"""


def with_gap(value: float, sd: float = 0.5, row: int = 1, n: int = 4) -> ImputedFeature:
    """A feature of which one cell was imputed."""
    values, imputed = np.zeros(n), np.zeros(n, dtype=bool)
    values[row], imputed[row] = value, True
    return ImputedFeature(values, np.where(imputed, sd, 0.0), imputed)


def dataset_of(source: str) -> Dataset:
    table = read_table(source.encode(), delimiter=";", decimal=",", thousands=" ")
    features = ["year", "dose", "price", "mass", "sick", "level", "flag"]
    table = table.with_types({"kind": "category"})
    return table.dataset(features=features, one_hot=["kind"], row_id="code")


@pytest.mark.parametrize("stored", [False, True])
def test_a_filled_number_has_the_decimal_mark_of_its_own_column(
    tmp_path: Path, stored: bool
) -> None:
    source = "id;dose;ratio\na;-0,5;-0.25\nb;;\nc;1,5;1.75\nd;-2,5;-3.25\n"
    table = (read_table_sandboxed if stored else read_table)(source.encode())
    dataset = table.dataset(features=["dose", "ratio"], row_id="id")
    if stored:
        dataset = load_dataset(save_dataset(dataset, tmp_path / "kept"))
    filled = fill_table(dataset, {"dose": with_gap(0.52), "ratio": with_gap(0.777)})
    lines = filled.csv().decode().split()
    assert lines == ["id;dose;ratio", "a;-0,5;-0.25", "b;0,5;0.78", "c;1,5;1.75", "d;-2,5;-3.25"]


def test_filled_cells_take_the_form_of_their_column(tmp_path: Path) -> None:
    dataset = dataset_of(FILE)
    features = {
        "year": with_gap(1993.6),
        "dose": with_gap(-1.238, sd=0.25),
        "price": with_gap(2.71828),
        "mass": with_gap(5.6),
        "sick": with_gap(0.7),
        "level": with_gap(7.9),
        "flag": with_gap(10.2),
        "kind = x": with_gap(0.2),
        "kind = y": with_gap(0.6),
    }
    for one in (dataset, load_dataset(save_dataset(dataset, tmp_path / "kept"))):
        filled = fill_table(one, features)
        before = list(csv.reader(io.StringIO(FILE), delimiter=";"))
        after = list(csv.reader(io.StringIO(filled.csv().decode(), newline=""), delimiter=";"))
        assert before[1].pop() == "=A1"
        assert after[1].pop() == "'=A1"  # no spreadsheet runs it
        assert after[:2] == before[:2]
        assert after[3:] == before[3:]
        # Whole numbers are rounded, without a space among their digits, within what was observed.
        assert after[2] == [
            *("002", "1994", "-1,24", "€ 2,7", "6 kg", "y", "yes", "3", "10", "02.02.2015", "a; b")
        ]
        assert set(filled.imputed) == {*("year", "dose", "price", "mass"), *before[0][5:9]}
        assert all(mask.tolist() == [False, True, False, False] for mask in filled.imputed.values())
        assert filled.frame["year"].tolist() == [1990, 1994, 2001, 1995]
        assert filled.frame["dose"][1] == -1.238
        details = filled.typed(details=True)
        assert list(details)[:11] == before[0]
        assert details["dose sd"].tolist()[1] == 0.25
        assert np.isnan(details["dose sd"][0])
        assert details["kind probability"][1] == pytest.approx(0.75)
        assert details["sick probability"][1] == pytest.approx(0.7)
        with_details = filled.csv(details=True).decode().splitlines()
        assert with_details[0].startswith(";".join(before[0]) + ";year sd;year imputed;")


def test_rows_that_were_not_imputed_stay_as_they_are() -> None:
    dataset = dataset_of(FILE)
    filled = fill_table(dataset, {"dose": with_gap(5.0, row=0, n=2)}, np.array([1, 3]))
    assert filled.texts["dose"] == ["1,50", "5,00", "2,25", "-3,00"]
    assert filled.imputed["dose"].tolist() == [False, True, False, False]
    with pytest.raises(DataError, match="'dose' has 2 cells; expected 4"):
        fill_table(dataset, {"dose": with_gap(5.0, row=0, n=2)})


def test_a_table_without_texts_is_written_from_its_values() -> None:
    frame = pd.DataFrame(
        {
            "x": [1.5, np.nan, 2.25, 1e-9],
            "n": pd.array([1, None, 3, 4], dtype="Int64"),
            "on": [True, False, True, True],
            "day": pd.to_datetime(["2015-02-01", "2015-02-02", None, "2015-02-04"]),
            "text": ["a", "b", None, "=d"],
        }
    )
    dataset = Table.from_frame(frame, name="values").dataset(features=["x", "n", "on"])
    filled = fill_table(dataset, {"x": with_gap(1.23456789), "n": with_gap(2.6)})
    assert filled.csv().decode().splitlines() == [
        "x,n,on,day,text",
        "1.5,1,True,2015-02-01,a",
        "1.23457,3,False,2015-02-02,b",
        "2.25,3,True,,",
        "1e-09,4,True,2015-02-04,'=d",
    ]


def test_texts_are_kept_where_they_are_not_how_values_are_written(tmp_path: Path) -> None:
    source = b"a,b,c\n1,1.50,x\n2,2.25,y\n3,NA,z\n"
    table = read_table_sandboxed(source)
    assert table.texts is not None
    assert {name: one.to_pylist() for name, one in table.texts.columns.items()} == {
        "b": ["1.50", "2.25", "NA"]
    }
    dataset = table.dataset(features=["a", "b"])
    kept = dataset.subset(np.array([2, 0])).texts
    assert kept is not None
    assert kept.columns["b"].to_pylist() == ["NA", "1.50"]
    plain = Table.from_frame(table.frame, name="table").dataset(features=["a", "b"])
    assert plain.texts is None
    assert plain.digest == dataset.digest  # the texts are part of no digest
    assert load_dataset(save_dataset(plain, tmp_path / "plain")).texts is None
    saved = save_dataset(dataset, tmp_path / "texts")
    (saved / "texts.parquet").unlink()
    with pytest.raises(DataError, match=r"texts\.parquet is not there"):
        load_dataset(saved)


def test_texts_of_a_large_table_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lvmcore.data.cell_texts.MOST_TEXT_CELLS", 3)
    assert cell_texts(pd.DataFrame({"a": [1, 2, 3, 4]}), [], ",", ".") is None
    monkeypatch.setattr("lvmcore.data.text.assembly.MOST_TEXT_CELLS", 3)
    assert read_table(b"a,b\n1,1.50\n2,2.50\n").texts is None
    assert CellTexts().columns == {}


@pytest.mark.parametrize(
    ("text", "number", "written"),
    [
        ("-3,00", True, "-3,00"),
        ("+5 kg", True, "+5 kg"),
        ("-1 234.5", True, "-1 234.5"),
        ("-3,00", False, "'-3,00"),
        ("=1+1", True, "'=1+1"),
        ("-1+cmd|' /C calc'!A0", True, "'-1+cmd|' /C calc'!A0"),
        ("@SUM(A1)", True, "'@SUM(A1)"),
        ("note", False, "note"),
    ],
)
def test_no_text_is_run_as_a_formula(text: str, number: bool, written: str) -> None:
    assert safe_text(text, number=number) == written


@pytest.mark.parametrize(
    ("cells", "filled"),
    [
        (["1920-01", "", "1920-03", "1920-05"], "1920-02"),
        (["Jan 1920", "", "Mar 1920", "May 1920"], "1920-02"),
        (["1920-01-01", "", "1920-03-01", "1920-05-01"], "1920-02-01"),  # as the other cells
        (["31.01.1920", "", "02.02.1920", "05.02.1920"], "1920-02-01"),
        (["1920-01-01T05:30", "", "1920-01-01T08:00", "1920-01-02T00:00"], "1920-01-01T06:42"),
    ],
)
def test_a_filled_date_is_in_iso_form(cells: list[str], filled: str) -> None:
    source = "when,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells))
    dataset = read_table(source.encode()).dataset(features=["when", "y"])
    found = fill_table(dataset, {"when": with_gap(1.2, sd=0.25)})
    lines = found.csv(details=True).decode().splitlines()
    assert lines[0] == "when,y,when sd,when imputed"
    assert lines[2] == f"{filled},1,0.25,True"
    assert [line.split(",")[0] for line in lines[1:]] == [cells[0], filled, *cells[2:]]
    assert found.frame["when"].notna().all()
    assert found.typed()["when"].dtype.kind == "M"
