"""The bars of a column: every brush selects exactly the rows that its bars count."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.filters.column_bins import MOST_BARS, MOST_LEVELS, ColumnBins, column_bins
from app.analysis.map.selection_masks import selected_rows
from app.analysis.map.selections import Between, OneOf
from lvmcore.data import Dataset, load_sample


def table(cells: Any, *, label: bool = False) -> Dataset:
    """A table with the column "c"."""
    frame = pd.DataFrame({"c": cells})
    named = Dataset.from_arrays(np.zeros((len(frame), 1)))
    labels = frame["c"].astype(str).to_numpy(dtype=object) if label else None
    return Dataset(
        named.X,
        named.feature_names,
        named.row_ids,
        named.rows,
        frame,
        labels=labels,
        label_name="c" if label else None,
    )


def brushes_are_exact(dataset: Dataset, bins: ColumnBins) -> None:
    """Compare the rows of every brush with those whose bars it covers."""
    nothing = np.zeros((len(dataset), 2))
    for first in range(bins.bars):
        for last in range(first, bins.bars):
            found = bins.interval(first, last)
            covered = (bins.codes >= first) & (bins.codes <= last)
            if found is None:
                assert covered.all()
                continue
            assert (selected_rows(found, nothing, dataset) == covered).all()


CELLS = st.one_of(
    st.lists(st.integers(-30, 30).map(float), min_size=1, max_size=30),
    st.lists(st.integers(-300, 300).map(lambda one: one / 10), min_size=1, max_size=30),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=15),
    st.lists(st.floats(1e6, 1e6 + 1e-6), min_size=1, max_size=15),
)


@given(CELLS)
def test_a_brush_over_numbers_selects_its_bars(cells: list[float]) -> None:
    dataset = table(cells)
    bins = column_bins(dataset, "c")
    assert 1 <= bins.bars <= MOST_BARS
    assert bins.counts.sum() == len(cells)
    assert (np.bincount(bins.codes, minlength=len(bins.counts)) == bins.counts).all()
    brushes_are_exact(dataset, bins)


@given(
    st.lists(
        st.none() | st.datetimes(datetime(2019, 12, 30), datetime(2020, 3, 1)),
        min_size=1,
        max_size=15,
    ),
    st.sampled_from([None, "Europe/Berlin"]),
)
def test_a_brush_over_dates_selects_its_bars(
    cells: list[datetime | None], zone: str | None
) -> None:
    column = pd.to_datetime(pd.Series(cells, dtype="datetime64[us]")).dt.tz_localize("UTC")
    column = column.dt.tz_convert(zone) if zone else column.dt.tz_localize(None)
    dataset = table(column)
    bins = column_bins(dataset, "c")
    assert bins.dates
    brushes_are_exact(dataset, bins)


def test_ends_of_intervals_have_few_digits() -> None:
    bins = column_bins(load_sample("iris").dataset(label="species"), "petal length (cm)")
    # 1.4 and 1.6 are the smallest numbers of the next bars.
    assert bins.interval(1, 2) == Between("petal length (cm)", 1.2, 1.5)
    assert bins.interval(0, 1) == Between("petal length (cm)", 1.0, 1.3)
    assert bins.bars_of(Between("petal length (cm)", 1.2, 1.5)) == (1, 2)
    assert bins.bars_of(Between("petal length (cm)", 1.25, 1.5)) is None
    span = bins.span(Between("petal length (cm)", 1.0, 4.0))
    assert span == (0.0, pytest.approx(0.5))


def test_an_integer_has_a_bar_of_its_own() -> None:
    bins = column_bins(table([3, 5, 5, 8]), "c")
    assert bins.counts.tolist() == [1, 0, 2, 0, 0, 1]
    assert bins.interval(2, 2) == Between("c", 5.0, 5.0)


def test_frequent_categories_have_bars_and_the_rest_share_one() -> None:
    cells = [name for i, name in enumerate("abcdefghijkl") for _ in range(20 - i)] + [None] * 3
    bins = column_bins(table(cells), "c")
    assert bins.levels == tuple("abcdefgh")
    assert len(bins.levels) == MOST_LEVELS
    assert bins.others == 4
    assert bins.counts.tolist() == [*range(20, 12, -1), 12 + 11 + 10 + 9, 3]
    assert (bins.bars, bins.missing) == (9, True)
    nine = column_bins(table(list("abcdefghi")), "c")
    assert (len(nine.levels), nine.others) == (9, 0)


def test_a_click_on_a_category_adds_or_removes_it() -> None:
    bins = column_bins(table(["a", "a", "b", None]), "c")
    first = bins.toggled(None, 0)
    assert first == OneOf("c", ("a",))
    both = bins.toggled(first, 2)
    assert both == OneOf("c", ("a", None))
    assert bins.toggled(both, 0) == OneOf("c", (None,))
    assert bins.toggled(first, 0) is None
    for bar in (-1, 3):
        with pytest.raises(IndexError):
            bins.toggled(first, bar)
    with pytest.raises(IndexError):
        bins.interval(0, 0)


def test_numeric_labels_are_categories() -> None:
    dataset = table([1, 2, 2, 3], label=True)
    bins = column_bins(dataset, "c")
    assert bins.levels == ("2", "1", "3")
    chosen = bins.toggled(None, 0)
    assert chosen is not None
    assert selected_rows(chosen, np.zeros((4, 2)), dataset).tolist() == [False, True, True, False]
