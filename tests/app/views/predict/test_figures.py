"""The figures of the Predict page: classes, calibration, relevance; and the slices behind one."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from app.analysis.tables.prediction_slices import (
    MEAN,
    SD,
    PredictionSlice,
    prediction_slice,
    sliceable_columns,
)
from app.views.predict import figures
from lvmcore import SVGPRegressor
from lvmcore.data import Dataset
from lvmcore.evaluation.target_quality import coverage_at, target_metrics
from lvmcore.prediction.target_rows import SupervisedRows

NASTY = "<b>=x</b> %{y} ![i](http://h)"


@pytest.mark.parametrize("dark", [False, True])
def test_a_confusion_counts_rows_and_colours_shares_of_a_class(dark: bool) -> None:
    counts = np.array([[3, 1], [0, 8]])
    (heat,) = figures.confusion_figure(counts, ["a", NASTY], dark=dark).data
    assert np.asarray(heat.z).tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert np.asarray(heat.text).tolist() == counts.tolist()
    assert "<b>=x" not in str(heat.hovertext)
    assert "1 row, 25% of the class" in heat.hovertext[0][1]


def test_many_classes_are_drawn_without_their_counts() -> None:
    names = [f"class {k}" for k in range(30)]
    (heat,) = figures.confusion_figure(np.eye(30, dtype=np.intp), names, dark=False).data
    assert heat.text is None


def test_calibration_has_a_band_of_what_chance_does() -> None:
    said, rows = np.array([0.2, 0.5, 0.9]), np.array([10, 100, 10_000])
    figure = figures.calibration_figure(
        said, np.array([0.1, 0.5, 0.95]), rows, horizontal="said", vertical="held", dark=False
    )
    band, _, found = figure.data
    high, low = np.asarray(band.y[:3]), np.asarray(band.y[3:])[::-1]
    assert np.allclose(found.y, [10, 50, 95])
    wide = 100 * norm.ppf(0.975) * np.sqrt(said * (1 - said) / rows)  # of many rows
    assert np.allclose(high[1:] - 100 * said[1:], wide[1:], atol=1.0)
    assert np.allclose(100 * said[1:] - low[1:], wide[1:], atol=1.0)
    assert (low[0], high[0]) == (0.0, 50.0)  # of ten rows, 0 to 5


def test_the_most_relevant_inputs_come_first() -> None:
    share = np.linspace(0, 1, 40) / 20
    names = [NASTY, *(f"x{k}" for k in range(1, 40))]
    (bars,) = figures.input_relevance_figure(names, share, of="it", dark=False).data
    assert len(bars.x) == 20
    assert np.allclose(bars.x, 100 * share[::-1][:20])
    assert bars.hovertext[0].startswith("x39: ")


@pytest.fixture(scope="module")
def fitted() -> tuple[SVGPRegressor, SupervisedRows]:
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "flag": [0.0, 1.0] * 30})
    y = 3 * X["a"].to_numpy() - X["b"].to_numpy() + 0.1 * rng.normal(size=60)
    dataset = Dataset.from_arrays(X.to_numpy(), feature_names=list(X))
    rows = SupervisedRows(dataset, y, np.arange(60) < 12, "the first")
    model = SVGPRegressor(max_iter=30, n_inducing=10).fit(X[12:], y[12:])
    return model, rows


@pytest.mark.parametrize("show", [MEAN, SD])
def test_a_slice_holds_the_other_columns_at_their_median(
    fitted: tuple[SVGPRegressor, SupervisedRows], show: str
) -> None:
    model, rows = fitted
    grid = prediction_slice(model, rows, PredictionSlice("b", "a", show, "units"))
    X = rows.X[~rows.held_out].median().to_frame().T
    X["b"], X["a"] = grid.x[3], grid.y[-1]
    mean, sd = model.predict(X, return_std=True)
    # Rounding depends on the number of rows that are computed together.
    assert grid.value[-1, 3] == pytest.approx((mean if show == MEAN else sd)[0], rel=1e-5)
    assert grid.low_is_certain == (show == SD)
    low, high = np.quantile(rows.X["b"][12:], [0.01, 0.99])
    assert (grid.x[0], grid.x[-1]) == pytest.approx((low, high))


def test_columns_of_two_values_are_not_sliced_along(
    fitted: tuple[SVGPRegressor, SupervisedRows],
) -> None:
    _, rows = fitted
    assert sliceable_columns(rows, np.array([0.1, 0.5, 0.9]), ["a", "b", "flag"]) == ["b", "a"]


# ---- the figures in numbers ---------------------------------------------------------------------


def numbers(truth: Any, mean: float, sd: float) -> pd.DataFrame:
    """Normal predictions of rows, as a run writes them."""
    truth = np.asarray(truth, dtype=np.float64)
    return pd.DataFrame(
        {
            "truth": truth,
            "mean": mean,
            "sd": sd,
            "q05": mean - 1.645 * sd,
            "q95": mean + 1.645 * sd,
            "log_density": norm.logpdf(truth, mean, sd),
            "cumulative": norm.cdf(truth, mean, sd),
        }
    )


def test_coverage_of_right_predictions_is_their_level() -> None:
    frame = numbers(norm.ppf((np.arange(1000) + 0.5) / 1000, 7, 2), 7, 2)
    levels = np.array([0.1, 0.5, 0.9])
    assert np.allclose(coverage_at(frame, levels), levels, atol=1e-3)
    assert target_metrics(frame, "rows")["coverage_90"].value == pytest.approx(0.9, abs=1e-3)
    narrow = numbers(frame["truth"], 7, 1)
    assert (coverage_at(narrow, levels) < levels).all()


def test_rows_without_a_truth_or_a_prediction_do_not_count() -> None:
    frame = numbers([1.0, 2.0, np.nan, 4.0], 2, 1)
    frame.loc[3, ["mean", "log_density", "cumulative"]] = np.nan
    found = target_metrics(frame, "rows")
    assert found["rmse"].value == pytest.approx(np.sqrt(0.5))
    assert "2 rows" in found["rmse"].protocol
    none = target_metrics(frame[2:], "rows")
    assert {metric.value for metric in none.values()} == {None}


def test_classes_that_the_fit_has_not_seen_are_wrong_and_left_out_of_the_log_loss() -> None:
    frame = pd.DataFrame(
        {
            "truth": ["a", "b", "new"],
            "predicted": ["a", "a", "b"],
            "probability": [0.8, 0.6, 0.9],
            "probability of a": [0.8, 0.6, 0.1],
            "probability of b": [0.2, 0.4, 0.9],
            "log_density": [np.log(0.8), np.log(0.4), -np.inf],
        }
    )
    found = target_metrics(frame, "rows")
    assert found["accuracy"].value == pytest.approx(1 / 3)
    assert found["log_loss"].value == pytest.approx(-np.log([0.8, 0.4]).mean())
    assert "that the fit has not seen are left out: 1." in found["log_loss"].protocol
