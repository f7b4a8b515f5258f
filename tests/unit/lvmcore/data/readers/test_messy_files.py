"""Real files from the wild, each with its own oddity, read to exactly the right table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import ColumnType, Table, propose_label, propose_row_id, read_table
from lvmcore.errors import DataError

SIZES = {
    "aging_curve_duplicate_headers": (12, 6),
    "air_quality_quoted_decimal_comma": (9357, 15),
    "credit_default_bom_semicolon": (10000, 4),
    "food_world_cup_survey": (1373, 48),
    "montreal_bikes_2012_latin1": (310, 10),
    "nyc_bridges_2016_text_in_numbers": (210, 11),
    "star_wars_survey_two_header_rows": (1187, 38),
    "va_education_thousands": (52, 9),
    "va_education_title_and_footnotes": (53, 9),
    "weather_2012_hourly": (8784, 8),
    "wide_newsgroup_words_5000": (90, 5001),
}


def load(data_dir: Path, name: str) -> Table:
    return read_table(data_dir / "messy" / f"{name}.csv")


@pytest.mark.slow(
    quick=[
        "nyc_bridges_2016_text_in_numbers",
        "va_education_thousands",
        "va_education_title_and_footnotes",
    ]
)
@pytest.mark.parametrize("name", SIZES)
def test_size(data_dir: Path, name: str) -> None:
    table = load(data_dir, name)
    assert table.frame.shape == SIZES[name]
    assert [column.name for column in table.columns] == list(table.frame.columns)
    assert table.frame.columns.is_unique


def test_every_messy_file_is_known(data_dir: Path) -> None:
    there = {path.stem for path in (data_dir / "messy").iterdir()}
    assert there == {*SIZES, "softmax_spectrum_utf16_blocks"}


def test_stacked_blocks_are_refused(data_dir: Path) -> None:
    path = data_dir / "messy" / "softmax_spectrum_utf16_blocks.txt"
    with pytest.raises(DataError, match=r"several stacked under each other.*line 3: 27 cells"):
        read_table(path)


def test_air_quality(data_dir: Path) -> None:
    table = load(data_dir, "air_quality_quoted_decimal_comma")
    detected = table.detected
    assert (detected.delimiter, detected.decimal, detected.missing) == (";", ",", ("-200",))
    assert sum(column.missing for column in table.columns) == 16701
    assert any("-200 means missing" in note and "16,701" in note for note in table.notes)
    first = table.frame.iloc[0]
    assert first["Date"] == pd.Timestamp("2004-03-10")
    assert first["CO(GT)"] == 2.6
    assert first["PT08.S1(CO)"] == 1360
    assert first["AH"] == 0.7578
    assert table.column("Time").type is ColumnType.DATE
    dataset = table.dataset()
    assert dataset.X.shape == (9357, 13)
    assert int(np.isnan(dataset.X).sum()) == 16701
    assert len(dataset.complete_rows()) == 827


def test_montreal_2012(data_dir: Path) -> None:
    table = load(data_dir, "montreal_bikes_2012_latin1")
    assert table.detected.encoding == "latin-1"
    assert table.detected.delimiter == ";"
    assert table.columns[2].name == "Brébeuf (données non disponibles)"
    assert table.columns[2].missing == 310
    assert table.frame["Date"].iloc[-1] == pd.Timestamp("2012-11-05")
    assert table.frame["Berri 1"].tolist()[:3] == [35, 83, 135]
    dataset = table.dataset()
    assert dataset.X.shape == (310, 7)
    assert sum("every cell is missing" in note for note in dataset.notes) == 2


def test_credit_default(data_dir: Path) -> None:
    table = load(data_dir, "credit_default_bom_semicolon")
    assert table.detected.encoding == "utf-8-sig"
    assert [column.name for column in table.columns] == ["default", "student", "balance", "income"]
    assert propose_label(table) == "default"
    dataset = table.dataset(label="default")
    assert dataset.feature_names == ("student", "balance", "income")
    assert dataset.classes == ("No", "Yes")
    assert set(dataset.X[:, 0]) == {0.0, 1.0}
    assert "Column 'student' is coded 0 = 'No', 1 = 'Yes'." in dataset.notes


def test_star_wars(data_dir: Path) -> None:
    table = load(data_dir, "star_wars_survey_two_header_rows")
    assert table.detected.second_header
    assert table.columns[4].name == "Star Wars: Episode II Attack of the Clones"
    assert table.frame["RespondentID"].iloc[1] == 3292879998
    ranks = table.columns[9]
    assert ranks.type is ColumnType.COUNT
    assert ranks.unparsed == 0
    dataset = table.dataset(row_id="RespondentID")
    assert len(dataset) == 1186
    assert dataset.row_ids[0] == "3292879998"
    assert dataset.rows[0] == 1
    assert dataset.notes[-1] == "Row 1 left out: it is a second header row."


def test_food_world_cup(data_dir: Path) -> None:
    table = load(data_dir, "food_world_cup_survey")
    assert table.detected.encoding == "mac_roman"
    assert "N/A" in table.detected.missing
    assert propose_row_id(table) == "RespondentID"
    rating = table.columns[3]
    assert rating.type is ColumnType.COUNT
    assert set(table.frame[rating.name].dropna()) <= {1, 2, 3, 4, 5}
    assert "$100,000 - $149,999" in set(table.frame["Household Income"])


def test_nyc_bridges(data_dir: Path) -> None:
    table = load(data_dir, "nyc_bridges_2016_text_in_numbers")
    assert table.columns[3].name == "High Temp (°F)"
    rain = table.column("Precipitation")
    assert rain.type is ColumnType.NUMERIC
    assert rain.unparsed == 14
    assert rain.examples == ("0.47 (S)", "T")
    assert any("'0.47 (S)', 'T'" in note for note in table.notes)
    assert table.columns[0].type is ColumnType.IDENTIFIER
    assert table.frame["Date"].iloc[0] == pd.Timestamp("2016-04-01")


def test_thousands_and_codes(data_dir: Path) -> None:
    table = load(data_dir, "va_education_thousands")
    assert table.detected.thousands == ","
    assert table.frame["Code"].tolist()[:3] == ["01", "02", "04"]
    assert table.column("Code").type is ColumnType.IDENTIFIER
    assert table.frame["TOTAL"].tolist()[:3] == [12426, 1158, 33986]
    assert table.column("TOTAL").type is ColumnType.COUNT
    assert any("blank row" in note for note in table.notes)
    assert any("neither a name nor a value" in note for note in table.notes)


def test_title_and_footnotes(data_dir: Path) -> None:
    table = load(data_dir, "va_education_title_and_footnotes")
    assert table.detected.header_row == 1
    assert table.frame["State Name"].iloc[-1] == "PHILIPPINES"
    assert table.frame["TOTAL"].iloc[0] == 19582
    assert any("title" in note and "Beneficaries" in note for note in table.notes)
    assert any(note.startswith("2 footnote rows were left out") for note in table.notes)


def test_duplicate_headers(data_dir: Path) -> None:
    table = load(data_dir, "aging_curve_duplicate_headers")
    names = ["Decade", "Age", "Male", "Female", "Male (2)", "Female (2)"]
    assert list(table.frame.columns) == names
    assert table.frame["Female (2)"].iloc[1] == 0.00318
    assert any("more than once" in note for note in table.notes)


def test_weather(data_dir: Path) -> None:
    table = load(data_dir, "weather_2012_hourly")
    assert table.frame["Weather"].iloc[2] == "Freezing Drizzle,Fog"
    assert table.column("Weather").type is ColumnType.CATEGORY
    assert table.frame["Date/Time"].iloc[1] == pd.Timestamp("2012-01-01 01:00")


@pytest.mark.slow
def test_wide_words(data_dir: Path) -> None:
    table = load(data_dir, "wide_newsgroup_words_5000")
    assert list(table.frame.columns[:3]) == ["newsgroup", "00", "000"]
    assert propose_label(table) == "newsgroup"
    dataset = table.dataset(label="newsgroup")
    assert dataset.X.shape == (90, 5000)
    assert len(dataset.classes) == 3
