"""Columns of the Data page: roles, histograms, ways of reading."""

import numpy as np
import pandas as pd
import pytest

from app import columns
from app.histogram import BARS, histogram
from app.intake import reading_of
from app.services import proposed_roles
from app.state import Reading, Roles, Types
from lvmcore.data import Table, load_sample, read_table

CSV = b"""id,height,weight,sex,species,comment
a1,1.5,10,m,x,one text here
a2,1.7,12,f,y,another text that is long
a3,1.9,11,m,x,a third one with more words
a4,,14,f,y,and the fourth is different
"""


@pytest.fixture
def table() -> Table:
    return read_table(CSV, name="animals")


def test_proposed_roles_make_a_dataset(table: Table) -> None:
    roles = proposed_roles(table)
    assert roles.label == "species"
    assert roles.row_id == "id"
    assert "height" in roles.features
    assert not {"species", "id", "comment"} & set(roles.features)
    dataset = table.dataset(features=roles.features, label=roles.label, row_id=roles.row_id)
    assert dataset.feature_names == roles.features


def test_label_and_row_id_are_never_features_whatever_is_ticked(table: Table) -> None:
    everything = [True] * len(table.columns)
    roles = columns.chosen(table, everything, "sex", "id")
    assert roles == Roles(("height", "weight", "species"), "sex", "id")
    roles = columns.chosen(table, everything, None, None)
    assert "sex" in roles.features
    assert "comment" not in roles.features


def test_what_is_not_used_is_listed(table: Table) -> None:
    roles = Roles(("height",), "species", "id")
    assert columns.left_out(table, roles) == ["weight", "sex", "comment"]


def test_the_listing_has_a_row_for_each_column(table: Table) -> None:
    bars = [histogram(table.frame[column.name]) for column in table.columns]
    frame = columns.listing(table, Roles(("height",), "species", None), bars)
    assert frame["Column"].tolist() == [column.name for column in table.columns]
    assert frame["Feature"].tolist() == [name == "height" for name in frame["Column"]]
    assert frame.loc[frame["Column"] == "height", "Missing"].item() == 1


def test_a_histogram_holds_every_cell() -> None:
    numbers = pd.Series(np.random.default_rng(0).normal(size=500))
    bars = histogram(numbers)
    assert len(bars) == BARS
    assert sum(bars) == pytest.approx(1, abs=0.01)


def test_few_values_get_a_bar_each_and_missing_cells_none() -> None:
    assert histogram(pd.Series([0.0, 0.0, 1.0, np.nan])) == [0.6667, 0.3333]
    assert histogram(pd.Series(["a", "b", "a", None])) == [0.6667, 0.3333]
    assert histogram(pd.Series([np.nan, np.nan])) == []
    assert sum(histogram(pd.Series(pd.date_range("2020-01-01", periods=40)))) == pytest.approx(
        1, abs=0.01
    )


@pytest.mark.parametrize("key", ["iris", "wine", "digits"])
def test_every_column_of_a_sample_has_a_histogram(key: str) -> None:
    table = load_sample(key)
    assert all(histogram(table.frame[column.name]) for column in table.columns)


def test_empty_fields_leave_the_reading_to_detection() -> None:
    assert reading_of(None, None, None, None, "  ") == Reading()
    fields = (";", "latin-1", ",", "there is none", "-999, n/d", ".")
    assert reading_of(*fields) == Reading(";", "latin-1", ",", False, ("-999", "n/d"), ".")
    assert reading_of(None, None, None, "row 3", "", sheet="May") == Reading(header=2, sheet="May")


def _types(table: Table, **others: str) -> list[str]:
    return [others.get(column.name, str(column.type)) for column in table.columns]


def test_another_type_makes_a_column_a_feature_or_none(table: Table) -> None:
    roles = proposed_roles(table)
    assert columns.retyped(table, roles, Types(), _types(table)) is None
    change = columns.retyped(table, roles, Types(), _types(table, weight="category"))
    assert change is not None
    now, types = change
    assert set(roles.features) - set(now.features) == {"weight"}
    assert types == Types((("weight", "category"),), None, 1)

    table = table.with_types(dict(types.chosen))
    assert table.column("weight").why == "Set by you."
    change = columns.retyped(table, now, types, _types(table, weight="count"))
    assert change is not None
    assert change[0] == roles
    assert change[1] == Types((("weight", "count"),), None, 2)


def test_a_type_that_the_cells_do_not_allow_is_refused_with_the_reason(table: Table) -> None:
    roles = proposed_roles(table)
    change = columns.retyped(table, roles, Types(), _types(table, species="numeric"))
    assert change is not None
    now, types = change
    assert now == roles
    assert types.chosen == ()
    assert types.turn == 1
    assert types.problem is not None
    assert "'species' cannot be numeric: its cells are no numbers" in types.problem
