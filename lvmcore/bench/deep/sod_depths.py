"""Deep GPs by a subset of the data (SoD) of depth 1 to 4, and the further rivals of the paper.

Tables, splits, score and settings are those of ``deep_gp``. The paper gives the best of its four
depths on the test rows; here a depth is chosen on each split by the bound of the training rows,
which never uses a test row, and every depth is also given by itself. SoD* has a random subset, and
DSVI* inducing inputs that stay at k-means centres; both have two hidden layers, as SGHMC has.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from lvmcore.base.regressor_classifier import Regressor
from lvmcore.base.table_size import TableSize
from lvmcore.bench.deep.deep_gp import HIDDEN, M_SHORT, PAPER, SMALL, SPLITS, load_table, split
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.models.supervised.dsvi import DSVIDeepGPRegressor
from lvmcore.models.supervised.sghmc import SGHMCDeepGPRegressor
from lvmcore.models.supervised.subset_of_data import SoDDeepGPRegressor

__all__ = ["rows"]

#: Layers of Gaussian processes, the last one included.
DEPTHS = (1, 2, 3, 4)
RIVALS: dict[str, tuple[type[Regressor], dict[str, Any]]] = {
    "SoD*": (SoDDeepGPRegressor, {"subset": "uniform"}),
    "DSVI*": (DSVIDeepGPRegressor, {"inducing_inputs": "fixed"}),
    "SGHMC": (SGHMCDeepGPRegressor, {}),
}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for data in SMALL:
        for depth in DEPTHS:
            yield partial(_depth, data, depth)
        yield partial(_chosen_depth, data)
        for name in RIVALS:
            yield partial(_rival, data, name)


@dataclass(frozen=True)
class _Score:
    """NLPP of the test rows, the bound of the training rows, and seconds of the fit."""

    density: float
    bound: float
    seconds: float


def _model(
    cls: type[Regressor], n_hidden: int, n_rows: int, n_columns: int, **given: Any
) -> Regressor:
    advised = cls.suggest(TableSize(n_rows=n_rows, n_columns=n_columns))
    return cls(**{**advised, "n_inducing": M_SHORT, "n_layers": n_hidden, **given})


def _score(
    data: str, cls: type[Regressor], n_hidden: int, seed: int, given: dict[str, Any]
) -> _Score:
    train, test = split(load_table(data), seed)
    model: Any = _model(cls, n_hidden, len(train), train.shape[1] - 1, **given, random_state=seed)
    start = time.perf_counter()
    model.fit(train[:, :-1], train[:, -1])
    seconds = time.perf_counter() - start
    density = float(-model.log_density(test[:, :-1], test[:, -1]).mean())
    return _Score(density, float(model.elbo_), seconds)


@cache
def _scores_of_depth(data: str, depth: int) -> list[_Score]:
    return [_score(data, SoDDeepGPRegressor, depth - 1, seed, {}) for seed in SPLITS]


def _depth(data: str, depth: int) -> BenchmarkRow:
    return _row(data, f"SoD of depth {depth}", _scores_of_depth(data, depth), SoDDeepGPRegressor)


def _chosen_depth(data: str) -> BenchmarkRow:
    by_depth = [_scores_of_depth(data, depth) for depth in DEPTHS]
    best = [max(scores, key=lambda one: one.bound) for scores in zip(*by_depth, strict=True)]
    return _row(data, "SoD of the depth with the largest bound", best, SoDDeepGPRegressor)


def _rival(data: str, name: str) -> BenchmarkRow:
    cls, given = RIVALS[name]
    scores = [_score(data, cls, HIDDEN, seed, given) for seed in SPLITS]
    return _row(data, name, scores, cls, **given)


def _row(
    data: str, name: str, scores: list[_Score], cls: type[Regressor], **given: Any
) -> BenchmarkRow:
    ours = name.startswith("SoD of")
    seconds = statistics.median(one.seconds for one in scores)
    train, _ = split(load_table(data), 0)
    settings = _model(cls, HIDDEN, len(train), train.shape[1] - 1, **given).get_params()
    settings.pop("n_layers" if ours else "random_state")
    return BenchmarkRow(
        f"{data}: {name}, NLPP, five splits",
        statistics.fmean(one.density for one in scores),
        "nats a row",
        spread=statistics.pstdev(one.density for one in scores),
        reference=f"{f'paper {PAPER[data][0]:.3f}, its best depth; ' if ours else ''}"
        f"{seconds:.0f} s a fit",
        settings={"data": data, "splits": len(SPLITS), **settings},
    )
