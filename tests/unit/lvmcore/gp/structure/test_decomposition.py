"""The summands of a Gaussian process, against matrices written out and draws of the prior."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, DotProduct, ExpSineSquared, Matern

from lvmcore import GPRegressor

TEXT = "linear(t) + rbf(t) * periodic(t) + matern32(u)"


def table(n: int = 50) -> tuple[pd.DataFrame, NDArray[Any]]:
    """A trend, a period of 8 and a second column, in units far from standardised ones."""
    rng = np.random.default_rng(0)
    t, u = np.arange(n, dtype=float), 100 * rng.normal(size=n)
    y = 500 + 2 * t + 20 * np.sin(2 * np.pi * t / 8) + 10 * np.sin(u / 100)
    return pd.DataFrame({"t": t, "u": u}), y + 3 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fit() -> tuple[GPRegressor, pd.DataFrame, NDArray[Any]]:
    X, y = table()
    return GPRegressor(kernel=TEXT, max_iter=60).fit(X, y), X, y


def values(model: GPRegressor) -> dict[tuple[str, str], float]:
    return {
        (one.kernel, one.name): one.value
        for part in model.components_
        for one in part.hyperparameters
    }


def covariances(model: GPRegressor, X: pd.DataFrame, X2: pd.DataFrame) -> list[NDArray[Any]]:
    """v_i k_i between rows by scikit-learn, from the parameters in the units of the table."""
    _, wave, rough, _ = model.components_
    got = values(model)
    t, t2, u, u2 = (part[[name]].to_numpy() for name in ("t", "u") for part in (X, X2))
    centre = model._standardiser.mean[0]
    slope = got["linear", "slope sd"]
    periodic = ExpSineSquared(got["periodic", "relative lengthscale"], got["periodic", "period"])
    return [
        slope**2 * DotProduct(0)(t - centre, t2 - centre),
        wave.sd**2 * RBF(got["rbf", "lengthscale"])(t, t2) * periodic(t, t2),
        rough.sd**2 * Matern(got["matern32", "lengthscale"], nu=1.5)(u, u2),
    ]


def test_each_summand_is_that_of_matrices_in_the_units_of_the_table(
    fit: tuple[GPRegressor, pd.DataFrame, NDArray[Any]],
) -> None:
    model, X, y = fit
    new = pd.DataFrame({"t": [3.5, 20.25, 60.0], "u": [10.0, -150.0, 80.0]})
    A = sum(covariances(model, X, X)) + model.components_[-1].sd ** 2 * np.eye(len(X))
    found = model.decompose(new)
    assert found.offset == pytest.approx(y.mean())
    assert found.noise_variance == pytest.approx(model.components_[-1].sd ** 2)
    for i, (k, own) in enumerate(
        zip(covariances(model, new, X), covariances(model, new, new), strict=True)
    ):
        np.testing.assert_allclose(
            found.mean[:, i], k @ np.linalg.solve(A, y - y.mean()), rtol=1e-5, atol=1e-5
        )
        left = np.diag(own) - np.einsum("na,an->n", k, np.linalg.solve(A, k.T))
        np.testing.assert_allclose(found.variance[:, i], left, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.offset + found.mean.sum(1), model.predict(new), rtol=1e-9)


def test_variances_are_those_of_draws(
    fit: tuple[GPRegressor, pd.DataFrame, NDArray[Any]],
) -> None:
    """Draws of the summands at rows and new rows, and of y: the residual of regressing f_i on y."""
    model, X, _ = fit
    new = pd.DataFrame({"t": [20.25, 60.0], "u": [-150.0, 80.0]})
    both = pd.concat([X, new], ignore_index=True)
    rng = np.random.default_rng(1)
    S, n = 20_000, len(X)
    draws = []
    for k in covariances(model, both, both):
        values, vectors = np.linalg.eigh(k)
        draws.append(rng.normal(size=(S, n + 2)) * np.sqrt(values.clip(0)) @ vectors.T)
    noise = model.components_[-1].sd * rng.normal(size=(S, n))
    y = sum(part[:, :n] for part in draws) + noise
    found = model.decompose(new)
    for i, part in enumerate(draws):
        at = part[:, n:]
        weights = np.linalg.lstsq(y, at, rcond=None)[0]
        left = np.square(at - y @ weights).sum(0) / (S - n)
        np.testing.assert_allclose(found.variance[:, i], left, rtol=0.05)


def test_shares_add_up_to_one_and_are_covariances(
    fit: tuple[GPRegressor, pd.DataFrame, NDArray[Any]],
) -> None:
    model, X, y = fit
    parts = model.components_
    assert [part.expression for part in parts] == [*TEXT.split(" + "), "noise"]
    assert parts[-1].phrase == "noise"
    assert parts[1].phrase.startswith("a period of 8.")
    assert [part.columns for part in parts] == [("t",), ("t",), ("u",), ()]
    assert sum(part.share for part in parts) == pytest.approx(1)
    means = model.decompose(X).mean
    for part, mean in zip(parts, means.T, strict=False):
        assert part.share == pytest.approx(np.cov(mean, y)[0, 1] / y.var(ddof=1))
    rest = y - model.predict(X)
    assert parts[-1].share == pytest.approx(np.cov(rest, y)[0, 1] / y.var(ddof=1))


def test_parameters_are_in_the_units_of_the_table(
    fit: tuple[GPRegressor, pd.DataFrame, NDArray[Any]],
) -> None:
    model, _, _ = fit
    got = values(model)
    assert got["periodic", "period"] == pytest.approx(8, rel=0.02)
    assert 30 < got["matern32", "lengthscale"] < 1000
    assert model.components_[-1].sd == pytest.approx(3, rel=0.5)
    columns = {one.name: one.column for one in model.components_[1].hyperparameters}
    assert columns == {"lengthscale": "t", "period": "t", "relative lengthscale": None}


def test_every_kernel_names_its_parameters_in_units() -> None:
    """A column in other units has its lengthscales, periods and slopes in those."""
    X, y = table(20)
    text = (
        "rational_quadratic(t) + piecewise_polynomial(t) + polynomial + constant + linear(t) "
        "+ cosine(t, period=8) + periodic(period=9)"
    )
    first = GPRegressor(kernel=text, max_iter=1).fit(X, y)
    larger = X.assign(t=1000 * X["t"])
    again = text.replace("period=8", "period=8000")
    second = GPRegressor(kernel=again.replace(" + periodic(period=9)", ""), max_iter=1)
    short = GPRegressor(kernel=text.replace(" + periodic(period=9)", ""), max_iter=1).fit(X, y)
    factors = {"slope sd": 1e-3, "lengthscale": 1e3, "period": 1e3}
    for one, other in zip(short.components_, second.fit(larger, y).components_, strict=True):
        for mine, theirs in zip(one.hyperparameters, other.hyperparameters, strict=True):
            factor = 1.0 if mine.column is None else factors[mine.name]
            assert theirs.value == pytest.approx(factor * mine.value, rel=1e-6)
    names = [one.name for one in first.components_[-2].hyperparameters]
    assert names == ["period", "period", "relative lengthscale 1", "relative lengthscale 2"]
