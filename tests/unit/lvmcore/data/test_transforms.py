"""How columns become features: log(1 + x), one-hot, and rows that are held out."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import Dataset, Table
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.data.held_out_rows import hold_out_rows
from lvmcore.data.transforms import MAX_LEVELS
from lvmcore.errors import DataError


@pytest.fixture
def table() -> Table:
    frame = pd.DataFrame(
        {
            "mass": [1.5, np.nan, 2.5, -0.5, 0.5, 7.25, 3.0, 2.0],
            "cells": [3, 1, 4, 1, 5, 9, 2, 6],
            "change": [0.5, -3.25, 1.5, -1.0, 2.5, 0.0, 1.0, 2.0],
            "alive": ["yes", "no", "yes", None, "yes", "no", "no", "yes"],
            "tissue": ["liver", "lung", None, "lung", "skin", "skin", "lung", "liver"],
            "taken": pd.to_datetime([f"2024-05-{day:02d}" for day in range(20, 28)]),
            "species": ["mouse", "rat", "rat", "rat", "mouse", "rat", "mouse", "rat"],
        }
    )
    return Table.from_frame(frame, name="biopsies")


# ---- log(1 + x) ------------------------------------------------------------------------------


def test_columns_enter_as_log1p_and_come_back(table: Table) -> None:
    plain = table.dataset(features=["mass", "cells", "change"])
    dataset = table.dataset(features=["mass", "cells", "change"], log1p=["cells", "mass"])
    np.testing.assert_array_equal(dataset.log1p, [True, True, False])
    np.testing.assert_array_equal(dataset.X[:, :2], np.log1p(plain.X[:, :2]))
    np.testing.assert_array_equal(dataset.X[:, 2], plain.X[:, 2])
    np.testing.assert_allclose(dataset.original_units(dataset.X), plain.X, rtol=1e-14)
    np.testing.assert_allclose(dataset.original_units(dataset.X[4]), plain.X[4], rtol=1e-14)
    pd.testing.assert_frame_equal(dataset.frame, plain.frame)
    assert "Transformed by log(1 + x): 'mass', 'cells'." in dataset.notes
    assert not plain.log1p.any()


def test_beyond_what_a_number_can_hold_is_infinite(table: Table) -> None:
    dataset = table.dataset(features=["cells"], log1p=["cells"])
    assert dataset.original_units([1e4]).tolist() == [np.inf]


@pytest.mark.parametrize(
    ("log1p", "message"),
    [
        (["change"], r"'change' .*log\(1 \+ x\): row 2 has -3\.25\. Expected every cell above -1"),
        (["tissue"], "'tissue' .* its type is category. Expected a numeric column or a count"),
        (["alive"], "'alive' .* its type is binary"),
        (["taken"], "'taken' .* its type is date"),
        (["absent"], "There is no column 'absent'"),
        (["mass"], "'mass' is in log1p, but is not a feature"),
        ("cells", "log1p='cells' is a string. Expected a list"),
    ],
)
def test_a_log1p_that_cannot_be_is_refused(table: Table, log1p: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table.dataset(features=["cells", "change"], log1p=log1p)


def test_a_row_of_units_under_the_header_is_no_cell(table: Table) -> None:
    frame = pd.DataFrame({"a": [-7.0, 1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.5, 2.0]})
    read = Table.from_frame(frame)
    headed = replace(read, detected=replace(read.detected, second_header=True))
    assert len(headed.dataset(log1p=["a"])) == 3
    with pytest.raises(DataError, match="row 1 has -7"):
        read.dataset(log1p=["a"])


def test_a_name_that_says_log1p_must_not_be_there_already() -> None:
    table = Table.from_frame(pd.DataFrame({"a": [1.5, 2.0, 4.0], "log(1 + a)": [0.5, 1.0, 1.5]}))
    assert table.dataset().transformed_names == ("a", "log(1 + a)")
    with pytest.raises(DataError, match=r"'log\(1 \+ a\)' occurs twice"):
        table.dataset(log1p=["a"])


# ---- one-hot ---------------------------------------------------------------------------------


def test_a_category_becomes_a_feature_for_each_level(table: Table) -> None:
    dataset = table.dataset(label="species", one_hot=["tissue"])
    assert dataset.feature_names == (
        "mass", "cells", "change", "alive", "tissue = liver", "tissue = lung", "tissue = skin",
    )  # fmt: skip
    nan = np.nan
    np.testing.assert_array_equal(
        dataset.X[:, 4:].T,
        [
            [1, 0, nan, 0, 0, 0, 0, 1],
            [0, 1, nan, 1, 0, 0, 1, 0],
            [0, 0, nan, 0, 1, 1, 0, 0],
        ],
    )
    known = "'tissue' is one-hot encoded as 3 features, one a level"
    assert any(known in note for note in dataset.notes)
    assert not any("'tissue' left out" in note for note in dataset.notes)
    assert any("'taken' left out: it is a date" in note for note in dataset.notes)


def test_one_hot_columns_stand_where_they_are_asked_for(table: Table) -> None:
    dataset = table.dataset(features=["alive", "cells"], one_hot=["alive"])
    assert dataset.feature_names == ("alive = no", "alive = yes", "cells")
    dataset = table.dataset(features=["cells"], one_hot=["alive"])
    assert dataset.feature_names == ("cells", "alive = no", "alive = yes")


def test_levels_that_are_numbers_stand_by_size() -> None:
    frame = pd.DataFrame({"grade": [10, 9, 10, 2, 2, 9], "x": [1.0, 2.5, 3.0, 4.0, 5.0, 6.0]})
    table = Table.from_frame(frame).with_types({"grade": "category"})
    names = table.dataset(features=["x"], one_hot=["grade"]).feature_names
    assert names == ("x", "grade = 2", "grade = 9", "grade = 10")


def test_too_many_levels_are_refused() -> None:
    texts = [f"v{i}" for i in range(MAX_LEVELS + 1)] * 3
    frame = pd.DataFrame({"x": np.arange(len(texts)) / 7, "code": texts})
    table = Table.from_frame(frame).with_types({"code": "category"})
    with pytest.raises(
        DataError, match=r"'code' cannot be one-hot.*51 levels. Expected at most 50"
    ):
        table.dataset(one_hot=["code"])


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"one_hot": ["mass"]}, "'mass' cannot be one-hot features: its type is numeric"),
        ({"one_hot": ["taken"]}, "'taken' cannot be one-hot features: its type is date"),
        ({"one_hot": ["tissue"], "label": "tissue"}, "both a feature and the label"),
        ({"one_hot": ["absent"]}, "There is no column 'absent'"),
        ({"one_hot": ["tissue"], "log1p": ["tissue"]}, "its type is category"),
        ({"features": ["tissue"]}, "Use it as one-hot features"),
    ],
)
def test_a_one_hot_that_cannot_be_is_refused(table: Table, choice: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table.dataset(**choice)


# ---- rows held out ---------------------------------------------------------------------------


def test_rows_are_held_out_by_class_and_by_seed() -> None:
    labels = np.array(["a"] * 70 + ["b"] * 20 + ["c"] * 9 + [None], dtype=object)
    held = hold_out_rows(100, labels, 0.2, 0)
    assert held.sum() == 20
    assert [held[:70].sum(), held[70:90].sum(), held[90:99].sum()] == [14, 4, 2]
    np.testing.assert_array_equal(held, hold_out_rows(100, labels, 0.2, 0))
    assert (held != hold_out_rows(100, labels, 0.2, 1)).any()
    assert hold_out_rows(100, None, 0.25, 0).sum() == 25
    assert not hold_out_rows(100, labels, 0.0, 0).any()


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5])
def test_every_class_keeps_a_row_in_the_fit(share: float) -> None:
    rng = np.random.default_rng(3)
    for n in (4, 17, 60):
        labels = np.array([f"c{k}" for k in rng.integers(0, max(1, n // 3), n)], dtype=object)
        held = hold_out_rows(n, labels, share, 5)
        assert set(labels[~held]) == set(labels)
        assert 1 <= held.sum() <= max(1, round(share * n))


@pytest.mark.parametrize("share", [-0.1, 0.51, 20, float("nan")])
def test_a_share_out_of_range_is_refused(table: Table, share: float) -> None:
    with pytest.raises(DataError, match=r"expected a share of the rows between 0 and 0\.5"):
        table.dataset(hold_out=share)


def test_where_every_class_has_one_row_none_can_be_held_out() -> None:
    labels = np.array(["a", "b", "c"], dtype=object)
    with pytest.raises(DataError, match="every class has to keep one"):
        hold_out_rows(3, labels, 0.3, 0)


def test_the_dataset_says_which_rows_are_held_out(table: Table) -> None:
    dataset = table.dataset(label="species", hold_out=0.25, hold_out_seed=4)
    assert dataset.held_out.sum() == 2
    assert any(
        note == "2 rows are held out of the fit, of 8, drawn with seed 4, the same share of each "
        "'species'."
        for note in dataset.notes
    )
    part = dataset.subset(~dataset.held_out)
    assert not part.held_out.any()
    assert len(part) == 6


# ---- digest and storage ----------------------------------------------------------------------


def test_each_choice_changes_the_digest(table: Table) -> None:
    choices: list[dict[str, Any]] = [
        {},
        {"log1p": ["cells"]},
        {"one_hot": ["tissue"]},
        {"hold_out": 0.25},
        {"hold_out": 0.25, "hold_out_seed": 1},
        {"hold_out": 0.5},
    ]
    assert len({table.dataset(**choice).digest for choice in choices}) == len(choices)


def test_what_holds_log1p_is_in_the_digest_even_where_the_cells_are_equal() -> None:
    X = [[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]]
    plain = Dataset.from_arrays(X)
    marked = replace(plain, log1p=np.array([True, False]))
    assert plain.digest != marked.digest
    assert plain.digest == replace(marked, log1p=np.zeros(2, dtype=bool)).digest


def test_a_dataset_with_all_of_it_is_saved_and_loaded(table: Table, tmp_path: Path) -> None:
    dataset = table.dataset(label="species", log1p=["cells"], one_hot=["tissue"], hold_out=0.25)
    again = load_dataset(save_dataset(dataset, tmp_path))
    assert again.digest == dataset.digest
    np.testing.assert_array_equal(again.log1p, dataset.log1p)
    np.testing.assert_array_equal(again.held_out, dataset.held_out)
    np.testing.assert_array_equal(again.X, dataset.X)
    assert again.feature_names == dataset.feature_names


def test_a_dataset_of_an_earlier_version_still_loads(table: Table, tmp_path: Path) -> None:
    dataset = table.dataset(label="species")
    save_dataset(dataset, tmp_path)
    meta = json.loads((tmp_path / "dataset.json").read_text())
    del meta["log1p"]
    (tmp_path / "dataset.json").write_text(json.dumps(meta))
    again = load_dataset(tmp_path)
    assert again.digest == dataset.digest
    assert not again.log1p.any()
    assert not again.held_out.any()


def test_a_place_that_is_not_there_is_a_damaged_file(table: Table, tmp_path: Path) -> None:
    save_dataset(table.dataset(), tmp_path)
    meta = json.loads((tmp_path / "dataset.json").read_text())
    (tmp_path / "dataset.json").write_text(json.dumps(meta | {"log1p": [99]}))
    with pytest.raises(DataError, match="damaged"):
        load_dataset(tmp_path)


def test_rows_without_cells_and_empty_columns_keep_what_is_known_of_the_others() -> None:
    nan = np.nan
    X = np.array([[1.0, nan, 3.0], [nan, nan, 1.0], [2.0, nan, 5.0]])
    dataset = replace(
        Dataset.from_arrays(X, feature_names=["a", "b", "c"]),
        log1p=np.array([False, True, True]),
        held_out=np.array([True, False, False]),
    )
    complete = dataset.complete_rows()
    assert complete.feature_names == ("a", "c")
    np.testing.assert_array_equal(complete.log1p, [False, True])
    np.testing.assert_array_equal(complete.held_out, [True, False])
