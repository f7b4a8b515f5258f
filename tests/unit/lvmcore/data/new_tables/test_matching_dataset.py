"""Another table as a fitted model's features, from the names that the model keeps."""

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import Table, matching_dataset
from lvmcore.errors import DataError


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "id": [f"s{i}" for i in range(12)],
            "mass": np.exp(rng.normal(size=12)),
            "change": rng.normal(size=12),
            "tissue": ["liver", "lung", "skin", None] * 3,
        }
    )
    frame.loc[4, "mass"] = np.nan
    return frame


def test_the_same_rows_in_another_order_of_columns_give_the_same_matrix(
    frame: pd.DataFrame,
) -> None:
    table = Table.from_frame(frame)
    dataset = table.dataset(log1p=["mass"], one_hot=["tissue"], row_id="id")
    assert dataset.transformed_names == (
        "log(1 + mass)", "change", "tissue = liver", "tissue = lung", "tissue = skin",
    )  # fmt: skip
    shuffled = Table.from_frame(frame[["tissue", "change", "id", "mass"]].assign(more=1.0))
    again = matching_dataset(shuffled, dataset.transformed_names, row_id="id")
    np.testing.assert_array_equal(again.X, dataset.X)
    np.testing.assert_array_equal(again.log1p, dataset.log1p)
    assert again.transformed_names == dataset.transformed_names
    assert again.row_ids.tolist() == dataset.row_ids.tolist()


def test_a_few_rows_are_made_as_the_many_were_whatever_their_types_look_like(
    frame: pd.DataFrame,
) -> None:
    dataset = Table.from_frame(frame).dataset(log1p=["mass"], one_hot=["tissue"], row_id="id")
    part = matching_dataset(Table.from_frame(frame.iloc[:2]), dataset.transformed_names)
    np.testing.assert_array_equal(part.X, dataset.X[:2])


def test_a_level_that_the_model_does_not_know_is_told(frame: pd.DataFrame) -> None:
    names = ["change", "tissue = liver", "tissue = lung"]
    again = matching_dataset(Table.from_frame(frame), names)
    assert again.X[2, 1:].tolist() == [0.0, 0.0]
    assert np.isnan(again.X[3, 1:]).all()
    assert any("does not know: 'skin'" in note for note in again.notes)


def test_a_column_of_that_very_name_comes_first(frame: pd.DataFrame) -> None:
    frame["log(1 + mass)"] = 7.0
    frame["a = b"] = np.where(frame["change"] > 0, "x", "y")
    again = matching_dataset(Table.from_frame(frame), ["log(1 + mass)", "a = b = x"])
    assert again.X[0, 0] == 7.0
    np.testing.assert_array_equal(again.X[:, 1], frame["change"] > 0)
    assert not again.log1p.any()


def test_a_column_missing_throughout_is_missing(frame: pd.DataFrame) -> None:
    frame["mass"] = None
    again = matching_dataset(Table.from_frame(frame), ["log(1 + mass)", "change"])
    assert np.isnan(again.X[:, 0]).all()


@pytest.mark.parametrize(
    ("names", "row_id", "message"),
    [
        (
            ["size", "change"],
            None,
            "lacks 'size'. Expected the 2 columns that the model was fitted",
        ),
        (["log(1 + size)"], None, r"lacks 'log\(1 \+ size\)'"),
        (["colour = red"], None, "lacks 'colour = red'"),
        (["change"], "name", "lacks 'name'"),
        (["log(1 + change)"], None, r"'change' cannot be transformed by log\(1 \+ x\): row"),
        (["tissue"], None, "'tissue' cannot be a feature"),
        (["log(1 + tissue)"], None, "'tissue' cannot be a feature"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    frame: pd.DataFrame, names: list[str], row_id: str | None, message: str
) -> None:
    frame.loc[1, "change"] = -2.0
    with pytest.raises(DataError, match=message):
        matching_dataset(Table.from_frame(frame), names, row_id=row_id)
