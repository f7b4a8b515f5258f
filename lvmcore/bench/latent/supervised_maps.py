"""The supervised maps of LDGD's Table 3 on oil flow: SGPLVM, SLLGPLVM and SPPCA; GPLVM beside them.

Accuracy of the model's own classes, and of the nearest row of the fit on the map (1-NN), as the
papers' tables do. Every score is on test rows of stratified 5-fold cross-validation, two folds by
default; nothing is tuned on them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.models.latent.point_estimates.gplvm import GPLVM
from lvmcore.models.latent.point_estimates.sgplvm import SGPLVM
from lvmcore.models.latent.point_estimates.sllgplvm import SLLGPLVM
from lvmcore.models.latent.supervised_ppca import SupervisedPPCA

__all__ = ["rows"]

# Table, dimensions of the paper's protocol, folds of all, and those measured by default.
DATA, Q, FOLDS, FEW_FOLDS = "oil_flow_train", 7, 5, 2
# Steps of the fits.
STEPS, MAP_STEPS = 100, 300
#: Name of a model, its floor, and the paper's figure.
METHODS: dict[str, tuple[float | None, str]] = {
    "SGPLVM": (0.93, "LDGD's Table 3: 0.93"),
    "SLLGPLVM": (0.95, "LDGD's Table 3: 0.95"),
    "SPPCA": (None, ""),
}


@dataclass(frozen=True)
class FoldAccuracies:
    """Accuracies, one entry a fold: of the model's classes, and of the nearest row on the map."""

    own: list[float] = field(default_factory=list)
    nearest: list[float] = field(default_factory=list)


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    folds = FOLDS if options.full else FEW_FOLDS
    for name in METHODS:
        yield partial(_own, name, folds)
        yield partial(_nearest, name, folds)
    if options.full:
        yield _gplvm_errors


def _settings(name: str, folds: int) -> dict[str, object]:
    return {"data": DATA, "model": name, "n_components": Q, "max_iter": STEPS, "folds": folds}


def _row(
    name: str, folds: int, what: str, values: list[float], floor: float | None
) -> BenchmarkRow:
    return BenchmarkRow(
        f"{DATA}: {what} of {name}, {folds} of {FOLDS} folds",
        statistics.fmean(values),
        spread=statistics.stdev(values),
        reference=METHODS[name][1],
        floor=floor,
        settings=_settings(name, folds),
    )


def _own(name: str, folds: int) -> BenchmarkRow:
    return _row(name, folds, "accuracy", _cross_validate(name, folds).own, METHODS[name][0])


def _nearest(name: str, folds: int) -> BenchmarkRow:
    return _row(name, folds, "accuracy by 1-NN", _cross_validate(name, folds).nearest, None)


def _gplvm_errors() -> BenchmarkRow:
    """Rows whose nearest other row on the map has another class, the field's score of a GPLVM."""
    X, y = _load()
    model = GPLVM(max_iter=MAP_STEPS, random_state=0).fit(X)
    tree = NearestNeighbors(n_neighbors=1).fit(model.embedding_.mean)
    nearest = tree.kneighbors(return_distance=False)[:, 0]
    return BenchmarkRow(
        f"{DATA}: share of rows with a nearest row of another class, GPLVM in two dimensions",
        float(np.mean(y[nearest] != y)),
        settings={"data": DATA, "max_iter": MAP_STEPS, "seed": 0},
    )


@cache
def _cross_validate(name: str, folds: int) -> FoldAccuracies:
    X, y = _load()
    scores = FoldAccuracies()
    splits = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y)
    for _, (train, test) in zip(range(folds), splits, strict=False):
        model = _model(name).fit(X[train], y[train])
        scores.own.append(float(np.mean(model.predict(X[test]) == y[test])))
        nearest = KNeighborsClassifier(1).fit(model.embedding_.mean, y[train])
        scores.nearest.append(float(nearest.score(model.transform(X[test]), y[test])))
    return scores


def _model(name: str) -> SGPLVM | SLLGPLVM | SupervisedPPCA:
    if name == "SPPCA":
        return SupervisedPPCA(n_components=Q)
    model = SGPLVM if name == "SGPLVM" else SLLGPLVM
    return model(n_components=Q, max_iter=STEPS, random_state=0)


@cache
def _load() -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    table = load_paper(DATA)
    data = table.dataset(label=table.columns[-1].name)
    assert data.labels is not None
    return data.X, data.labels.astype(str)
