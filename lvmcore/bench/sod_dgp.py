"""Deep Gaussian processes on a subset of the rows beside DSVI, SVGP, the paper and boosted trees.

Five random splits, 90 % of the rows for the fit; columns and target are standardised on these. NLPP
is −log p(y | x) of the other rows, in the target's units, a row. Default settings throughout, two
hidden layers; ``full`` takes the paper's further tables, its 20 000 steps and its learning rate.
Boosted trees are scikit-learn's histogram ones, their learning rate, depth and number chosen by
5-fold cross-validation within the rows of the fit; they give no density, so the root mean square
error is what all are compared by.

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
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV

from lvmcore.bench.report import Options, Row
from lvmcore.data import load_paper
from lvmcore.models.deep_gp import DSVIDeepGPRegressor, SoDDeepGPRegressor, SVGPRegressor
from lvmcore.prediction_tasks import Regressor

__all__ = ["Found", "rows", "split"]

FloatArray = NDArray[np.float64]

SPLITS, HELD_SHARE, HIDDEN = range(5), 0.1, 2
MODELS: dict[str, type[Regressor]] = {
    "SoD": SoDDeepGPRegressor,
    "DSVI": DSVIDeepGPRegressor,
    "SVGP": SVGPRegressor,
}
#: NLPP of the paper: its best SoD, DSVI, SVGP.
PAPER = {
    "boston": (2.366, 2.427, 2.455),
    "concrete": (3.058, 3.105, 3.156),
    "energy": (0.568, 0.732, 1.282),
    "wine_red": (0.938, 0.951, 0.953),
    "protein": (2.753, 2.733, 2.911),
    "naval": (-8.15, -6.97, -7.42),
}
SMALL = ("boston", "concrete", "energy", "wine_red")
#: What the paper's own protocol sets otherwise.
FULL = {"max_iter": 20_000, "learning_rate": 0.01}
FEWEST_WINS = 3
LEVELS = (0.05, 0.95)
TREES = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [8, 31], "max_iter": [200, 600]}
#: Steps that are timed, the first ones left out.
STEPS, WARM_UP = 200, 10


def rows(options: Options) -> Iterator[Callable[[], Row]]:
    """The rows of the benchmark."""
    sets = tuple(PAPER) if options.full else SMALL
    for data in sets:
        for name in MODELS:
            yield partial(_density, data, name, options.full)
        yield partial(_error, data, options.full)
    yield partial(_wins, options.full)
    yield partial(_coverage, options.full)
    yield partial(_parameters, options.full)
    yield partial(_step)


@dataclass(frozen=True)
class Found:
    """What a model says of the rows held out.

    Attributes:
        density: NLPP.
        error: root mean square error.
        inside: share of the rows in their 90 % intervals.
        parameters: trained numbers.
        seconds: of the fit.
    """

    density: float
    error: float
    inside: float
    parameters: int
    seconds: float


@cache
def _table(data: str) -> FloatArray:
    """Columns, the last of them the target, [N, H + 1]."""
    return load_paper(f"uci_{data}").frame.to_numpy(dtype=np.float64)


def split(cells: FloatArray, seed: int) -> tuple[FloatArray, FloatArray]:
    """The rows of the fit, and those held out."""
    order = np.random.default_rng(seed).permutation(len(cells))
    held = round(HELD_SHARE * len(cells))
    return cells[order[held:]], cells[order[:held]]


def _model(name: str, n_rows: int, n_columns: int, seed: int, full: bool) -> Regressor:
    settings: dict[str, Any] = MODELS[name].suggest(n_rows=n_rows, n_columns=n_columns)
    if name != "SVGP":
        settings["n_layers"] = HIDDEN
    return MODELS[name](**{**settings, **(FULL if full else {}), "random_state": seed})


@cache
def _measure(data: str, name: str, seed: int, full: bool) -> Found:
    seen, held = split(_table(data), seed)
    began = time.perf_counter()
    model: Any = _model(name, len(seen), seen.shape[1] - 1, seed, full)
    model.fit(seen[:, :-1], seen[:, -1])
    seconds = time.perf_counter() - began
    X, y = held[:, :-1], held[:, -1]
    low, high = model.predict_quantiles(X, LEVELS).T
    return Found(
        float(-model.log_density(X, y).mean()),
        float(np.sqrt(np.square(model.predict(X) - y).mean())),
        float(((low < y) & (y < high)).mean()),
        model.n_parameters_,
        seconds,
    )


def _all(data: str, name: str, full: bool) -> list[Found]:
    return [_measure(data, name, seed, full) for seed in SPLITS]


def _mean_density(data: str, name: str, full: bool) -> float:
    return statistics.fmean(one.density for one in _all(data, name, full))


@cache
def _trees(data: str) -> list[float]:
    """Root mean square errors of boosted trees."""
    errors = []
    for seed in SPLITS:
        seen, held = split(_table(data), seed)
        search = GridSearchCV(HistGradientBoostingRegressor(random_state=seed), TREES, cv=5)
        predicted = search.fit(seen[:, :-1], seen[:, -1]).predict(held[:, :-1])
        errors.append(float(np.sqrt(np.square(predicted - held[:, -1]).mean())))
    return errors


def _settings(data: str, name: str, full: bool) -> dict[str, object]:
    seen, _ = split(_table(data), 0)
    own = _model(name, len(seen), seen.shape[1] - 1, 0, full).get_params()
    return {"data": data, "model": name, "splits": len(SPLITS), "held out": HELD_SHARE, **own}


def _density(data: str, name: str, full: bool) -> Row:
    found = _all(data, name, full)
    paper = PAPER[data][list(MODELS).index(name)]
    seconds = statistics.median(one.seconds for one in found)
    return Row(
        f"{data}: {_title(name)}, NLPP, five splits",
        statistics.fmean(one.density for one in found),
        "nats a row",
        spread=statistics.pstdev(one.density for one in found),
        reference=f"paper {paper:.3f}; {seconds:.0f} s a fit",
        settings=_settings(data, name, full),
    )


def _title(name: str) -> str:
    return name if name == "SVGP" else f"{name}, two hidden layers"


def _error(data: str, full: bool) -> Row:
    errors = {name: [one.error for one in _all(data, name, full)] for name in MODELS}
    errors["boosted trees"] = _trees(data)
    others = [f"{name} {statistics.fmean(e):.3f}" for name, e in errors.items() if name != "SoD"]
    return Row(
        f"{data}: {_title('SoD')}, root mean square error, five splits",
        statistics.fmean(errors["SoD"]),
        "in the target's unit",
        spread=statistics.pstdev(errors["SoD"]),
        reference=", ".join(others),
        settings=_settings(data, "SoD", full),
    )


def _wins(full: bool) -> Row:
    density = {name: [_mean_density(data, name, full) for data in SMALL] for name in MODELS}
    pairs = zip(SMALL, density["SoD"], density["SVGP"], strict=True)
    ahead = [data for data, ours, other in pairs if ours < other]
    return Row(
        "tables of four on which SoD's NLPP is below SVGP's",
        len(ahead),
        floor=FEWEST_WINS,
        reference=", ".join(ahead),
        settings={"sets": list(SMALL), "splits": len(SPLITS)},
    )


def _coverage(full: bool) -> Row:
    inside = {data: [one.inside for one in _all(data, "SoD", full)] for data in SMALL}
    each = {data: statistics.fmean(found) for data, found in inside.items()}
    return Row(
        "SoD, two hidden layers: coverage of 90 % intervals, mean of four tables",
        statistics.fmean(each.values()),
        floor=0.85,
        ceiling=0.95,
        reference=", ".join(f"{data} {share:.3f}" for data, share in each.items()),
        settings={"sets": list(SMALL), "splits": len(SPLITS)},
    )


def _parameters(full: bool) -> Row:
    counts = {name: _all("concrete", name, full)[0].parameters for name in MODELS}
    return Row(
        "concrete: trained parameters of SoD as a share of DSVI's",
        counts["SoD"] / counts["DSVI"],
        ceiling=1.0,
        reference=", ".join(f"{name} {count:,}" for name, count in counts.items()),
        settings=_settings("concrete", "SoD", full),
    )


# ---- a step ------------------------------------------------------------------------------------


def _our_step(seen: FloatArray) -> float:
    """Median seconds of a step of SoD over all rows."""
    model = SoDDeepGPRegressor(n_layers=HIDDEN, max_iter=STEPS, batch_size=len(seen))
    ended = [step.seconds for step in model.fit(seen[:, :-1], seen[:, -1]).history_]
    return float(np.median(np.diff(ended)[WARM_UP:]))


def _their_step(seen: FloatArray) -> float | None:
    """The same of gpytorch's deep GP; None where gpytorch is not installed."""
    try:
        from lvmcore.bench.gpytorch_step import step_seconds
    except ImportError:
        return None
    standard = (seen - seen.mean(0)) / seen.std(0)
    own = SoDDeepGPRegressor().get_params()
    return step_seconds(
        torch.as_tensor(standard[:, :-1]).float(),
        torch.as_tensor(standard[:, -1]).float(),
        n_hidden=HIDDEN,
        n_inducing=own["n_inducing"],
        n_samples=own["n_samples"],
        steps=STEPS,
    )


def _step() -> Row:
    seen, _ = split(_table("concrete"), 0)
    name = "concrete: a step of SoD as a share of gpytorch's deep GP, two hidden layers"
    theirs = _their_step(seen)
    if theirs is None:
        return Row(name, float("nan"), reference="gpytorch is not installed")
    ours = _our_step(seen)
    return Row(
        name,
        ours / theirs,
        ceiling=0.5,
        reference=f"gpytorch {1000 * theirs:.0f} ms, ours {1000 * ours:.0f} ms",
        settings={"steps": STEPS, **SoDDeepGPRegressor().get_params()},
    )
