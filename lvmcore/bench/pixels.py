"""Pixels filled by SRFLVM: the paper's table beside column means, a linear map and neighbours.

A share of the cells is hidden at random, by five seeds; every method sees the others alone, each
pixel in [0, 1], and what it fills in is compared by the mean square error. With no cell hidden the
error is that of the rows decoded from their places on the map.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import KNNImputer

from lvmcore.bench.impute import NEIGHBOURS, hide
from lvmcore.bench.report import Options, Row
from lvmcore.data import load_paper_images
from lvmcore.metrics import coverage
from lvmcore.models.pca import ProbabilisticPCA
from lvmcore.models.srflvm import SRFLVM

__all__ = ["rows"]

FloatArray = NDArray[np.float64]
Mask = NDArray[np.bool_]

SEEDS = range(5)
COMPONENTS = (2, 20)
#: The paper's error at each share of hidden cells.
PAPER = {
    "cifar10_grey20_2000": {0.0: 0.022, 0.1: 0.026, 0.3: 0.039, 0.6: 0.048},
    "brendan_faces": {0.0: 0.004, 0.1: 0.009, 0.3: 0.042, 0.6: 0.152},
}


def rows(options: Options) -> Iterator[Callable[[], Row]]:
    """The rows of the benchmark."""
    del options
    for data, shares in PAPER.items():
        for share in shares:
            for n_components in COMPONENTS:
                yield partial(_error, data, share, n_components)
                if share:
                    yield partial(_coverage, data, share, n_components)


@cache
def _pixels(data: str, share: float, seed: int) -> tuple[FloatArray, Mask]:
    """Rows of pixels and which of them are hidden, [N, D] each."""
    images, _ = load_paper_images(data)
    X = images.reshape(len(images), -1) / 255
    return X, hide(X.shape, share, blocks=False, seed=seed)


@cache
def _ours(data: str, share: float, n_components: int, seed: int) -> tuple[float, float]:
    """The mean square error, and the coverage of the 90 % intervals of hidden cells."""
    X, hidden = _pixels(data, share, seed)
    model = SRFLVM(n_components=n_components, random_state=seed)
    if not share:
        return _mse(X, _decoded(model, X)), float("nan")
    seen = np.where(hidden, np.nan, X)
    filled = model.fit(seen).impute(seen)
    inside = coverage(X[hidden], filled.mean[hidden], filled.variance[hidden], 0.9)
    return _mse(X[hidden], filled.mean[hidden]), inside


@cache
def _others(data: str, share: float, n_components: int, seed: int) -> dict[str, float]:
    """Errors of the other methods."""
    X, hidden = _pixels(data, share, seed)
    linear = ProbabilisticPCA(n_components=n_components)
    if not share:
        means = np.broadcast_to(X.mean(axis=0), X.shape)
        return {"column means": _mse(X, means), "probabilistic PCA": _mse(X, _decoded(linear, X))}
    seen = np.where(hidden, np.nan, X)
    means = np.broadcast_to(np.nanmean(seen, axis=0), X.shape)
    filled = {
        "column means": means,
        "probabilistic PCA": linear.fit(seen).impute(seen).mean,
        "kNN": KNNImputer(n_neighbors=NEIGHBOURS).fit_transform(seen),
    }
    return {name: _mse(X[hidden], found[hidden]) for name, found in filled.items()}


def _decoded(model: SRFLVM | ProbabilisticPCA, X: FloatArray) -> FloatArray:
    """Rows as a fit to them decodes them from their places."""
    return model.decode(model.fit(X).transform(X)).mean


def _mse(truth: FloatArray, found: FloatArray) -> float:
    return float(np.square(truth - found).mean())


def _settings(data: str, share: float, n_components: int) -> dict[str, object]:
    own = SRFLVM(n_components=n_components, random_state=SEEDS[0]).get_params()
    return {"data": data, "share": share, "seeds": len(SEEDS), "neighbours": NEIGHBOURS, **own}


def _title(data: str, share: float, n_components: int) -> str:
    return f"{data}, {share:.0%} of the pixels hidden, Q={n_components}"


def _error(data: str, share: float, n_components: int) -> Row:
    found = [_ours(data, share, n_components, seed)[0] for seed in SEEDS]
    each = [_others(data, share, n_components, seed) for seed in SEEDS]
    others = {name: statistics.fmean(errors[name] for errors in each) for name in each[0]}
    asked = min(others["column means"], others["probabilistic PCA"])
    told = ", ".join(f"{name} {value:.4f}" for name, value in others.items())
    return Row(
        f"{_title(data, share, n_components)}: mean square error",
        statistics.fmean(found),
        "px²",
        spread=statistics.pstdev(found),
        ceiling=round(asked, 5),
        reference=f"paper {PAPER[data][share]:.3f}; {told}",
        settings=_settings(data, share, n_components),
    )


def _coverage(data: str, share: float, n_components: int) -> Row:
    found = [_ours(data, share, n_components, seed)[1] for seed in SEEDS]
    return Row(
        f"{_title(data, share, n_components)}: coverage of 90 % intervals",
        statistics.fmean(found),
        spread=statistics.pstdev(found),
        floor=0.85,
        ceiling=0.95,
        settings=_settings(data, share, n_components),
    )
