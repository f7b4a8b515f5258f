"""Q-exponential processes compared with Gaussian processes and the paper's figures.

Series: 100 noisy values (sd 0.1) on [0, 2] of a function with jumps and of one with kinks; the mean
absolute error is that of the true functions at 50 points. Rhombus: three classes by
round(cos(0.4 u π |x₁| + |x₂|)), 500 rows x ~ N(0, I), one u ~ U[0, 1] per data set, scored on a
grid over [−3, 3]², much of it outside the data: the form of the paper's figures (in its formula the
factor applies to both terms). Other settings are the defaults; means and standard errors over
seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.data.samples.simulated import jumps, kinks, rhombus_classes
from lvmcore.metrics.scores import knn_accuracy
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.models.latent.qep_lvm import QEPLVM
from lvmcore.models.supervised.deep_kernel import DeepKernelGPClassifier, DeepKernelGPRegressor
from lvmcore.models.supervised.dspp import DSPPClassifier, DSPPRegressor
from lvmcore.models.supervised.dsvi import DSVIDeepGPClassifier, DSVIDeepGPRegressor
from lvmcore.models.supervised.qep import (
    DeepQEPClassifier,
    DeepQEPRegressor,
    QEPClassifier,
    QEPRegressor,
)
from lvmcore.models.supervised.svgp import SVGPClassifier, SVGPRegressor
from lvmcore.numerics.array_types import FloatArray

__all__ = ["rows"]

SEEDS, MAP_SEEDS = range(10), range(3)
SERIES_ROWS, SERIES_PLACES, SERIES_NOISE = 100, 50, 0.1
RHOMBUS_ROWS, GRID = 500, 50
QS = (2.0, 1.5, 1.25, 1.0)
MAX_TWIN_RATIO = 1.5
#: Timed steps, after the first ones, and their tables.
STEPS, WARM_UP = 100, 10
# Settings of the maps of oil flow.
OIL_FLOW: dict[str, Any] = {
    "n_components": "ard",
    "n_inducing": 25,
    "noise": "column",
    "start": "pca",
}
STEPS_ON = ("oil_flow_train", "uci_concrete")

#: Inducing points of every layer of a model of a target.
M = 50
SVGP: dict[str, Any] = {"n_inducing": M, "kernel": "rbf", "batch_size": 2000}
ONE: dict[str, Any] = {"n_inducing": M, "n_layers": 1}
TWO: dict[str, Any] = {"n_inducing": M, "n_layers": 2}
#: Regression models, with the paper's value and the limit of each.
SERIES: dict[str, tuple[Callable[..., Any], str, float | None]] = {
    "Q-EP": (partial(QEPRegressor, n_inducing=M), "paper .0578", None),
    "deep Q-EP, two hidden layers": (partial(DeepQEPRegressor, **TWO), "paper .0444", 0.050),
    "GP": (
        partial(SVGPRegressor, **SVGP),
        "paper .0494",
        None,
    ),
    "deep GP, two hidden layers": (partial(DSVIDeepGPRegressor, **TWO), "paper .0442", None),
    "DKL-GP": (partial(DeepKernelGPRegressor, n_inducing=M), "paper .0536", None),
    "DSPP, two hidden layers": (partial(DSPPRegressor, **TWO), "paper .0896", None),
}
#: Models of classes, likewise.
RHOMBUS: dict[str, tuple[Callable[..., Any], str, float | None]] = {
    "Q-EP": (partial(QEPClassifier, n_inducing=M), "paper .834", 0.81),
    "deep Q-EP, one hidden layer": (
        partial(DeepQEPClassifier, **ONE),
        "paper .856",
        0.83,
    ),
    "deep Q-EP, two hidden layers": (
        partial(DeepQEPClassifier, **TWO),
        "paper .872",
        None,
    ),
    "GP": (partial(SVGPClassifier, n_inducing=M), "paper .810", None),
    "deep GP, one hidden layer": (
        partial(DSVIDeepGPClassifier, **ONE),
        "paper .822",
        None,
    ),
    "DKL-GP": (partial(DeepKernelGPClassifier, n_inducing=M), "paper .764", None),
    "DSPP, one hidden layer": (partial(DSPPClassifier, **ONE), "paper .789", 0.81),
}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for name in SERIES:
        yield partial(_series, name)
    for name in RHOMBUS:
        yield partial(_rhombus, name)
    for q in QS:
        yield partial(_oil_flow, q)
    for data in STEPS_ON:
        yield partial(_step, data)


def _mean(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    return statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5


# ---- series ------------------------------------------------------------------------------------


def _series(name: str) -> BenchmarkRow:
    make, paper, ceiling = SERIES[name]
    seen, asked = np.linspace(0, 2, SERIES_ROWS), np.linspace(0, 2, SERIES_PLACES)
    errors: dict[str, list[float]] = {"jumps": [], "kinks": []}
    for seed in SEEDS:
        noise = np.random.default_rng(seed).normal(0, SERIES_NOISE, (2, SERIES_ROWS))
        for truth, added in zip((jumps, kinks), noise, strict=True):
            model = make(random_state=seed).fit(seen[:, None], truth(seen) + added)
            away = np.abs(model.predict(asked[:, None]) - truth(asked)).mean()
            errors[truth.__name__].append(float(away))
    value, spread = _mean([(a + b) / 2 for a, b in zip(*errors.values(), strict=True)])
    each = ", ".join(f"{kind} {statistics.fmean(found):.4f}" for kind, found in errors.items())
    return BenchmarkRow(
        f"series with jumps and kinks: {name}, mean absolute error, ten seeds",
        value,
        spread=spread,
        ceiling=ceiling,
        reference=f"{paper}; {each}",
        settings={"seeds": len(SEEDS), **make().get_params()},
    )


# ---- the rhombus -------------------------------------------------------------------------------


@cache
def _grid() -> FloatArray:
    """Points of the grid, [GRID², 2]."""
    ends = np.linspace(-3, 3, GRID)
    return np.stack(np.meshgrid(ends, ends), -1).reshape(-1, 2)


def _rhombus(name: str) -> BenchmarkRow:
    make, paper, floor = RHOMBUS[name]
    shares, within = [], []
    for seed in SEEDS:
        draws = np.random.default_rng(seed)
        u, X = float(draws.random()), draws.standard_normal((RHOMBUS_ROWS, 2))
        others = draws.standard_normal((RHOMBUS_ROWS, 2))
        model = make(random_state=seed).fit(X, rhombus_classes(X, u))
        shares.append(float(np.mean(model.predict(_grid()) == rhombus_classes(_grid(), u))))
        within.append(float(np.mean(model.predict(others) == rhombus_classes(others, u))))
    value, spread = _mean(shares)
    return BenchmarkRow(
        f"annular rhombus: {name}, accuracy on the grid, ten seeds",
        value,
        spread=spread,
        floor=floor,
        reference=f"{paper}; rows drawn like those of the fit {statistics.fmean(within):.3f}",
        settings={"seeds": len(SEEDS), **make().get_params()},
    )


# ---- maps --------------------------------------------------------------------------------------


def _oil_flow(q: float) -> BenchmarkRow:
    table = load_paper("oil_flow_train")
    found = table.dataset(label=table.columns[-1].name)
    X, y = np.asarray(found.X), found.labels
    assert y is not None
    shares, bounds = [], []
    for seed in MAP_SEEDS:
        model = QEPLVM(q=q, random_state=seed, **OIL_FLOW).fit(X)
        leading = np.argsort(-model.relevance_["data"])[:2]
        shares.append(knn_accuracy(model.transform(X)[:, leading], y, k=1))
        bounds.append(model.elbo_)
    value, spread = _mean(shares)
    return BenchmarkRow(
        f"oil flow: Q-EP LVM, q = {q:g}, 1-NN accuracy of the two most relevant, three seeds",
        value,
        spread=spread,
        reference=f"bounds {min(bounds):.4g} to {max(bounds):.4g}",
        settings={"seeds": len(MAP_SEEDS), **QEPLVM(q=q, **OIL_FLOW).get_params()},
    )


# ---- a step ------------------------------------------------------------------------------------


def _median_step(model: Any) -> float:
    ended = [step.seconds for step in model.history_]
    return float(np.median(np.diff(ended)[WARM_UP:]))


def _step(kind: str) -> BenchmarkRow:
    """Seconds of a step of a model with q = 1.5, relative to the Gaussian model's."""
    if kind == "oil_flow_train":
        table = load_paper(kind)
        X = np.asarray(table.dataset(label=table.columns[-1].name).X)
        settings: dict[str, Any] = {**OIL_FLOW, "n_components": 12, "max_iter": STEPS}
        ours = QEPLVM(**settings).fit(X)
        twin: Any = BayesianGPLVM(**settings).fit(X)
        what = "Q-EP LVM on oil flow, Q = 12, M = 25, all 1000 rows"
    else:
        cells = load_paper(kind).frame.to_numpy(dtype=np.float64)
        settings = {**TWO, "max_iter": STEPS}
        ours = DeepQEPRegressor(**settings).fit(cells[:, :-1], cells[:, -1])
        twin = DSVIDeepGPRegressor(**settings).fit(cells[:, :-1], cells[:, -1])
        what = "deep Q-EP on Concrete, two hidden layers, all rows"
    seconds = _median_step(ours), _median_step(twin)
    return BenchmarkRow(
        f"a step of {what}, as a share of its Gaussian twin's",
        seconds[0] / seconds[1],
        ceiling=MAX_TWIN_RATIO,
        reference=f"{1000 * seconds[0]:.1f} ms, the twin {1000 * seconds[1]:.1f} ms",
        settings={"steps": STEPS, **ours.get_params()},
    )
