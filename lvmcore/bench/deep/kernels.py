"""The searched kernel of an exact Gaussian process against RBF, on series forecast to their end.

The first four fifths of each series are fitted, by the number of the month, and the last fifth is
forecast; no setting was chosen on it. RBF is fitted to the target itself, the searched kernel to a
transform of it where one is chosen (``target_transform``). The sunspots are every third month, as a
fit takes the cube of the rows. Densities are log p(y | x) of the months of the last fifth, each by
itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pandas as pd

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_table
from lvmcore.models.supervised.gp import GPRegressor
from lvmcore.numerics.array_types import FloatArray

__all__ = ["rows", "scikit_learn_difference"]

#: Months from row to row, and the least gain on RBF that is asked, nats a month; None for none.
SERIES: dict[str, tuple[int, float | None]] = {
    "mean_temperature": (1, 1.0),
    "car_sales": (1, 1.0),
    "sunspots": (3, None),
}
#: Share of the rows that is fitted, and level of the intervals.
FITTED, LEVEL = 0.8, 0.9
#: The kernel of the comparison with scikit-learn.
COMPOSED = "linear(month) + rbf(month) * periodic(month)"


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for name in SERIES:
        yield partial(_gain, name)
    for name in SERIES:
        yield partial(_coverage, name)
    for name in SERIES:
        yield partial(_seconds, name)
    yield partial(_agreement)


@dataclass(frozen=True)
class _Forecast:
    """Kernel, density and share inside the intervals on the last fifth, processor time, scale."""

    kernel: str
    density: float
    inside: float
    seconds: float
    scale: str = ""


@cache
def _series(name: str) -> tuple[pd.DataFrame, FloatArray]:
    """The months and the numbers of a series."""
    every = SERIES[name][0]
    frame = load_table(f"tables/ts_monthly_{name}.csv.gz").frame
    values = frame.iloc[::every, 1].to_numpy(dtype=np.float64)
    return pd.DataFrame({"month": every * np.arange(len(values), dtype=np.float64)}), values


def _split(name: str) -> tuple[pd.DataFrame, FloatArray, pd.DataFrame, FloatArray]:
    """The rows of the fit, and those to forecast."""
    X, y = _series(name)
    n = int(FITTED * len(y))
    return X[:n], y[:n], X[n:], y[n:]


@cache
def _forecast(name: str, kernel: str) -> _Forecast:
    X, y, later, truth = _split(name)
    began = time.process_time()
    plain = GPRegressor(kernel=kernel, target_transform="none")
    model = (GPRegressor() if kernel == "auto" else plain).fit(X, y)
    seconds = time.process_time() - began
    ends = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
    low, high = model.predict_quantiles(later, ends).T
    return _Forecast(
        model.kernel_,
        float(model.log_density(later, truth).mean()),
        float(((low < truth) & (truth < high)).mean()),
        seconds,
        model.target_transform_.scale_phrase,
    )


def _settings(name: str) -> dict[str, object]:
    X, _, later, _ = _split(name)
    return {"data": f"ts_monthly_{name}", "rows": len(X), "forecast": len(later)}


def _gain(name: str) -> BenchmarkRow:
    plain, found = _forecast(name, "rbf"), _forecast(name, "auto")
    scale = f" on {found.scale}" if found.scale else ""
    return BenchmarkRow(
        f"{name}: log density of the last fifth, the searched kernel less RBF",
        found.density - plain.density,
        "nats a row",
        floor=SERIES[name][1],
        reference=f"RBF {plain.density:.3f}, {found.kernel}{scale} {found.density:.3f}",
        settings=_settings(name),
    )


def _coverage(name: str) -> BenchmarkRow:
    plain, found = _forecast(name, "rbf"), _forecast(name, "auto")
    return BenchmarkRow(
        f"{name}: coverage of 90 % intervals on the last fifth, the searched kernel",
        found.inside,
        floor=0.8,
        reference=f"RBF {plain.inside:.3f}",
        settings=_settings(name),
    )


def _seconds(name: str) -> BenchmarkRow:
    plain, found = _forecast(name, "rbf"), _forecast(name, "auto")
    return BenchmarkRow(
        f"{name}: processor time of a fit with the search",
        found.seconds,
        "s",
        reference=f"RBF {plain.seconds:.2f} s",
        settings=_settings(name),
    )


def scikit_learn_difference(model: GPRegressor, X: pd.DataFrame, later: pd.DataFrame) -> float:
    """Largest difference from scikit-learn's process with the same kernel, sds of the target.

    Of mean and sd at rows, and of log p(y | X) a row; of a model with the kernel ``COMPOSED``.

    Args:
        model: fitted to X.
        X: rows of the fit.
        later: rows to predict.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import (
        RBF,
        ConstantKernel,
        DotProduct,
        ExpSineSquared,
        WhiteKernel,
    )

    line, wave, noise = model.components_
    (slope,) = line.hyperparameters
    far, period, shape = wave.hyperparameters
    kernel = (
        ConstantKernel(slope.value**2) * DotProduct(0.0, "fixed")
        + ConstantKernel(wave.sd**2) * RBF(far.value) * ExpSineSquared(shape.value, period.value)
        + WhiteKernel(noise.sd**2)
    )
    centre, mean = model.standardiser_.mean, model._target.mean
    y = model._function.posterior.Y.numpy()[:, 0] * model._target.scale
    other = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X - centre, y)
    theirs = other.predict(later - centre, return_std=True)
    ours = model.predict(later, return_std=True)
    own = model.elbo_ - len(y) * np.log(model._target.scale)
    return float(
        max(
            np.abs(ours[0] - mean - theirs[0]).max() / model._target.scale,
            np.abs(ours[1] - theirs[1]).max() / model._target.scale,
            abs(own - other.log_marginal_likelihood_value_) / len(y),
        )
    )


def _agreement() -> BenchmarkRow:
    X, y, later, _ = _split("mean_temperature")
    model = GPRegressor(kernel=COMPOSED, target_transform="none", parameter_uncertainty=False).fit(
        X, y
    )
    return BenchmarkRow(
        "mean_temperature: largest difference from scikit-learn at equal parameters",
        scikit_learn_difference(model, X, later),
        "sd of the target",
        ceiling=1e-6,
        reference="means and sds of the last fifth, log p(y) a row",
        settings={**_settings("mean_temperature"), "kernel": COMPOSED},
    )
