"""Maps of the tables of the SRFLVM paper by the methods that it compares with.

1-nearest-neighbour accuracy of the two-dimensional ``transform`` (of ``embedding_`` for Isomap),
stratified 5-fold, at the default settings, five seeds; no map uses labels. Models of counts get the
counts (grey levels of pictures from 0 to 255), the others the same columns as SRFLVM in the module
``srflvm``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.random_features.srflvm import DATASETS, SEEDS, load_table
from lvmcore.metrics.scores import knn_accuracy
from lvmcore.models import MODELS
from lvmcore.numerics.array_types import FloatArray

__all__ = ["rows"]

#: The paper's accuracy of each method, by dataset, with its sd over five fits.
PAPER: dict[str, dict[str, tuple[float, float]]] = {
    "pca": {
        "bridges": (0.841, 0.007),
        "cifar10_grey20_2000": (0.267, 0.002),
        "mnist": (0.365, 0.012),
        "montreal": (0.678, 0.013),
        "newsgroups3": (0.392, 0.005),
        "yale_faces": (0.543, 0.008),
    },
    "topics": {
        "bridges": (0.668, 0.053),
        "cifar10_grey20_2000": (0.227, 0.006),
        "mnist": (0.233, 0.026),
        "montreal": (0.602, 0.028),
        "newsgroups3": (0.391, 0.018),
        "yale_faces": (0.338, 0.023),
    },
    "isomap": {
        "bridges": (0.797, 0.025),
        "cifar10_grey20_2000": (0.272, 0.006),
        "mnist": (0.444, 0.021),
        "montreal": (0.709, 0.005),
        "newsgroups3": (0.397, 0.010),
        "yale_faces": (0.588, 0.017),
    },
    "nmf": {
        "bridges": (0.864, 0.015),
        "cifar10_grey20_2000": (0.246, 0.006),
        "mnist": (0.269, 0.018),
        "montreal": (0.678, 0.014),
        "newsgroups3": (0.393, 0.004),
        "yale_faces": (0.479, 0.022),
    },
    "hpf": {
        "bridges": (0.544, 0.109),
        "cifar10_grey20_2000": (0.208, 0.006),
        "mnist": (0.314, 0.040),
        "montreal": (0.618, 0.001),
        "newsgroups3": (0.334, 0.019),
        "yale_faces": (0.511, 0.019),
    },
    "vae": {
        "bridges": (0.751, 0.016),
        "cifar10_grey20_2000": (0.266, 0.002),
        "mnist": (0.643, 0.021),
        "montreal": (0.668, 0.012),
        "newsgroups3": (0.385, 0.002),
        "yale_faces": (0.611, 0.020),
    },
    "nbvae": {
        "bridges": (0.758, 0.038),
        "cifar10_grey20_2000": (0.259, 0.005),
        "mnist": (0.281, 0.012),
        "montreal": (0.716, 0.009),
        "newsgroups3": (0.398, 0.010),
        "yale_faces": (0.456, 0.046),
    },
    "cvq_vae": {
        "bridges": (0.688, 0.013),
        "cifar10_grey20_2000": (0.224, 0.012),
        "mnist": (0.128, 0.005),
        "montreal": (0.646, 0.003),
        "newsgroups3": (0.356, 0.019),
        "yale_faces": (0.338, 0.002),
    },
    "bayesian_gplvm": {
        "bridges": (0.818, 0.037),
        "cifar10_grey20_2000": (0.271, 0.014),
        "mnist": (0.342, 0.074),
        "montreal": (0.725, 0.012),
        "newsgroups3": (0.385, 0.010),
        "yale_faces": (0.553, 0.036),
    },
    "stochastic_gplvm": {
        "bridges": (0.796, 0.019),
        "cifar10_grey20_2000": (0.251, 0.012),
        "mnist": (0.344, 0.054),
        "montreal": (0.676, 0.010),
        "newsgroups3": (0.378, 0.018),
        "yale_faces": (0.521, 0.015),
    },
    "srflvm": {
        "bridges": (0.846, 0.019),
        "cifar10_grey20_2000": (0.258, 0.008),
        "mnist": (0.408, 0.008),
        "montreal": (0.781, 0.010),
        "newsgroups3": (0.391, 0.005),
        "yale_faces": (0.549, 0.014),
    },
}
#: Methods that are fitted to counts; SRFLVM has negative binomial columns here.
COUNTS = ("topics", "nmf", "hpf", "nbvae", "srflvm")
N_COMPONENTS = 2
GREY_LEVELS = 255


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for method in PAPER:
        for data in DATASETS:
            yield partial(_accuracy, method, data)


def _columns(method: str, data: str) -> FloatArray:
    X, _ = load_table(data)
    pictures = data in ("mnist", "yale_faces", "cifar10_grey20_2000")
    return np.round(GREY_LEVELS * X) if pictures and method in COUNTS else X


def _settings(method: str, shape: tuple[int, ...], seed: int) -> dict[str, Any]:
    given: dict[str, Any] = {"n_components": N_COMPONENTS, "random_state": seed}
    if method == "srflvm":
        size = TableSize(n_rows=shape[0], n_columns=shape[1], cells="counts")
        return {**MODELS[method].suggest(size), **given}
    known = {parameter.name for parameter in MODELS[method].parameters()}
    return {name: value for name, value in given.items() if name in known}


def _accuracy(method: str, data: str) -> BenchmarkRow:
    X, y = _columns(method, data), load_table(data)[1]
    found = []
    for seed in SEEDS:
        cls: type[LatentVariableModel] = MODELS[method]
        model = cls(**_settings(method, X.shape, seed)).fit(X)
        places = model.transform(X) if model.capabilities.new_rows else model.embedding_.mean
        found.append(knn_accuracy(places, y, k=1))
    mean, sd = PAPER[method][data]
    title = MODELS[method].title
    name = f"{title}, negative binomial" if method == "srflvm" else title
    return BenchmarkRow(
        f"{data}: {name}, 1-NN accuracy of the 2-D map, 5-fold, five seeds",
        statistics.fmean(found),
        spread=statistics.pstdev(found),
        reference=f"paper {mean:.3f} ± {sd:.3f}",
        settings={
            "data": data,
            "model": method,
            "folds": 5,
            "seeds": len(SEEDS),
            **_settings(method, X.shape, 0),
        },
    )
