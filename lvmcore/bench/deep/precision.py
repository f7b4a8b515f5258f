"""Single and mixed precision against double: figures of published tables, and seconds of a fit.

A row is the mean of the differences from double precision over the splits, with the same rows and
seeds; at most the standard deviation of the double figure over the splits is asked. NLPP is
−log p(y | x) per test row, in the target's units, of the splits of ``deep_gp``; errors are those of
stratified 5-fold cross-validation; a bound of SRFLVM is per cell, of one fit for each seed, where
the seeds stand for the splits.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from lvmcore.base.table_size import TableSize
from lvmcore.bench.deep.deep_gp import HIDDEN, M_SHORT, load_table, split
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.models.latent.ldgd import LDGD
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.models.supervised.dsvi import DSVIDeepGPRegressor
from lvmcore.models.supervised.svgp import SVGPRegressor
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.step_workload import Precision

__all__ = ["rows"]

SPLITS, SEEDS = range(3), range(3)
#: Tables of the targets, and those of ``full``.
TABLES, MORE_TABLES = ("boston", "energy"), ("concrete", "wine_red")
COUNTS, STEPS_OF_COUNTS = "sc_pbmc68k_700x765", 200
#: The map of oil flow: dimensions and inducing inputs of the paper, and its steps.
OIL, Q, M, STEPS = "oil_flow_train", 7, 25, 300


@dataclass(frozen=True)
class _Figure:
    """A figure of each split, and the seconds of each fit."""

    values: tuple[float, ...]
    seconds: tuple[float, ...]


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    yield partial(_difference, "LDGD", OIL, "float32")
    single_and_mixed: tuple[Precision, ...] = ("float32", "mixed")
    for precision in single_and_mixed:
        yield partial(_difference, "SRFLVM", COUNTS, precision)
    for table in (*TABLES, *(MORE_TABLES if options.full else ())):
        for model in ("SVGP", "DSVI"):
            for precision in single_and_mixed:
                yield partial(_difference, model, table, precision)


_UNITS = {"LDGD": "", "SRFLVM": "nats a cell", "SVGP": "nats a row", "DSVI": "nats a row"}
_FIGURES = {
    "LDGD": "errors of classes, 5-fold",
    "SRFLVM": "negative bound",
    "SVGP": "NLPP",
    "DSVI": "two hidden layers, NLPP",
}


def _difference(model: str, data: str, precision: Precision) -> BenchmarkRow:
    double, other = _figure(model, data, "float64"), _figure(model, data, precision)
    away = [b - a for a, b in zip(double.values, other.values, strict=True)]
    mean, spread = statistics.fmean(double.values), statistics.stdev(double.values)
    took, before = statistics.median(other.seconds), statistics.median(double.seconds)
    return BenchmarkRow(
        f"{data}: {model}, {_FIGURES[model]}, {precision} less double",
        statistics.fmean(away),
        _UNITS[model],
        spread=statistics.stdev(away),
        reference=f"double {mean:.3f} ± {spread:.3f}; {took:.1f} s a fit, double {before:.1f} s",
        ceiling=float(f"{max(spread, 1e-3):.2g}"),
        settings={"data": data, "model": model, "dtype": precision, "splits": len(away)},
    )


@cache
def _figure(model: str, data: str, precision: Precision) -> _Figure:
    measure = {"LDGD": _class_errors, "SRFLVM": _count_bounds}.get(model)
    if measure is not None:
        return measure(data, precision)
    return _target_densities(model, data, precision)


def _class_errors(data: str, precision: Precision) -> _Figure:
    assert precision != "mixed"  # LDGD has none
    X, y = _rows_and_labels(data)
    values, seconds = [], []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        model = LDGD(n_components=Q, n_inducing=M, max_iter=STEPS, dtype=precision)
        seconds.append(_seconds(partial(model.fit, X[train], y[train])))
        values.append(float((model.predict(X[test]) != y[test]).mean()))
    return _Figure(tuple(values), tuple(seconds))


def _rows_and_labels(data: str) -> tuple[FloatArray, NDArray[Any]]:
    table = load_paper(data)
    dataset = table.dataset(label=table.columns[-1].name)
    return np.asarray(dataset.X), np.asarray(dataset.labels, dtype=str)


def _count_bounds(data: str, precision: Precision) -> _Figure:
    counts, _ = _rows_and_labels(data)
    values, seconds = [], []
    for seed in SEEDS:
        model = SRFLVM(
            likelihood="negative_binomial",
            n_features=50,
            max_iter=STEPS_OF_COUNTS,
            dtype=precision,
            random_state=seed,
        )
        seconds.append(_seconds(partial(model.fit, counts)))
        values.append(-model.elbo_ / counts.size)
    return _Figure(tuple(values), tuple(seconds))


def _target_densities(name: str, data: str, precision: Precision) -> _Figure:
    values, seconds = [], []
    for seed in SPLITS:
        train, test = split(load_table(data), seed)
        model = _predictor(name, train.shape[0], train.shape[1] - 1, precision, seed)
        seconds.append(_seconds(partial(model.fit, train[:, :-1], train[:, -1])))
        values.append(float(-model.log_density(test[:, :-1], test[:, -1]).mean()))
    return _Figure(tuple(values), tuple(seconds))


def _predictor(name: str, n_rows: int, n_columns: int, precision: Precision, seed: int) -> Any:
    cls = SVGPRegressor if name == "SVGP" else DSVIDeepGPRegressor
    own = {"kernel": "rbf", "batch_size": 2000} if name == "SVGP" else {"n_layers": HIDDEN}
    advised = cls.suggest(TableSize(n_rows=n_rows, n_columns=n_columns))
    settings = {**advised, **own, "n_inducing": M_SHORT, "dtype": precision, "random_state": seed}
    return cls(**settings)


def _seconds(fit: Callable[[], object]) -> float:
    began = time.perf_counter()
    fit()
    return time.perf_counter() - began
