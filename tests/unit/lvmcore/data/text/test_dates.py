"""Dates: the same in one part as in many, with bounded memory."""

import sys

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import ColumnType, read_table, read_table_sandboxed
from lvmcore.data.text import dates

FORMS = {
    "%d.%m.%Y": "day before month",
    "%m/%d/%y": "month before day",
    "%d.%m.%Y %H:%M": "day before month",
    "%Y-%m-%d %H:%M:%S": "year first",
    "%Y-%m-%dT%H:%M:%SZ": "in UTC here",
    "%d-%b-%Y": "the month as a word",
}


@pytest.mark.parametrize("form", FORMS)
def test_dates_in_blocks_are_the_dates(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    days = pd.date_range("2001-01-01", periods=300, freq="31h17min").floor("s")
    cells = pd.Series(days.strftime(form)).astype("str")
    cells[[5, 299]] = np.nan
    whole = dates.read_dates(cells)
    monkeypatch.setattr(dates, "_BLOCK", 7)
    parts = dates.read_dates(cells)
    assert whole is not None
    assert whole.values is not None
    assert parts is not None
    assert parts.values is not None
    pd.testing.assert_series_equal(parts.values, whole.values)
    expected = pd.to_datetime(cells, format=form)
    expected = expected.dt.tz_localize(None) if "Z" in form else expected
    pd.testing.assert_series_equal(whole.values, expected, check_names=False)
    assert FORMS[form] in whole.reason


def test_a_date_finer_than_the_others_keeps_its_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dates, "_BLOCK", 2)
    cells = pd.Series(["2001-01-01", "2001-01-02", "2001-01-03 00:00:00.123456789"])
    found = dates.read_dates(cells.astype("str"))
    assert found is not None
    assert found.values is not None
    assert found.values.iloc[2] == pd.Timestamp("2001-01-03 00:00:00.123456789")


def test_one_cell_that_is_no_date_keeps_the_column_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dates, "_BLOCK", 10)
    cells = pd.Series([*(f"{day}.01.2020" for day in range(1, 32)), "31.02.2020"]).astype("str")
    found = dates.read_dates(cells)
    assert found is None or found.values is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of the memory is Linux's")
@pytest.mark.parametrize("form", ["%d.%m.%Y %H:%M", "%d-%b-%Y"])
def test_half_a_million_dates_are_read_within_the_memory_of_their_size(form: str) -> None:
    days = pd.date_range("1900-01-01", periods=500_000, freq="h")
    content = pd.DataFrame({"x": 0.5, "day": days.strftime(form)}).to_csv(index=False).encode()
    table = read_table_sandboxed(content, name="n")
    assert table.frame["day"].iloc[-1] == pd.to_datetime(days.strftime(form)[-1], format=form)
    assert table.column("day").type is ColumnType.DATE


def test_cells_between_spaces_are_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"  {i}   {i / 8}   {i * i}  \r\n" for i in range(100))
    whole = read_table(f"a b c\n{lines}".encode())
    monkeypatch.setattr("lvmcore.data.text.csv_text._BLOCK", 50)
    parts = read_table(f"a b c\n{lines}".encode())
    pd.testing.assert_frame_equal(parts.frame, whole.frame)
    assert whole.frame["c"].tolist() == [i * i for i in range(100)]


# ---- a year and a month ------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["%Y-%m", "%Y/%m", "%YM%m", "%b %Y", "%B %Y", "%Y %b", "%b-%Y"])
def test_years_and_months_are_dates(form: str) -> None:
    months = pd.date_range("1640-01-01", periods=30, freq="MS", unit="us")
    texts = months.strftime(form)
    table = read_table(("when,y\n" + "".join(f"{t},{i}\n" for i, t in enumerate(texts))).encode())
    assert table.column("when").type == ColumnType.DATE
    assert "dates" in table.column("when").reason
    assert "year" in table.column("when").reason
    assert table.frame["when"].tolist() == months.tolist()


@pytest.mark.parametrize(
    "cells",
    [
        ["2020-01", "2020-13", "2020-02"],
        ["40-49", "50-59", "60-69"],
        ["2001-02", "2002-03", "2011-12"],  # seasons
        ["4711-08", "4711-09", "4712-01"],
        ["1920-01", "1920-02-01", "1920-03"],
        ["1920-01", "spring 1920", "1920-03"],
        ["1920-1", "1920-2", "1920-3"],
        ["Jan-20", "Feb-20", "Mar-20"],
    ],
)
def test_what_only_looks_like_years_and_months_stays_text(cells: list[str]) -> None:
    lines = "".join(f"{cell},{i}\n" for i, cell in enumerate(cells * 3))
    table = read_table(("a,y\n" + lines).encode())
    assert table.column("a").type != ColumnType.DATE


def test_missing_months_are_missing() -> None:
    table = read_table(b"when,y\n1920-01,1\nNA,2\n1920-03,3\n,4\n1920-05,5\n")
    assert table.column("when").type == ColumnType.DATE
    assert table.frame["when"].isna().tolist() == [False, True, False, True, False]
