"""SRFLVM on long tables: pictures, and the growth of a step's cost with rows and columns.

The pictures are all of MNIST, and CIFAR-10 in grey with 20 × 20 pixels, of which 10 000 of the
60 000 pictures are at hand: a thousand of each class. Table IV of the paper has ``f-Cifar``, all
pixels, and ``fd-Cifar``, these 400 pixels. Its CVQ-VAE, a map without structure, has .10 in the one
and .20 in the other, the shares of one class in ten and in five; so fd-Cifar is compared with the
five classes of table II, and f-Cifar with all ten. Steps take some rows at a time in all.
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

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper_images
from lvmcore.metrics.scores import knn_accuracy
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.random_features.construction import BATCH

__all__ = ["CIFAR", "MNIST", "PictureSet", "growth_exponent", "load_pictures", "rows"]


SEEDS = range(5)
NEIGHBOURS = range(2, 11)
#: Accuracy by each of these numbers of neighbours: the paper's SRFLVM, and its VAE.
PAPER = (
    (0.672, 0.728),
    (0.705, 0.756),
    (0.718, 0.766),
    (0.726, 0.774),
    (0.731, 0.775),
    (0.734, 0.778),
    (0.736, 0.782),
    (0.739, 0.782),
    (0.740, 0.783),
)
PAPER_TEN_CLASSES = (
    (0.157, 0.151),
    (0.166, 0.157),
    (0.179, 0.166),
    (0.188, 0.174),
    (0.191, 0.178),
    (0.193, 0.180),
    (0.195, 0.187),
    (0.198, 0.188),
    (0.199, 0.190),
)
PAPER_FIVE_CLASSES = (
    (0.275, 0.266),
    (0.283, 0.279),
    (0.291, 0.285),
    (0.304, 0.293),
    (0.303, 0.297),
    (0.307, 0.302),
    (0.314, 0.304),
    (0.316, 0.309),
    (0.316, 0.312),
)
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
    for k in NEIGHBOURS:
        yield partial(_accuracy, k)
    yield partial(_fit_seconds)
    for classes in CIFAR:
        for k in NEIGHBOURS:
            yield partial(_cifar_accuracy, classes, k)
        yield partial(_cifar_seconds, classes)
    yield partial(_growth_in_rows)
    yield partial(_growth_in_columns)


@dataclass(frozen=True)
class PictureSet:
    """A set of pictures.

    Attributes:
        name: of the dataset.
        title: of the rows of the benchmark.
        n_rows: pictures.
        n_columns: pixels.
        paper: accuracy by so many neighbours of the paper's SRFLVM, and of its VAE.
        remark: what the paper's data have that these have not; "" for nothing.
        batch_size: rows of a step; None for the model's own choice.
        classes: those of the pictures that are taken; empty for all.
    """

    name: str
    title: str
    n_rows: int
    n_columns: int
    paper: tuple[tuple[float, float], ...]
    remark: str = ""
    batch_size: int | None = None
    classes: tuple[int, ...] = ()


MNIST = PictureSet("mnist", "MNIST, 70 000 rows", 70_000, 784, PAPER)
# By itself a step takes all of up to 10 000 rows.
CIFAR = {
    5: PictureSet(
        "cifar10_grey20",
        "CIFAR-10, grey, five classes, 5000 rows",
        5000,
        400,
        PAPER_FIVE_CLASSES,
        remark=", of fd-Cifar with more rows",
        batch_size=BATCH,
        classes=(1, 2, 3, 4, 5),
    ),
    10: PictureSet(
        "cifar10_grey20",
        "CIFAR-10, grey, ten classes, 10 000 rows",
        10_000,
        400,
        PAPER_TEN_CLASSES,
        remark=", of f-Cifar with more rows and pixels",
        batch_size=BATCH,
    ),
}


@dataclass(frozen=True)
class _PictureFit:
    """A fit to a set of pictures.

    Attributes:
        accuracy: of so many neighbours on the map of the rows by ``transform``.
        fit: seconds.
        transform: seconds.
    """

    accuracy: dict[int, float]
    fit: float
    transform: float


def _model(pictures: PictureSet, seed: int) -> SRFLVM:
    size = TableSize(n_rows=pictures.n_rows, n_columns=pictures.n_columns)
    advised = SRFLVM.suggest(size)
    return SRFLVM(
        n_components=2,
        dtype="float32",
        batch_size=pictures.batch_size,
        random_state=seed,
        **advised,
    )


def load_pictures(pictures: PictureSet) -> tuple[NDArray[np.float32], NDArray[np.generic]]:
    """Grey levels from 0 to 255, [N, D] in single precision, and the class of each picture.

    Args:
        pictures: which set.
    """
    images, classes = load_paper_images(pictures.name)
    assert classes is not None
    if pictures.classes:
        taken = np.isin(classes, pictures.classes)
        images, classes = images[taken], classes[taken]
    return images.reshape(len(images), -1).astype(np.float32), classes


@cache
def _fit(pictures: PictureSet, seed: int) -> _PictureFit:
    X, classes = load_pictures(pictures)
    start = time.perf_counter()
    model = _model(pictures, seed).fit(X)
    fitted = time.perf_counter()
    places = model.transform(X)
    placed = time.perf_counter()
    accuracy = {k: knn_accuracy(places, classes, k=k) for k in NEIGHBOURS}
    return _PictureFit(accuracy, fitted - start, placed - fitted)


def _settings(pictures: PictureSet) -> dict[str, object]:
    own = _model(pictures, SEEDS[0]).get_params()
    facts = {"data": pictures.name, "rows": pictures.n_rows, "folds": 5, "seeds": len(SEEDS)}
    return {**facts, **own}


def _accuracy(k: int) -> BenchmarkRow:
    return _accuracy_row(MNIST, k)


def _cifar_accuracy(classes: int, k: int) -> BenchmarkRow:
    return _accuracy_row(CIFAR[classes], k)


def _accuracy_row(pictures: PictureSet, k: int) -> BenchmarkRow:
    ours, vae = pictures.paper[NEIGHBOURS.index(k)]
    found = [_fit(pictures, seed).accuracy[k] for seed in SEEDS]
    return BenchmarkRow(
        f"{pictures.title}: accuracy of {k} neighbours in the 2-D map, 5-fold",
        statistics.fmean(found),
        spread=statistics.pstdev(found),
        floor=None if pictures.remark else ours,
        reference=f"paper {ours:.3f}, its VAE {vae:.3f}{pictures.remark}",
        settings=_settings(pictures),
    )


def _fit_seconds() -> BenchmarkRow:
    return _seconds_row(MNIST)


def _cifar_seconds(classes: int) -> BenchmarkRow:
    return _seconds_row(CIFAR[classes])


def _seconds_row(pictures: PictureSet) -> BenchmarkRow:
    found = [_fit(pictures, seed) for seed in SEEDS]
    placing = statistics.median(one.transform for one in found)
    return BenchmarkRow(
        f"{pictures.title}: median seconds of a fit",
        statistics.median(one.fit for one in found),
        "s",
        reference=f"placing all rows took {placing:.1f} s more",
        settings=_settings(pictures),
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
