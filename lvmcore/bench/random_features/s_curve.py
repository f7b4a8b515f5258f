"""The S-curve of SRFLVM's figure 3: recovery of a plane and of the kernel over it.

500 points on an S in the plane, of sd 1 in each direction, and 100 columns from a Gaussian process
over it with the kernel of the paper's appendix E.1, an RBF kernel plus a periodic one of half its
variance each, lengthscale 1 and period 4.5 π (a product over the two directions, so that it is
positive definite), plus noise of sd 0.1. Positions: R² of a linear regression of the true ones on
those of a map, mean of the directions. Kernel: ‖a K̂ − K‖/‖K‖ of the matrices between all rows, K̂
at the map's own positions, both centred and with the best scale a, as columns that are
standardised tell neither a constant nor a scale.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_s_curve
from sklearn.linear_model import LinearRegression

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.gp.model import GPLatentVariableModel
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.numerics.array_types import FloatArray

__all__ = ["rows"]

N_ROWS, N_COLUMNS, NOISE = 500, 100, 0.1
SEEDS = range(3)
PERIOD = 4.5 * np.pi

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


def s_curve(seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
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
    return X, K, F + NOISE * rng.standard_normal(F.shape)


def _correlations(model: LatentVariableModel) -> NDArray[np.float64]:
    """The correlations of the model's kernel between its rows, [N, N]."""
    X = model.embedding_.mean
    if isinstance(model, SRFLVM):
        angle = X @ model.spectral_.points.T
        found = np.cos(angle) @ np.cos(angle).T + np.sin(angle) @ np.sin(angle).T
        return np.asarray(found / angle.shape[1])
    assert isinstance(model, GPLatentVariableModel)
    points = torch.as_tensor(X)
    with torch.no_grad():
        K = model._decoder.kernel(points, points).numpy()  # type: ignore[attr-defined]
    sd = np.sqrt(np.diag(K))
    return np.asarray(K / sd / sd[:, None])


def _kernel_error(found: FloatArray, K: FloatArray) -> float:
    """‖a K̂ − K‖/‖K‖ of centred matrices with the best a: the sine of the angle between them."""
    one, other = (
        part - part.mean(axis=0) - part.mean(axis=1)[:, None] + part.mean() for part in (found, K)
    )
    cosine = (one * other).sum() / np.linalg.norm(one) / np.linalg.norm(other)
    return float(np.sqrt(max(0.0, 1 - cosine**2)))


@cache
def _recovery(name: str, seed: int) -> _Recovery:
    X, K, Y = s_curve(seed)
    began = time.perf_counter()
    model = MODELS[name](seed).fit(Y)
    seconds = time.perf_counter() - began
    own = model.embedding_.mean
    return _Recovery(
        positions=float(LinearRegression().fit(own, X).score(own, X)),
        kernel=_kernel_error(_correlations(model), K),
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
