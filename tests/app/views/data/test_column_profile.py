"""The profile of a column and the picture of missing cells, and how both are drawn."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from app.analysis.tables import column_profiles
from app.analysis.tables.column_profiles import MOST_BARS, MOST_LEVELS, PICTURE, ColumnProfile
from app.views.data import profile_figures
from lvmcore.data import Table, load_sample

NASTY = '<a href="http://example.org">x</a>'


def table_of(**columns: object) -> Table:
    return Table.from_frame(pd.DataFrame(columns), name="t")


def facts(found: ColumnProfile) -> dict[str, str]:
    return dict(found.facts)


# ---- profiles --------------------------------------------------------------------------------


def test_numbers_have_their_quartiles_and_every_cell_in_a_bar() -> None:
    cells = np.append(np.random.default_rng(1).normal(5, 2, 400), [np.nan, np.inf])
    found = column_profiles.column_profile(table_of(a=cells), "a")
    known = cells[:400]
    said = facts(found)
    assert said["Missing"] == "1, 0.249 %"
    assert said["Infinite"] == "1 cell"
    assert said["Min"] == f"{known.min():.4f}".replace("-", "−")
    for text, quantile in zip(said["Quartiles"].split(" · "), (0.25, 0.5, 0.75), strict=True):
        assert float(text) == pytest.approx(np.quantile(known, quantile), abs=1e-3)
    assert float(said["Mean"]) == pytest.approx(known.mean(), abs=1e-3)
    assert float(said["Sd"]) == pytest.approx(known.std(), abs=1e-3)
    assert found.counts.sum() == 400
    assert found.edges is not None
    assert found.edges[0] <= known.min()
    assert found.edges[-1] >= known.max()
    np.testing.assert_array_equal(found.counts, np.histogram(known, found.edges)[0])


@pytest.mark.parametrize("largest", [1, 7, 39, 40, 133, 5000])
def test_each_bar_of_whole_numbers_holds_as_many_values(largest: int) -> None:
    found = column_profiles.column_profile(table_of(n=np.arange(largest + 1)), "n")
    assert found.edges is not None
    assert len(found.counts) <= MOST_BARS
    assert len(set(found.counts[:-1].tolist())) <= 1
    assert found.counts.sum() == largest + 1
    assert facts(found)["Max"].replace("\u202f", "") == str(largest)


def test_log1p_changes_the_bars_and_not_the_facts() -> None:
    cells = np.exp(np.random.default_rng(2).normal(3, 1, 300))
    table = table_of(amount=cells)
    plain, found = (
        column_profiles.column_profile(table, "amount", log1p=log) for log in (False, True)
    )
    assert found.facts == plain.facts
    assert found.title == "log(1 + amount)"
    assert found.edges is not None
    np.testing.assert_allclose(found.edges[[0, -1]], np.log1p([cells.min(), cells.max()]))


def test_a_category_has_a_bar_for_each_of_its_most_frequent_levels() -> None:
    cells = [f"v{i}" for i in range(20) for _ in range(i + 1)]
    found = column_profiles.column_profile(table_of(kind=cells), "kind")
    assert found.edges is None
    assert found.levels == tuple(f"v{i}" for i in range(19, 19 - MOST_LEVELS, -1))
    np.testing.assert_array_equal(found.counts, np.arange(20, 20 - MOST_LEVELS, -1))
    assert facts(found)["Most frequent"] == "v19 (20, 9.52 %)"
    assert facts(found)["Levels with one row"] == "1"


def test_a_category_of_whole_numbers_is_named_without_a_point() -> None:
    table = table_of(grade=[1.0, 2.0, 2.0, np.nan], x=[0.1, 0.2, 0.3, 0.4])
    found = column_profiles.column_profile(table.with_types({"grade": "category"}), "grade")
    assert found.levels == ("2", "1")


def test_dates_are_told_as_dates() -> None:
    days = pd.date_range("2024-01-01", periods=60)
    found = column_profiles.column_profile(table_of(day=days), "day")
    said = facts(found)
    assert (said["Earliest"], said["Latest"]) == ("2024-01-01", "2024-02-29")
    assert found.dates
    assert found.counts.sum() == 60
    assert "2024-01-01" in said["Examples"]
    zoned = column_profiles.column_profile(table_of(day=days.tz_localize("Europe/Berlin")), "day")
    assert facts(zoned)["Earliest"] == "2023-12-31 23:00:00"


def test_what_names_rows_needs_no_bars() -> None:
    table = table_of(id=[f"p{i}" for i in range(30)], x=np.arange(30) / 7)
    assert column_profiles.column_profile(table, "id").names_rows
    assert not column_profiles.column_profile(table, "x").names_rows


def test_an_empty_column_has_no_bars() -> None:
    found = column_profiles.column_profile(table_of(a=[np.nan, np.nan], b=[1.0, 2.0]), "a")
    assert len(found.counts) == 0
    assert facts(found)["Missing"] == "2, 100 %"


def test_a_second_header_row_is_no_cell() -> None:
    table = table_of(a=["kg", "x", "y", None], b=["m", "u", "u", "v"])
    headed = replace(table, detected=replace(table.detected, second_header=True))
    assert facts(column_profiles.column_profile(headed, "a"))["Cells"] == "3 rows"
    found = column_profiles.missing_cells(headed)
    assert found is not None
    assert found.complete == 2


@pytest.mark.slow(quick=["iris", "wine"])
@pytest.mark.parametrize("key", ["wine", "iris", "digits"])
def test_every_column_of_a_sample_has_a_profile_that_can_be_drawn(key: str) -> None:
    table = load_sample(key)
    for column in table.columns:
        found = column_profiles.column_profile(table, column.name)
        figure = profile_figures.profile_figure(found, dark=False)
        (bars,) = figure.data
        drawn = bars.x if found.edges is None else bars.y
        np.testing.assert_array_equal(drawn, found.counts)


# ---- missing cells ---------------------------------------------------------------------------


def holed(n: int, d: int) -> tuple[Table, np.ndarray]:
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d))
    X[rng.random((n, d)) < 0.2] = np.nan
    X[:, 0] = 1.0 + np.arange(n)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(d)])
    return Table.from_frame(frame, name="holed"), np.isnan(X)


def test_without_missing_cells_there_is_no_picture() -> None:
    assert column_profiles.missing_cells(load_sample("wine")) is None


def test_a_small_table_is_shown_cell_by_cell() -> None:
    table, absent = holed(30, 6)
    found = column_profiles.missing_cells(table)
    assert found is not None
    assert not found.blocks
    np.testing.assert_array_equal(found.share, absent)
    assert found.cells == absent.sum()
    assert found.complete == (~absent.any(axis=1)).sum()
    np.testing.assert_array_equal(found.by_column, absent.sum(axis=0))


def test_a_large_table_is_shown_by_shares_that_add_up() -> None:
    table, absent = holed(1003, 450)
    found = column_profiles.missing_cells(table)
    assert found is not None
    assert found.blocks
    assert found.share.shape == PICTURE
    sizes = np.outer(np.diff(found.rows), np.diff(found.columns))
    assert (found.share * sizes).sum() == pytest.approx(absent.sum())
    rows, columns = slice(*found.rows[7:9]), slice(*found.columns[11:13])
    assert found.share[7, 11] == pytest.approx(absent[rows, columns].mean())


def test_columns_that_are_missing_together_are_counted() -> None:
    nan = np.nan
    frame = pd.DataFrame(
        {
            "a": [1.0, nan, nan, nan, 2.0, 3.0, nan],
            "b": [5.0, nan, nan, nan, 1.0, nan, 2.0],
            "c": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        }
    )
    found = column_profiles.missing_cells(Table.from_frame(frame))
    assert found is not None
    assert found.patterns[0] == (("a", "b"), 3)
    assert set(found.patterns[1:]) == {(("a",), 1), (("b",), 1)}


@pytest.mark.parametrize("shape", [(1, 2), (9, 3), (300, 41), (700, 450), (100_000, 3)])
def test_the_picture_has_labelled_axes(shape: tuple[int, int]) -> None:
    n, d = shape
    X = np.ones(shape)
    X[n // 2, d // 2] = np.nan
    names = [f"c{i}" for i in range(d - 1)] + [NASTY]
    found = column_profiles.missing_cells(Table.from_frame(pd.DataFrame(X, columns=names)))
    assert found is not None
    figure = profile_figures.missing_figure(found, dark=True)
    (cells,) = figure.data
    assert cells.z.shape == (len(cells.y), len(cells.x)) == found.share.shape
    assert cells.showscale == found.blocks
    upright = figure.layout.yaxis
    assert upright.title.text == "row"
    assert 1 <= len(upright.tickvals) <= 11
    for block, number in zip(upright.tickvals, map(int, upright.ticktext), strict=True):
        first, *last = (int(part) for part in block.split() if part.isdigit())
        assert first <= number <= (last[0] if last else first)
    assert NASTY not in str(figure.to_dict())
