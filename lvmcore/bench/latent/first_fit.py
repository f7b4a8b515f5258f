"""Default fits of maps: whether they end converged, what more would bring, and their time.

For each model with an exact bound and each table, by seeds: the share of converged fits, the
largest gain of 500 evaluations of scipy's L-BFGS-B at the end of a converged one, the largest gap
to the best of the same fits with ten times the steps, and the median seconds.
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
from scipy.optimize import minimize

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent.unlabelled_tables import TABLES, load_table
from lvmcore.gp.objective import SparseGPLVMObjective
from lvmcore.gp.unlabelled_model import UnsupervisedGPLVM
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.models.latent.qep_lvm import QEPLVM
from lvmcore.numerics.array_types import FloatArray
from lvmcore.training.quasi_newton import QuasiNewtonFinish

__all__ = ["rows"]

SEEDS, FULL_SEEDS = 1, 5
LONGER, EVALUATIONS = 10, 500
#: Least share of converged fits; most nats a cell that a polish and a longer fit may gain.
LEAST_CONVERGED, MOST_GAIN, MOST_GAP = 0.95, 1e-3, 1e-2
MODELS: tuple[type[UnsupervisedGPLVM], ...] = (BayesianGPLVM, QEPLVM)


@dataclass(frozen=True)
class _DefaultFit:
    """A default fit.

    Attributes:
        bound: final bound, nats a cell.
        converged: whether it ended converged.
        gain: gain of the polish, nats a cell.
        seconds: duration of the fit.
    """

    bound: float
    converged: bool
    gain: float
    seconds: float


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """The rows of each model and table."""
    seeds = FULL_SEEDS if options.full else SEEDS
    for model in MODELS:
        for table in TABLES:
            for row in (_converged, _polished, _beside_longer_fits, _seconds):
                yield partial(row, model, table, seeds)


def _converged(model: type[UnsupervisedGPLVM], table: str, seeds: int) -> BenchmarkRow:
    found = [fit.converged for fit in _fits(model, table, seeds)]
    return _row(
        model, table, seeds, "share of converged fits", statistics.fmean(found), LEAST_CONVERGED
    )


def _polished(model: type[UnsupervisedGPLVM], table: str, seeds: int) -> BenchmarkRow:
    gains = [fit.gain for fit in _fits(model, table, seeds) if fit.converged]
    what = f"largest gain of {EVALUATIONS} evaluations after a converged fit, nats a cell"
    value = max(gains) if gains else float("nan")
    return _row(model, table, seeds, what, value, ceiling=MOST_GAIN)


def _beside_longer_fits(model: type[UnsupervisedGPLVM], table: str, seeds: int) -> BenchmarkRow:
    best = max(_longer_bound(model, table, seed) for seed in range(seeds))
    gaps = [max(0.0, best - fit.bound) for fit in _fits(model, table, seeds)]
    what = f"median gap to the best fit of {LONGER} times the steps, nats a cell"
    return _row(model, table, seeds, what, statistics.median(gaps), ceiling=MOST_GAP)


def _seconds(model: type[UnsupervisedGPLVM], table: str, seeds: int) -> BenchmarkRow:
    found = [fit.seconds for fit in _fits(model, table, seeds)]
    return _row(model, table, seeds, "median seconds of a fit", statistics.median(found), unit="s")


def _row(
    model: type[UnsupervisedGPLVM],
    table: str,
    seeds: int,
    what: str,
    value: float,
    floor: float | None = None,
    *,
    ceiling: float | None = None,
    unit: str = "",
) -> BenchmarkRow:
    settings = {"data": table, "shape": list(load_table(table).X.shape), "model": model.key}
    return BenchmarkRow(
        f"{model.title} on {table}: {what}",
        value,
        unit=unit,
        floor=floor,
        ceiling=ceiling,
        settings={**settings, "seeds": list(range(seeds)), "settings": "as advised"},
    )


def _fits(model: type[UnsupervisedGPLVM], table: str, seeds: int) -> list[_DefaultFit]:
    return [_fit(model, table, seed) for seed in range(seeds)]


@cache
def _fit(model: type[UnsupervisedGPLVM], table: str, seed: int) -> _DefaultFit:
    kept: list[SparseGPLVMObjective] = []

    class Kept(model):  # type: ignore[misc, valid-type]
        """The model, which keeps the objective of its fit."""

        def _store_fit(self, fit: SparseGPLVMObjective) -> None:
            kept.append(fit)
            super()._store_fit(fit)

    X = load_table(table).X
    began = time.perf_counter()
    fit = Kept(random_state=seed).fit(X)
    seconds = time.perf_counter() - began
    cells = kept[0].data.count
    gain = _polish(kept[0], cells) if fit.converged_ else float("nan")
    return _DefaultFit(fit.elbo_ / cells, fit.converged_, gain, seconds)


@cache
def _longer_bound(model: type[UnsupervisedGPLVM], table: str, seed: int) -> float:
    """Bound of a fit with ten times the steps, nats a cell."""
    data = load_table(table)
    usual = next(p.default for p in model.parameters() if p.name == "max_iter")
    fit = model(max_iter=LONGER * usual, random_state=seed).fit(data.X)
    return float(fit.elbo_ / data.standardised.size)


def _polish(objective: SparseGPLVMObjective, cells: int) -> float:
    """Gain of scipy's L-BFGS-B at the end of a fit, nats a cell."""
    finish = QuasiNewtonFinish(objective, cells)
    before = finish.at.value

    def value(x: FloatArray) -> tuple[float, Any]:
        at = finish.evaluate(torch.as_tensor(x))
        found: Any = at.gradient
        return (1e300, np.zeros_like(x)) if found is None else (at.value, found.numpy())

    start: Any = finish.at.x
    result = minimize(
        value,
        start.numpy(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": EVALUATIONS, "maxfun": EVALUATIONS, "maxcor": 20},
    )
    return float((before - result.fun) / cells)
