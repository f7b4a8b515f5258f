"""Held-out rows by their stored positions, in the colours of the rows of the fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from app.analysis.map.held_out_rows import held_out_rows
from app.analysis.map.row_colours import (
    MISSING,
    OTHER,
    CategoryStyle,
    NumericColours,
    further_rows,
    row_colours,
)
from lvmcore.data import Dataset
from lvmcore.errors import DataError

HELD = np.array([False, True, False, True, True, False])


def dataset() -> Dataset:
    X = np.arange(18.0).reshape(6, 3)
    X[~HELD, 1] = np.nan  # a column without any cell in the rows of the fit
    labels = np.array(["a", "b", "a", None, "c", "b"], dtype=object)
    return replace(Dataset.from_arrays(X, labels), held_out=HELD)


def stored(rows: list[int], **more: list[float]) -> pd.DataFrame:
    names = dataset().row_ids[np.array(rows)].tolist()
    return pd.DataFrame({"row_id": names, "z1": [1.0, 2.0], "z2": [3.0, 4.0], **more})


def test_rows_are_found_by_their_names_with_the_columns_of_the_fit() -> None:
    whole = dataset()
    fitted = whole.subset(~HELD).nonempty_rows()
    frame = stored([4, 1], z1_sd=[0.1, 0.2], z2_sd=[0.3, 0.4])
    found = held_out_rows(frame, whole, fitted)
    assert found.dataset.row_ids.tolist() == whole.row_ids[[4, 1]].tolist()
    assert found.dataset.feature_names == fitted.feature_names != whole.feature_names
    np.testing.assert_array_equal(found.dataset.X, whole.X[[4, 1]][:, [0, 2]])
    assert found.dataset.labels is not None
    assert found.dataset.labels.tolist() == ["c", "b"]
    assert (len(found), found.total) == (2, 3)
    assert found.latent(0) == (1.0, 3.0)
    np.testing.assert_allclose(found.variance, np.square([[0.1, 0.3], [0.2, 0.4]]))


def test_a_model_without_a_posterior_variance_has_none_here() -> None:
    whole = dataset()
    assert np.isnan(held_out_rows(stored([1, 3]), whole, whole.subset(~HELD)).variance).all()


def test_positions_of_rows_of_the_fit_are_refused() -> None:
    with pytest.raises(DataError, match="held out"):
        held_out_rows(stored([1, 2]), dataset(), dataset().subset(~HELD))


def test_categories_keep_their_colours_and_new_ones_are_others() -> None:
    fitted = pd.Series(["b", "a", None, "b"], dtype=object)
    further = pd.Series(["new", "b", None], dtype=object)
    found = further_rows(row_colours(fitted, "kind"), fitted, further)
    assert isinstance(found, CategoryStyle)
    assert found.names == ("a", "b")
    assert found.codes.tolist() == [1, 0, MISSING, 1, OTHER, 1, MISSING]
    assert found.others == 1


def test_integers_read_as_floats_are_the_same_categories() -> None:
    fitted, further = pd.Series([1, 2, 1]), pd.Series([2.0, np.nan])
    found = further_rows(row_colours(fitted, "k"), fitted, further)
    assert isinstance(found, CategoryStyle)
    assert found.codes.tolist() == [0, 1, 0, 1, MISSING]


def test_numbers_and_dates_have_the_scale_of_the_fit() -> None:
    numbers = pd.Series(np.linspace(0.0, 1.0, 20))
    found = further_rows(row_colours(numbers, "x"), numbers, pd.Series([5.0, np.nan]))
    assert isinstance(found, NumericColours)
    assert found.ends == (0.0, 1.0)
    np.testing.assert_array_equal(found.values[20:], [5.0, np.nan])
    days = pd.Series(pd.date_range("2020-01-01", periods=20))
    later = pd.Series(pd.to_datetime(["2020-03-01", None]))
    found = further_rows(row_colours(days, "day"), days, later)
    assert isinstance(found, NumericColours)
    np.testing.assert_array_equal(found.values[20:], [60.0, np.nan])  # 31 + 29 days of a leap year


def test_one_colour_stays_one_colour() -> None:
    cells = pd.Series([1.0])
    assert further_rows(None, cells, cells) is None
