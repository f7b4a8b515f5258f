"""Predictions over one column, the others at a typical row."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from app.analysis.tables.column_curves import class_curves, column_curve
from app.analysis.tables.prediction_slices import class_plane
from app.analysis.tables.typical_row import typical_row
from lvmcore import GPRegressor, SVGPClassifier
from lvmcore.data import Table
from lvmcore.prediction.target_rows import SupervisedRows


def rows_of(frame: pd.DataFrame, y: NDArray[Any], one_hot: list[str] | None = None) -> Any:
    features = list(frame)
    table = Table.from_frame(frame.assign(target=y), name="rows")
    dataset = table.dataset(features=features, one_hot=one_hot or [])
    return SupervisedRows(dataset, y, np.arange(len(y)) % 5 == 0, "every fifth")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=60), "b": rng.exponential(size=60)})


def test_a_typical_row_has_medians_and_the_modes_of_two_values_and_categories(
    frame: pd.DataFrame,
) -> None:
    # No level has half of the rows, and the median of the two values is between them.
    kind = np.array(["x", "y", "y", "z", "w"])[np.arange(60) * 2 % 5]
    on = np.where(np.arange(60) % 10 < 6, 3.0, 7.0)
    rows = rows_of(frame.assign(kind=kind, on=on), frame["a"].to_numpy(), ["kind"])
    fit = ~rows.held_out
    found = dict(zip(rows.X.columns, typical_row(rows), strict=True))
    assert found["a"] == np.median(frame["a"][fit])
    assert found["b"] == np.median(frame["b"][fit])
    levels = {name.removeprefix("kind = "): found[name] for name in found if "kind" in name}
    counts = pd.Series(kind[fit]).value_counts()
    assert sum(levels.values()) == 1
    assert levels[counts.index[0]] == 1
    assert found["on"] == pd.Series(on[fit]).mode()[0]


def test_a_curve_is_the_prediction_at_typical_rows_with_its_quantiles(frame: pd.DataFrame) -> None:
    y = np.sin(frame["a"].to_numpy()) + frame["b"].to_numpy()
    rows = rows_of(frame, y)
    model = GPRegressor(kernel="rbf", max_iter=10).fit(rows.X, y)
    curve = column_curve(model, rows, "a")
    assert curve.x[[0, -1]].tolist() == [frame["a"].min(), frame["a"].max()]
    assert curve.last == curve.x[-1]
    asked = pd.DataFrame({"a": curve.x, "b": np.median(frame["b"][~rows.held_out])})
    mean, sd = model.predict(asked, return_std=True)
    np.testing.assert_allclose(curve.mean, mean)
    np.testing.assert_allclose(curve.lower, norm.ppf(0.05, mean, sd), rtol=1e-6)
    np.testing.assert_allclose(curve.upper, norm.ppf(0.95, mean, sd), rtol=1e-6)


def test_probabilities_over_a_column_and_a_plane_are_the_model_s(frame: pd.DataFrame) -> None:
    y = np.where(frame["a"] + frame["b"] > 1, "high", "low")
    rows = rows_of(frame, y)
    model = SVGPClassifier(max_iter=20, n_inducing=10).fit(rows.X, y)
    curves = class_curves(model, rows, "b")
    assert curves.classes == ("high", "low")
    np.testing.assert_allclose(curves.probability.sum(axis=1), 1)
    asked = pd.DataFrame({"a": np.median(frame["a"][~rows.held_out]), "b": curves.x})
    np.testing.assert_allclose(curves.probability, model.predict_proba(asked))
    plane = class_plane(model, rows, "b", "a")
    corner = pd.DataFrame({"a": [plane.y[3]], "b": [plane.x[-1]]})
    np.testing.assert_allclose(plane.probability[3, -1], model.predict_proba(corner)[0])
    assert (plane.x[0], plane.y[-1]) == (frame["b"].min(), frame["a"].max())
