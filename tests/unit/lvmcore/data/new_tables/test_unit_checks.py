"""Columns in other units are noticed, and columns of other rows are left in peace."""

import numpy as np
import pytest

from lvmcore.data import Dataset, TypicalRange, load_sample, propose_label, unit_warnings


def said(cells: np.ndarray, typical: TypicalRange, name: str = "length") -> str:
    found = unit_warnings(cells.reshape(-1, 1), [name], typical)
    return " ".join(suspicion.text for suspicion in found)


def fit(values: np.ndarray) -> TypicalRange:
    return TypicalRange.of(Dataset.from_arrays(values.reshape(-1, 1)))


@pytest.fixture
def lengths() -> np.ndarray:
    return np.random.default_rng(5).normal(40.0, 6.0, 400)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (0.1, "10 times smaller"),
        (10.0, "10 times larger"),
        (0.001, "1000 times smaller"),
        (1000.0, "1000 times larger"),
        (2.54, "2.54 times larger"),
        (1 / 25.4, "25.4 times smaller"),
        (1 / 255, "255 times smaller"),
    ],
)
def test_a_factor_is_named(lengths: np.ndarray, factor: float, expected: str) -> None:
    text = said(factor * lengths[:50], fit(lengths[50:]))
    assert text.startswith(f"'length' looks {expected} than in the data that the model was fitted")
    assert text.endswith("other units?")


def test_a_shift_is_named() -> None:
    celsius = np.random.default_rng(1).normal(21.0, 4.0, 300)
    assert "273.15 higher (kelvin for °C)" in said(celsius[:60] + 273.15, fit(celsius[60:]))
    kelvin = fit(celsius[60:] + 273.15)
    assert "273.15 lower (°C for kelvin)" in said(celsius[:60], kelvin)
    assert "to be in °F" in said(1.8 * celsius[:60] + 32, fit(celsius[60:]))


@pytest.mark.parametrize("rows", [1, 2])
def test_a_few_rows_suffice_for_a_power_of_ten(lengths: np.ndarray, rows: int) -> None:
    typical = fit(lengths[50:])
    assert "10 times larger" in said(10 * lengths[:rows], typical)
    assert said(lengths[:rows], typical) == ""
    assert said(2.54 * lengths[:rows], typical) == ""  # too few to tell


def test_skewed_columns_are_told_both_ways() -> None:
    values = np.exp(np.random.default_rng(2).normal(0.0, 1.5, 600))
    typical = fit(values[100:])
    assert "100 times larger" in said(100 * values[:100], typical)
    assert "100 times smaller" in said(values[:100] / 100, typical)
    assert said(values[:100], typical) == ""


def test_what_has_no_unit_is_never_suspected(lengths: np.ndarray) -> None:
    zero_one = (lengths > 40).astype(float)
    assert said(np.ones(50), fit(zero_one)) == ""
    assert said(10 * lengths, fit(np.full(20, 3.0))) == ""  # set aside by the fit
    assert said(np.full(20, np.nan), fit(lengths)) == ""


@pytest.mark.parametrize("name", ["wine", "iris", "breast_cancer"])
def test_other_rows_of_the_same_table_raise_no_alarm(name: str) -> None:
    table = load_sample(name)
    dataset = table.dataset(label=propose_label(table))
    rng = np.random.default_rng(0)
    for _ in range(10):
        order = rng.permutation(len(dataset))
        new, old = dataset.subset(order[:25]), dataset.subset(order[25:])
        assert unit_warnings(new.X, new.feature_names, TypicalRange.of(old)) == ()


def test_columns_of_one_change_are_said_together() -> None:
    table = load_sample("wine")
    dataset = table.dataset(label=propose_label(table))
    (found,) = unit_warnings(dataset.X / 1000, dataset.feature_names, TypicalRange.of(dataset))
    assert set(found.columns) == set(dataset.feature_names)
    assert "and 5 more look 1000 times smaller" in found.text
