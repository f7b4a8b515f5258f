"""Cells that are no counts are named."""

import numpy as np
import pytest

from lvmcore.errors import DataError
from lvmcore.preprocessing.cell_types import MAX_COUNT, check_binary, check_counts, check_positive
from lvmcore.preprocessing.standardiser import Standardiser

NAMES = ["a", "b"]


def cells(value: float) -> np.ndarray:
    return np.array([[0.0, 1.0], [np.nan, value], [1.0, value]])


@pytest.mark.parametrize(
    ("check", "value", "what"),
    [
        (check_positive, -0.5, "below 0"),
        (check_counts, -1.0, "below 0"),
        (check_counts, 0.5, "no whole number"),
        (check_counts, 1.0 + MAX_COUNT, "more than 1,000,000,000"),
        (check_binary, 2.0, "neither 0 nor 1"),
        (check_binary, 0.5, "neither 0 nor 1"),
    ],
)
def test_a_cell_that_does_not_do_is_named(check, value: float, what: str) -> None:
    with pytest.raises(DataError, match=rf"row 2, column b, is {what} \(one of 2 such cells\)"):
        check(cells(value), NAMES, "The model")


@pytest.mark.parametrize(
    ("check", "value"),
    [(check_positive, 0.5), (check_counts, float(MAX_COUNT)), (check_binary, 0.0)],
)
def test_others_pass_missing_ones_too(check, value: float) -> None:
    check(cells(value), NAMES, "The model")


def test_unscaled_leaves_units_and_sets_the_same_columns_aside() -> None:
    data = np.array([[3.0, 7.0, 0.0], [5.0, 7.0, 4.0]])
    plain = Standardiser.fit(data, ["a", "b", "c"]).unscaled()
    np.testing.assert_array_equal(plain.transform(data), data[:, [0, 2]])
    np.testing.assert_array_equal(plain.inverse_transform(data[:, [0, 2]]), data)
    np.testing.assert_array_equal(plain.log_scale, [0.0, 0.0])


def test_uncentred_leaves_0_where_it_is() -> None:
    data = np.array([[3.0, 7.0, 0.0], [5.0, 7.0, 4.0]])
    plain = Standardiser.fit(data, ["a", "b", "c"]).uncentred()
    np.testing.assert_array_equal(plain.transform(data), [[3.0, 0.0], [5.0, 2.0]])
    np.testing.assert_array_equal(plain.inverse_transform(plain.transform(data)), data)
