"""Steps from a kernel expression, and the columns along which rows are a series."""

import numpy as np
import pandas as pd
import pytest

from lvmcore.gp.structure.extensions import (
    factors_of,
    series_column,
    series_extensions,
    summands_of,
    table_extensions,
)
from lvmcore.kernels.catalogue import read_kernel


def texts(text: str) -> list[str]:
    return [str(one.expression) for one in series_extensions(read_kernel(text), "t")]


def test_a_stationary_kernel_gets_summands_and_factors() -> None:
    assert texts("rbf") == [
        "rbf + linear(t)",
        "rbf + rbf(t)",
        "rbf + periodic(t)",
        "rbf * linear(t)",
        "rbf * periodic(t)",
        "periodic(t)",
    ]


def test_a_kernel_with_a_period_is_exchanged_and_reduced_too() -> None:
    found = texts("rbf(t) * periodic(t) + linear(t)")
    assert {
        "rbf(t) * periodic(t) + linear(t) + periodic(t)",
        "rbf(t) * periodic(t) * linear(t) + linear(t)",
        "rbf(t) * periodic(t) + linear(t) * rbf(t)",
        "matern32(t) * periodic(t) + linear(t)",
        "rational_quadratic(t) * periodic(t) + linear(t)",
        "periodic(t) + linear(t)",
        "rbf(t) + linear(t)",
        "linear(t)",
        "rbf(t) * periodic(t)",
    } <= set(found)
    assert len(found) == len(set(found))


def test_every_extension_can_be_read_again_and_names_its_origins() -> None:
    for text in ("rbf", "matern32 * periodic(t)", "linear(t) + rbf(t) * periodic(t)"):
        before = summands_of(read_kernel(text))
        for one in series_extensions(read_kernel(text), "t"):
            assert str(read_kernel(str(one.expression))) == str(one.expression)
            parts = summands_of(one.expression)
            assert len(parts) == len(one.origins)
            for part, origin in zip(parts, one.origins, strict=True):
                if origin is not None:
                    shared = set(factors_of(part)) & set(factors_of(before[origin]))
                    single = len(factors_of(before[origin])) == 1
                    assert shared or single
            waves = str(one.expression).count("periodic") > text.count("periodic")
            assert one.period == waves


def test_tables_get_linear_summands_once() -> None:
    assert [str(one.expression) for one in table_extensions(read_kernel("rbf"), "a b")] == [
        "rbf + linear",
        'rbf + linear("a b")',
    ]
    assert not list(table_extensions(read_kernel("rbf + linear"), "a"))


def test_a_time_is_a_column_of_evenly_spaced_different_values() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(60, 2))
    months = pd.date_range("2001-01-01", periods=60, freq="MS").to_numpy()
    days = (months - months[0]) / np.timedelta64(1, "D")
    kept = np.sort(rng.permutation(75)[:60]).astype(float)  # a fifth of the rows held out
    for time in (np.arange(60.0), days, kept, 5 + 0.25 * rng.permutation(60)):
        assert series_column(np.column_stack([noise, time])) == 2
    twice = np.repeat(np.arange(30.0), 2)
    rounded = np.round(100 * rng.uniform(size=60))
    for other in (rng.uniform(size=60), twice, rounded, np.exp(np.arange(60) / 10)):
        assert series_column(np.column_stack([noise, other])) is None
    assert series_column(noise[:, :1]) == 0  # the only column
    assert series_column(np.arange(5.0)[:, None]) is None


@pytest.mark.parametrize("n_rows", [13, 400])
def test_a_time_may_be_long_or_short(n_rows: int) -> None:
    assert series_column(np.column_stack([np.arange(n_rows) + 0.5, np.zeros(n_rows)])) == 0
