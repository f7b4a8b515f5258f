"""Dates as numbers and back, against Python's own calendar; and datasets of dates."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import DateScale, Table, matching_dataset, read_table
from lvmcore.data.column_likelihoods import likelihood_text
from lvmcore.data.dataset import Dataset
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.errors import DataError


def dates(*texts: str | None) -> pd.Series:
    return pd.Series(np.array([text or "NaT" for text in texts], dtype="M8[us]"))


@pytest.mark.parametrize(
    ("cells", "unit", "origin", "numbers"),
    [
        (("1920-01-01", "1930-01-01", None), "year", "1920", [0, 10, np.nan]),
        (("1921-03-01", "1920-01-01", "1930-01-01"), "month", "1920-01", [14, 0, 120]),
        (("2000-02-28", "2000-02-29", "2000-03-01"), "day", "2000-02-28", [0, 1, 2]),
        (("1900-02-28", "1900-03-01"), "day", "1900-02-28", [0, 1]),  # 1900 has no leap day
        (("2020-01-01", "2020-01-01T06:30"), "hour", "2020-01-01T00:00:00", [0, 6.5]),
        (("1500-05-01", "1600-05-01"), "month", "1500-05", [0, 1200]),  # before 1677
        (("1969-12-31T23:00", "1970-01-01T01:00"), "hour", "1969-12-31T23:00:00", [0, 2]),
    ],
)
def test_the_unit_is_that_of_the_cells_and_the_origin_the_first(
    cells: tuple[str | None, ...], unit: str, origin: str, numbers: list[float]
) -> None:
    column = dates(*cells)
    scale = DateScale.of(column)
    assert (scale.unit, scale.origin) == (unit, origin)
    np.testing.assert_array_equal(scale.numbers(column), numbers)
    np.testing.assert_array_equal(scale.dates(np.array(numbers)), column.to_numpy())
    assert scale.note("t") == f"Column 't' is the number of {unit}s since {origin}."


@pytest.mark.parametrize("unit", ["year", "month", "day", "hour"])
def test_any_date_is_a_number_by_the_calendar_and_comes_back(
    unit: str, rng: np.random.Generator
) -> None:
    begin = datetime(1583, 7, 1)
    origin = {"year": "1583", "month": "1583-07", "day": "1583-07-01", "hour": "1583-07-01T00"}
    scale = DateScale(unit, origin[unit])  # type: ignore[arg-type] # one of the units
    found = [begin + timedelta(seconds=int(s)) for s in rng.integers(0, 2 * 10**10, 300)]
    found += [datetime(2000, 2, 29, 12), datetime(1999, 12, 31, 23, 59, 59), begin]
    column = pd.Series(np.array(found, dtype="M8[us]"))

    def number(date: datetime) -> float:
        if unit == "year":
            length = datetime(date.year + 1, 1, 1) - datetime(date.year, 1, 1)
            return date.year - 1583 + (date - datetime(date.year, 1, 1)) / length
        if unit == "month":
            first = datetime(date.year, date.month, 1)
            after = datetime(date.year + date.month // 12, date.month % 12 + 1, 1)
            whole = 12 * date.year + date.month - (12 * 1583 + 7)
            return whole + (date - first) / (after - first)
        return (date - begin) / (timedelta(days=1) if unit == "day" else timedelta(hours=1))

    numbers = scale.numbers(column)
    np.testing.assert_allclose(numbers, [number(date) for date in found], rtol=0, atol=1e-9)
    away = np.abs((scale.dates(numbers) - column.to_numpy()).astype(np.int64))
    assert away.max() <= 2000  # microseconds: the number of a year has 15 digits


def test_times_with_a_zone_are_taken_in_utc() -> None:
    local = pd.Series(pd.date_range("2024-03-30", periods=3, freq="D", tz="Europe/Berlin"))
    scale = DateScale.of(local)
    assert scale == DateScale("hour", "2024-03-29T23:00:00")
    np.testing.assert_array_equal(scale.numbers(local), [0, 24, 47])  # summer time begins
    utc = local.dt.tz_convert("UTC").dt.tz_localize(None)
    np.testing.assert_array_equal(scale.numbers(utc), scale.numbers(local))


def test_texts_are_the_nearest_unit_in_iso_form() -> None:
    numbers = np.array([0.0, 13.6, -0.4, np.nan, 1e12])
    assert DateScale("month", "1920-01").texts(numbers) == ["1920-01", "1921-03", "1920-01", "", ""]
    assert DateScale("year", "1920").texts(numbers[:2]) == ["1920", "1934"]
    assert DateScale("day", "1920-02-28").texts(numbers[:2]) == ["1920-02-28", "1920-03-13"]
    hours = DateScale("hour", "1920-02-28T00:00:00").texts(numbers[:2])
    assert hours == ["1920-02-28T00:00", "1920-02-28T13:36"]


@pytest.mark.parametrize(("unit", "origin"), [("week", "1920-01"), ("month", "soon"), ("day", "")])
def test_a_damaged_scale_is_refused(unit: str, origin: str) -> None:
    with pytest.raises(DataError, match="scale of dates"):
        DateScale(unit, origin)  # type: ignore[arg-type] # damaged


# ---- datasets ----------------------------------------------------------------------------------


@pytest.fixture
def months() -> Dataset:
    """Three years of months, one of them missing, and a measurement."""
    frame = pd.DataFrame({"when": pd.date_range("1920-01-01", periods=36, freq="MS")})
    frame.loc[5, "when"] = pd.NaT
    frame["y"] = np.arange(36) ** 2 / 7
    return Table.from_frame(frame, name="months").dataset(features=["when", "y"])


def test_a_date_is_a_feature_where_it_is_chosen(months: Dataset) -> None:
    expected = np.arange(36.0)
    expected[5] = np.nan
    np.testing.assert_array_equal(months.X[:, 0], expected)
    assert months.date_scales == {"when": DateScale("month", "1920-01")}
    assert "Column 'when' is the number of months since 1920-01." in months.notes
    assert likelihood_text(months) == "gaussian*2"  # whole numbers, and no counts


def test_the_scale_is_kept_with_the_dataset(months: Dataset, tmp_path: Path) -> None:
    again = load_dataset(save_dataset(months, tmp_path / "d"))
    assert again.date_scales == months.date_scales
    assert again.digest == months.digest
    meta = tmp_path / "d" / "dataset.json"
    stored = json.loads(meta.read_text(encoding="utf-8"))
    stored["date_scales"]["when"][1] = "1921-01"
    meta.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(DataError, match="was changed"):
        load_dataset(tmp_path / "d")


def test_a_dataset_stored_before_dates_could_be_features_opens(tmp_path: Path) -> None:
    frame = pd.DataFrame({"when": pd.date_range("1920-01-01", periods=9), "y": np.arange(9.0)})
    dataset = Table.from_frame(frame, name="days").dataset()
    # as it was before datasets had scales of dates
    assert dataset.digest.startswith("586ea40e122271a9")
    save_dataset(dataset, tmp_path)
    meta = tmp_path / "dataset.json"
    stored = json.loads(meta.read_text(encoding="utf-8"))
    assert stored.pop("date_scales") == {}
    meta.write_text(json.dumps(stored), encoding="utf-8")
    again = load_dataset(tmp_path)
    assert again.date_scales == {}
    assert again.digest == dataset.digest


def test_other_rows_count_from_the_origin_of_the_fit(months: Dataset) -> None:
    later = pd.DataFrame({"When": dates("1925-01-01", "1925-02-15", None, "1919-12-01")})
    rows = matching_dataset(Table.from_frame(later), ["when"], origin=months)
    np.testing.assert_allclose(rows.X[:, 0], [60, 61.5, np.nan, -1])
    assert rows.date_scales == {"when": DateScale("month", "1920-01")}
    by_spec = matching_dataset(
        Table.from_frame(later), ["when"], date_scales={"when": DateScale("month", "1920-01")}
    )
    np.testing.assert_array_equal(by_spec.X, rows.X)
    with pytest.raises(DataError, match="its file does not say which"):
        matching_dataset(Table.from_frame(later), ["when"])


def test_texts_of_several_forms_are_dates_where_the_fit_had_dates(months: Dataset) -> None:
    mixed = pd.DataFrame({"when": ["1925-01", "1925-02-15", None, "March 1925"]})
    rows = matching_dataset(Table.from_frame(mixed), ["when"], origin=months)
    np.testing.assert_allclose(rows.X[:, 0], [60, 61.5, np.nan, 62])


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1925-01", "soon", "1925-03"], r"'when' cannot be a feature: row 2 has 'soon', which is"),
        (["1925-01", None, "1925-13"], r"'when' cannot be a feature: row 3 has '1925-13'"),
        ([1925.5, 1926.0, 1927.0], r"row 1 has '1925.5', which is no date"),
    ],
)
def test_a_cell_that_is_no_date_is_named(months: Dataset, cells: list[object], said: str) -> None:
    table = Table.from_frame(pd.DataFrame({"when": cells}))
    with pytest.raises(DataError, match=said):
        matching_dataset(table, ["when"], origin=months)


def test_other_likelihoods_than_gaussian_are_refused() -> None:
    frame = pd.DataFrame({"when": pd.date_range("1920-01-01", periods=9), "y": np.arange(9.0)})
    with pytest.raises(DataError, match="'when' cannot have the likelihood poisson: it is a date"):
        Table.from_frame(frame).dataset(features=["when", "y"], likelihoods={"when": "poisson"})


def test_dates_that_are_kept_as_text_are_no_feature() -> None:
    table = read_table(b"when,y\n01/02/2020,1\n03/04/2020,2\n05/06/2020,4\n")
    assert "'when' left out: its dates or times are kept as text." in table.dataset().notes[0]
    with pytest.raises(DataError, match=r"row 1 has '01/02/2020'.*day and month are ambiguous"):
        table.dataset(features=["when", "y"])


def test_a_category_of_months_of_an_earlier_fit_keeps_its_levels() -> None:
    table = read_table(b"when,y\n1920-01,1\n1920-02,2\n1920-01,4\n")
    assert table.frame["when"].dtype.kind == "M"
    rows = matching_dataset(table, ["when = 1920-01", "when = 1920-02"])
    assert rows.X.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert not any("does not know" in note for note in rows.notes)
