"""Imputation of pixels by SRFLVM: the paper's table, column means, a linear model, neighbours.

A random share of the cells is hidden, for five seeds; every method uses only the observed cells,
and is scored by the mean square error of pixels in [0, 1]. Without hidden cells the error is that
of the reconstruction from the latent positions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import KNNImputer

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent.impute import NEIGHBOURS, hidden_mask
from lvmcore.data.samples.paper_datasets import load_paper_images
from lvmcore.metrics.scores import coverage
from lvmcore.models.latent.pca import ProbabilisticPCA
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.numerics.array_types import FloatArray

__all__ = ["load_pixels", "rows"]

Mask = NDArray[np.bool_]

SEEDS = range(5)
COMPONENTS = (2, 20)
#: The paper's error for each share of hidden cells.
PAPER = {
    "cifar10_grey20_2000": {0.0: 0.022, 0.1: 0.026, 0.3: 0.039, 0.6: 0.048},
    "brendan_faces": {0.0: 0.004, 0.1: 0.009, 0.3: 0.042, 0.6: 0.152},
}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for data, shares in PAPER.items():
        for share in shares:
            for n_components in COMPONENTS:
                yield partial(_error, data, share, n_components)
                if share:
                    yield partial(_coverage, data, share, n_components)


@cache
def load_pixels(data: str, share: float, seed: int) -> tuple[FloatArray, Mask]:
    """Pixels in [0, 1], and the mask of the hidden ones, [N, D] each.

    Args:
        data: name of the pictures.
        share: of the pixels that are hidden.
        seed: of the draw of the mask.
    """
    images, _ = load_paper_images(data)
    X = images.reshape(len(images), -1) / 255
    return X, hidden_mask(X.shape, share, blocks=False, seed=seed)


@cache
def _srflvm_scores(data: str, share: float, n_components: int, seed: int) -> tuple[float, float]:
    """The mean square error, and the coverage of the 90 % intervals of hidden cells."""
    X, hidden = load_pixels(data, share, seed)
    model = SRFLVM(n_components=n_components, random_state=seed)
    if not share:
        return _mse(X, _decode_linear(model, X)), float("nan")
    observed = np.where(hidden, np.nan, X)
    filled = model.fit(observed).impute(observed)
    inside = coverage(X[hidden], filled.mean[hidden], filled.variance[hidden], 0.9)
    return _mse(X[hidden], filled.mean[hidden]), inside


@cache
def _baseline_errors(data: str, share: float, n_components: int, seed: int) -> dict[str, float]:
    """Errors of the baselines."""
    X, hidden = load_pixels(data, share, seed)
    linear = ProbabilisticPCA(n_components=n_components)
    if not share:
        means = np.broadcast_to(X.mean(axis=0), X.shape)
        return {
            "column means": _mse(X, means),
            "probabilistic PCA": _mse(X, _decode_linear(linear, X)),
        }
    observed = np.where(hidden, np.nan, X)
    means = np.broadcast_to(np.nanmean(observed, axis=0), X.shape)
    filled = {
        "column means": means,
        "probabilistic PCA": linear.fit(observed).impute(observed).mean,
        "kNN": KNNImputer(n_neighbors=NEIGHBOURS).fit_transform(observed),
    }
    return {name: _mse(X[hidden], found[hidden]) for name, found in filled.items()}


def _decode_linear(model: SRFLVM | ProbabilisticPCA, X: FloatArray) -> FloatArray:
    """Reconstruction of rows from their latent positions."""
    return model.decode(model.fit(X).transform(X)).mean


def _mse(truth: FloatArray, found: FloatArray) -> float:
    return float(np.square(truth - found).mean())


def _settings(data: str, share: float, n_components: int) -> dict[str, object]:
    own = SRFLVM(n_components=n_components, random_state=SEEDS[0]).get_params()
    return {"data": data, "share": share, "seeds": len(SEEDS), "neighbours": NEIGHBOURS, **own}


def _title(data: str, share: float, n_components: int) -> str:
    return f"{data}, {share:.0%} of the pixels hidden, Q={n_components}"


def _error(data: str, share: float, n_components: int) -> BenchmarkRow:
    found = [_srflvm_scores(data, share, n_components, seed)[0] for seed in SEEDS]
    each = [_baseline_errors(data, share, n_components, seed) for seed in SEEDS]
    others = {name: statistics.fmean(errors[name] for errors in each) for name in each[0]}
    asked = min(others["column means"], others["probabilistic PCA"])
    values = ", ".join(f"{name} {value:.4f}" for name, value in others.items())
    return BenchmarkRow(
        f"{_title(data, share, n_components)}: mean square error",
        statistics.fmean(found),
        "px²",
        spread=statistics.pstdev(found),
        ceiling=round(asked, 5),
        reference=f"paper {PAPER[data][share]:.3f}; {values}",
        settings=_settings(data, share, n_components),
    )


def _coverage(data: str, share: float, n_components: int) -> BenchmarkRow:
    found = [_srflvm_scores(data, share, n_components, seed)[1] for seed in SEEDS]
    return BenchmarkRow(
        f"{_title(data, share, n_components)}: coverage of 90 % intervals",
        statistics.fmean(found),
        spread=statistics.pstdev(found),
        floor=0.85,
        ceiling=0.95,
        settings=_settings(data, share, n_components),
    )
