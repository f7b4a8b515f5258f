"""Pictures of the SRFLVM paper by the methods that it compares with: its tables IV and V.

Table IV: accuracy of k neighbours on the two-dimensional map, stratified 5-fold, of the pictures of
``long_tables``, at the suggested settings, one seed; no map uses labels. Isomap has a matrix of
all distances
and is not fitted to the 70 000 rows of MNIST. Table V: mean square error of pixels in [0, 1] that
were hidden from the fit, as in ``pixels``; with none hidden, of the reconstruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.random_features.long_tables import CIFAR, MNIST, PictureSet, load_pictures
from lvmcore.bench.random_features.pixels import load_pixels
from lvmcore.metrics.scores import knn_accuracy
from lvmcore.models import MODELS
from lvmcore.numerics.array_types import FloatArray

__all__ = ["rows"]

SEED = 0
N_COMPONENTS = 2
GREY_LEVELS = 255
#: Models of counts, which get grey levels from 0 to 255; the others get levels from 0 to 1.
COUNTS = ("nbvae",)
SETS: dict[str, PictureSet] = {"f-mnist": MNIST, "fd-cifar": CIFAR[5], "f-cifar": CIFAR[10]}
#: Accuracy of the paper by k neighbours, of a method on a set of pictures.
PAPER_NEIGHBOURS: dict[str, dict[str, dict[int, float]]] = {
    "vae": {
        "f-mnist": {2: 0.728, 5: 0.774, 10: 0.783},
        "fd-cifar": {2: 0.266, 5: 0.293, 10: 0.312},
        "f-cifar": {2: 0.151, 5: 0.174, 10: 0.19},
    },
    "nbvae": {
        "f-mnist": {2: 0.502, 5: 0.557, 10: 0.582},
        "fd-cifar": {2: 0.248, 5: 0.273, 10: 0.292},
        "f-cifar": {2: 0.137, 5: 0.152, 10: 0.162},
    },
    "cvq_vae": {
        "f-mnist": {2: 0.107, 5: 0.105, 10: 0.103},
        "fd-cifar": {2: 0.201, 5: 0.2, 10: 0.2},
        "f-cifar": {2: 0.098, 5: 0.102, 10: 0.096},
    },
    "bayesian_gplvm": {
        "f-mnist": {2: 0.42, 5: 0.455, 10: 0.474},
        "fd-cifar": {2: 0.26, 5: 0.279, 10: 0.287},
        "f-cifar": {2: 0.132, 5: 0.154, 10: 0.144},
    },
    "isomap": {
        "fd-cifar": {2: 0.27, 5: 0.291, 10: 0.305},
        "f-cifar": {2: 0.142, 5: 0.159, 10: 0.173},
    },
}
#: Mean square error of the paper for each share of hidden pixels.
PAPER_PIXELS: dict[str, dict[str, dict[float, float]]] = {
    "vae": {
        "cifar10_grey20_2000": {0.0: 0.023, 0.1: 0.044, 0.3: 0.071, 0.6: 0.072},
        "brendan_faces": {0.0: 0.005, 0.1: 0.009, 0.3: 0.043, 0.6: 0.15},
    },
    "bayesian_gplvm": {
        "cifar10_grey20_2000": {0.0: 0.025, 0.1: 0.028, 0.3: 0.048, 0.6: 0.119},
        "brendan_faces": {0.0: 0.006, 0.1: 0.041, 0.3: 0.087, 0.6: 0.197},
    },
}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for method, sets in PAPER_NEIGHBOURS.items():
        for pictures, accuracies in sets.items():
            for k in accuracies:
                yield partial(_accuracy, method, pictures, k)
    for method, tables in PAPER_PIXELS.items():
        for data, errors in tables.items():
            for share in errors:
                yield partial(_error, method, data, share)


def _model(method: str, n_rows: int, n_columns: int) -> LatentVariableModel:
    """The model at its suggested settings, with two latent dimensions."""
    cls: type[LatentVariableModel] = MODELS[method]
    size = TableSize(n_rows=n_rows, n_columns=n_columns)
    given = {"n_components": N_COMPONENTS, "random_state": SEED}
    known = {parameter.name for parameter in cls.parameters()}
    chosen = {name: value for name, value in given.items() if name in known}
    return cls(**{**cls.suggest(size), **chosen})


@cache
def _accuracies(method: str, pictures: str) -> dict[int, float]:
    """Accuracy by each number of neighbours."""
    levels, classes = load_pictures(SETS[pictures])
    X = levels if method in COUNTS else levels / GREY_LEVELS
    model = _model(method, len(X), X.shape[1]).fit(X)
    places = model.transform(X) if model.capabilities.new_rows else model.embedding_.mean
    return {k: knn_accuracy(places, classes, k=k) for k in PAPER_NEIGHBOURS[method][pictures]}


def _settings(data: str, method: str, shape: tuple[int, int]) -> dict[str, Any]:
    own = _model(method, *shape).get_params()
    return {"data": data, "model": method, "rows": shape[0], **own}


def _accuracy(method: str, pictures: str, k: int) -> BenchmarkRow:
    shown = SETS[pictures]
    return BenchmarkRow(
        f"{shown.title}: {MODELS[method].title}, accuracy of {k} neighbours in the 2-D map, 5-fold",
        _accuracies(method, pictures)[k],
        reference=f"paper {PAPER_NEIGHBOURS[method][pictures][k]:.3f}{shown.remark}",
        settings=_settings(shown.name, method, (shown.n_rows, shown.n_columns)),
    )


@cache
def _pixel_error(method: str, data: str, share: float) -> float:
    """Mean square error of hidden pixels; with none hidden, of the reconstruction."""
    X, hidden = load_pixels(data, share, SEED)
    model = _model(method, len(X), X.shape[1])
    if not share:
        found: FloatArray = model.fit(X).decode(model.transform(X)).mean
        hidden = np.ones_like(hidden)
    else:
        observed = np.where(hidden, np.nan, X)
        found = model.fit(observed).impute(observed).mean
    return _mse(X, found, hidden)


def _mse(truth: FloatArray, found: FloatArray, scored: NDArray[np.bool_]) -> float:
    return float(np.square(truth - found)[scored].mean())


def _error(method: str, data: str, share: float) -> BenchmarkRow:
    X, _ = load_pixels(data, share, SEED)
    n_rows, n_columns = X.shape
    return BenchmarkRow(
        f"{data}, {share:.0%} of the pixels hidden: {MODELS[method].title}, mean square error",
        _pixel_error(method, data, share),
        "px²",
        reference=f"paper {PAPER_PIXELS[method][data][share]:.3f}",
        settings={"share": share, **_settings(data, method, (n_rows, n_columns))},
    )
