"""Deep GPs by a subset of the data (SoD) beside DSVI, SVGP, IWVI, the paper and boosted trees.

Five random splits with 90 % training rows, which columns and target are standardised by. NLPP is
−log p(y | x) per test row, in the target's units. Default settings and two hidden layers; ``full``
has the paper's 20 000 steps and its learning rate. The long tables, protein and naval, are measured
for the paper's models alone, and for their densities. Boosted trees are
scikit-learn's histogram gradient boosting, with learning rate, depth and number chosen by 5-fold
cross-validation on the training rows; they have no density, so all methods are compared by the root
mean square error.

A step is compared with gpytorch's deep GP of the same layers, inducing inputs and samples.
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
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV

from lvmcore.base.regressor_classifier import Regressor
from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.deep.fit_method import LONG_TABLE
from lvmcore.models.supervised.dsvi import DSVIDeepGPRegressor
from lvmcore.models.supervised.iwvi import IWVIDeepGPRegressor
from lvmcore.models.supervised.subset_of_data import SoDDeepGPRegressor
from lvmcore.models.supervised.svgp import SVGPRegressor
from lvmcore.numerics.array_types import FloatArray

__all__ = [
    "HIDDEN",
    "M_SHORT",
    "PAPER",
    "SMALL",
    "SPLITS",
    "SplitScores",
    "load_table",
    "rows",
    "split",
]


SPLITS, HELD_SHARE, HIDDEN = range(5), 0.1, 2
MODELS: dict[str, type[Regressor]] = {
    "SoD": SoDDeepGPRegressor,
    "DSVI": DSVIDeepGPRegressor,
    "SVGP": SVGPRegressor,
    "IWVI": IWVIDeepGPRegressor,
}
#: NLPP of the paper: its best SoD, DSVI, SVGP; it has no IWVI.
PAPER = {
    "boston": (2.366, 2.427, 2.455),
    "concrete": (3.058, 3.105, 3.156),
    "energy": (0.568, 0.732, 1.282),
    "wine_red": (0.938, 0.951, 0.953),
    "protein": (2.753, 2.733, 2.911),
    "naval": (-8.15, -6.97, -7.42),
}
SMALL = ("boston", "concrete", "energy", "wine_red")
#: Models of the paper, in the order of its figures.
IN_PAPER = ("SoD", "DSVI", "SVGP")
#: Settings of SVGP besides the inducing points, which all models have alike.
SPARSE: dict[str, Any] = {"kernel": "rbf", "batch_size": 2000}
M_SHORT, M_LONG = 50, 100
#: What the paper's own protocol sets otherwise.
FULL = {"max_iter": 20_000, "learning_rate": 0.01}
MIN_WINS = 3
LEVELS = (0.05, 0.95)
TREES = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [8, 31], "max_iter": [200, 600]}
#: Steps that are timed, the first ones left out.
STEPS, WARM_UP = 200, 10


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    for data in PAPER:
        for name in MODELS if data in SMALL else IN_PAPER:
            yield partial(_density, data, name, options.full)
        if data in SMALL:
            yield partial(_error, data, options.full)
    yield partial(_wins, options.full)
    yield partial(_coverage, options.full)
    yield partial(_parameters, options.full)
    yield partial(_step)


@dataclass(frozen=True)
class SplitScores:
    """Scores of a model on held-out rows.

    Attributes:
        density: NLPP, nats.
        error: root mean square error.
        inside: coverage of the 90 % intervals.
        parameters: number of trained parameters.
        seconds: seconds of the fit.
    """

    density: float
    error: float
    inside: float
    parameters: int
    seconds: float


@cache
def load_table(data: str) -> FloatArray:
    """Columns and, last, the target, [N, H + 1]."""
    return load_paper(f"uci_{data}").frame.to_numpy(dtype=np.float64)


def split(cells: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """The training rows and the held-out rows."""
    order = np.random.default_rng(seed).permutation(len(cells))
    count = round(HELD_SHARE * len(cells))
    return cells[order[count:]], cells[order[:count]]


def _model(name: str, n_rows: int, n_columns: int, seed: int, full: bool) -> Regressor:
    settings: dict[str, Any] = MODELS[name].suggest(TableSize(n_rows=n_rows, n_columns=n_columns))
    settings["n_inducing"] = M_LONG if n_rows > LONG_TABLE else M_SHORT
    settings |= SPARSE if name == "SVGP" else {"n_layers": HIDDEN}
    return MODELS[name](**{**settings, **(FULL if full else {}), "random_state": seed})


@cache
def _measure(data: str, name: str, seed: int, full: bool) -> SplitScores:
    train, test = split(load_table(data), seed)
    start = time.perf_counter()
    model: Any = _model(name, len(train), train.shape[1] - 1, seed, full)
    model.fit(train[:, :-1], train[:, -1])
    seconds = time.perf_counter() - start
    X, y = test[:, :-1], test[:, -1]
    low, high = model.predict_quantiles(X, LEVELS).T
    return SplitScores(
        float(-model.log_density(X, y).mean()),
        float(np.sqrt(np.square(model.predict(X) - y).mean())),
        float(((low < y) & (y < high)).mean()),
        model.n_parameters_,
        seconds,
    )


def _measure_splits(data: str, name: str, full: bool) -> list[SplitScores]:
    return [_measure(data, name, seed, full) for seed in SPLITS]


def _mean_density(data: str, name: str, full: bool) -> float:
    return statistics.fmean(one.density for one in _measure_splits(data, name, full))


@cache
def _boosted_tree_errors(data: str) -> list[float]:
    """Root mean square errors of boosted trees."""
    errors = []
    for seed in SPLITS:
        train, test = split(load_table(data), seed)
        search = GridSearchCV(HistGradientBoostingRegressor(random_state=seed), TREES, cv=5)
        predicted = search.fit(train[:, :-1], train[:, -1]).predict(test[:, :-1])
        errors.append(float(np.sqrt(np.square(predicted - test[:, -1]).mean())))
    return errors


def _settings(data: str, name: str, full: bool) -> dict[str, object]:
    train, _ = split(load_table(data), 0)
    own = _model(name, len(train), train.shape[1] - 1, 0, full).get_params()
    return {"data": data, "model": name, "splits": len(SPLITS), "held out": HELD_SHARE, **own}


def _density(data: str, name: str, full: bool) -> BenchmarkRow:
    found = _measure_splits(data, name, full)
    paper = dict(zip(IN_PAPER, PAPER[data], strict=True)).get(name)
    seconds = statistics.median(one.seconds for one in found)
    return BenchmarkRow(
        f"{data}: {_title(name)}, NLPP, five splits",
        statistics.fmean(one.density for one in found),
        "nats a row",
        spread=statistics.pstdev(one.density for one in found),
        reference=f"{'' if paper is None else f'paper {paper:.3f}; '}{seconds:.0f} s a fit",
        settings=_settings(data, name, full),
    )


def _title(name: str) -> str:
    return name if name == "SVGP" else f"{name}, two hidden layers"


def _error(data: str, full: bool) -> BenchmarkRow:
    errors = {name: [one.error for one in _measure_splits(data, name, full)] for name in MODELS}
    errors["boosted trees"] = _boosted_tree_errors(data)
    others = [f"{name} {statistics.fmean(e):.3f}" for name, e in errors.items() if name != "SoD"]
    return BenchmarkRow(
        f"{data}: {_title('SoD')}, root mean square error, five splits",
        statistics.fmean(errors["SoD"]),
        "in the target's unit",
        spread=statistics.pstdev(errors["SoD"]),
        reference=", ".join(others),
        settings=_settings(data, "SoD", full),
    )


def _wins(full: bool) -> BenchmarkRow:
    density = {name: [_mean_density(data, name, full) for data in SMALL] for name in MODELS}
    pairs = zip(SMALL, density["SoD"], density["SVGP"], strict=True)
    ahead = [data for data, ours, other in pairs if ours < other]
    return BenchmarkRow(
        "tables of four on which SoD's NLPP is below SVGP's",
        len(ahead),
        floor=MIN_WINS,
        reference=", ".join(ahead),
        settings={"sets": list(SMALL), "splits": len(SPLITS)},
    )


def _coverage(full: bool) -> BenchmarkRow:
    inside = {data: [one.inside for one in _measure_splits(data, "SoD", full)] for data in SMALL}
    each = {data: statistics.fmean(found) for data, found in inside.items()}
    return BenchmarkRow(
        "SoD, two hidden layers: coverage of 90 % intervals, mean of four tables",
        statistics.fmean(each.values()),
        floor=0.85,
        ceiling=0.95,
        reference=", ".join(f"{data} {share:.3f}" for data, share in each.items()),
        settings={"sets": list(SMALL), "splits": len(SPLITS)},
    )


def _parameters(full: bool) -> BenchmarkRow:
    counts = {name: _measure_splits("concrete", name, full)[0].parameters for name in MODELS}
    return BenchmarkRow(
        "concrete: trained parameters of SoD as a share of DSVI's",
        counts["SoD"] / counts["DSVI"],
        ceiling=1.0,
        reference=", ".join(f"{name} {count:,}" for name, count in counts.items()),
        settings=_settings("concrete", "SoD", full),
    )


# ---- a step ------------------------------------------------------------------------------------


def _sod_step(train: FloatArray) -> float:
    """Median seconds of a full-batch step of SoD."""
    model = SoDDeepGPRegressor(
        n_layers=HIDDEN, n_inducing=M_SHORT, max_iter=STEPS, batch_size=len(train)
    )
    ended = [step.seconds for step in model.fit(train[:, :-1], train[:, -1]).history_]
    return float(np.median(np.diff(ended)[WARM_UP:]))


def _gpytorch_step(train: FloatArray) -> float | None:
    """Median seconds of a step of gpytorch's deep GP; None if gpytorch is not installed."""
    try:
        from lvmcore.bench.deep.gpytorch_step import step_seconds
    except ImportError:
        return None
    standard = (train - train.mean(0)) / train.std(0)
    return step_seconds(
        torch.as_tensor(standard[:, :-1]).float(),
        torch.as_tensor(standard[:, -1]).float(),
        n_hidden=HIDDEN,
        n_inducing=M_SHORT,
        n_samples=SoDDeepGPRegressor().n_samples,
        steps=STEPS,
    )


def _step() -> BenchmarkRow:
    train, _ = split(load_table("concrete"), 0)
    name = "concrete: a step of SoD as a share of gpytorch's deep GP, two hidden layers"
    theirs = _gpytorch_step(train)
    if theirs is None:
        return BenchmarkRow(name, float("nan"), reference="gpytorch is not installed")
    ours = _sod_step(train)
    return BenchmarkRow(
        name,
        ours / theirs,
        ceiling=0.5,
        reference=f"gpytorch {1000 * theirs:.0f} ms, ours {1000 * ours:.0f} ms",
        settings={"steps": STEPS, **SoDDeepGPRegressor(n_inducing=M_SHORT).get_params()},
    )
