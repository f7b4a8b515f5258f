"""LDGD as a classifier, compared with logistic regression, a tuned SVM and a random forest.

Five repeats of stratified 5-fold cross-validation at the default settings (those that
``LDGD.suggest`` gives for the table), with the same folds for all methods. The probabilities are
the model's own, without recalibration, and nothing is tuned on the test rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.data.samples.samples import load_sample
from lvmcore.metrics.scores import expected_calibration_error
from lvmcore.models.latent.ldgd import LDGD

__all__ = ["rows"]

DATASETS = ("wine", "breast_cancer", "uci_haberman", "digits")
FULL_DATASETS = ("uci_car", "uci_seismic_bumps", "uci_tic_tac_toe", "uci_nursery")
REPEATS, FOLDS, INNER_FOLDS = 5, 5, 3
MEAN_GAP, MIN_GAP, MAX_ECE = -0.015, -0.03, 0.06
#: A class needs this number of rows to be in every fold and every inner fold.
MIN_ROWS = FOLDS * INNER_FOLDS
GRID = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": [0.001, 0.01, 0.1, 1, "scale"]}


@dataclass(frozen=True)
class ClassifierScores:
    """Cross-validation scores: accuracy by method and fold, and LDGD's calibration error.

    The calibration error is computed over all rows of a repeat, each with its out-of-fold
    probabilities: the bins of a single fold contain too few rows.
    """

    accuracy: dict[str, list[float]] = field(default_factory=dict)
    ece: list[float] = field(default_factory=list)

    @property
    def best(self) -> tuple[str, float]:
        """The best baseline, and its mean accuracy."""
        means = {
            name: statistics.fmean(found)
            for name, found in self.accuracy.items()
            if name != LDGD.title
        }
        name = max(means, key=lambda other: means[other])
        return name, means[name]

    @property
    def gap(self) -> float:
        """LDGD's mean accuracy minus that of the best baseline."""
        return statistics.fmean(self.accuracy[LDGD.title]) - self.best[1]


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    for data in DATASETS:
        yield partial(_gap, data, MIN_GAP)
    yield _mean_gap
    yield _mean_ece
    if options.full:
        for data in FULL_DATASETS:
            yield partial(_gap, data, None)


def _gap(data: str, floor: float | None) -> BenchmarkRow:
    scores = _cross_validate(data)
    others = ", ".join(
        f"{name} {statistics.fmean(found):.3f}" for name, found in scores.accuracy.items()
    )
    return BenchmarkRow(
        f"{data}: accuracy of LDGD less that of the best classifier, {REPEATS} × {FOLDS}-fold",
        scores.gap,
        reference=f"{others}; ECE {statistics.fmean(scores.ece):.3f}",
        floor=floor,
        settings=_settings(data),
    )


def _mean_gap() -> BenchmarkRow:
    return BenchmarkRow(
        f"mean of that over {', '.join(DATASETS)}",
        statistics.fmean(_cross_validate(data).gap for data in DATASETS),
        floor=MEAN_GAP,
        settings={"data": [_settings(data) for data in DATASETS]},
    )


def _mean_ece() -> BenchmarkRow:
    return BenchmarkRow(
        f"mean expected calibration error over {', '.join(DATASETS)}",
        statistics.fmean(statistics.fmean(_cross_validate(data).ece) for data in DATASETS),
        ceiling=MAX_ECE,
        settings={"data": [_settings(data) for data in DATASETS]},
    )


def _settings(data: str) -> dict[str, object]:
    X, y = _load(data)
    suggested = LDGD.suggest(TableSize(n_rows=len(X), n_columns=X.shape[1], n_classes=len(set(y))))
    return {"data": data, "folds": FOLDS, "repeats": REPEATS, **LDGD(**suggested).get_params()}


def _baselines(seed: int) -> dict[str, ClassifierMixin]:
    inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed)
    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "SVC": GridSearchCV(make_pipeline(StandardScaler(), SVC()), GRID, cv=inner),
        "random forest": RandomForestClassifier(random_state=seed),
    }


@cache
def _cross_validate(data: str) -> ClassifierScores:
    X, y = _load(data)
    scores = ClassifierScores()
    for seed in range(REPEATS):
        splits = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        codes = np.unique(y, return_inverse=True)[1]
        unseen = np.zeros((len(y), codes.max() + 1))
        for train, test in splits.split(X, y):
            suggested = LDGD.suggest(
                TableSize(
                    n_rows=len(train), n_columns=X.shape[1], n_classes=len(np.unique(y[train]))
                )
            )
            model = LDGD(random_state=seed, **suggested).fit(X[train], y[train])
            unseen[test] = model.predict_proba(X[test])
            right = unseen[test].argmax(axis=1) == codes[test]
            scores.accuracy.setdefault(LDGD.title, []).append(float(right.mean()))
            for name, other in _baselines(seed).items():
                found = other.fit(X[train], y[train]).score(X[test], y[test])
                scores.accuracy.setdefault(name, []).append(float(found))
        scores.ece.append(expected_calibration_error(unseen, codes))
    return scores


@cache
def _load(data: str) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """Features, one-hot for categories, and labels, without classes too rare for the folds."""
    table = load_paper(data) if data.startswith("uci_") else load_sample(data)
    label = table.columns[-1].name
    categories = [c.name for c in table.columns if c.type == "category" and c.name != label]
    found = table.dataset(label=label, one_hot=categories)
    assert found.labels is not None
    X, y = found.X[:, found.X.std(axis=0) > 0], found.labels.astype(object)
    names, counts = np.unique(y.astype(str), return_counts=True)
    keep = np.isin(y.astype(str), names[counts >= MIN_ROWS])
    return X[keep], y[keep]
