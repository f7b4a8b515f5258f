"""What sets a selection apart, against SciPy, brute force and rows picked at random."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from app.analysis.map import selection_contrast
from app.analysis.map.selection_contrast import kolmogorov_smirnov, paired_histogram, rank_columns
from lvmcore.data import Dataset, Table

small = st.lists(st.integers(-4, 4), min_size=1, max_size=12)


@pytest.fixture
def table() -> Dataset:
    """Numbers, log amounts, a category that enters as features, one that does not, dates, names."""
    rng = np.random.default_rng(2)
    n = 120
    kind = rng.choice(["x", "y", "z"], n)
    frame = pd.DataFrame(
        {
            "length": rng.normal(size=n) + 2 * (kind == "x"),
            "amount": np.exp(rng.normal(size=n) + 3 * (kind == "y")),
            "kind": kind,
            "place": rng.choice(["north", "south"], n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n), unit="D"),
            "remark": [f"remark {i}" for i in range(n)],
            "species": np.where(kind == "z", "wolf", "dog"),
        }
    )
    frame.loc[:9, "length"] = np.nan
    return Table.from_frame(frame, name="mixed").dataset(
        features=["length", "amount"], one_hot=["kind"], log1p=["amount"], label="species"
    )


@given(small, small)
def test_the_distance_is_the_largest_gap_of_the_shares(first: list[int], second: list[int]) -> None:
    """Few whole numbers, so that values are tied within and across the samples."""
    expected = max(
        abs(np.mean(np.array(first) <= x) - np.mean(np.array(second) <= x)) for x in range(-4, 5)
    )
    found = kolmogorov_smirnov(np.array(first, dtype=float), np.array(second, dtype=float))
    assert found == pytest.approx(expected, abs=1e-12)


def test_columns_are_ranked_by_their_distance(table: Dataset) -> None:
    chosen = (table.frame["kind"] == "x").to_numpy()
    found = rank_columns(table, chosen)
    assert found is not None
    by_name = {column.name: column for column in found.columns}
    assert set(by_name) == {"length", "amount", "kind", "place", "day", "species"}
    distances = [column.distance for column in found.columns]
    assert distances == sorted(distances, reverse=True)
    assert found.columns[0].name == "kind"
    assert found.columns[0].distance == 1.0
    assert found.columns[0].level == "x"
    length = table.frame["length"]
    expected = ks_2samp(length[chosen].dropna(), length[~chosen].dropna()).statistic
    assert by_name["length"].distance == pytest.approx(expected)
    assert by_name["length"].inside == pytest.approx(length[chosen].mean())
    assert by_name["length"].outside == pytest.approx(length[~chosen].mean())
    assert found.compared == (chosen.sum(), (~chosen).sum())


def test_means_are_in_the_datas_units_and_the_distance_is_that_of_the_logarithm(
    table: Dataset,
) -> None:
    chosen = (table.frame["kind"] == "y").to_numpy()
    found = rank_columns(table, chosen)
    assert found is not None
    amount = next(column for column in found.columns if column.name == "amount")
    cells = table.frame["amount"].to_numpy()
    assert amount.inside == pytest.approx(cells[chosen].mean())
    logs = np.log1p(cells)
    assert amount.distance == pytest.approx(ks_2samp(logs[chosen], logs[~chosen]).statistic)


def test_a_category_is_measured_by_the_level_whose_share_differs_most(table: Dataset) -> None:
    chosen = np.arange(len(table)) < 50
    found = rank_columns(table, chosen)
    assert found is not None
    kind = next(column for column in found.columns if column.name == "kind")
    cells = table.frame["kind"]
    gaps = {
        level: abs((cells[chosen] == level).mean() - (cells[~chosen] == level).mean())
        for level in "xyz"
    }
    assert kind.distance == pytest.approx(max(gaps.values()))
    assert kind.level == max(gaps, key=gaps.__getitem__)


def test_rows_picked_at_random_go_beyond_the_chance_level_one_time_in_twenty() -> None:
    rng = np.random.default_rng(4)
    dataset = Dataset.from_arrays(rng.normal(size=(300, 400)))
    found = rank_columns(dataset, rng.permutation(300) < 100)
    assert found is not None
    beyond = np.mean([column.distance > found.by_chance for column in found.columns])
    assert 0.02 < beyond < 0.08


def test_a_large_table_is_ranked_by_rows_of_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(5000, 3))
    chosen = np.arange(5000) < 300
    X[chosen, 1] += 3
    dataset = Dataset.from_arrays(X, feature_names=["a", "b", "c"])
    monkeypatch.setattr(selection_contrast, "MOST_CELLS", 3000)
    found = rank_columns(dataset, chosen)
    assert found is not None
    inside, outside = found.compared
    assert inside == 300
    assert 400 <= outside <= 500
    assert found.columns[0].name == "b"
    whole = ks_2samp(X[chosen, 1], X[~chosen, 1]).statistic
    assert found.columns[0].distance == pytest.approx(whole, abs=0.08)


@pytest.mark.parametrize("everything", [True, False])
def test_nothing_sets_apart_all_or_no_rows(table: Dataset, everything: bool) -> None:
    assert rank_columns(table, np.full(len(table), everything)) is None


def test_a_column_that_is_constant_or_missing_on_one_side_is_left_out() -> None:
    X = np.array([[1.0, 5.0, np.nan], [2.0, 5.0, np.nan], [3.0, 5.0, 1.0], [4.0, 5.0, 2.0]])
    dataset = Dataset.from_arrays(X, feature_names=["a", "same", "half"])
    found = rank_columns(dataset, np.array([True, True, False, False]))
    assert found is not None
    assert [column.name for column in found.columns] == ["a"]


def test_histograms_have_the_same_bars_and_shares_of_the_known_cells(table: Dataset) -> None:
    chosen = (table.frame["kind"] == "x").to_numpy()
    found = paired_histogram(table, chosen, "length")
    assert found.edges is not None
    cells = table.frame["length"].to_numpy()
    for share, part in ((found.inside, cells[chosen]), (found.outside, cells[~chosen])):
        known = part[~np.isnan(part)]
        np.testing.assert_allclose(share, np.histogram(known, found.edges)[0] / len(known))
        assert share.sum() == pytest.approx(1.0)


def test_levels_beyond_the_first_are_one_bar() -> None:
    levels = [f"level {i % 12:02d}" for i in range(120)]
    dataset = Dataset.from_arrays(np.arange(120.0)[:, None], levels)
    chosen = np.array([level == "level 07" for level in levels])
    found = paired_histogram(dataset, chosen, "label")
    assert found.levels[0] == "level 07"
    assert found.levels[-1] == "5 others"
    assert len(found.levels) == selection_contrast.LEVELS_SHOWN
    assert found.inside[0] == 1.0
    assert found.outside.sum() == pytest.approx(1.0)


def test_dates_and_few_whole_numbers_have_bars_of_their_own(table: Dataset) -> None:
    chosen = np.arange(len(table)) < 30
    assert paired_histogram(table, chosen, "day").dates
    counts = Dataset.from_arrays(np.arange(60.0)[:, None] % 4)
    found = paired_histogram(counts, np.arange(60) < 20, "x1")
    assert found.edges is not None
    assert found.edges.tolist() == [-0.5, 0.5, 1.5, 2.5, 3.5]
