"""The benchmark of kernels: its rows and limits, and the comparison with scikit-learn."""

import numpy as np
import pandas as pd
import pytest

from lvmcore.bench.deep import kernels
from lvmcore.bench.deep.kernels import COMPOSED, _Forecast, scikit_learn_difference
from lvmcore.bench.harness.report import Options
from lvmcore.models.supervised.gp import GPRegressor


def test_rows_say_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """On figures made up: the search gains half a nat, and its intervals are too narrow."""

    def forecast(name: str, kernel: str) -> _Forecast:
        if kernel == "rbf":
            return _Forecast("rbf", -3.0, 0.95, 0.5)
        return _Forecast("periodic(month)", -2.5, 0.7 if name == "car_sales" else 0.9, 4.0)

    X, y = pd.DataFrame({"month": np.arange(20.0)}), np.sin(np.arange(20.0))
    monkeypatch.setattr(kernels, "_forecast", forecast)
    monkeypatch.setattr(kernels, "_series", lambda name: (X, y))
    monkeypatch.setattr(kernels, "scikit_learn_difference", lambda *_: 1e-9)
    found = [make() for make in kernels.rows(Options())]
    assert len(found) == 3 * 3 + 1
    assert [row.holds for row in found] == [False, False, None, True, False, True] + 3 * [None] + [
        True
    ]
    assert found[0].value == pytest.approx(0.5)
    assert found[0].reference == "RBF -3.000, periodic(month) -2.500"
    assert found[0].settings["forecast"] == 4
    assert found[6].reference == "RBF 0.50 s"


def test_the_last_fifth_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    X = pd.DataFrame({"month": np.arange(40.0)})
    y = np.sin(np.arange(40.0))
    monkeypatch.setattr(kernels, "_series", lambda name: (X, y))
    kernels._forecast.cache_clear()
    found = kernels._forecast("car_sales", "rbf")
    kernels._forecast.cache_clear()
    model = GPRegressor(kernel="rbf").fit(X[:32], y[:32])
    assert found.density == pytest.approx(model.log_density(X[32:], y[32:]).mean())
    assert found.kernel == "rbf"


def test_the_difference_from_scikit_learn_is_that_of_rounding() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"month": np.arange(40.0)})
    y = 50 + X["month"].to_numpy() + 5 * np.sin(X["month"].to_numpy() / 2) + rng.normal(size=40)
    model = GPRegressor(kernel=COMPOSED, max_iter=20, parameter_uncertainty=False).fit(X, y)
    assert scikit_learn_difference(model, X, X + 40) < 1e-6
    model._function.posterior.alpha *= 1.01
    assert scikit_learn_difference(model, X, X + 40) > 1e-4
