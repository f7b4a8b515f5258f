"""The search of a kernel: what it finds, what it leaves alone, and that it is repeatable."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lvmcore import GPRegressor, NumericalError, SVGPRegressor, load
from lvmcore.gp.exact_regression import ExactGP
from lvmcore.gp.structure import search
from lvmcore.gp.structure.kernel_sentence import kernel_sentence
from lvmcore.gp.structure.search import KernelSearch, free_parameters
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.training.checkpoint import Checkpoint

STATIONARY = {"rbf", "matern52", "matern32"}


def series(n: int = 70) -> tuple[pd.DataFrame, NDArray[Any]]:
    """A trend, a period of 12 and noise."""
    rng = np.random.default_rng(0)
    month = np.arange(n, dtype=float)
    y = 100 + 0.5 * month + 10 * np.sin(2 * np.pi * month / 12) ** 3 + rng.normal(size=n)
    return pd.DataFrame({"month": month}), y


@pytest.fixture(scope="module")
def fit() -> GPRegressor:
    X, y = series()
    return GPRegressor().fit(X[:56], y[:56])


@pytest.mark.slow
def test_a_trend_and_a_period_are_found_and_extrapolate(fit: GPRegressor, tmp_path: Path) -> None:
    X, y = series()
    periods = [
        one.value for c in fit.components_ for one in c.hyperparameters if one.name == "period"
    ]
    assert periods == pytest.approx([12], rel=0.03)
    plain = GPRegressor(kernel="rbf").fit(X[:56], y[:56])
    gain = fit.log_density(X[56:], y[56:]) - plain.log_density(X[56:], y[56:])
    assert gain.mean() > 1
    assert fit.notes_ == (kernel_sentence(fit._function.gp.kernel),)  # type: ignore[attr-defined]
    fit.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors")
    assert again.kernel_ == fit.kernel_
    np.testing.assert_array_equal(again.predictive(X).sd, fit.predictive(X).sd)
    assert [c.share for c in again.components_] == [c.share for c in fit.components_]


def test_a_stopped_and_resumed_search_ends_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(search, "MOST_STEPS", 1)
    monkeypatch.setattr(search, "PERIODS", 1)
    X, y = series(40)
    path = tmp_path / "checkpoint.safetensors"
    whole = GPRegressor(max_iter=30).fit(X, y)
    assert "periodic" in whole.kernel_
    GPRegressor(max_iter=30)._fit_from(
        X, y, callback=lambda step: step.iteration >= 2, checkpoint=Checkpoint(path)
    )
    second = GPRegressor(max_iter=30)._fit_from(X, y, checkpoint=Checkpoint(path))
    assert second.kernel_ == whole.kernel_
    assert second.elbo_ == whole.elbo_
    np.testing.assert_array_equal(second.predict(X), whole.predict(X))


@pytest.mark.slow
def test_noise_and_smooth_functions_keep_a_stationary_kernel() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=60)
    assert GPRegressor().fit(X, y).kernel_ in STATIONARY
    time = np.arange(60.0)[:, None]
    noise = rng.normal(size=60)
    for target in (noise, np.cumsum(noise)):
        assert "periodic" not in GPRegressor().fit(time, target).kernel_


def test_a_linear_function_of_many_columns_is_found() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 4))
    y = X @ np.array([3.0, -2.0, 1.0, 2.0]) + 0.5 * np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=80)
    assert "linear" in GPRegressor().fit(X, y).kernel_


def test_a_sparse_process_chooses_among_stationary_kernels() -> None:
    X, y = series(40)
    model: Any = SVGPRegressor().fit(X, y)
    assert str(model._function.gp.kernel.expression) in STATIONARY


def kernel(text: str) -> CompositeKernel:
    return CompositeKernel(read_kernel(text), ["t", "u"], torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("rbf", 4),  # two lengthscales, a variance and the noise
        ("linear(t)", 2),
        ("linear", 3),
        ("periodic(t)", 4),
        ("periodic(t, period=3)", 3),
        ("rbf(t) * periodic(t) + linear(t) * matern32(u)", 7),
    ],
)
def test_free_parameters_are_counted_once(text: str, count: int) -> None:
    assert free_parameters(ExactGP(kernel(text), torch.ones(1, dtype=torch.float64))) == count


def test_the_score_is_that_of_its_definition() -> None:
    X = torch.arange(12, dtype=torch.float64)[:, None].repeat(1, 2)
    Y = torch.sin(X[:, :1])
    gp = ExactGP(kernel("rbf(t) * periodic(t)"), X)
    A = gp.noisy_covariance(X).detach().numpy()
    exact = multivariate_normal(np.zeros(12), A).logpdf(Y[:, 0].numpy())
    # a variance, a lengthscale, a period and its shape, and the noise; the period counts thrice
    steps = KernelSearch(X, Y, lambda text: kernel(str(text)), 20)
    assert steps._score(gp, X, Y) == pytest.approx(exact - 3.5 * math.log(12))
    trend = ExactGP(kernel("rbf(t) + linear(t)"), X)
    exact = multivariate_normal(np.zeros(12), trend.noisy_covariance(X).detach().numpy()).logpdf(
        Y[:, 0].numpy()
    )
    # a variance, a lengthscale and the noise, and a nat for the trend
    assert steps._score(trend, X, Y) == pytest.approx(exact - 1.5 * math.log(12) - 1)


def test_a_slow_trend_of_a_series_is_kept_and_noise_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MOST_STEPS", "STEPS_AFTER_TREND"):
        monkeypatch.setattr(search, name, 0)
    t = np.arange(30.0)[:, None]
    noise = np.random.default_rng(0).normal(size=30)
    settings: dict[str, Any] = {"target_transform": "none", "max_iter": 20}
    assert "linear" not in GPRegressor(**settings).fit(t, noise).kernel_
    assert "linear" in GPRegressor(**settings).fit(t, noise + 0.5 * t[:, 0]).kernel_


def test_an_extension_starts_at_the_function_that_it_extends() -> None:
    """A further summand of a small variance adds to it; another factor keeps the others."""
    torch.manual_seed(0)
    X = torch.randn(20, 2, dtype=torch.float64)
    X[:, 0] = torch.arange(20) / 6
    gp = ExactGP(kernel("rbf(t) * periodic(t) + matern32"), X)
    with torch.no_grad():
        for one in gp.parameters():
            one.add_(0.3)
    steps = KernelSearch(X, X[:, :1], lambda text: kernel(str(text)), 20)
    whole = gp.covariance(X, X)
    seen = set()
    for extension in steps._extensions(gp):
        found = steps._extended(gp, extension)
        assert float(found.log_noise.detach()) == float(gp.log_noise.detach())
        parts = found.kernel.summands
        if None in extension.origins:
            assert float(parts[-1].log_variance.detach()) == pytest.approx(math.log(0.2))
            rest = found.covariance(X, X) - parts[-1].forward(X, X)
            torch.testing.assert_close(rest, whole)
            seen.add("summand")
        elif str(extension.expression) == "rational_quadratic(t) * periodic(t) + matern32":
            lengthscale: Any = parts[0].factors[0]
            before: Any = gp.kernel.summands[0].factors[0]
            torch.testing.assert_close(
                lengthscale.component.kernel.lengthscale.reshape(-1),
                before.component.log_lengthscales.exp(),
            )
            seen.add("exchange")
        elif str(extension.expression) == "periodic(t) + matern32":
            torch.testing.assert_close(
                parts[0].factors[0].forward(X, X),
                gp.kernel.summands[0].factors[1].forward(X, X),
            )
            seen.add("reduction")
    assert seen == {"summand", "exchange", "reduction"}


def test_a_covariance_without_a_factor_ends_the_search_at_the_stationary_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y = torch.rand(12, 1).double(), torch.rand(12, 1).double()
    gp = ExactGP.stationary(1, "rbf", X)

    def fail(*_: Any, **__: Any) -> None:
        raise NumericalError("no factor")

    monkeypatch.setattr(KernelSearch, "_fitted", fail)
    found = KernelSearch(X, Y, lambda _: CompositeKernel(read_kernel("rbf"), ["0"], X[0]), 5)
    assert found.extend(gp) is gp
