"""Fits of maps that end before convergence: whether the gain promised for more steps is theirs.

A fit in its quasi-Newton finish goes on from the end of a shorter one, so the history of one long
fit holds both: the promise is made from its first steps, and the gain is read from the later ones.
The default maps of these tables without missing cells converge earlier, so the fits here have
missing cells, or ten dimensions and the noise of each column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent.unlabelled_tables import load_table
from lvmcore.data.samples.samples import load_sample
from lvmcore.gp.unlabelled_model import UnsupervisedGPLVM
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.models.latent.qep_lvm import QEPLVM
from lvmcore.numerics.array_types import FloatArray
from lvmcore.runs.continuation import extrapolate_finish

__all__ = ["rows"]

#: Steps after which a fit ends and a promise is made, and steps of the fits.
STOPS, STEPS = (750, 900, 1100), 1650
#: Seeds other than those of the continuations on which the range of a promise was chosen.
SEEDS, FULL_SEEDS = (5,), (5, 6, 7, 8, 9)
TABLES = ("breast cancer", "digits", "oil flow", "PBMC")
#: Least share of promises whose range holds the gain; largest width in multiples of the middle.
LEAST_HELD, MOST_WIDTH = 0.8, 3.0
MISSING = 0.05
#: Most rows and columns of a table.
ROWS, COLUMNS = {"digits": 400, "PBMC": 400}, 100


@dataclass(frozen=True)
class _Promise:
    """The promised range and what the steps brought, nats."""

    least: float
    most: float
    gain: float

    @property
    def held(self) -> bool:
        """Whether the range holds the gain."""
        return self.least <= self.gain <= self.most

    @property
    def width(self) -> float:
        """Width of the range in multiples of its middle."""
        return 2 * (self.most - self.least) / (self.most + self.least)


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """The rows of each table, and of all."""
    seeds = FULL_SEEDS if options.full else SEEDS
    for table in TABLES:
        yield partial(_held, table, (table,), seeds)
    yield partial(_held, "all tables", TABLES, seeds, LEAST_HELD)
    yield partial(_width, seeds)


def _held(
    where: str, tables: tuple[str, ...], seeds: tuple[int, ...], floor: float | None = None
) -> BenchmarkRow:
    promises = _promises(tables, seeds)
    share = float(np.mean([promise.held for promise in promises])) if promises else float("nan")
    return BenchmarkRow(
        f"{where}: share of promised ranges that hold the gain",
        share,
        floor=floor,
        settings={"promises": len(promises), **_settings(tables, seeds)},
    )


def _width(seeds: tuple[int, ...]) -> BenchmarkRow:
    widths = [promise.width for promise in _promises(TABLES, seeds)]
    return BenchmarkRow(
        "all tables: largest width of a promised range, multiples of its middle",
        max(widths, default=float("nan")),
        ceiling=MOST_WIDTH,
        settings={"promises": len(widths), **_settings(TABLES, seeds)},
    )


def _settings(tables: tuple[str, ...], seeds: tuple[int, ...]) -> dict[str, object]:
    return {"data": list(tables), "seeds": list(seeds), "stops": list(STOPS), "steps": STEPS}


def _promises(tables: tuple[str, ...], seeds: tuple[int, ...]) -> list[_Promise]:
    """The promises of the fits that had not converged."""
    models: tuple[tuple[type[UnsupervisedGPLVM], bool], ...] = (
        (BayesianGPLVM, True),
        (QEPLVM, True),
        (QEPLVM, False),
    )
    return [
        promise
        for table in tables
        for model, missing in models
        for seed in seeds
        for promise in _of_fit(table, model, missing, seed)
    ]


@cache
def _of_fit(
    table: str, model: type[UnsupervisedGPLVM], missing: bool, seed: int
) -> tuple[_Promise, ...]:
    """The promises at each of ``STOPS`` that the fit reaches before it has converged."""
    X = _load(table)
    if missing:
        X[np.random.default_rng(seed).random(X.shape) < MISSING] = np.nan
    fit = model(n_components="ard", noise="column", max_iter=STEPS, random_state=seed).fit(X)
    history = fit.history_
    found = []
    for stop in STOPS:
        if len(history) <= stop:
            break
        known = [replace(step, total=stop * step.starts) for step in history[:stop]]
        more = extrapolate_finish(known, branch=stop)
        assert more is not None
        assert more.gain is not None
        end = history[min(len(history), stop + more.steps) - 1]
        found.append(_Promise(*more.gain, end.objective - known[-1].objective))
    return tuple(found)


def _load(table: str) -> FloatArray:
    """The first rows and columns of a table, a copy."""
    if table == "breast cancer":
        sample = load_sample("breast_cancer")
        X = sample.dataset(features=[column.name for column in sample.columns[:-1]]).X
    else:
        X = load_table(table).X
    return X[: ROWS.get(table), :COLUMNS].copy()
