"""Standardisation, and constant columns set aside."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from lvmcore.errors import DataError
from lvmcore.preprocessing.standardiser import Standardiser


def fit(data: np.ndarray) -> Standardiser:
    return Standardiser.fit(data, [f"c{i}" for i in range(data.shape[1])])


@pytest.fixture
def data(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(50, 4)) * np.array([1, 100, 1e-3, 5]) + np.array([0, -7, 3, 1e4])


def test_is_that_of_scikit_learn(data: np.ndarray) -> None:
    expected = StandardScaler().fit_transform(data)
    np.testing.assert_allclose(fit(data).transform(data), expected, atol=1e-9)


def test_missing_cells_stay_missing_and_count_for_nothing(data: np.ndarray) -> None:
    data[3, 1] = data[7, 2] = np.nan
    standardiser = fit(data)
    Y = standardiser.transform(data)
    assert np.argwhere(np.isnan(Y)).tolist() == [[3, 1], [7, 2]]
    np.testing.assert_allclose(np.nanmean(Y, axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.nanstd(Y, axis=0), 1, atol=1e-12)


def test_units_come_back(data: np.ndarray) -> None:
    standardiser = fit(data)
    Y = standardiser.transform(data)
    np.testing.assert_allclose(standardiser.inverse_transform(Y), data, rtol=1e-12)
    variance = standardiser.inverse_transform_variance(np.ones_like(Y))
    np.testing.assert_allclose(variance[0], data.var(axis=0), rtol=1e-10)
    assert standardiser.log_scale == pytest.approx(np.log(data.std(axis=0)))


def test_constant_columns_are_set_aside_and_come_back(data: np.ndarray) -> None:
    data[:, 1], data[:, 3] = 42.0, 0.0
    standardiser = fit(data)
    assert standardiser.constant.tolist() == [False, True, False, True]
    Y = standardiser.transform(data)
    assert Y.shape == (50, 2)
    np.testing.assert_allclose(standardiser.inverse_transform(Y), data, rtol=1e-12)
    variance = standardiser.inverse_transform_variance(np.ones_like(Y))
    assert variance[:, [1, 3]].max() == 0
    assert standardiser.describe_constant() == "2 constant columns set aside: c1, c3."
    assert standardiser.log_scale == pytest.approx(np.log(data[:, [0, 2]].std(axis=0)))


def test_a_constant_column_with_missing_cells_is_constant(data: np.ndarray) -> None:
    data[:, 0] = 5.0
    data[4, 0] = np.nan
    standardiser = fit(data)
    assert standardiser.constant.tolist() == [True, False, False, False]
    assert standardiser.describe_constant() == "1 constant column set aside: c0."


def test_many_constant_columns_are_not_all_listed() -> None:
    data = np.column_stack([np.zeros((5, 8)), np.arange(5)])
    assert fit(data).describe_constant().endswith("c0, c1, c2, c3, c4 and 3 more.")


def test_a_column_that_varies_by_rounding_alone_is_constant() -> None:
    """0.1 + 0.2 is not 0.3, but it is no measurement either."""
    column = np.array([0.3, 0.1 + 0.2] * 10)
    assert np.ptp(column) > 0
    assert fit(np.column_stack([column, np.arange(20.0)])).constant.tolist() == [True, False]


def test_a_large_offset_costs_no_digits() -> None:
    """Small whole numbers on 1e9 are exact in binary, so their standard scores must be too."""
    small = np.arange(20.0).reshape(10, 2) ** 1.0
    shifted = fit(small + 1e9).transform(small + 1e9)
    np.testing.assert_allclose(shifted, fit(small).transform(small), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_extreme_units_do_not_matter(scale: float, rng: np.random.Generator) -> None:
    data = rng.normal(size=(20, 3))
    standardiser = fit(data * scale)
    assert not standardiser.constant.any()
    np.testing.assert_allclose(
        standardiser.transform(data * scale), fit(data).transform(data), rtol=1e-10
    )


@pytest.mark.parametrize("largest", [1e200, 1.5e308])
def test_what_overflows_is_refused(largest: float) -> None:
    data = np.array([[-largest, 1.0], [largest, 2.0], [0.5 * largest, 3.0]])
    with pytest.raises(DataError, match="too large to be standardised"):
        fit(data)


def test_an_empty_column_is_named(data: np.ndarray) -> None:
    data[:, 2] = np.nan
    with pytest.raises(DataError, match="Column c2 has no value at all"):
        fit(data)


def test_nothing_but_constants_is_refused() -> None:
    with pytest.raises(DataError, match="Every column is constant"):
        fit(np.ones((5, 3)))


def test_survives_storage(data: np.ndarray) -> None:
    data[:, 1] = 42.0
    before = fit(data)
    after = Standardiser.from_arrays(before.arrays(), list(before.names))
    np.testing.assert_array_equal(after.transform(data), before.transform(data))
    assert after.constant.dtype == bool
    assert after.names == before.names
