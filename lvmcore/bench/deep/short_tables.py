"""Models of a number at their defaults on short tables: SVGP against the exact process and trees.

Three random splits with 90 % training rows of the first up to 1000 rows of each table, and of 308
rows drawn with seed 0. NLPP is −log p(y | x) per test row, in the target's units. The baselines are
those of a fit to a target: ridge regression, histogram gradient boosting and a random forest, each
with a Gaussian of one variance.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from lvmcore.base.regressor_classifier import Regressor
from lvmcore.bench.deep.deep_gp import split
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.evaluation.baseline_methods import BaselineProblem
from lvmcore.evaluation.target_baselines import baseline_predictions
from lvmcore.evaluation.target_quality import target_metrics
from lvmcore.evaluation.target_scores import BASELINES
from lvmcore.models.supervised.gp import GPRegressor
from lvmcore.models.supervised.svgp import SVGPRegressor
from lvmcore.numerics.array_types import FloatArray

__all__ = ["rows", "short_table"]

TABLES = ("boston", "concrete", "energy", "wine_red")
#: Rows of the short tables, and most rows of the others.
SHORT, LONG = 308, 1000
SEEDS, DRAW_SEED = range(3), 0
MODELS: dict[str, type[Regressor]] = {"SVGP": SVGPRegressor, "exact": GPRegressor}
#: Time for the baselines of a split, seconds.
PATIENCE = 600.0
#: Nats a row by which SVGP may be behind the exact process.
TOLERANCE = 0.005


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for most in (SHORT, LONG):
        for data in TABLES:
            yield partial(_density, data, most)
    yield partial(_excess)
    yield partial(_coverage)


def short_table(cells: FloatArray, most: int) -> FloatArray:
    """Rows drawn for a short table, or the first ones."""
    if most > SHORT:
        return cells[:most]
    return cells[np.random.default_rng(DRAW_SEED).permutation(len(cells))[:most]]


@dataclass(frozen=True)
class _Scores:
    """NLPP, root mean square error and coverage of 90 % intervals on held-out rows."""

    density: float
    error: float
    inside: float


@cache
def _table(data: str, most: int) -> FloatArray:
    return short_table(load_paper(f"uci_{data}").frame.to_numpy(dtype=np.float64), most)


@cache
def _measure(data: str, most: int, name: str, seed: int) -> _Scores:
    train, test = split(_table(data, most), seed)
    model = MODELS[name](random_state=seed).fit(train[:, :-1], train[:, -1])
    X, y = test[:, :-1], test[:, -1]
    low, high = model.predict_quantiles(X, (0.05, 0.95)).T
    return _Scores(
        float(-np.mean(model.log_density(X, y))),
        float(np.sqrt(np.square(model.predict(X) - y).mean())),
        float(((low < y) & (y < high)).mean()),
    )


@cache
def _baselines(data: str, most: int, seed: int) -> dict[str, _Scores]:
    train, test = split(_table(data, most), seed)
    problem = BaselineProblem("number", train[:, :-1], train[:, -1], test[:, :-1], test[:, -1])
    found = {}
    for key, table in baseline_predictions(problem, seconds=PATIENCE).items():
        if table is not None:
            scores = target_metrics(table, "the held-out rows")
            values = (scores[name].value for name in ("nlpp", "rmse", "coverage_90"))
            found[key] = _Scores(*(float("nan") if v is None else v for v in values))
    return found


def _mean(data: str, most: int, name: str) -> _Scores:
    """Means over the splits, of a model or of a baseline."""
    each = [
        _measure(data, most, name, seed) if name in MODELS else _baselines(data, most, seed)[name]
        for seed in SEEDS
    ]
    return _Scores(
        statistics.fmean(one.density for one in each),
        statistics.fmean(one.error for one in each),
        statistics.fmean(one.inside for one in each),
    )


def _density(data: str, most: int) -> BenchmarkRow:
    own = [_measure(data, most, "SVGP", seed).density for seed in SEEDS]
    names = {"exact": "exact", **{key: name.removeprefix("a ") for key, name in BASELINES.items()}}
    others = [f"{title} {_mean(data, most, key).density:.3f}" for key, title in names.items()]
    errors = [
        f"{title} {_mean(data, most, key).error:.3f}"
        for key, title in {"SVGP": "SVGP", **names}.items()
        if key != "exact"
    ]
    return BenchmarkRow(
        f"{data}, {len(_table(data, most)):,} rows: SVGP by default, NLPP, three splits",
        statistics.fmean(own),
        "nats a row",
        spread=statistics.pstdev(own),
        reference=f"{', '.join(others)}; root mean square error {', '.join(errors)}",
        settings={"data": data, "rows": len(_table(data, most)), "splits": len(SEEDS)},
    )


def _excess() -> BenchmarkRow:
    each = {
        f"{data} {len(_table(data, most)):,}": _mean(data, most, "SVGP").density
        - _mean(data, most, "exact").density
        for most in (SHORT, LONG)
        for data in TABLES
    }
    worst = max(each, key=lambda name: each[name])
    return BenchmarkRow(
        "SVGP by default less the exact process, NLPP, the largest of eight tables",
        each[worst],
        "nats a row",
        ceiling=TOLERANCE,
        reference=worst,
        settings={"sets": list(TABLES), "splits": len(SEEDS)},
    )


def _coverage() -> BenchmarkRow:
    each = {
        f"{data} {len(_table(data, most)):,}": _mean(data, most, "SVGP").inside
        for most in (SHORT, LONG)
        for data in TABLES
    }
    return BenchmarkRow(
        "SVGP by default: coverage of 90 % intervals, mean of eight tables",
        statistics.fmean(each.values()),
        floor=0.85,
        ceiling=0.95,
        reference=", ".join(f"{name} {share:.3f}" for name, share in each.items()),
        settings={"sets": list(TABLES), "splits": len(SEEDS)},
    )
