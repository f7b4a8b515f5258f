"""The S-curve of SRFLVM's figures 3 and 4: recovery of a plane and of the kernel over it.

500 points on an S in the plane, of sd 1 in each direction, and 100 columns from a Gaussian process
over it with the kernel of the paper's appendix E.1, an RBF kernel plus a periodic one of half its
variance each, lengthscale 1 and period 4.5 π (a product over the two directions, so that it is
positive definite), plus noise of sd 0.1. Positions: R² of a linear regression of the true ones on
those of a map, mean of the directions. Kernel: ‖a K̂ − K‖/‖K‖ of the matrices between all rows, K̂
at the map's own positions, both centred and with the best scale a, as columns that are
standardised tell neither a constant nor a scale.

Figure 4: the kernel of SRFLVM with the weights integrated out, and with a Gaussian of their own
that is learned by gradients, from the same columns and from 0/1 columns with probabilities
1/(1 + e^−f) of the noise-free functions f. Settings are those suggested for the table; the steps
are the same.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.datasets import make_s_curve
from sklearn.linear_model import LinearRegression

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.gp.model import GPLatentVariableModel
from lvmcore.metrics.scores import kernel_error
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.cell_types import Cells

__all__ = ["rows"]

N_ROWS, N_COLUMNS, NOISE = 500, 100, 0.1
SEEDS, KERNEL_SEEDS = range(3), range(5)
PERIOD = 4.5 * np.pi
LIKELIHOODS, WEIGHTS = ("gaussian", "bernoulli"), ("variational", "marginal")

MODELS: dict[str, Callable[[int], LatentVariableModel]] = {
    "SRFLVM": lambda seed: SRFLVM(n_components=2, random_state=seed),
    "Bayesian GPLVM, RBF": lambda seed: BayesianGPLVM(n_components=2, random_state=seed),
}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for name in MODELS:
        yield partial(_row, name, "positions")
        yield partial(_row, name, "kernel")
        yield partial(_row, name, "seconds")
    for likelihood in LIKELIHOODS:
        for weights in WEIGHTS:
            yield partial(_kernel_row, likelihood, weights)
            yield partial(_bound_row, likelihood, weights)
            yield partial(_seconds_row, likelihood, weights)


@dataclass(frozen=True)
class _Recovery:
    """What a map recovers.

    Attributes:
        positions: R² of the true positions.
        kernel: relative error of the centred correlations.
        seconds: of the fit.
    """

    positions: float
    kernel: float
    seconds: float


def s_curve(seed: int, *, binary: bool = False) -> tuple[FloatArray, FloatArray, FloatArray]:
    """True positions [N, 2], their correlations [N, N], and the columns [N, M]."""
    points, _ = make_s_curve(N_ROWS, random_state=seed)
    X = points[:, [0, 2]] / points[:, [0, 2]].std(axis=0)
    away = X[:, None, :] - X
    rbf = np.exp(-0.5 * np.square(away).sum(-1))
    periodic = np.exp(-2 * np.square(np.sin(np.pi * away / PERIOD)).sum(-1))
    K: FloatArray = 0.5 * (rbf + periodic)
    values, vectors = np.linalg.eigh(K)
    rng = np.random.default_rng(seed)
    draws = rng.standard_normal((N_ROWS, N_COLUMNS))
    F = (vectors * np.sqrt(values.clip(0))) @ draws
    if binary:
        return X, K, (rng.uniform(size=F.shape) < expit(F)).astype(float)
    return X, K, F + NOISE * rng.standard_normal(F.shape)


def _correlations(model: LatentVariableModel) -> NDArray[np.float64]:
    """The correlations of the model's kernel between its rows, [N, N]."""
    X = model.embedding_.mean
    if isinstance(model, SRFLVM):
        return model.spectral_.correlation_matrix(X)
    assert isinstance(model, GPLatentVariableModel)
    points = torch.as_tensor(X)
    with torch.no_grad():
        K = model._decoder.kernel(points, points).numpy()  # type: ignore[attr-defined]
    sd = np.sqrt(np.diag(K))
    return np.asarray(K / sd / sd[:, None])


@cache
def _recovery(name: str, seed: int) -> _Recovery:
    X, K, Y = s_curve(seed)
    began = time.perf_counter()
    model = MODELS[name](seed).fit(Y)
    seconds = time.perf_counter() - began
    own = model.embedding_.mean
    return _Recovery(
        positions=float(LinearRegression().fit(own, X).score(own, X)),
        kernel=kernel_error(_correlations(model), K),
        seconds=seconds,
    )


def _row(name: str, what: str) -> BenchmarkRow:
    found = [getattr(_recovery(name, seed), what) for seed in SEEDS]
    titles = {
        "positions": "R² of the positions",
        "kernel": "relative error of the centred kernel",
        "seconds": "median seconds of a fit",
    }
    seconds = what == "seconds"
    return BenchmarkRow(
        f"{name}: {titles[what]}",
        statistics.median(found) if seconds else statistics.fmean(found),
        "s" if seconds else "",
        spread=None if seconds else statistics.pstdev(found),
        settings={
            "rows": N_ROWS,
            "columns": N_COLUMNS,
            "noise": NOISE,
            "seeds": len(SEEDS),
            "model": name,
        },
    )


@dataclass(frozen=True)
class _KernelFit:
    """A fit with weights integrated out or not.

    Attributes:
        error: relative error of the centred kernel.
        bound: nats.
        seconds: of the fit.
    """

    error: float
    bound: float
    seconds: float


def _weight_model(likelihood: str, weights: str, seed: int) -> SRFLVM:
    cells: Cells = "binary" if likelihood == "bernoulli" else "any"
    advised = SRFLVM.suggest(TableSize(n_rows=N_ROWS, n_columns=N_COLUMNS, cells=cells))
    settings: dict[str, Any] = {"weights": weights, **advised}
    return SRFLVM(n_components=2, random_state=seed, **settings)


@cache
def _kernel_fit(likelihood: str, weights: str, seed: int) -> _KernelFit:
    _, K, Y = s_curve(seed, binary=likelihood == "bernoulli")
    began = time.perf_counter()
    model = _weight_model(likelihood, weights, seed).fit(Y)
    seconds = time.perf_counter() - began
    return _KernelFit(kernel_error(_correlations(model), K), model.elbo_, seconds)


def _weight_row(
    likelihood: str, weights: str, what: str, value: float, spread: float | None, unit: str = ""
) -> BenchmarkRow:
    own = {"rows": N_ROWS, "columns": N_COLUMNS, "seeds": len(KERNEL_SEEDS)}
    settings = _weight_model(likelihood, weights, 0).get_params()
    name = f"SRFLVM, {likelihood}, {weights} weights: {what}"
    return BenchmarkRow(name, value, unit, spread=spread, settings={**own, **settings})


def _kernel_row(likelihood: str, weights: str) -> BenchmarkRow:
    found = [_kernel_fit(likelihood, weights, seed).error for seed in KERNEL_SEEDS]
    mean, spread = statistics.fmean(found), statistics.pstdev(found)
    return _weight_row(likelihood, weights, "relative error of the centred kernel", mean, spread)


def _bound_row(likelihood: str, weights: str) -> BenchmarkRow:
    cells = N_ROWS * N_COLUMNS
    found = [_kernel_fit(likelihood, weights, seed).bound / cells for seed in KERNEL_SEEDS]
    mean, spread = statistics.fmean(found), statistics.pstdev(found)
    return _weight_row(likelihood, weights, "bound, nats a cell", mean, spread)


def _seconds_row(likelihood: str, weights: str) -> BenchmarkRow:
    found = [_kernel_fit(likelihood, weights, seed).seconds for seed in KERNEL_SEEDS]
    middle = statistics.median(found)
    return _weight_row(likelihood, weights, "median seconds of a fit", middle, None, "s")
