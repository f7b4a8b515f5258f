"""SRFLVM on long tables: all of MNIST, and the growth of a step's cost with rows and columns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper_images
from lvmcore.metrics.scores import knn_accuracy
from lvmcore.models.latent.srflvm import SRFLVM

__all__ = ["growth_exponent", "rows"]


SEEDS = range(5)
#: Accuracy by so many neighbours: the paper's SRFLVM, and its VAE.
PAPER = {
    2: (0.672, 0.728),
    3: (0.705, 0.756),
    4: (0.718, 0.766),
    5: (0.726, 0.774),
    6: (0.731, 0.775),
    7: (0.734, 0.778),
    8: (0.736, 0.782),
    9: (0.739, 0.782),
    10: (0.740, 0.783),
}
#: Sizes of the tables of timed full-batch steps, and the fixed size of the other side.
LENGTHS, COLUMNS = (1000, 3000, 10_000, 30_000, 100_000), 20
WIDTHS, ROWS = (100, 300, 1000, 3000), 3000
STEPS = 40
#: Largest exponent of rows or columns that counts as linear cost.
LINEAR = 1.1
#: Number of largest sizes for the slope; at the smallest a step is mostly overhead.
LARGEST = 3


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for k in PAPER:
        yield partial(_accuracy, k)
    yield partial(_fit_seconds)
    yield partial(_growth_in_rows)
    yield partial(_growth_in_columns)


@dataclass(frozen=True)
class _MnistFit:
    """A fit to all of MNIST.

    Attributes:
        accuracy: of so many neighbours on the map of the rows by ``transform``.
        fit: seconds.
        transform: seconds.
    """

    accuracy: dict[int, float]
    fit: float
    transform: float


def _model(n_rows: int, n_columns: int, seed: int) -> SRFLVM:
    advised = SRFLVM.suggest(TableSize(n_rows=n_rows, n_columns=n_columns))
    return SRFLVM(n_components=2, dtype="float32", random_state=seed, **advised)


@cache
def _fit_mnist(seed: int) -> _MnistFit:
    images, classes = load_paper_images("mnist")
    assert classes is not None
    X = images.reshape(len(images), -1).astype(np.float32)
    start = time.perf_counter()
    model = _model(*X.shape, seed).fit(X)
    fitted = time.perf_counter()
    places = model.transform(X)
    placed = time.perf_counter()
    accuracy = {k: knn_accuracy(places, classes, k=k) for k in PAPER}
    return _MnistFit(accuracy, fitted - start, placed - fitted)


def _settings() -> dict[str, object]:
    own = _model(70_000, 784, SEEDS[0]).get_params()
    return {"data": "mnist", "rows": 70_000, "folds": 5, "seeds": len(SEEDS), **own}


def _accuracy(k: int) -> BenchmarkRow:
    (ours, vae), found = PAPER[k], [_fit_mnist(seed).accuracy[k] for seed in SEEDS]
    return BenchmarkRow(
        f"MNIST, 70 000 rows: accuracy of {k} neighbours in the 2-D map, 5-fold",
        statistics.fmean(found),
        spread=statistics.pstdev(found),
        floor=ours,
        reference=f"paper {ours:.3f}, its VAE {vae:.3f}",
        settings=_settings(),
    )


def _fit_seconds() -> BenchmarkRow:
    found = [_fit_mnist(seed) for seed in SEEDS]
    placing = statistics.median(one.transform for one in found)
    return BenchmarkRow(
        "MNIST, 70 000 rows: median seconds of a fit",
        statistics.median(one.fit for one in found),
        "s",
        reference=f"placing all rows took {placing:.1f} s more",
        settings=_settings(),
    )


def growth_exponent(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Exponent of the growth of seconds with size: slope of the logarithms at the largest sizes."""
    return float(np.polyfit(np.log(sizes[-LARGEST:]), np.log(seconds[-LARGEST:]), 1)[0])


def _step_seconds(n_rows: int, n_columns: int) -> float:
    """Median seconds of a full-batch step."""
    rng = np.random.default_rng(0)
    waves = np.sin(rng.standard_normal((n_rows, 2)) @ rng.standard_normal((2, n_columns)))
    X = waves + 0.1 * rng.standard_normal(waves.shape)
    settings: dict[str, Any] = {"max_iter": STEPS, "batch_size": max(LENGTHS), "random_state": 0}
    model = SRFLVM(**settings).fit(X)
    ended = [step.seconds for step in model.history_]
    return float(np.median(np.diff(ended)))


def _growth(name: str, shapes: tuple[tuple[int, int], ...], sizes: tuple[int, ...]) -> BenchmarkRow:
    seconds = [_step_seconds(*shape) for shape in shapes]
    values = ", ".join(f"{1000 * s:.0f} ms at {n:,}" for n, s in zip(sizes, seconds, strict=True))
    return BenchmarkRow(
        f"SRFLVM: power of the number of {name} that a step over all rows grows with, in seconds",
        growth_exponent(sizes, seconds),
        "",
        ceiling=LINEAR,
        reference=f"1 is linear; {values}",
        settings={"shapes": [list(shape) for shape in shapes], "steps": STEPS},
    )


def _growth_in_rows() -> BenchmarkRow:
    return _growth("rows", tuple((n, COLUMNS) for n in LENGTHS), LENGTHS)


def _growth_in_columns() -> BenchmarkRow:
    return _growth("columns", tuple((ROWS, d) for d in WIDTHS), WIDTHS)
