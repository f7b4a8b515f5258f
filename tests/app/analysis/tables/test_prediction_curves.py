"""Predictions along one column, of a series and of a kernel's summands."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from app.analysis.tables.prediction_curves import (
    component_curves,
    has_components,
    series_column,
    series_curve,
    target_transform,
)
from lvmcore import GPRegressor, SVGPClassifier
from lvmcore.data import Dataset
from lvmcore.prediction.target_rows import SupervisedRows


def rows_of(frame: pd.DataFrame, y: NDArray[Any]) -> SupervisedRows:
    dataset = Dataset.from_arrays(frame.to_numpy(), feature_names=list(frame))
    return SupervisedRows(dataset, y, np.arange(len(y)) % 5 == 0, "every fifth")


@pytest.fixture(scope="module")
def series() -> tuple[GPRegressor, SupervisedRows]:
    t = np.arange(60.0)
    y = 100 + t + 5 * np.sin(t) + np.random.default_rng(0).normal(size=60)
    rows = rows_of(pd.DataFrame({"t": t}), y)
    fit = ~rows.held_out
    text = "linear(t) + periodic(t, period=6.2832)"
    return GPRegressor(kernel=text, max_iter=30).fit(rows.X[fit], y[fit]), rows


def test_a_series_goes_on_by_a_fifth_of_its_range(
    series: tuple[GPRegressor, SupervisedRows],
) -> None:
    model, rows = series
    assert series_column(model, rows) == "t"
    curve = series_curve(model, rows)
    assert (curve.column, curve.last) == ("t", 59.0)
    assert curve.x[0] == 0
    assert curve.x[-1] == pytest.approx(59 * 1.2, rel=0.01)
    assert 59.0 in curve.x
    assert (np.diff(curve.x) > 0).all()
    grid = pd.DataFrame({"t": curve.x})
    mean, sd = model.predict(grid, return_std=True)
    np.testing.assert_allclose(curve.mean, mean)
    np.testing.assert_allclose(curve.upper, norm.ppf(0.95, mean, sd), rtol=1e-6)
    np.testing.assert_allclose(curve.lower, norm.ppf(0.05, mean, sd), rtol=1e-6)


def test_each_summand_has_its_posterior_and_the_noise_none(
    series: tuple[GPRegressor, SupervisedRows],
) -> None:
    model, rows = series
    assert has_components(model)
    line, wave, noise = component_curves(model, rows)
    assert noise.curve is None
    assert noise.summary.expression == "noise"
    assert line.curve is not None
    assert wave.curve is not None
    assert line.curve.x[-1] > 59
    total = line.curve.mean + wave.curve.mean + model.decompose(rows.X).offset
    np.testing.assert_allclose(total, model.predict(pd.DataFrame({"t": line.curve.x})), rtol=1e-8)
    half = norm.ppf(0.95) * np.sqrt(model.decompose(pd.DataFrame({"t": wave.curve.x})).variance)
    np.testing.assert_allclose(wave.curve.upper - wave.curve.mean, half[:, 1], rtol=1e-6)


def test_summands_of_a_logarithm_are_factors() -> None:
    t = np.arange(40.0)
    y = np.exp(2 + 0.05 * t + 0.2 * np.random.default_rng(0).normal(size=40))
    rows = rows_of(pd.DataFrame({"t": t}), y)
    model = GPRegressor(kernel="linear + rbf", target_transform="log", max_iter=20).fit(rows.X, y)
    assert target_transform(model).name == "log"
    line, smooth, _ = component_curves(model, rows)
    assert line.curve is not None
    assert smooth.curve is not None
    median = model.predict_quantiles(pd.DataFrame({"t": line.curve.x}), [0.5])[:, 0]
    product = np.exp(model.decompose(rows.X).offset) * line.curve.mean * smooth.curve.mean
    np.testing.assert_allclose(product, median, rtol=1e-6)
    assert (line.curve.lower > 0).all()
    assert (line.curve.lower < line.curve.upper).all()


def test_summands_of_several_columns_have_no_curve() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    y = frame["a"].to_numpy() + np.sin(frame["b"].to_numpy())
    rows = rows_of(frame, y)
    model = GPRegressor(kernel="rbf + linear(a)", max_iter=5).fit(frame, y)
    assert series_column(model, rows) is None
    both, line, _ = component_curves(model, rows)
    assert both.curve is None
    assert line.curve is not None
    assert line.curve.x[[0, -1]].tolist() == [frame["a"].min(), frame["a"].max()]
    assert not has_components(GPRegressor(kernel="rbf", max_iter=2).fit(frame, y))


def test_classes_and_columns_of_two_values_are_no_series() -> None:
    frame = pd.DataFrame({"t": np.arange(20.0)})
    classes = np.array(["a", "b"] * 10)
    model = SVGPClassifier(max_iter=2, n_inducing=3).fit(frame, classes)
    assert series_column(model, rows_of(frame, classes)) is None
    assert not has_components(model)
    two = pd.DataFrame({"t": [0.0, 1.0] * 10})
    y = np.arange(20.0)
    fit = GPRegressor(kernel="rbf", max_iter=2).fit(two, y)
    assert series_column(fit, rows_of(two, y)) is None
