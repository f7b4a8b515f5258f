"""LDGD: the papers' Tables 1 to 3, and the seconds of a fit and of an inference.

Every score is on test rows of stratified 5-fold cross-validation.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from lvmcore.bench.harness.machine import matrix_product_seconds
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent import supervised_maps
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.data.samples.samples import load_sample
from lvmcore.metrics.scores import ClassificationScores, classification_scores
from lvmcore.models.latent.ldgd import LDGD

__all__ = ["rows"]

# Seconds of the matrix product on the machine that the ceilings apply to.
YARDSTICK = 0.13
# Steps of each fit.
STEPS = 300
Averaged = Literal["precision", "recall", "f1"]
#: Scores that are averaged over the classes, and the papers' Tables 1 and 2.
AVERAGED: dict[Averaged, str] = {"precision": "precision", "recall": "recall", "f1": "F1"}
PAPER: dict[str, dict[Averaged, float]] = {
    **{f"moons{n}": dict.fromkeys(AVERAGED, 1.0) for n in (10, 30, 40)},
    "iris": dict.fromkeys(AVERAGED, 1.0),
    "oil_flow_train": {"precision": 1.0, "recall": 0.99, "f1": 0.99},
}


@dataclass(frozen=True)
class FoldScores:
    """Cross-validation scores, one entry a fold."""

    classes: list[ClassificationScores]
    fit_seconds: list[float]
    infer_seconds_per_row: list[float]
    share_of_two: list[float]


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    repeats = 10
    yield partial(_accuracy, "oil_flow_train", 7, 25, 1, 0.985, "paper 0.99 (80/20 split)")
    for score in AVERAGED:
        yield partial(_averaged, score, "oil_flow_train", 7, 25, 1)
    yield partial(_fit_seconds, "oil_flow_train", 7, 25, 5.0, "published code: 101 s")
    yield partial(_infer_seconds, "oil_flow_train", 7, 25)
    for dimensions in (10, 30, 40):
        name = f"moons{dimensions}"
        yield partial(_accuracy, name, 10, 25, 1, 0.995, "paper 1.00")
        for score in AVERAGED:
            yield partial(_averaged, score, name, 10, 25, 1)
        yield partial(_relevance, name, 10, 25)
    yield partial(_accuracy, "iris", None, 25, repeats, 0.95, "paper 1.00 (one split)")
    for score in AVERAGED:
        yield partial(_averaged, score, "iris", None, 25, repeats)
    yield partial(_fit_seconds, "iris", None, 25, 2.0, "")
    if options.full:
        for name in ("wine", "breast_cancer", "digits"):
            yield partial(_accuracy, name, None, 50, 1, None, "")
    yield from supervised_maps.rows(options)


def _settings(name: str, Q: int | None, M: int, repeats: int) -> dict[str, object]:
    return {
        "data": name,
        "n_components": Q,
        "n_inducing": M,
        "folds": 5,
        "repeats": repeats,
        "seeds": list(range(repeats)),
    }


def _accuracy(
    name: str, Q: int | None, M: int, repeats: int, floor: float | None, reference: str
) -> BenchmarkRow:
    folds = [one.accuracy for one in _cross_validate(name, Q, M, repeats).classes]
    return BenchmarkRow(
        f"{name}: accuracy, 5-fold{_times(repeats)}",
        statistics.fmean(folds),
        spread=statistics.stdev(folds),
        reference=reference,
        floor=floor,
        settings=_settings(name, Q, M, repeats),
    )


def _averaged(score: Averaged, name: str, Q: int | None, M: int, repeats: int) -> BenchmarkRow:
    folds = [getattr(one, score) for one in _cross_validate(name, Q, M, repeats).classes]
    return BenchmarkRow(
        f"{name}: {AVERAGED[score]} (macro), 5-fold{_times(repeats)}",
        statistics.fmean(folds),
        spread=statistics.stdev(folds),
        reference=f"paper {PAPER[name][score]:.2f}",
        settings=_settings(name, Q, M, repeats),
    )


def _times(repeats: int) -> str:
    return f", {repeats} repeats" if repeats > 1 else ""


def _fit_seconds(name: str, Q: int | None, M: int, ceiling: float, reference: str) -> BenchmarkRow:
    folds = _cross_validate(name, Q, M, 1)
    return BenchmarkRow(
        f"{name}: fit, median of 5, scaled to the yardstick",
        statistics.median(folds.fit_seconds),
        "s",
        ceiling=ceiling,
        reference=reference,
        settings=_settings(name, Q, M, 1),
    )


def _infer_seconds(name: str, Q: int | None, M: int) -> BenchmarkRow:
    folds = _cross_validate(name, Q, M, 1)
    return BenchmarkRow(
        f"{name}: inference of 200 new rows, median of 5, scaled to the yardstick",
        200 * statistics.median(folds.infer_seconds_per_row),
        "s",
        ceiling=0.8,
        settings=_settings(name, Q, M, 1),
    )


def _relevance(name: str, Q: int | None, M: int) -> BenchmarkRow:
    folds = _cross_validate(name, Q, M, 1)
    return BenchmarkRow(
        f"{name}: share of the label relevance in two dimensions, least of 5",
        min(folds.share_of_two),
        floor=0.95,
        reference="paper: exactly two",
        settings=_settings(name, Q, M, 1),
    )


@cache
def _cross_validate(name: str, Q: int | None, M: int, repeats: int) -> FoldScores:
    X, y = _load(name)
    scale = YARDSTICK / matrix_product_seconds()
    folds = FoldScores([], [], [], [])
    for seed in range(repeats):
        splits = StratifiedKFold(5, shuffle=True, random_state=seed)
        for train, test in splits.split(X, y):
            start = time.perf_counter()
            model = LDGD(n_components=Q, n_inducing=M, max_iter=STEPS, random_state=seed).fit(
                X[train], y[train]
            )
            folds.fit_seconds.append(scale * (time.perf_counter() - start))
            start = time.perf_counter()
            model.posterior(X[test])
            seconds = scale * (time.perf_counter() - start)
            folds.infer_seconds_per_row.append(seconds / len(test))
            scores = classification_scores(y[test], model.predict(X[test]))
            folds.classes.append(scores)
            share = np.sort(model.relevance_["labels"] / model.relevance_["labels"].sum())
            folds.share_of_two.append(float(share[-2:].sum()))
    return folds


def _load(name: str) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    table = load_paper(name) if name == "oil_flow_train" else load_sample(name)
    data = table.dataset(label=table.columns[-1].name)
    assert data.labels is not None
    return data.X, data.labels
