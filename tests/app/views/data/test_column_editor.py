"""Columns of the Data page: roles, histograms, ways of reading."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from app.analysis.tables.histograms import BARS, small_histogram
from app.components.table_upload import reading_choices
from app.services import tables
from app.services.tables import proposed_roles
from app.state.choices import ReadingChoices, RoleChoices, TypeChoices
from app.views.data import column_editor, column_roles
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


def _chosen(
    table: Table, roles: RoleChoices, now: RoleChoices | None = None, **wanted: tuple[bool, str]
) -> tuple[RoleChoices, str | None]:
    """The roles after some columns are ticked or not, and transformed in this way."""
    features = [column.name in roles.features for column in table.columns]
    uses = zip(features, column_roles.transforms(table, roles), strict=True)
    uses = dict(zip(table.frame.columns, uses, strict=True)) | wanted
    ticked, transforms = zip(*(uses[column.name] for column in table.columns), strict=True)
    return column_roles.chosen_features(table, roles, ticked, transforms, now or roles)


def test_label_and_row_id_are_never_features_whatever_is_ticked(table: Table) -> None:
    ticked = [column.name != "comment" for column in table.columns]
    before, none = RoleChoices((), None, None), [column_roles.NONE] * len(ticked)
    roles, problem = column_roles.chosen_features(
        table, before, ticked, none, RoleChoices((), "sex", "id")
    )
    assert roles == RoleChoices(("height", "weight", "species"), "sex", "id")
    assert problem is None
    ticked = [column.name not in ("comment", "id") for column in table.columns]
    assert "sex" in column_roles.chosen_features(table, before, ticked, none, before)[0].features


def test_what_cannot_be_learned_from_is_refused_with_the_reason(table: Table) -> None:
    roles = proposed_roles(table)
    now, problem = _chosen(table, roles, comment=(True, column_roles.NONE))
    assert now == roles
    assert problem is not None
    assert "'comment' cannot be a feature: it" in problem


def test_a_transform_is_kept_where_the_cells_allow_it(table: Table) -> None:
    roles = proposed_roles(table)
    now, problem = _chosen(table, roles, weight=(True, column_roles.LOG1P))
    assert (now.log1p, problem) == (("weight",), None)
    assert column_roles.learned_as_log1p(table, now, "weight")
    again, problem = _chosen(table, now, weight=(False, column_roles.LOG1P))
    assert (again.log1p, problem) == (("weight",), None)
    assert "weight" not in again.features
    assert not tables.dataset_of(table, again).log1p.any()
    now, problem = _chosen(table, roles, sex=(True, column_roles.LOG1P))
    assert now == roles
    assert problem is not None
    assert "'sex' cannot be transformed by log(1 + x)" in problem


def test_a_cell_of_minus_one_or_less_is_named() -> None:
    table = read_table(b"a,b\n1.5,2\n-2.5,3\n0.5,9\n", name="n")
    roles = proposed_roles(table)
    now, problem = _chosen(table, roles, a=(True, column_roles.LOG1P), b=(True, column_roles.LOG1P))
    assert now.log1p == ("b",)
    assert problem is not None
    assert "row 2 has -2.5" in problem


@pytest.fixture
def colours() -> Table:
    content = "x,colour,many\n" + "".join(
        f"{i / 7},{('red', 'green', 'blue')[i % 3]},v{i % 60}\n" for i in range(180)
    )
    return read_table(content.encode(), name="colours")


def test_a_ticked_category_is_learned_a_feature_a_level(colours: Table) -> None:
    roles = RoleChoices(("x",), None, None, one_hot=("colour", "many"))
    assert proposed_roles(colours).one_hot == ("colour", "many")
    now, problem = _chosen(colours, roles, colour=(True, column_roles.ONE_HOT))
    assert problem is None
    names = tables.dataset_of(colours, now).feature_names
    assert names == ("x", "colour = blue", "colour = green", "colour = red")
    now, problem = _chosen(colours, roles, colour=(True, column_roles.NONE))
    assert now == roles
    assert problem is not None
    assert "Choose one-hot" in problem
    now, problem = _chosen(colours, roles, many=(True, column_roles.ONE_HOT))
    assert now == roles
    assert problem is not None
    assert "60 levels. Expected at most 50" in problem


def test_every_count_is_transformed_at_once() -> None:
    table = read_table(b"a,b,c,d\n1,0,3,0.5\n2,5,1,1.5\n9,4,0,2.5\n4,2,7,0.1\n", name="n")
    roles = replace(proposed_roles(table), features=("a", "b", "d"), log1p=("d",))
    assert column_roles.counts(table, roles) == ["a", "b"]
    now = column_roles.with_counts(table, roles, column_roles.LOG1P)
    assert now == replace(roles, log1p=("a", "b", "d"))
    assert tables.dataset_of(table, now).log1p.tolist() == [True, True, True]
    assert column_roles.with_counts(table, now, column_roles.NONE) == roles


def test_what_is_not_used_is_listed_with_the_reason(table: Table, colours: Table) -> None:
    roles = RoleChoices(("height",), None, None)
    assert column_roles.columns_left_out(table, roles) == {
        "identifier": ["id", "comment"],
        "not ticked": ["weight", "sex", "species"],
    }
    assert column_roles.columns_left_out(colours, RoleChoices(("x",), None, None)) == {
        "category, not ticked": ["colour", "many"]
    }


def test_the_listing_has_a_row_for_each_column(table: Table) -> None:
    bars = [small_histogram(table.frame[column.name]) for column in table.columns]
    frame = column_editor.column_table(table, RoleChoices(("height",), "species", None), bars)
    assert frame["Column"].tolist() == [column.name for column in table.columns]
    assert frame["Transform"].tolist() == ["none"] * len(table.columns)
    assert frame["Feature"].tolist() == [name == "height" for name in frame["Column"]]
    assert frame.loc[frame["Column"] == "height", "Missing"].item() == 1


def test_a_histogram_holds_every_cell() -> None:
    numbers = pd.Series(np.random.default_rng(0).normal(size=500))
    bars = small_histogram(numbers)
    assert len(bars) == BARS
    assert sum(bars) == pytest.approx(1, abs=0.01)


def test_few_values_get_a_bar_each_and_missing_cells_none() -> None:
    assert small_histogram(pd.Series([0.0, 0.0, 1.0, np.nan])) == [0.6667, 0.3333]
    assert small_histogram(pd.Series(["a", "b", "a", None])) == [0.6667, 0.3333]
    assert small_histogram(pd.Series([np.nan, np.nan])) == []
    assert sum(
        small_histogram(pd.Series(pd.date_range("2020-01-01", periods=40)))
    ) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("key", ["iris", "wine", "digits"])
def test_every_column_of_a_sample_has_a_histogram(key: str) -> None:
    table = load_sample(key)
    assert all(small_histogram(table.frame[column.name]) for column in table.columns)


def test_empty_fields_leave_the_reading_to_detection() -> None:
    assert reading_choices(None, None, None, None, "  ") == ReadingChoices()
    fields = (";", "latin-1", ",", "there is none", "-999, n/d", ".")
    assert reading_choices(*fields) == ReadingChoices(
        ";", "latin-1", ",", False, ("-999", "n/d"), "."
    )
    assert reading_choices(None, None, None, "row 3", "", sheet="May") == ReadingChoices(
        header=2, sheet="May"
    )


def _types(table: Table, **others: str) -> list[str]:
    return [others.get(column.name, str(column.type)) for column in table.columns]


def test_another_type_makes_a_column_a_feature_or_none(table: Table) -> None:
    roles = proposed_roles(table)
    assert column_roles.retyped_columns(table, roles, TypeChoices(), _types(table)) is None
    change = column_roles.retyped_columns(
        table, roles, TypeChoices(), _types(table, weight="category")
    )
    assert change is not None
    now, types = change
    assert set(roles.features) - set(now.features) == {"weight"}
    assert types == TypeChoices((("weight", "category"),), None, 1)
    assert now.one_hot == ("weight",)

    table = table.with_types(dict(types.chosen))
    assert table.column("weight").reason == "Set by you."
    change = column_roles.retyped_columns(table, now, types, _types(table, weight="count"))
    assert change is not None
    assert change[0] == roles
    assert change[1] == TypeChoices((("weight", "count"),), None, 2)


def test_a_type_that_the_cells_do_not_allow_is_refused_with_the_reason(table: Table) -> None:
    roles = proposed_roles(table)
    change = column_roles.retyped_columns(
        table, roles, TypeChoices(), _types(table, species="numeric")
    )
    assert change is not None
    now, types = change
    assert now == roles
    assert types.chosen == ()
    assert types.turn == 1
    assert types.problem is not None
    assert "'species' cannot be numeric: its cells are not numbers" in types.problem


def test_likelihoods_are_proposed_changed_and_refused(colours: Table) -> None:
    roles = RoleChoices(("x", "colour"), None, None, one_hot=("colour", "many"))
    shown = column_roles.likelihoods(colours, roles)
    names = [column.name for column in colours.columns]
    place = names.index("colour")
    assert shown[place] == "categorical"
    assert "no known order" in column_roles.likelihood_reasons(colours)["colour"]
    wanted = [*shown]
    wanted[place] = "ordinal"
    now, problem = column_roles.chosen_likelihoods(colours, roles, roles, wanted)
    assert problem is None
    assert now.likelihoods == (("colour", "ordinal"),)
    assert tables.dataset_of(colours, now).likelihoods == {"colour": "ordinal"}
    back, problem = column_roles.chosen_likelihoods(colours, now, now, shown)
    assert (back.likelihoods, problem) == ((), None)
    wanted[place] = "Poisson"
    same, problem = column_roles.chosen_likelihoods(colours, roles, roles, wanted)
    assert same.likelihoods == ()
    assert problem is not None
    assert "its type is category" in problem
