"""Maps of the tables of the SRFLVM paper by the methods that it compares with.

1-nearest-neighbour accuracy of the two-dimensional ``transform`` (of ``embedding_`` for Isomap),
stratified 5-fold, at the default settings, five seeds; no map uses labels. Models of counts get the
counts (grey levels of pictures from 0 to 255), the others the same columns as SRFLVM in the module
``srflvm``. RFLVM, whose fits take minutes, is measured on tables of at most ten columns.
The seconds of a fit are the median of the same fits.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.random_features.srflvm import SEEDS, load_table
from lvmcore.metrics.scores import knn_accuracy
from lvmcore.models import MODELS
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.cell_types import Cells

__all__ = ["rows"]


@dataclass(frozen=True)
class PaperFigures:
    """Figures of the paper for a method on a dataset.

    Attributes:
        accuracy: of the nearest neighbour on the map.
        sd: its sd over five fits.
        seconds: of a fit, on the paper's machine.
    """

    accuracy: float
    sd: float
    seconds: float


#: The paper's figures of each method, by dataset: of its likelihood after the comma, where a model
#: has several.
PAPER: dict[str, dict[str, PaperFigures]] = {
    "pca": {
        "bridges": PaperFigures(0.841, 0.007, 0.008),
        "cifar10_grey20_2000": PaperFigures(0.267, 0.002, 0.07),
        "mnist": PaperFigures(0.365, 0.012, 0.056),
        "montreal": PaperFigures(0.678, 0.013, 0.01),
        "newsgroups3": PaperFigures(0.392, 0.005, 0.056),
        "yale_faces": PaperFigures(0.543, 0.008, 0.017),
    },
    "topics": {
        "bridges": PaperFigures(0.668, 0.053, 1.686),
        "cifar10_grey20_2000": PaperFigures(0.227, 0.006, 21.675),
        "mnist": PaperFigures(0.233, 0.026, 6.708),
        "montreal": PaperFigures(0.602, 0.028, 2.285),
        "newsgroups3": PaperFigures(0.391, 0.018, 3.355),
        "yale_faces": PaperFigures(0.338, 0.023, 3.123),
    },
    "isomap": {
        "bridges": PaperFigures(0.797, 0.025, 0.019),
        "cifar10_grey20_2000": PaperFigures(0.272, 0.006, 1.367),
        "mnist": PaperFigures(0.444, 0.021, 0.372),
        "montreal": PaperFigures(0.709, 0.005, 0.025),
        "newsgroups3": PaperFigures(0.397, 0.01, 1.758),
        "yale_faces": PaperFigures(0.588, 0.017, 0.017),
    },
    "nmf": {
        "bridges": PaperFigures(0.864, 0.015, 0.014),
        "cifar10_grey20_2000": PaperFigures(0.246, 0.006, 0.363),
        "mnist": PaperFigures(0.269, 0.018, 0.161),
        "montreal": PaperFigures(0.678, 0.014, 0.019),
        "newsgroups3": PaperFigures(0.393, 0.004, 0.063),
        "yale_faces": PaperFigures(0.479, 0.022, 0.102),
    },
    "hpf": {
        "bridges": PaperFigures(0.544, 0.109, 0.031),
        "cifar10_grey20_2000": PaperFigures(0.208, 0.006, 140.168),
        "mnist": PaperFigures(0.314, 0.04, 54.295),
        "montreal": PaperFigures(0.618, 0.001, 0.105),
        "newsgroups3": PaperFigures(0.334, 0.019, 0.257),
        "yale_faces": PaperFigures(0.511, 0.019, 5.112),
    },
    "vae": {
        "bridges": PaperFigures(0.751, 0.016, 4.802),
        "cifar10_grey20_2000": PaperFigures(0.266, 0.002, 130.226),
        "mnist": PaperFigures(0.643, 0.021, 93.737),
        "montreal": PaperFigures(0.668, 0.012, 7.106),
        "newsgroups3": PaperFigures(0.385, 0.002, 57.949),
        "yale_faces": PaperFigures(0.611, 0.02, 33.548),
    },
    "nbvae": {
        "bridges": PaperFigures(0.758, 0.038, 2.787),
        "cifar10_grey20_2000": PaperFigures(0.259, 0.005, 49.932),
        "mnist": PaperFigures(0.281, 0.012, 43.766),
        "montreal": PaperFigures(0.716, 0.009, 3.25),
        "newsgroups3": PaperFigures(0.398, 0.01, 18.986),
        "yale_faces": PaperFigures(0.456, 0.046, 17.461),
    },
    "cvq_vae": {
        "bridges": PaperFigures(0.688, 0.013, 8.858),
        "cifar10_grey20_2000": PaperFigures(0.224, 0.012, 12.342),
        "mnist": PaperFigures(0.128, 0.005, 7.854),
        "montreal": PaperFigures(0.646, 0.003, 8.993),
        "newsgroups3": PaperFigures(0.356, 0.019, 10.817),
        "yale_faces": PaperFigures(0.338, 0.002, 13.464),
    },
    "bayesian_gplvm": {
        "bridges": PaperFigures(0.818, 0.037, 2.473),
        "cifar10_grey20_2000": PaperFigures(0.271, 0.014, 18.984),
        "mnist": PaperFigures(0.342, 0.074, 8.715),
        "montreal": PaperFigures(0.725, 0.012, 3.18),
        "newsgroups3": PaperFigures(0.385, 0.01, 4.483),
        "yale_faces": PaperFigures(0.553, 0.036, 5.402),
    },
    "stochastic_gplvm": {
        "bridges": PaperFigures(0.796, 0.019, 24.083),
        "cifar10_grey20_2000": PaperFigures(0.251, 0.012, 72134.541),
        "mnist": PaperFigures(0.344, 0.054, 35776.171),
        "montreal": PaperFigures(0.676, 0.01, 65.347),
        "newsgroups3": PaperFigures(0.378, 0.018, 7135.885),
        "yale_faces": PaperFigures(0.521, 0.015, 2343.803),
    },
    "srflvm, negative_binomial": {
        "bridges": PaperFigures(0.846, 0.019, 78.63),
        "cifar10_grey20_2000": PaperFigures(0.258, 0.008, 575.494),
        "mnist": PaperFigures(0.408, 0.008, 719.091),
        "montreal": PaperFigures(0.781, 0.01, 173.163),
        "newsgroups3": PaperFigures(0.391, 0.005, 283.602),
        "yale_faces": PaperFigures(0.549, 0.014, 848.532),
    },
    "rflvm, gaussian": {
        "bridges": PaperFigures(0.846, 0.039, 679.073),
        "montreal": PaperFigures(0.769, 0.01, 485.678),
    },
    "rflvm, negative_binomial": {
        "bridges": PaperFigures(0.85, 0.011, 1578.207),
        "montreal": PaperFigures(0.826, 0.015, 1844.815),
    },
}
#: Models that are fitted to counts; those of several likelihoods are, where it is that of counts.
COUNTS = ("topics", "nmf", "hpf", "nbvae")
N_COMPONENTS = 2
GREY_LEVELS = 255


#: Likelihoods of columns as titles have them.
LIKELIHOODS = {"negative_binomial": "negative binomial", "gaussian": "Gaussian"}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for method, figures in PAPER.items():
        for data in figures:
            yield partial(_accuracy, method, data)
            yield partial(_seconds, method, data)


def _parts(method: str) -> tuple[str, str | None]:
    """The key of a method's model, and the likelihood that the method names."""
    key, *likelihood = method.split(", ")
    return key, likelihood[0] if likelihood else None


def _columns(method: str, data: str) -> FloatArray:
    X, _ = load_table(data)
    pictures = data in ("mnist", "yale_faces", "cifar10_grey20_2000")
    key, likelihood = _parts(method)
    counts = key in COUNTS or likelihood == "negative_binomial"
    return np.round(GREY_LEVELS * X) if pictures and counts else X


def _settings(method: str, shape: tuple[int, ...], seed: int) -> dict[str, Any]:
    key, likelihood = _parts(method)
    given: dict[str, Any] = {"n_components": N_COMPONENTS, "random_state": seed}
    if likelihood is not None:
        cells: Cells = "counts" if likelihood == "negative_binomial" else "any"
        size = TableSize(n_rows=shape[0], n_columns=shape[1], cells=cells)
        return {**MODELS[key].suggest(size), "likelihood": likelihood, **given}
    known = {parameter.name for parameter in MODELS[key].parameters()}
    return {name: value for name, value in given.items() if name in known}


@cache
def _fits(method: str, data: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Accuracy and seconds of the fit of each seed."""
    X, y = _columns(method, data), load_table(data)[1]
    cls: type[LatentVariableModel] = MODELS[_parts(method)[0]]
    accuracies, seconds = [], []
    for seed in SEEDS:
        model = cls(**_settings(method, X.shape, seed))
        start = time.perf_counter()
        model.fit(X)
        seconds.append(time.perf_counter() - start)
        places = model.transform(X) if model.capabilities.new_rows else model.embedding_.mean
        accuracies.append(knn_accuracy(places, y, k=1))
    return tuple(accuracies), tuple(seconds)


def _title(method: str) -> str:
    key, likelihood = _parts(method)
    title = MODELS[key].title
    return title if likelihood is None else f"{title}, {LIKELIHOODS[likelihood]}"


def _recorded(method: str, data: str) -> dict[str, Any]:
    """Settings of a measurement."""
    shape = load_table(data)[0].shape
    key = _parts(method)[0]
    return {"data": data, "model": key, "seeds": len(SEEDS), **_settings(method, shape, 0)}


def _accuracy(method: str, data: str) -> BenchmarkRow:
    found, _ = _fits(method, data)
    paper = PAPER[method][data]
    return BenchmarkRow(
        f"{data}: {_title(method)}, 1-NN accuracy of the 2-D map, 5-fold, five seeds",
        statistics.fmean(found),
        spread=statistics.pstdev(found),
        reference=f"paper {paper.accuracy:.3f} ± {paper.sd:.3f}",
        settings={"folds": 5, **_recorded(method, data)},
    )


def _seconds(method: str, data: str) -> BenchmarkRow:
    _, found = _fits(method, data)
    return BenchmarkRow(
        f"{data}: {_title(method)}, seconds of a fit, median of five seeds",
        statistics.median(found),
        "s",
        spread=statistics.stdev(found),
        reference=f"paper {PAPER[method][data].seconds:g} s",
        settings=_recorded(method, data),
    )
