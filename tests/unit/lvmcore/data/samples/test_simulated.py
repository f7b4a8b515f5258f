"""The simulated samples, against their definitions."""

from collections.abc import Callable

import numpy as np
import pytest

from lvmcore.data import load_sample
from lvmcore.data.samples.samples import true_correlations
from lvmcore.data.samples.simulated import jumps, kinks, rhombus_classes
from lvmcore.numerics.array_types import FloatArray


def test_the_rhombus_has_the_paper_s_classes() -> None:
    X = np.array([[0.0, 0.0], [0.0, np.pi / 2], [0.0, np.pi], [-2.5, 0.0]])
    assert rhombus_classes(X, 1.0).tolist() == [2, 1, 0, 0]
    assert rhombus_classes(X, 0.0).tolist() == [2, 1, 0, 2]


def test_the_series_meet_where_the_kinks_are() -> None:
    ends = np.array([1.0, 1.5])
    np.testing.assert_allclose(kinks(ends - 1e-9), kinks(ends + 1e-9), atol=1e-7)
    assert np.abs(jumps(ends - 1e-9) - jumps(ends + 1e-9)).min() >= 0.5


@pytest.mark.parametrize(("key", "truth"), [("series_jumps", jumps), ("series_kinks", kinks)])
def test_a_series_is_its_function_with_noise(
    key: str, truth: Callable[[FloatArray], FloatArray]
) -> None:
    frame = load_sample(key).frame
    t, y = frame["t"].to_numpy(), frame["y"].to_numpy()
    np.testing.assert_allclose(np.diff(t), 2 / 149, rtol=1e-9)
    noise = y - truth(t)
    assert abs(noise.mean()) < 4 * 0.1 / np.sqrt(150)
    assert noise.std() == pytest.approx(0.1, rel=0.2)
    assert load_sample(key, random_state=1).digest != load_sample(key).digest


def test_the_regions_of_the_rhombus_are_nested_and_symmetric() -> None:
    """Each class is decided by one number, 0.4 u pi |x1| + |x2|, within the first two rings."""
    frame = load_sample("rhombus").frame
    u = float(np.random.default_rng(0).random())
    radius = 0.4 * u * np.pi * frame["x1"].abs() + frame["x2"].abs()
    order = {
        name: radius[(frame["label"] == name) & (radius < 4 * np.pi / 3)]
        for name in ("centre", "inner ring", "outer ring")
    }
    assert order["centre"].max() < np.pi / 3 < order["inner ring"].min()
    assert order["inner ring"].max() < 2 * np.pi / 3 < order["outer ring"].min()
    assert min(len(rows) for rows in order.values()) > 30


def test_the_binary_columns_follow_the_kernel_of_the_curve() -> None:
    frame = load_sample("s_curve_binary").frame
    values = frame.drop(columns="part").to_numpy(dtype=float)
    assert set(np.unique(values)) == {0.0, 1.0}
    assert frame["part"].tolist() == load_sample("s_curve").frame["part"].tolist()
    # The covariance of two cells of a column is E[s(f) s(f')] − 1/4, s the logistic function:
    # by the draws of a Gaussian process, which know nothing of the columns.
    K = true_correlations("s_curve_binary")
    assert K is not None
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(np.zeros(len(K)), K, size=4000, method="eigh")
    chances = 1 / (1 + np.exp(-draws))
    expected = chances.T @ chances / len(chances) - 0.25
    found = (values - 0.5) @ (values - 0.5).T / values.shape[1]
    off = ~np.eye(len(K), dtype=bool)
    slope = (expected[off] * found[off]).sum() / np.square(expected[off]).sum()
    assert slope == pytest.approx(1, abs=0.15)
    # A hundred columns leave noise of sd 0.025, twice the spread of the covariances.
    assert np.corrcoef(expected[off], found[off])[0, 1] > 0.35


@pytest.mark.parametrize("key", ["s_curve", "s_curve_wide"])
def test_the_numbers_of_the_curve_are_likely_under_its_kernel(key: str) -> None:
    K = true_correlations(key)
    assert K is not None
    Y = load_sample(key).frame.drop(columns="part").to_numpy(dtype=float)
    form = (Y * np.linalg.solve(K + 0.01 * np.eye(len(K)), Y)).sum(axis=0)
    # chi-squared of 300 degrees of freedom for each column
    assert abs(form.mean() / 300 - 1) < 4 * np.sqrt(2 / 300 / Y.shape[1])
    assert true_correlations("iris") is None
